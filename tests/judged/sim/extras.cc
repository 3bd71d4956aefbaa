// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/extras.h"

#include <fmt/core.h>

#include <algorithm>

#include "tests/judged/sim/dice.h"

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

void add_disturbances(Dice& dice, Disturbance::Kind kind, Duration until, std::uint32_t most, ConnectionPlan& plan) {
  for (std::uint32_t n = dice.u32(1, most); n > 0; --n) {
    Disturbance d;
    d.kind = kind;
    d.end = static_cast<int>(dice.between(0, 1));
    d.at = Duration{static_cast<Duration::rep>(dice.between(0, static_cast<std::uint64_t>(until.count())))};
    d.pause = dice.spread(microseconds{1}, microseconds{500});
    plan.disturbances.push_back(d);
  }
}

void draw_changes(Dice dice, Scenario& scenario) {
  const Duration until = scenario.network.faults_end;
  const bool in_rts = dice.chance(0.15), in_sqd = dice.chance(0.25);
  for (ConnectionPlan& plan : scenario.connections) {
    if (in_rts && dice.chance(0.5)) add_disturbances(dice, Disturbance::Kind::kChangeInRts, until, 4, plan);
    if (in_sqd && dice.chance(0.7)) add_disturbances(dice, Disturbance::Kind::kChangeInSqd, until, 6, plan);
  }
}

/// Connections that begin with few READs and atomics under way, and are allowed more; then their answers are lost.
void draw_deepening(Dice dice, Scenario& scenario) {
  if (!dice.chance(0.15)) return;
  const Duration until = scenario.network.faults_end;
  scenario.answer_loss = dice.pick({0.01, 0.03});
  for (ConnectionPlan& plan : scenario.connections) {
    if (!dice.chance(0.7)) continue;
    for (EndPlan& end : plan.ends) {
      end.max_rd_atomic = end.max_dest_rd_atomic = dice.pick<std::uint8_t>({1, 2, 4});
    }
    plan.ends[0].max_dest_rd_atomic = plan.ends[1].max_rd_atomic;
    plan.ends[1].max_dest_rd_atomic = plan.ends[0].max_rd_atomic;
    for (EndPlan& end : plan.ends) {
      end.max_send_wr = end.depth = dice.u32(16, 32);
      end.ops = std::max(end.ops, 100u);
      end.mix[static_cast<std::size_t>(Work::kRead)] += 10;
      end.mix[static_cast<std::size_t>(Work::kAdd)] += 10;
    }
    for (int end = 0; end < 2; ++end) {
      Disturbance d;
      d.kind = Disturbance::Kind::kDeepen;
      d.end = end;
      d.at = until / 10 + (end == 0 ? Duration{} : until / 5);
      d.pause = until / 10;
      plan.disturbances.push_back(d);
    }
  }
}

void draw_on_demand(Dice dice, Scenario& scenario) {
  const bool on = dice.chance(0.2), vanish = dice.chance(0.6), flicker = dice.chance(0.3);
  if (!on) return;
  for (HostPlan& host : scenario.hosts) host.flicker = flicker && dice.chance(0.5) ? 0.02 : 0;
  for (ConnectionPlan& plan : scenario.connections) {
    for (EndPlan& end : plan.ends) end.on_demand = dice.chance(0.7);
    if (vanish && dice.chance(0.5)) {
      add_disturbances(dice, Disturbance::Kind::kVanish, scenario.network.faults_end, 3, plan);
    }
  }
}

void draw_windows(Dice dice, Scenario& scenario) {
  const bool on = dice.chance(0.2), flaws = dice.chance(0.4);
  if (!on) return;
  for (ConnectionPlan& plan : scenario.connections) {
    for (EndPlan& end : plan.ends) {
      end.window = dice.chance(0.3) ? std::uint8_t{0} : dice.u8(1, 2);
      end.zero_based = end.window == 2 && dice.chance(0.5);
      end.windowed = dice.pick({0.3, 0.9});
      end.window_flaw = flaws && dice.chance(0.5) ? 0.02 : 0;
      end.window_change = dice.pick({0.02, 0.2, 0.5});
    }
  }
}

/// QPs that leave their shared receive queue in the middle of a message, and come back.
void draw_leaving(Dice dice, Scenario& scenario) {
  const bool shared = std::any_of(scenario.hosts.begin(), scenario.hosts.end(),
                                  [](const HostPlan& host) { return !host.srqs.empty(); });
  if (!shared || !dice.chance(0.3)) return;
  const auto draw = [&](std::size_t ends, auto& plan) {
    for (std::uint32_t end = 0; end < ends; ++end) {
      if (plan.ends[end].srq == kNoSrq || !dice.chance(0.5)) continue;
      typename std::decay_t<decltype(plan.disturbances)>::value_type d;
      using Kind = decltype(d.kind);
      d.kind = dice.pick({Kind::kReset, Kind::kDestroy});
      d.end = static_cast<decltype(d.end)>(end);
      d.at = dice.moment(scenario.network.faults_end);
      d.in_mid_message = true;
      plan.disturbances.push_back(d);
    }
  };
  for (ConnectionPlan& plan : scenario.connections) {
    draw(plan.ends.size(), plan);
    plan.reconnects = std::max(plan.reconnects, 2u);
  }
  for (UnackedPlan& plan : scenario.unacked) {
    if (plan.connected) draw(plan.ends.size(), plan);
    plan.restarts = std::max(plan.restarts, 2u);
  }
}

}  // namespace

void draw_extras(Scenario& scenario, const engine::sim::Random& random) {
  draw_numbering(Dice(random.split(0)), scenario);
  scenario.stranger = draw_stranger(Dice(random.split(1)), scenario.network.faults_end);
  draw_changes(Dice(random.split(2)), scenario);
  draw_on_demand(Dice(random.split(3)), scenario);
  draw_windows(Dice(random.split(4)), scenario);
  draw_deepening(Dice(random.split(5)), scenario);
  draw_leaving(Dice(random.split(6)), scenario);
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
