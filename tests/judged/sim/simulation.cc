// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/simulation.h"

#include <algorithm>
#include <array>
#include <set>

#include "proto/icrc.h"
#include "tests/judged/sim/cm/cm_traffic.h"
#include "tests/judged/sim/connection.h"
#include "tests/judged/sim/numbering.h"
#include "tests/judged/sim/send_model.h"
#include "tests/judged/sim/stranger.h"
#include "tests/judged/sim/unacked_traffic.h"
#include "tests/judged/sim/wire_lint.h"

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
      : scenario_(scenario),
        options_(options),
        world_(world_config(scenario)),
        stage_{scenario, world_, lint_, unacked_lint_},
        numbering_(scenario) {
    for (const HostPlan& plan : scenario.hosts) {
      hosts_.push_back(std::make_unique<Host>(stage_, static_cast<std::uint32_t>(hosts_.size()), plan));
    }
    for (const ConnectionPlan& plan : scenario.connections) {
      auto connection = std::make_unique<Connection>(stage_, traffic_.size(), plan, *hosts_[plan.ends[0].host],
                                                     *hosts_[plan.ends[1].host]);
      connections_.push_back(connection.get());
      traffic_.push_back(std::move(connection));
    }
    for (const UnackedPlan& plan : scenario.unacked) {
      traffic_.push_back(std::make_unique<UnackedTraffic>(stage_, traffic_.size(), plan, hosts_));
    }
    if (!scenario.cm.processes.empty()) {
      auto traffic = std::make_unique<CmTraffic>(stage_);
      cm_ = traffic.get();
      traffic_.push_back(std::move(traffic));
    }
    for (auto& host : hosts_) host->build();
    for (auto& traffic : traffic_) traffic->build();
    lint_.set_memory([this](NodeId node, std::uint64_t va, std::size_t size) { return hosts_[node]->at(va, size); });
    lint_.set_in_error([this](NodeId node, std::uint32_t qpn) {
      const QpOwner* const owner = hosts_[node]->find_owner(qpn);
      return owner != nullptr && owner->in_error();
    });
    world_.set_tap([this](TapPoint point, const Packet& packet, Instant now) { on_packet(point, packet, now); });
    world_.set_filter([this](Packet& packet, Instant now) {
      const engine::sim::Verdict verdict =
          options_.filter ? options_.filter(packet, now) : engine::sim::Verdict::pass();
      if (is_of_cm(packet)) return cm_->fate(packet);
      numbering_.apply(packet);
      return is_lost_answer(packet) ? engine::sim::Verdict::drop() : verdict;
    });
    if (scenario.stranger.pause != Duration{}) stranger_.emplace(stage_, connections_);
    for (auto& host : hosts_) host->tamper = options.tamper;
    world_.set_on_step([this](NodeId node) {
      if (node < hosts_.size()) hosts_[node]->stepped();
    });
    world_.set_on_drained([this](NodeId node) {
      if (node < hosts_.size()) {
        hosts_[node]->look();
      } else if (cm_ != nullptr) {
        cm_->look(node);
      }
    });
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
    config.max_events = scenario.max_events;
    config.link = scenario.network.link;
    for (engine::sim::Outage& outage : config.link.outages) {
      outage.begin += config.start.time_since_epoch();
      outage.end += config.start.time_since_epoch();
    }
    return config;
  }
  /// Each is lost once at most: then a NIC that does not answer again cannot blame the network.
  bool is_lost_answer(const Packet& packet) {
    if (scenario_.answer_loss == 0 || stage_.faults_over) return false;
    if (connections_[0]->end(0).in_bulk()) {
      answers_.clear();
      return false;
    }
    const auto view = proto::parse_packet(packet.bytes);
    if (!view) return false;
    const proto::Kind kind = view->op().kind;
    if (kind != proto::Kind::kReadResponse && kind != proto::Kind::kAtomicAcknowledge) return false;
    return answers_.insert({packet.to, view->dest_qp(), view->psn().value()}).second &&
           answer_loss_.chance(scenario_.answer_loss);
  }
  bool is_of_cm(const Packet& packet) const { return cm_ != nullptr && cm_->has(packet.from); }
  Duration elapsed() const { return world_.now() - start_; }

  void play() {
    sabotage();
    for (auto& traffic : traffic_) traffic->begin();
    if (stranger_) stranger_->begin();
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
    for (auto& traffic : traffic_) traffic->calm();
    for (auto& host : hosts_) world_.kick(host->node);
    const auto quiet = [this] {
      return std::all_of(traffic_.begin(), traffic_.end(), [](const auto& t) { return t->quiet(); });
    };
    if (const auto outcome = world_.run_until(quiet, bound); outcome != engine::sim::Outcome::kDone) {
      const auto stuck = std::find_if(traffic_.begin(), traffic_.end(), [](const auto& t) { return !t->quiet(); });
      not_live("{} after {:.3f} ms without faults ({}): {}",
               outcome == engine::sim::Outcome::kTimeLimit ? "not done" : "stuck",
               static_cast<double>(bound.count()) / 1e6, to_string(outcome), (*stuck)->text());
    }
    finish();
  }

  void finish() {
    for (auto& traffic : traffic_) traffic->finish();
    for (auto& host : hosts_) {
      world_.kick(host->node);
      host->drain();
    }
    if (world_.run_idle() != engine::sim::Outcome::kDone) not_live("the network never comes to rest");
    for (auto& host : hosts_) {
      host->drain();
      host->check();
      host->check_words();
      host->destroy();
    }
  }

  /// When everything must be done, counted from the end of the faults.
  Duration liveness_bound() const {
    Duration slowest{}, step{};
    std::uint64_t ops = 0;
    for (const auto& traffic : traffic_) {
      slowest = std::max(slowest, traffic->bound());
      step = std::max(step, traffic->step_bound());
      ops += traffic->ops_left();
    }
    step += 6 * scenario_.network.latency_max() + milliseconds{10};  // A window that lost packets keep full.
    return slowest + static_cast<Duration::rep>(ops) * step + milliseconds{100};
  }

  void on_packet(TapPoint point, const Packet& packet, Instant now) {
    if (options_.on_packet) options_.on_packet(point, packet, now);
    if (stranger_ && packet.from == stranger_->node()) {
      if (point == TapPoint::kDelivered) stranger_->delivered(packet);
      return;
    }
    if (is_of_cm(packet)) {
      if (point == TapPoint::kSent) cm_->sent(packet);
      if (point == TapPoint::kLost || point == TapPoint::kImpaired) cm_->note_fault(packet);
      if (point == TapPoint::kDelivered) cm_->delivered(packet);
      return;
    }
    if (point == TapPoint::kSent) return sent(packet, now);
    if (point == TapPoint::kImpaired) {
      stage_.tally.add(packet.corrupted ? "network: packets damaged" : "network: packets doubled or late");
    }
    if (point == TapPoint::kLost || point == TapPoint::kImpaired) {
      for (auto& traffic : traffic_) traffic->note_fault(packet);
    }
    if (point == TapPoint::kDelivered) arriving(packet, now);
  }

  void sent(const Packet& packet, Instant now) {
    const auto view = proto::parse_packet(packet.bytes);
    const bool unacked =
        view && (view->op().service == proto::Service::kUc || view->op().service == proto::Service::kUd);
    unacked ? unacked_lint_.sent(packet, *view) : lint_.sent(packet, now);
  }
  void arriving(const Packet& packet, Instant now) {
    lint_.delivered(packet, now);
    if (packet.corrupted && !proto::check_icrc(packet.path, packet.bytes).ok) return;
    if (const auto view = proto::parse_packet(packet.bytes)) hosts_[packet.to]->arriving(*view, packet.path);
  }

  void sabotage() {
    switch (options_.sabotage) {
      case Sabotage::kNone:
        return;
      case Sabotage::kCrash:
        world_.after(std::chrono::microseconds{50}, [] { check_failed("a crash was asked for", __FILE__, __LINE__); });
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
  UnackedLint unacked_lint_;
  Stage stage_;
  const Instant start_ = world_.now();
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Traffic>> traffic_;
  std::vector<Connection*> connections_;  ///< Part of the traffic: those of RC.
  CmTraffic* cm_ = nullptr;               ///< Part of the traffic: connection management, if there is any.
  Numbering numbering_;
  engine::sim::Random answer_loss_{scenario_.seed};
  std::set<std::array<std::uint32_t, 3>> answers_;  ///< By host, QP and PSN: sent once.
  std::optional<Stranger> stranger_;
};

}  // namespace

RunResult run(const Scenario& scenario, const RunOptions& options) { return Simulation(scenario, options).run(); }

}  // namespace uroce::simulator
