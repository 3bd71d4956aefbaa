// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/cm/cm_traffic.h"

#include <algorithm>

#include "proto/icrc.h"
#include "proto/packet.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using engine::sim::NodeId;
using engine::sim::Packet;
using engine::sim::Verdict;
using std::chrono::seconds;
using Step = CmSide::Step;

namespace {

// Every message that is repeated by timer is given up before this; and when the peer has asked for patience, before
// that.
constexpr Duration kGivenUp = seconds{90}, kGivenUpWaiting = seconds{1200};
/// Whatever is left of a connection that nobody asks for is forgotten before this.
constexpr Duration kForgotten = seconds{130};
/// More messages lost than a manager sends: 15 are repeated.
constexpr std::uint64_t kSends = 16;
/// And more packets than a QP does: the program asks for 6 retries.
constexpr std::uint64_t kDataSends = 7;

}  // namespace

CmTraffic::CmTraffic(Stage& stage)
    : stage_(stage),
      fate_(engine::sim::Random{stage.scenario.seed}.split(7)),
      lint_(stage.scenario.cm),
      processes_(stage.scenario.cm.processes.size()),
      faults_(processes_.size() * processes_.size()) {
  for (const CmAttemptPlan& plan : this->plan().attempts) attempts_.push_back({attempts_.size(), plan, nullptr, {}});
}

void CmTraffic::build() {
  for (std::size_t i = 0; i < processes_.size(); ++i) bear(i);
}

void CmTraffic::bear(std::size_t number) {
  auto& generations = processes_[number];
  generations.push_back(
      std::make_unique<CmProcess>(stage_, *this, number, static_cast<std::uint32_t>(generations.size())));
  CmProcess& process = *generations.back();
  process.start();
  by_node_.resize(process.node() + 1);
  by_node_[process.node()] = &process;
}

void CmTraffic::begin() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const CmProcessPlan& p = plan().processes[i];
    if (p.unlistens_at != Duration{}) stage_.world.after(p.unlistens_at, [this, i] { process(i).unlisten(); });
    if (p.dies_at == Duration{}) continue;
    stage_.world.after(p.dies_at, [this, i, p] {
      process(i).die(p.says_goodbye);
      if (p.gone_for != Duration{}) stage_.world.after(p.gone_for, [this, i] { bear(i); });
    });
  }
  for (CmAttempt& attempt : attempts_) {
    stage_.world.after(attempt.plan.at, [this, &attempt] {
      CmProcess& client = process(attempt.plan.client);
      if (client.alive()) client.connect(attempt);
    });
  }
}

/// Those who have been told nothing end it themselves, and a while later nothing may be left.
void CmTraffic::calm() {
  const auto all = [this](auto act) {
    for (auto& generations : processes_) act(*generations.back());
  };
  stage_.world.after(plan().scaled(2 * kGivenUpWaiting),
                     [all] { all([](CmProcess& process) { process.last_call(); }); });
  stage_.world.after(plan().scaled(4 * kGivenUpWaiting), [all] { all([](CmProcess& process) { process.close(); }); });
  stage_.world.after(plan().scaled(4 * kGivenUpWaiting + kForgotten), [this, all] {
    all([](CmProcess& process) { process.check_empty(); });
    done_ = true;
  });
}

Duration CmTraffic::bound() const { return plan().scaled(5 * kGivenUpWaiting) + seconds{1}; }

CmAttempt& CmTraffic::attempt(std::size_t number) {
  if (number >= attempts_.size()) incorrect("a request that nobody has sent");
  return attempts_[number];
}

CmProcess* CmTraffic::process_at(NodeId node) const { return node < by_node_.size() ? by_node_[node] : nullptr; }

void CmTraffic::look(NodeId node) {
  if (CmProcess* const process = process_at(node)) process->look();
}

void CmTraffic::sent(const Packet& packet) {
  const auto view = proto::parse_packet(packet.bytes);
  if (!view) incorrect("{} sends what is no packet", process_at(packet.from)->name());
  if (view->dest_qp() != proto::cm::kManagementQpn) return;
  const auto message = proto::cm::parse_message(*view);
  if (!message) incorrect("{} sends what is no message", process_at(packet.from)->name());
  stage_.tally.add(fmt::format("CM: {} sent", message->info().name));
  const CmProcess& process = *process_at(packet.from);
  if (!process.alive()) return;
  about([&] { return process.name(); }, [&] { lint_.sent(packet.from, *message, stage_.world.now()); });
  if (message->attribute() != proto::cm::Attribute::kMra) return;
  // Which connection it is about is not known: all of these two processes.
  const CmProcess* const to = process_at(packet.to);
  for (CmAttempt& attempt : attempts_) {
    const auto is = [&](std::size_t a, std::size_t b) { return attempt.plan.client == a && attempt.plan.server == b; };
    if (to == nullptr || is(process.number(), to->number()) || is(to->number(), process.number())) {
      attempt.told_to_wait = true;
    }
  }
}

/// SIDR has no word for "wait": a question that comes again while the program thinks about it gets no answer.
void CmTraffic::delivered(const Packet& packet) {
  const auto view = proto::parse_packet(packet.bytes);
  if (packet.corrupted || !view || view->dest_qp() != proto::cm::kManagementQpn) return;
  const auto message = proto::cm::parse_message(*view);
  using Question = proto::cm::SidrReq;
  if (!message || message->attribute() != Question::kAttribute) return;
  CmProcess* const from = process_at(packet.from);
  const CmProcess* const to = process_at(packet.to);
  CmSide* const client = from->find(message->as<Question>().get<Question::RequestId>());
  if (client == nullptr) return;
  const auto& servers = client->attempt.servers;
  client->unanswered += std::any_of(servers.begin(), servers.end(), [to](const CmSide* server) {
    return &server->process == to && server->step == Step::kRequested;
  });
}

