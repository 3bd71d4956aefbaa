// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/end.h"

#include <algorithm>

#include "proto/entropy.h"
#include "proto/timing.h"
#include "tests/judged/sim/connection.h"
#include "tests/judged/sim/srq_model.h"
#include "tests/judged/sim/violation.h"
#include "tests/judged/sim/wire_lint.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::simulator {

using nic::QpState;

namespace {

constexpr std::uint32_t kOpen =
    nic::kLocalWrite | nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic | nic::kFlushGlobal;
constexpr std::uint32_t kInlineMax = 256;

/// Room for a few messages at once, with gaps between their pieces.
Extent room(Host& host, std::uint32_t message_max) {
  const std::uint32_t size = message_max + 128;
  return host.reserve(std::clamp(48'000u / size, 3u, 16u) * size);
}

}  // namespace

End::End(Stage& stage, Connection& connection, Host& host, const EndPlan& plan, const ConnectionPlan& shared,
         std::uint64_t seed)
    : stage_(stage),
      connection_(connection),
      host_(host),
      plan_(plan),
      shared_(shared),
      random_(seed),
      ops_left_(plan.ops),
      srq_(host.srq(plan.srq)),
      local_(room(host, shared.message_max)),
      receive_(room(host, shared.message_max)),
      target_(room(host, shared.message_max)),
      source_({}),
      exposed_(target_.whole()) {
  least_timeout_ = plan.timeout;
  // READ sources lie behind the WRITE targets, in the same region.
  source_ = {exposed_.end() - (shared.message_max + 64), shared.message_max + 64};
  target_ = Area({exposed_.begin, exposed_.length - source_.length});
  host.reserve_cq(plan.send_cq, plan.max_send_wr);
  host.reserve_cq(plan.recv_cq, srq_ != nullptr ? srq_->plan().max_wr : plan.max_recv_wr);
}

void End::build() {
  local_mr_ = host_.register_memory(local_.whole(), nic::kLocalWrite);
  receive_mr_ = host_.register_memory(receive_.whole(), nic::kLocalWrite);
  target_mr_ = register_target();
  local_key_ = local_mr_->key;
  receive_key_ = receive_mr_->key;
  target_key_ = target_mr_->key;
}

nic::Mr* End::register_target() { return host_.register_memory(exposed_, kOpen | nic::kMwBind); }

std::string End::name() const {
  return fmt::format("connection {} host {} QP 0x{:x}", connection_.number(), host_.number(), qpn_);
}

std::string End::state_text() const {
  std::string text = fmt::format("{}: {} to post, {} outstanding, {} receives posted", name(), ops_left_,
                                 sends_.pending().size(), receives_.pending().size());
  const auto& pending = sends_.pending();
  if (!pending.empty()) {
    text += fmt::format(", oldest WR {} ({}, {} bytes)", pending.front().id, to_string(pending.front().kind),
                        pending.front().length);
  }
  return text;
}

bool End::in_error() const { return qp_ != nullptr && qp_->state() == QpState::kErr; }

void End::create_qp() {
  nic::QpInit init;
  init.pd = host_.pd;
  init.send_cq = host_.cq(plan_.send_cq);
  init.recv_cq = host_.cq(plan_.recv_cq);
  if (srq_ != nullptr) init.srq = srq_->get();
  init.max_send_wr = plan_.max_send_wr;
  init.max_recv_wr = plan_.max_recv_wr;
  init.max_send_sge = init.max_recv_sge = kSgesMax;
  init.max_inline = kInlineMax;
  init.sq_sig_all = plan_.sq_sig_all;
  const auto qp = host_.nic.create_qp(init);
  if (!qp) incorrect("host {}: creating a QP fails with errno {}", host_.number(), qp.error());
  qp_ = *qp;
  qpn_ = qp_->qpn();
  host_.add(*this, qpn_);
}

void End::connect(proto::Psn sq_psn, proto::Psn peer_sq_psn) {
  using namespace nic;
  broken_ = draining_ = drained_ = owner_ended_ = failure_seen_ = flush_unexplained_ = flaw_posted_ = target_changed_ =
      last_receive_told_ = deceived_ = window_taken_back_ = false;
  faults_ = doubled_rnr_naks_ = unsignaled_ = 0;
  incarnation_ = stage_.next_id++;
  sends_.restart();
  receives_.restart();
  messages_.clear();
  capacities_.clear();
  last_write_.valid = false;

  renew_window();
  lacked_ = 0;
  lacks_.clear();

  QpAttr& attr = attr_;
  attr = {};
  attr.access = kOpen;
  attr.path.source = host_.gid();
  attr.path.destination = peer_->host_.gid();
  attr.path.source_port = proto::flow_source_port(0, qpn_, peer_->qpn_);
  attr.path.tclass = stage_.scenario.network.tclass;
  attr.path_mtu = shared_.mtu_code;
  attr.timeout = plan_.timeout;
  attr.retry_cnt = plan_.retry_cnt;
  attr.rnr_retry = plan_.rnr_retry;
  attr.min_rnr_timer = plan_.min_rnr_timer;
  attr.max_rd_atomic = plan_.max_rd_atomic;
  attr.max_dest_rd_atomic = plan_.max_dest_rd_atomic;
  attr.sq_psn = sq_psn;
  attr.rq_psn = peer_sq_psn;
  attr.dest_qpn = peer_->qpn_;
  const auto move = [&](QpState to, std::uint32_t mask) {
    attr.state = to;
    if (const Errno error = host_.nic.modify_qp(qp_, attr, mask | kAttrState)) {
      incorrect("{}: transition to state {} fails with errno {}", name(), static_cast<int>(to), error);
    }
  };
  move(QpState::kInit, kAttrPkeyIndex | kAttrPort | kAttrAccess);
  up_ = true;
  receives_withheld_ = srq_ == nullptr && plan_.repost_delay != Duration{} && !stage_.faults_over && random_.chance(0.5)
                           ? plan_.receive_depth
                           : 0;
  post_receives();
  if (receives_withheld_ != 0) {
    stage_.world.after(plan_.repost_delay, [this] {
      receives_withheld_ = 0;
      work();
      stage_.world.kick(host_.node);
    });
  }
  move(QpState::kRtr, kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
  move(QpState::kRts, kAttrTimeout | kAttrRetryCnt | kAttrRnrRetry | kAttrSqPsn | kAttrMaxRdAtomic);
  stage_.lint.connected({host_.node, peer_->host_.node, qpn_, peer_->qpn_, attr.path,
                         proto::mtu_bytes(shared_.mtu_code), sq_psn, plan_.max_rd_atomic, srq_});
  stage_.lint.changed(host_.node, qpn_, attr.path, plan_.max_rd_atomic, plan_.min_rnr_timer);
}

void End::to_error() {
  if (qp_ == nullptr || !up_) return;
  owner_ended_ = true;
  stage_.lint.silenced(host_.node, qpn_);
  nic::QpAttr attr;
  attr.state = QpState::kErr;
  if (const nic::Errno error = host_.nic.modify_qp(qp_, attr, nic::kAttrState)) {
    incorrect("{}: transition to ERR fails with errno {}", name(), error);
  }
}

void End::to_reset() {
  if (qp_ == nullptr) return;
  host_.drain();  // A completion that is in the CQ counts; afterwards there are none.
  owner_ended_ = true;
  stage_.lint.forget(host_.node, qpn_);
  const bool held = !in_error();
  nic::QpAttr attr;
  attr.state = QpState::kReset;
  if (const nic::Errno error = host_.nic.modify_qp(qp_, attr, nic::kAttrState)) {
    incorrect("{}: transition to RESET fails with errno {}", name(), error);
  }
  drop_everything(held);
}

void End::destroy() {
  if (qp_ == nullptr) return;
  host_.drain();
  owner_ended_ = true;
  stage_.lint.forget(host_.node, qpn_);
  const bool held = !in_error();
  host_.nic.destroy_qp(qp_);
  if (plan_.window == 2) window_.state = Window::State::kNone;  // It belonged to the QP.
  host_.remove(qpn_);
  qp_ = nullptr;
  drop_everything(held);
}

/// `held`: the QP may have been in the middle of a message, whose shared receive goes back then.
void End::drop_everything(bool held) {
  up_ = false;
  sends_.dropped([this](Op& op, Ending ending) { send_ended(op, ending); });
  receives_.dropped(peer_->messages_, [&](Receive& r, const Message* m, Ending e) { receive_ended(r, m, e, held); });
}

void End::drain_send_queue(Duration pause, Change change) {
  if (!alive() || qp_ == nullptr || qp_->state() != QpState::kRts) return;
  nic::QpAttr attr;
  attr.state = QpState::kSqd;
  attr.en_sqd_notify = true;
  draining_ = true;
  drained_ = false;
  if (host_.nic.modify_qp(qp_, attr, nic::kAttrState | nic::kAttrEnSqdNotify) != 0) {
    incorrect("{}: transition to SQD fails", name());
  }
  stage_.lint.draining(host_.node, qpn_, true);
  stage_.world.kick(host_.node);
  stage_.world.after(pause, [this, change] {
    if (qp_ == nullptr || !draining_ || qp_->state() != QpState::kSqd) return;
    host_.poll_events();
    if (!drained_ && stage_.lint.is_drained(host_.node, qpn_)) incorrect("{}: drained, but no SQ_DRAINED", name());
    if (change != Change::kNone && drained_ && alive() && !stage_.faults_over) {
      change == Change::kAny ? change_in_sqd() : deepen();
    }
    draining_ = false;
    stage_.lint.draining(host_.node, qpn_, false);
    nic::QpAttr back;
    back.state = QpState::kRts;
    if (host_.nic.modify_qp(qp_, back, nic::kAttrState) != 0) incorrect("{}: transition to RTS fails", name());
    stage_.world.kick(host_.node);
  });
}

void End::on_event(nic::Event::Kind kind) {
  switch (kind) {
    case nic::Event::Kind::kSqDrained:
      if (!draining_) return;  // It was already waiting when the owner went back to RTS.
      if (drained_) incorrect("{}: SQ_DRAINED twice", name());
      drained_ = true;
      stage_.tally.add("event: SQ_DRAINED");
      about([&] { return name(); }, [&] { stage_.lint.drained(host_.node, qpn_); });
      return;
    case nic::Event::Kind::kQpReqErr:
    case nic::Event::Kind::kQpAccessErr:
    case nic::Event::Kind::kQpFatal:
      if (!responder_may_fail() && !owner_ended_) incorrect("{}: an error event without a cause", name());
      stage_.tally.add("event: QP error");
      connection_.notice();
      return;
    case nic::Event::Kind::kLastWqeReached:
      if (srq_ == nullptr) incorrect("{}: LAST_WQE_REACHED without an SRQ", name());
      if (last_receive_told_) incorrect("{}: LAST_WQE_REACHED twice", name());
      if (!in_error()) incorrect("{}: LAST_WQE_REACHED, but the QP is not in ERR", name());
      last_receive_told_ = true;
      stage_.tally.add("event: LAST_WQE_REACHED");
      return;
    default:
      return;
  }
}

/// Which packet may take a receive of the SRQ: the one that the next message takes it with.
void End::on_arrival(const proto::PacketView& view, const proto::Path&) {
  if (srq_ == nullptr || !up_ || view.op().service != proto::Service::kRc) return;
  if (stage_.lint.takes_receive(host_.node, view) == capacities_.size()) srq_->may_take(*this);
  more_to_come_ = !view.op().ends();
}

void End::on_receive_taken(const Receive& receive) {
  if (last_receive_told_) incorrect("{}: takes a receive after LAST_WQE_REACHED", name());
  receive.local.for_each([&](Extent e, std::uint32_t) { host_.memory().open(e); });
  capacities_.push_back(receive.local.length());
  receives_.posted(receive);
  stage_.tally.add("SRQ: taken by RC");
  if (more_to_come_ && in_mid_message_) std::exchange(in_mid_message_, nullptr)();
}

void End::deregister(Region region) {
  Memory& memory = host_.memory();
  switch (region) {
    case Region::kTarget:
      if (target_dead_ || target_is_under_window()) return;
      target_dead_ = true;
      freeze_target();
      host_.nic.mrs().remove(target_mr_);
      return;
    case Region::kLocal:
      if (local_dead_) return;
      local_dead_ = true;
      host_.nic.mrs().remove(local_mr_);
      for (const Op& op : sends_.pending()) {
        op.local.for_each([&](Extent e, std::uint32_t) {
          if (memory.is_open(e)) memory.settle_unknown(e);
        });
      }
      return;
    case Region::kReceive:
      if (receive_dead_ || srq_ != nullptr) return;
      receive_dead_ = true;
      host_.nic.mrs().remove(receive_mr_);
      for (const Receive& receive : receives_.pending()) {
        receive.local.for_each([&](Extent e, std::uint32_t) { memory.settle_unknown(e); });
      }
      return;
  }
}

/// What peers have written so far stays: from here on no byte may change under the old key.
void End::freeze_target() {
  target_changed_ = true;
  target_changed_at_ = stage_.world.now();
  Memory& memory = host_.memory();
  for (const Op& op : peer_->sends_.pending()) {
    if (op.is_write() && memory.is_open(op.remote)) {
      memory.settle_partly(op.remote, payload(op), "a WRITE before its target was deregistered", op.is_atomic_write());
    }
  }
  for (const Limbo& limbo : peer_->limbo_) {
    if (memory.is_open(limbo.remote)) memory.settle_unknown(limbo.remote);
  }
}

void End::reregister_target() {
  if (target_dead_ || target_is_under_window()) return;
  freeze_target();
  nic::MrTable::Change change;  // To where it is already, for the sake of the new key.
  change.change_memory = true;
  change.memory = target_mr_->memory;
  change.length = target_mr_->length;
  change.iova = target_mr_->iova;
  if (host_.nic.mrs().change(target_mr_, change) != 0) incorrect("{}: registering memory again fails", name());
  if (target_mr_->key == target_key_) incorrect("{}: registered again, but the key is the old one", name());
  target_key_ = target_mr_->key;
}

void End::bring_down() {
  host_.drain();
  if (flush_unexplained_ && !failure_seen_ && !owner_ended_ && !responder_may_fail()) {
    incorrect("{}: WRs were flushed although nothing failed", name());
  }
  if (qp_ != nullptr && up_) {
    to_error();
    host_.drain();
    if (srq_ != nullptr && !last_receive_told_) incorrect("{}: in ERR, but no LAST_WQE_REACHED", name());
    about([&] { return name(); },
          [&] {
            sends_.finished([this](const Op& op) { return legal(op); },
                            [this](Op& op, Ending ending) { send_ended(op, ending); });
            receives_.finished();
          });
    drop_everything(false);  // What a CQ that overflowed has swallowed.
  }
  up_ = false;
}

void End::settle_limbo() {
  Memory& memory = peer_->host_.memory();
  for (const Limbo& limbo : limbo_) {
    scratch_.resize(limbo.remote.length);
    fill_pattern(scratch_, limbo.seed);
    if (memory.is_open(limbo.remote)) {
      about([&] { return name(); },
            [&] { memory.settle_partly(limbo.remote, scratch_, "a WRITE that failed", limbo.at_once); });
    }
    release(limbo.remote);
  }
  limbo_.clear();
  if (local_dead_) local_mr_ = host_.register_memory(local_.whole(), nic::kLocalWrite);
  if (receive_dead_) receive_mr_ = host_.register_memory(receive_.whole(), nic::kLocalWrite);
  if (target_dead_) target_mr_ = register_target();
  come_back();
  local_dead_ = receive_dead_ = target_dead_ = false;
  local_key_ = local_mr_->key;
  receive_key_ = receive_mr_->key;
  target_key_ = target_mr_->key;
}

}  // namespace uroce::simulator
