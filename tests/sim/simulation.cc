#include "tests/sim/simulation.h"

#include <algorithm>

#include "proto/packet.h"
#include "proto/timing.h"
#include "tests/sim/connection.h"
#include "tests/sim/wire_lint.h"

namespace uroce::simulator {
namespace {

using engine::sim::NodeId;
using engine::sim::Packet;
using engine::sim::TapPoint;
using engine::sim::World;
using std::chrono::milliseconds;

class Simulation {
 public:
  Simulation(const Scenario& scenario, const RunOptions& options)
      : scenario_(scenario), options_(options), world_(world_config(scenario)), stage_{scenario, world_, lint_} {
    for (const HostPlan& plan : scenario.hosts) {
      hosts_.push_back(std::make_unique<Host>(stage_, static_cast<std::uint32_t>(hosts_.size()), plan));
    }
    for (const ConnectionPlan& plan : scenario.connections) {
      connections_.push_back(std::make_unique<Connection>(stage_, connections_.size(), plan, *hosts_[plan.ends[0].host],
                                                          *hosts_[plan.ends[1].host]));
    }
    for (auto& host : hosts_) host->build();
    for (auto& connection : connections_) connection->build();
    lint_.set_memory([this](NodeId node, std::uint64_t va, std::size_t size) { return hosts_[node]->at(va, size); });
    lint_.set_in_error([this](NodeId node, std::uint32_t qpn) {
      End* const end = hosts_[node]->find_end(qpn);
      return end != nullptr && end->in_error();
    });
    world_.set_tap([this](TapPoint point, const Packet& packet, Instant now) { on_packet(point, packet, now); });
    if (options.filter) world_.set_filter(options.filter);
    for (auto& host : hosts_) host->tamper = options.tamper;
    world_.set_on_drained([this](NodeId node) { hosts_[node]->look(); });
  }

  RunResult run() {
    RunResult result;
    try {
      play();
    } catch (Violation& violation) {
      violation.what = fmt::format("at {:.3f} us: {}", static_cast<double>(elapsed().count()) / 1000.0, violation.what);
      result.violation = violation;
    }
    result.packets = world_.counters().sent;
    result.tally = stage_.tally;
    result.tally.add("network: packets lost", world_.counters().lost);
    result.time = elapsed();
    return result;
  }

 private:
  static engine::sim::WorldConfig world_config(const Scenario& scenario) {
    engine::sim::WorldConfig config;
    config.seed = scenario.seed;
    config.link = scenario.network.link;
    for (engine::sim::Outage& outage : config.link.outages) {
      outage.begin += config.start.time_since_epoch();
      outage.end += config.start.time_since_epoch();
    }
    return config;
  }
  Duration elapsed() const { return world_.now() - start_; }

  void play() {
    sabotage();
    for (auto& connection : connections_) connection->begin();
    if (world_.run_for(scenario_.network.faults_end) != engine::sim::Outcome::kDone) {
      not_live("the network never comes to rest");
    }
    stage_.faults_over = true;
    engine::sim::LinkConfig& link = world_.link().config();
    link.outages.clear();
    link.queue = 0;
    link.impairments = {.jitter = link.impairments.jitter};
    for (auto& host : hosts_) host->check();
    const Duration bound = liveness_bound();
    for (auto& connection : connections_) connection->calm();
    for (auto& host : hosts_) world_.kick(host->node);
    const auto quiet = [this] {
      return std::all_of(connections_.begin(), connections_.end(), [](const auto& c) { return c->quiet(); });
    };
    if (const auto outcome = world_.run_until(quiet, bound); outcome != engine::sim::Outcome::kDone) {
      const auto stuck =
          std::find_if(connections_.begin(), connections_.end(), [](const auto& c) { return !c->quiet(); });
      not_live("{} after {:.3f} ms without faults ({}): {}",
               outcome == engine::sim::Outcome::kTimeLimit ? "not done" : "stuck",
               static_cast<double>(bound.count()) / 1e6, to_string(outcome), (*stuck)->text());
    }
    finish();
  }

  void finish() {
    for (auto& connection : connections_) connection->finish();
    for (auto& host : hosts_) {
      world_.kick(host->node);
      host->drain();
    }
    if (world_.run_idle() != engine::sim::Outcome::kDone) not_live("the network never comes to rest");
    for (auto& host : hosts_) {
      host->drain();
      host->check();
      host->check_words();
    }
  }

  /// When everything must be done, counted from the end of the faults.
  Duration liveness_bound() const {
    Duration slowest{}, step{};
    std::int64_t ops = 0;
    for (const auto& connection : connections_) {
      slowest = std::max(slowest, connection->bound());
      for (std::size_t i = 0; i < 2; ++i) {
        const End& end = connection->end(i);
        ops += static_cast<std::int64_t>(end.ops_left() + end.outstanding());
        // Each message may find no receive, and each wait for a window that lost packets keep full.
        step = std::max(step, end.plan().think + proto::rnr_delay(end.plan().min_rnr_timer) +
                                  2 * scenario_.hosts[end.plan().host].poll_delay);
      }
    }
    step += 6 * scenario_.network.latency_max() + milliseconds{10};
    return slowest + ops * step + milliseconds{100};
  }

  void on_packet(TapPoint point, const Packet& packet, Instant now) {
    if (options_.on_packet) options_.on_packet(point, packet, now);
    const NodeId to = packet.path.destination.raw[15] - 1u;
    if (point == TapPoint::kSent) return lint_.sent(packet, to, now);
    if (point == TapPoint::kImpaired) {
      stage_.tally.add(packet.corrupted ? "network: packets damaged" : "network: packets doubled or late");
    }
    if (point == TapPoint::kLost || point == TapPoint::kImpaired) note_fault(packet, to);
    if (point == TapPoint::kDelivered) lint_.delivered(packet, to, now);
  }
  /// A damaged packet may name any QP: it counts for all connections between the two hosts.
  void note_fault(const Packet& packet, NodeId to) {
    const auto view = proto::parse_packet(packet.bytes);
    const bool known = view && !packet.corrupted;
    for (auto& connection : connections_) {
      for (std::size_t i = 0; i < 2; ++i) {
        End& end = connection->end(i);
        if (end.host().node != to || connection->end(1 - i).host().node != packet.from) continue;
        if (known && end.qpn() != view->dest_qp()) continue;
        end.note_fault();
        connection->end(1 - i).note_fault();
        break;
      }
    }
  }

  void sabotage() {
    switch (options_.sabotage) {
      case Sabotage::kNone:
        return;
      case Sabotage::kCrash:
        world_.after(std::chrono::microseconds{50}, [] { UROCE_ASSERT(!"a crash was asked for"); });
        return;
      case Sabotage::kCorrectness:
        world_.after(std::chrono::microseconds{50}, [this] { hosts_[0]->memory().data()[0] ^= 1; });
        return;
      case Sabotage::kLiveness:
        world_.set_on_drained({});  // Nobody ever polls a CQ.
        return;
    }
  }

  const Scenario& scenario_;
  const RunOptions& options_;
  World world_;
  WireLint lint_;
  Stage stage_;
  const Instant start_ = world_.now();
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace

RunResult run(const Scenario& scenario, const RunOptions& options) { return Simulation(scenario, options).run(); }

}  // namespace uroce::simulator
