#include "tests/sim/extras.h"

#include <fmt/core.h>

#include "tests/sim/dice.h"

namespace uroce::simulator {
namespace {

using std::chrono::microseconds;

void draw_numbering(Dice dice, Scenario& scenario) {
  if (scenario.network.ipv6 || !dice.chance(0.3)) return;
  for (HostPlan& host : scenario.hosts) host.numbers_packets = dice.chance(0.5);
}

StrangerPlan draw_stranger(Dice dice, Duration until) {
  StrangerPlan plan;
  if (!dice.chance(0.25)) return plan;
  constexpr int kPacketsMax = 2000;
  plan.pause = std::max(dice.spread(microseconds{1}, microseconds{200}), until / kPacketsMax);
  plan.as_peer = dice.chance(0.5) ? 0 : dice.pick({0.01, 0.1});
  return plan;
}

}  // namespace

void draw_extras(Scenario& scenario, const engine::sim::Random& random) {
  draw_numbering(Dice(random.split(0)), scenario);
  scenario.stranger = draw_stranger(Dice(random.split(1)), scenario.network.faults_end);
}

std::string describe_extras(const Scenario& scenario) {
  std::string text;
  for (std::size_t i = 0; i < scenario.hosts.size(); ++i) {
    if (scenario.hosts[i].numbers_packets) text += fmt::format("host {} numbers its packets\n", i);
  }
  if (const StrangerPlan& s = scenario.stranger; s.pause != Duration{}) {
    text += fmt::format("stranger: a packet every {} us, {:.2f} of them as the peer\n",
                        static_cast<double>(s.pause.count()) / 1000.0, s.as_peer);
  }
  return text;
}

}  // namespace uroce::simulator
