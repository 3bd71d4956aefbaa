// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/uc_end.h"

#include <algorithm>

#include "proto/timing.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using proto::Kind;
using proto::PacketView;
using proto::Reth;

UcEnd::UcEnd(Stage& stage, UnackedTraffic& traffic, Host& host, const UnackedEndPlan& plan, const UnackedPlan& shared,
             std::uint64_t seed)
    : UnackedEnd(stage, traffic, host, plan, shared, seed), target_(host.reserve(shared.message_max + 512)) {}

void UcEnd::build() {
  UnackedEnd::build();
  register_target();
}

void UcEnd::register_target() {
  target_mr_ = host_.register_memory(target_, nic::kLocalWrite | nic::kRemoteWrite);
  target_key_ = target_mr_->key;
  target_dead_ = false;
}

void UcEnd::renew() {
  UnackedEnd::renew();
  if (target_dead_) register_target();
}

void UcEnd::deregister_target() {
  if (target_dead_) return;
  target_dead_ = true;
  host_.nic.mrs().remove(target_mr_);
}

void UcEnd::start(proto::Psn sq_psn, proto::Psn peer_psn) {
  using namespace nic;
  begin_life();
  message_.reset();
  next_ = peer_psn;
  QpAttr attr;
  attr.access = kLocalWrite | kRemoteWrite;
  attr.path = path_to(peer_->host_, peer_->qpn());
  attr.path_mtu = shared_.mtu_code;
  attr.sq_psn = sq_psn;
  attr.rq_psn = peer_psn;
  attr.dest_qpn = peer_->qpn();
  attr.state = QpState::kInit;
  modify(attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccess, "the transition to INIT");
  post_receives();
  attr.state = QpState::kRtr;
  modify(attr, kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn, "the transition to RTR");
  attr.state = QpState::kRts;
  modify(attr, kAttrState | kAttrSqPsn, "the transition to RTS");
  SendModel::Facts facts;
  facts.node = host_.node;
  facts.peer_node = peer_->host_.node;
  facts.qpn = qpn();
  facts.connected = true;
  facts.peer_qpn = peer_->qpn();
  facts.path = attr.path;
  facts.mtu = proto::mtu_bytes(shared_.mtu_code);
  begin_sending(facts, sq_psn);
}

/// A WRITE goes anywhere into the peer's target; one with a flaw, beside it, or under a key that is none.
void UcEnd::aim(Op& op, Sending&, nic::SendWr& wr) {
  wr.rkey = peer_->target_key_;
  const Extent& there = peer_->target_;
  wr.remote_addr =
      peer_->host_.va(there.begin + static_cast<std::uint32_t>(random_.below(there.length - op.length + 1)));
  if (op.flaw != Flaw::kBadRkey) return;
  switch (random_.below(3)) {
    case 0:
      wr.rkey ^= static_cast<std::uint32_t>(1 + random_.below(255));
      break;
    case 1:
      wr.remote_addr = peer_->host_.va(there.end()) - op.length + 1;
      break;
    default:
      wr.rkey = peer_->host_.locked_mr->key;
      wr.remote_addr = peer_->host_.locked_mr->iova;
      break;
  }
}

void UcEnd::on_arrival(const PacketView& view, const proto::Path& path) {
  if (!listening() || view.op().service != proto::Service::kUc) return;
  if (path.source != peer_->host_.gid() || path.destination != host_.gid()) return;
  const bool in_sequence = view.psn() == next_;
  next_ = view.psn() + 1;
  const bool begins = view.op().starts();
  if (message_ && (begins || !in_sequence || view.op().kind != message_->kind)) break_off();
  if (begins) message_ = Message{view.op().kind};
  if (!message_) return;
  if (!take(view)) return break_off();
  if (view.op().ends()) message_.reset();
  note_mid_message();
}

/// The rest of the message is of no use. What it took of an SRQ tells so (9.9.3, class E); a receive of the QP's own is
/// the next message's.
void UcEnd::break_off() {
  message_.reset();
  count("UC: messages lost");
  if (!inbox_.held()) return;
  if (srq_ == nullptr) return count("UC: receive kept for the next message");
  nic::Completion broken;
  broken.status = nic::WcStatus::kRemInvReqErr;
  inbox_.complete(broken);
}

bool UcEnd::has_right_length(const PacketView& view) const {
  const std::uint32_t mtu = proto::mtu_bytes(shared_.mtu_code);
  const auto size = static_cast<std::uint32_t>(view.payload().size());
  const bool ends = view.op().ends();
  if (ends ? size > mtu || (size == 0 && !view.op().starts()) : size != mtu) return false;
  if (view.op().kind != Kind::kWrite) return true;
  return ends ? message_->left == size : message_->left > size;
}

bool UcEnd::take(const PacketView& view) {
  if (view.op().starts() && view.has<Reth>()) {
    const auto reth = view.header<Reth>();
    message_->va = reth.get<Reth::Va>();
    message_->rkey = reth.get<Reth::RKey>();
    message_->left = reth.get<Reth::DmaLength>();
  }
  if (!has_right_length(view)) return false;
  return view.op().kind == Kind::kSend ? take_send(view) : take_write(view);
}

bool UcEnd::take_send(const PacketView& view) {
  if (!inbox_.available()) {
    count("UC: no receive");
    return false;
  }
  const auto size = static_cast<std::uint32_t>(view.payload().size());
  if (message_->offset + size > inbox_.next().local.length()) {
    count("UC: message longer than its receive");
    return false;
  }
  inbox_.hold();
  if (receive_dead() && size != 0) {
    fail_receive();
    message_.reset();
    return true;
  }
  inbox_.write(message_->offset, view.payload());
  message_->offset += size;
  if (view.op().ends()) inbox_.complete(success(view));
  return true;
}

bool UcEnd::take_write(const PacketView& view) {
  const bool takes_receive = view.op().consumes_receive;
  if (takes_receive && !inbox_.available()) {
    count("UC: no receive");
    return false;
  }
  const std::uint64_t begin = message_->va - host_.va(target_.begin);
  const bool inside = begin <= target_.length && message_->left <= target_.length - begin;
  if (message_->left != 0 && (message_->rkey != target_key_ || target_dead_ || !inside)) {
    count("UC: WRITE without right");
    return false;
  }
  const auto size = static_cast<std::uint32_t>(view.payload().size());
  if (size != 0) host_.foresee({target_.begin + static_cast<std::uint32_t>(begin), size}, view.payload());
  message_->va += size;
  message_->left -= size;
  message_->offset += size;
  if (!takes_receive) return true;
  inbox_.hold();
  inbox_.complete(success(view));
  return true;
}

nic::Completion UcEnd::success(const PacketView& view) {
  if (srq_ != nullptr) count("SRQ: taken by UC");
  nic::Completion c;
  c.opcode = view.op().kind == Kind::kWrite ? nic::WcOpcode::kRecvWithImm : nic::WcOpcode::kRecv;
  c.byte_len = message_->offset;
  c.src_qp = peer_->qpn();
  c.solicited = view.bth().get<proto::Bth::SolicitedEvent>() != 0;
  if (view.has<proto::ImmDt>()) {
    c.imm = view.header<proto::ImmDt>().get<proto::ImmDt::Data>();
    c.flags = nic::kWcWithImm;
  }
  return c;
}

}  // namespace uroce::simulator