Verdict CmTraffic::fate(Packet& packet) {
  const CmPlan& plan = this->plan();
  const auto view = proto::parse_packet(packet.bytes);
  if (stage_.faults_over || !view || view->dest_qp() != proto::cm::kManagementQpn) return Verdict::pass();
  const bool lost = fate_.chance(plan.loss), twice = fate_.chance(plan.duplicate), late = fate_.chance(plan.late),
             corrupt = fate_.chance(plan.corrupt);
  const Duration by{static_cast<Duration::rep>(fate_.below(static_cast<std::uint64_t>(plan.lateness.count()) + 1))};
  if (lost) return Verdict::drop();
  if (corrupt) {
    packet.bytes[fate_.below(packet.bytes.size())] ^= static_cast<std::uint8_t>(1 + fate_.below(255));
    packet.corrupted = true;
    note_fault(packet);
    // One in 2^16 passes for a packet with another IPv4 Identification, which nobody knows here.
    if (proto::check_icrc(packet.path, packet.bytes).ok) return Verdict::drop();
  }
  return {.copies = twice ? 2u : 1u, .extra_delay = late ? by : Duration{}};
}

void CmTraffic::note_fault(const Packet& packet) {
  const CmProcess* const from = process_at(packet.from);
  const CmProcess* const to = process_at(packet.to);
  if (from == nullptr || to == nullptr) return;
  ++faults_[from->number() * processes_.size() + to->number()];
  if (from != to) ++faults_[to->number() * processes_.size() + from->number()];
}

std::uint64_t CmTraffic::faults(const CmSide& side) const {
  return faults_[side.attempt.plan.client * processes_.size() + side.attempt.plan.server];
}

CmSide* CmTraffic::peer_of(const CmSide& side) const {
  if (!side.passive) return side.answered_by;
  CmSide* const client = side.attempt.client;
  return client->was_up && client->answered_by == &side ? client : nullptr;
}

bool CmTraffic::peer_is_silent(const CmSide& side) {
  const CmAttemptPlan& plan = side.attempt.plan;
  // The last of its messages may have arrived, and wait for a listener.
  if (faults(side) - side.faults_before + side.unanswered >= kSends - 1) return true;
  const CmProcess& peer = process(side.passive ? plan.client : plan.server);
  if (!peer.alive() || peer.generation() != 0 || peer.manager().counters().suppressed != 0) return true;
  if (side.was_up) return false;  // A side that is asked whether it is over says so.
  if (side.passive) {
    const CmSide& client = *side.attempt.client;
    const bool has_another = client.answered_by != nullptr && client.answered_by != &side;
    return client.is_over() || has_another || plan.reply != CmAttemptPlan::Reply::kEstablish;
  }
  return plan.answer == CmAttemptPlan::Answer::kIgnore || peer.manager().counters().overflows != 0;
}

bool CmTraffic::peer_is_deaf(const CmSide& side) {
  if (faults(side) - side.faults_before_up >= kDataSends) return true;
  const CmSide* const peer = peer_of(side);
  return peer == nullptr || peer->is_over() || peer->broken || !peer->process.alive();
}

void CmTraffic::check_crossing(CmSide& side) {
  CmSide* const peer = peer_of(side);
  if (peer == nullptr || !peer->was_up || !peer->process.alive()) return;
  const auto here = side.process.manager().query(side.id), there = peer->process.manager().query(peer->id);
  if (!here || !there) return;  // One of them is gone already.
  const auto crosses = [&](auto a, auto b) { return *here.*a == *there.*b && *here.*b == *there.*a; };
  using Info = cm::ConnectionInfo;
  if (!crosses(&Info::local_qpn, &Info::remote_qpn)) incorrect("{}: the QPNs do not cross", side.name());
  if (!crosses(&Info::local_psn, &Info::remote_psn)) incorrect("{}: the starting PSNs do not cross", side.name());
  if (here->path.mtu != there->path.mtu) incorrect("{}: they have not the same MTU", side.name());
  if (here->max_rd_atomic > there->max_dest_rd_atomic || there->max_rd_atomic > here->max_dest_rd_atomic) {
    incorrect("{}: more READs and atomics than the other side is ready for", side.name());
  }
  stage_.tally.add("CM: connections of which both sides know the same");
  const auto& servers = side.attempt.servers;
  if (std::count_if(servers.begin(), servers.end(), [](const CmSide* server) { return server->was_up; }) > 1) {
    incorrect("attempt {}: two connections of one connect", side.attempt.number);
  }
}

void CmTraffic::expect_progress(CmSide& side, const char* what) {
  const Step from = side.step;
  if (side.is_over()) return;
  stage_.world.after(plan().scaled(kGivenUp) + stage_.scenario.network.latency_max(),
                     [this, &side, from, what] { check_progress(side, from, what, false); });
}

void CmTraffic::check_progress(CmSide& side, Step from, const char* what, bool waited) {
  if (side.step != from || !side.process.alive()) return;
  // What was to tell it may have died before it could.
  const CmSide* const peer = side.was_up ? peer_of(side) : nullptr;
  const bool is_told = peer != nullptr && peer->process.alive() && faults(side) - side.faults_before < kSends;
  if (from == Step::kUp && !is_told) return;
  const bool patient = side.attempt.told_to_wait || side.attempt.plan.answer == CmAttemptPlan::Answer::kIgnore;
  if (!patient || waited) not_live("{}: has waited {} for {}", side.name(), waited ? "very long" : "too long", what);
  stage_.world.after(plan().scaled(kGivenUpWaiting),
                     [this, &side, from, what] { check_progress(side, from, what, true); });
}

}  // namespace uroce::simulator
