// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/connection.h"

#include <algorithm>

#include "proto/headers.h"
#include "proto/packet.h"
#include "proto/syndrome.h"
#include "proto/timing.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using std::chrono::milliseconds;

namespace {

bool is_rnr_nak(const proto::PacketView& packet) {
  return packet.op().kind == proto::Kind::kAcknowledge &&
         std::holds_alternative<proto::syndrome::Rnr>(
             proto::decode_syndrome(packet.header<proto::Aeth>().get<proto::Aeth::SyndromeField>()));
}

}  // namespace

Connection::Connection(Stage& stage, std::size_t number, const ConnectionPlan& plan, Host& a, Host& b)
    : stage_(stage),
      number_(number),
      plan_(plan),
      reconnects_(plan.reconnects),
      random_(engine::sim::Random{stage.scenario.seed}.split(2000 + number)) {
  ends_[0] = std::make_unique<End>(stage, *this, a, plan.ends[0], plan, random_.next());
  ends_[1] = std::make_unique<End>(stage, *this, b, plan.ends[1], plan, random_.next());
  ends_[0]->set_peer(*ends_[1]);
  ends_[1]->set_peer(*ends_[0]);
}

void Connection::build() {
  for (auto& end : ends_) end->build();
}

void Connection::begin() {
  connect(false);
  for (const Disturbance& d : plan_.disturbances) {
    stage_.world.after(d.at, [this, d] { disturb(d); });
  }
}

void Connection::connect(bool again) {
  proto::Psn psns[2] = {proto::Psn{plan_.ends[0].sq_psn}, proto::Psn{plan_.ends[1].sq_psn}};
  if (again) {
    for (proto::Psn& psn : psns) psn = proto::Psn{static_cast<std::uint32_t>(random_.next())};
  }
  for (auto& end : ends_) {
    if (!end->has_qp()) end->create_qp();
  }
  ends_[0]->connect(psns[0], psns[1]);
  ends_[1]->connect(psns[1], psns[0]);
  state_ = State::kUp;
  for (auto& end : ends_) {
    end->work();
    stage_.world.kick(end->host().node);
  }
}

void Connection::disturb(const Disturbance& d) {
  if (state_ != State::kUp) return;
  End& end = *ends_[static_cast<std::size_t>(d.end)];
  if (d.in_mid_message) {
    Disturbance then = d;
    then.in_mid_message = false;
    return end.when_in_mid_message([this, then] { stage_.world.after({}, [this, then] { disturb(then); }); });
  }
  switch (d.kind) {
    case Disturbance::Kind::kError:
      end.to_error();
      return notice();
    case Disturbance::Kind::kReset:
      end.to_reset();
      return notice();
    case Disturbance::Kind::kDestroy:
      end.destroy();
      return notice();
    case Disturbance::Kind::kDrain:
      return end.drain_send_queue(d.pause, End::Change::kNone);
    case Disturbance::Kind::kChangeInRts:
      return end.change_in_rts();
    case Disturbance::Kind::kChangeInSqd:
      return end.drain_send_queue(d.pause, End::Change::kAny);
    case Disturbance::Kind::kDeepen:
      return end.drain_send_queue(d.pause, End::Change::kDeeper);
    case Disturbance::Kind::kVanish:
      return end.vanish(d.pause);
    case Disturbance::Kind::kDeregTarget:
      return end.deregister(End::Region::kTarget);
    case Disturbance::Kind::kReregTarget:
      return end.reregister_target();
    case Disturbance::Kind::kDeregLocal:
      return end.deregister(End::Region::kLocal);
    case Disturbance::Kind::kDeregReceive:
      return end.deregister(End::Region::kReceive);
    case Disturbance::Kind::kCount:
      return;
  }
}

void Connection::notice() {
  if (state_ != State::kUp) return;
  state_ = State::kMourning;
  stage_.world.after(plan_.mourning, [this] {
    if (state_ == State::kMourning) take_down();
  });
}

void Connection::take_down() {
  state_ = State::kDown;
  for (auto& end : ends_) end->bring_down();
  for (auto& end : ends_) end->settle_limbo();
  for (auto& end : ends_) end->host().check();
  for (auto& end : ends_) {
    if (random_.chance(0.3)) {
      end->destroy();
    } else {
      end->to_reset();
    }
    stage_.world.kick(end->host().node);
  }
  if (reconnects_ == 0) {
    state_ = State::kClosed;
    return;
  }
  --reconnects_;
  stage_.tally.add("connections made again");
  // Old packets must not meet the new connection, as with every transport: wait until the network has none.
  const Duration old_packets = std::max(Duration{}, stage_.world.link().empty_at() - stage_.world.now());
  stage_.world.after(old_packets + milliseconds{1}, [this] {
    if (state_ == State::kDown) connect(true);
  });
}

void Connection::calm() {
  for (auto& end : ends_) end->work();
}

void Connection::finish() {
  if (state_ == State::kUp || state_ == State::kMourning) {
    reconnects_ = 0;
    take_down();
  }
  for (auto& end : ends_) end->destroy();
}

bool Connection::quiet() const {
  switch (state_) {
    case State::kUp:
      return (ends_[0]->done() || ends_[0]->may_wait_for_ever()) && (ends_[1]->done() || ends_[1]->may_wait_for_ever());
    case State::kClosed:
      return true;
    default:
      return false;
  }
}

/// One exhaustion of everything that may be tried again, from the attributes.
Duration Connection::recovery_time(const End& end, const End& peer) const {
  const Duration timeout = proto::local_ack_timeout(end.plan().timeout).value_or(Duration{});
  const Duration rnr = proto::rnr_delay(peer.plan().min_rnr_timer);
  return (end.plan().retry_cnt + 2) * timeout + (end.plan().rnr_retry + 2) * rnr;
}

Duration Connection::bound() const {
  const Duration once = recovery_time(*ends_[0], *ends_[1]) + recovery_time(*ends_[1], *ends_[0]) + plan_.mourning +
                        2 * stage_.scenario.network.latency_max() + milliseconds{1};
  return (reconnects_ + 2) * once;
}

std::uint64_t Connection::ops_left() const {
  std::uint64_t sum = 0;
  for (const auto& end : ends_) sum += end->ops_left() + end->outstanding();
  return sum;
}

/// Each message may find no receive.
Duration Connection::step_bound() const {
  Duration step{};
  for (const auto& end : ends_) {
    step = std::max(step, end->plan().think + proto::rnr_delay(end->plan().min_rnr_timer) +
                              2 * stage_.scenario.hosts[end->plan().host].poll_delay);
  }
  return step;
}

/// A damaged packet may name any QP: it counts for all connections between the two hosts.
void Connection::note_fault(const engine::sim::Packet& packet) {
  const auto view = proto::parse_packet(packet.bytes);
  const bool known = view && !packet.corrupted;
  for (std::size_t i = 0; i < 2; ++i) {
    if (ends_[i]->host().node != packet.to || ends_[1 - i]->host().node != packet.from) continue;
    if (known && ends_[i]->qpn() != view->dest_qp()) continue;
    for (auto& end : ends_) end->note_fault();
    if (known && is_rnr_nak(*view)) ends_[i]->note_doubled_rnr_nak();
    return;
  }
}

std::string Connection::text() const {
  constexpr const char* kNames[] = {"up", "failed, waiting to come down", "down", "closed"};
  return fmt::format("connection {} is {}; {}; {}", number_, kNames[static_cast<int>(state_)], ends_[0]->state_text(),
                     ends_[1]->state_text());
}

}  // namespace uroce::simulator
