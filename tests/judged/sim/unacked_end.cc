// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/unacked_end.h"

#include <algorithm>

#include "proto/entropy.h"
#include "tests/judged/sim/unacked_traffic.h"
#include "tests/judged/sim/violation.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::simulator {

using nic::QpState;
using nic::WcStatus;

namespace {

Extent room_for(Host& host, std::uint32_t message_max) {
  const std::uint32_t size = message_max + 128;
  return host.reserve(std::clamp(48'000u / size, 3u, 16u) * size);
}

}  // namespace

UnackedEnd::UnackedEnd(Stage& stage, UnackedTraffic& traffic, Host& host, const UnackedEndPlan& plan,
                       const UnackedPlan& shared, std::uint64_t seed)
    : stage_(stage),
      traffic_(traffic),
      host_(host),
      plan_(plan),
      shared_(shared),
      random_(seed),
      srq_(host.srq(plan.srq)),
      inbox_(host, srq_, [this](const Receive& receive) { receive_ended(receive); }),
      ops_left_(plan.ops),
      local_(room_for(host, shared.message_max)),
      receive_(room_for(host, shared.message_max)) {
  host.reserve_cq(plan.send_cq, plan.max_send_wr);
  host.reserve_cq(plan.recv_cq, srq_ != nullptr ? srq_->plan().max_wr + 1 : plan.max_recv_wr);
  stage.unacked_lint.add(wire_);
}

void UnackedEnd::build() {
  register_local();
  register_receive();
}

void UnackedEnd::register_local() {
  local_mr_ = host_.register_memory(local_.whole(), nic::kLocalWrite);
  local_key_ = local_mr_->key;
  local_dead_ = false;
}

void UnackedEnd::register_receive() {
  receive_mr_ = host_.register_memory(receive_.whole(), nic::kLocalWrite);
  receive_key_ = receive_mr_->key;
  receive_dead_ = false;
}

std::string UnackedEnd::name() const {
  return fmt::format("{} {} host {} QP 0x{:x}", shared_.connected ? "UC" : "UD", traffic_.number(), host_.number(),
                     qpn_);
}

std::string UnackedEnd::state_text() const {
  return fmt::format("{}: {} to post, {} outstanding, {} receives outstanding{}{}{}", name(), ops_left_,
                     sends_.pending().size(), inbox_.outstanding(), up_ ? "" : ", down", dead_ ? ", in ERR" : "",
                     in_sqe_ ? ", in SQE" : "");
}

bool UnackedEnd::can_start() const {
  return !host_.cq(plan_.send_cq)->overflowed() && !host_.cq(plan_.recv_cq)->overflowed();
}

bool UnackedEnd::listening() const { return up_ && !dead_ && can_start(); }

nic::QpInit UnackedEnd::init(nic::QpType type) const {
  nic::QpInit init;
  init.type = type;
  init.pd = host_.pd;
  init.send_cq = host_.cq(plan_.send_cq);
  init.recv_cq = host_.cq(plan_.recv_cq);
  if (srq_ != nullptr) init.srq = srq_->get();
  init.max_send_wr = plan_.max_send_wr;
  init.max_recv_wr = plan_.max_recv_wr;
  init.max_send_sge = init.max_recv_sge = kSgesMax;
  init.max_inline = 256;
  init.sq_sig_all = plan_.sq_sig_all;
  return init;
}

void UnackedEnd::create_qp() {
  const auto qp = host_.nic.create_qp(init(shared_.connected ? nic::QpType::kUc : nic::QpType::kUd));
  if (!qp) incorrect("host {}: creating a QP fails with errno {}", host_.number(), qp.error());
  qp_ = *qp;
  qpn_ = qp_->qpn();
  host_.add(*this, qpn_);
}

void UnackedEnd::begin_life() {
  dead_ = owner_ended_ = in_sqe_ = draining_ = drained_ = fatal_due_ = last_receive_due_ = false;
  unsignaled_ = withheld_ = 0;
  ++life_;
  renew();
  sends_.restart();
  inbox_.restart();
}

void UnackedEnd::renew() {
  if (local_dead_) register_local();
  if (receive_dead_) register_receive();
}

void UnackedEnd::modify(nic::QpAttr& attr, std::uint32_t mask, const char* what) {
  if (const nic::Errno error = host_.nic.modify_qp(qp_, attr, mask)) {
    incorrect("{}: {} fails with errno {}", name(), what, error);
  }
}

proto::Path UnackedEnd::path_to(const Host& host, std::uint32_t qpn) const {
  proto::Path path;
  path.source = host_.gid();
  path.destination = host.gid();
  path.source_port = proto::flow_source_port(0, qpn_, qpn);
  path.tclass = stage_.scenario.network.tclass;
  return path;
}

void UnackedEnd::begin_sending(const SendModel::Facts& facts, proto::Psn psn) {
  wire_.start(facts, psn);
  up_ = true;
}

/// The QP is in ERR from now on.
void UnackedEnd::die() {
  dead_ = true;
  last_receive_due_ = srq_ != nullptr;
  wire_.silence();
  inbox_.flush();
}

void UnackedEnd::fail_receive() {
  nic::Completion failed;
  failed.status = WcStatus::kLocProtErr;
  inbox_.complete(failed);
  fatal_due_ = true;
  die();
}

void UnackedEnd::to_error() {
  if (qp_ == nullptr || !up_) return;
  owner_ended_ = true;
  if (!dead_) die();
  nic::QpAttr attr;
  attr.state = QpState::kErr;
  modify(attr, nic::kAttrState, "the transition to ERR");
}

void UnackedEnd::to_reset() {
  if (qp_ == nullptr) return;
  host_.drain();
  wire_.silence();
  nic::QpAttr attr;
  attr.state = QpState::kReset;
  modify(attr, nic::kAttrState, "the transition to RESET");
  drop_everything();
}

void UnackedEnd::destroy() {
  if (qp_ == nullptr) return;
  host_.drain();
  wire_.silence();
  host_.nic.destroy_qp(qp_);
  host_.remove(qpn_);
  host_.leave_all(*this);
  qp_ = nullptr;
  drop_everything();
}

void UnackedEnd::drop_everything() {
  up_ = in_sqe_ = false;
  owner_ended_ = true;
  sends_.dropped([this](Op& op, Ending) { send_ended(op); });
  inbox_.clear();
}

void UnackedEnd::drain_send_queue(Duration pause) {
  if (qp_ == nullptr || !up_ || qp_->state() != QpState::kRts) return;
  nic::QpAttr attr;
  attr.state = QpState::kSqd;
  attr.en_sqd_notify = true;
  draining_ = true;
  drained_ = false;
  wire_.set_draining(true);
  modify(attr, nic::kAttrState | nic::kAttrEnSqdNotify, "the transition to SQD");
  stage_.world.kick(host_.node);
  stage_.world.after(pause, [this, life = life_] {
    if (life != life_ || qp_ == nullptr || !draining_) return;
    host_.poll_events();
    draining_ = false;
    wire_.set_draining(false);
    if (qp_->state() != QpState::kSqd) return;  // A send has failed meanwhile.
    if (!drained_ && !wire_.in_message()) incorrect("{}: drained, but no SQ_DRAINED", name());
    nic::QpAttr back;
    back.state = QpState::kRts;
    modify(back, nic::kAttrState, "the transition back to RTS");
    stage_.world.kick(host_.node);
  });
}

void UnackedEnd::deregister_local() {
  if (local_dead_) return;
  local_dead_ = true;
  host_.nic.mrs().remove(local_mr_);
}

void UnackedEnd::deregister_receive() {
  if (receive_dead_ || srq_ != nullptr) return;
  receive_dead_ = true;
  host_.nic.mrs().remove(receive_mr_);
}

void UnackedEnd::on_event(nic::Event::Kind kind) {
  switch (kind) {
    case nic::Event::Kind::kSqDrained:
      if (!draining_) return;  // It was already waiting when the owner went back to RTS.
      if (drained_ || wire_.in_message()) incorrect("{}: SQ_DRAINED twice, or in the middle of a message", name());
      drained_ = true;
      return count("event: SQ_DRAINED");
    case nic::Event::Kind::kQpFatal:
      if (!fatal_due_ && can_start()) incorrect("{}: QP_FATAL without a cause", name());
      fatal_due_ = false;
      return traffic_.notice(*this);
    case nic::Event::Kind::kLastWqeReached:
      if (!last_receive_due_ && can_start()) incorrect("{}: LAST_WQE_REACHED, but the QP takes receives", name());
      last_receive_due_ = false;
      return count("event: LAST_WQE_REACHED");
    case nic::Event::Kind::kQpReqErr:
    case nic::Event::Kind::kQpAccessErr:
      incorrect("{}: an error event that no request can cause", name());
    default:
      return;
  }
}

void UnackedEnd::on_cq_overflow(const nic::Cq* cq) {
  if (qp_ == nullptr || (qp_->init().send_cq != cq && qp_->init().recv_cq != cq)) return;
  sends_.expect_gaps();
  inbox_.expect_gaps();
  owner_ended_ = true;
  if (up_ && !dead_) die();
  last_receive_due_ = fatal_due_ = false;
  traffic_.notice(*this);
}

Statuses UnackedEnd::legal(const Op& op) const {
  if (wire_.has_sent(op.id)) return only(WcStatus::kSuccess);
  Statuses set = 0;
  if (op.flaw == Flaw::kBadLkey || (local_dead_ && op.length != 0 && !op.is_inline)) set |= only(WcStatus::kLocProtErr);
  if (too_long(op)) set |= only(WcStatus::kLocLenErr);
  if (in_sqe_ || owner_ended_ || dead_) set |= only(WcStatus::kWrFlushErr);
  return set;
}

void UnackedEnd::on_completion(const nic::Completion& c) {
  const bool is_receive = c.wr_id >= kFirstReceiveId;
  count(fmt::format("{} {}: {}", shared_.connected ? "UC" : "UD", is_receive ? "receive" : "send", to_string(c.status))
            .c_str());
  about([&] { return name(); },
        [&] {
          if (is_receive) return inbox_.completed(c);
          sends_.completed(
              c, [this](const Op& op) { return legal(op); }, [this](Op& op, Ending) { send_ended(op); });
        });
  if (c.status == WcStatus::kSuccess || !up_) return;
  if (dead_) return traffic_.notice(*this);
  if (is_receive || in_sqe_) return;
  in_sqe_ = true;
  stage_.world.after(plan_.resume_delay, [this, life = life_] {
    if (life == life_ && in_sqe_ && !dead_ && can_start()) resume();
  });
}

/// From SQE back to RTS.
void UnackedEnd::resume() {
  host_.drain();
  if (dead_) return;
  if (qp_->state() != QpState::kSqe) incorrect("{}: a send has failed, and the QP is not in SQE", name());
  end_sends();
  if (local_dead_) register_local();
  in_sqe_ = draining_ = false;  // A drain ended with the failure.
  unsignaled_ = 0;
  sends_.restart();
  wire_.abandon();
  wire_.set_draining(false);
  nic::QpAttr attr;
  attr.state = QpState::kRts;
  modify(attr, nic::kAttrState, "the transition from SQE to RTS");
  count("SQE: back to RTS");
  work();
  stage_.world.kick(host_.node);
}

/// All completions have been polled, and the QP sends nothing more.
void UnackedEnd::end_sends() {
  about(
      [&] { return name(); },
      [&] { sends_.finished([this](const Op& op) { return legal(op); }, [this](Op& op, Ending) { send_ended(op); }); });
}

void UnackedEnd::bring_down() {
  host_.drain();
  if (qp_ != nullptr && up_) {
    to_error();
    host_.drain();
    if (fatal_due_) incorrect("{}: no QP_FATAL", name());
    if (last_receive_due_ && can_start()) incorrect("{}: in ERR, but no LAST_WQE_REACHED", name());
    end_sends();
    about([&] { return name(); }, [&] { inbox_.drained(); });
    drop_everything();
  }
  up_ = false;
}

void UnackedEnd::send_ended(const Op& op) {
  if (op.local.slot.length != 0) local_.give_back(op.local.slot);
}

void UnackedEnd::receive_ended(const Receive& receive) {
  if (srq_ != nullptr) return srq_->ended(receive);
  if (receive.local.slot.length != 0) receive_.give_back(receive.local.slot);
  if (plan_.repost_delay == Duration{} || stage_.faults_over) return;
  ++withheld_;
  stage_.world.after(plan_.repost_delay, [this, life = life_] {
    if (life != life_) return;
    withheld_ -= std::min(withheld_, 1u);
    work();
    stage_.world.kick(host_.node);
  });
}

}  // namespace uroce::simulator
