// SPDX-License-Identifier: Apache-2.0
// Drawing work requests of UC and UD QPs, and posting them.
#include <algorithm>

#include "proto/timing.h"
#include "tests/judged/sim/unacked_end.h"
#include "tests/judged/sim/violation.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::simulator {

using nic::SendOp;

void UnackedEnd::work() {
  if (!up_ || dead_ || qp_ == nullptr) return;
  post_receives();
  if (plan_.think == Duration{} || ops_left_ == 0) return post_sends();
  if (thinking_) return;
  thinking_ = true;
  stage_.world.after(plan_.think, [this] {
    thinking_ = false;
    if (!up_ || dead_ || qp_ == nullptr) return;
    post_sends();
    stage_.world.kick(host_.node);
  });
}

void UnackedEnd::post_receives() {
  if (srq_ != nullptr) return;
  const std::uint32_t wanted =
      stage_.faults_over ? plan_.receive_depth : plan_.receive_depth - std::min(plan_.receive_depth, withheld_);
  while (inbox_.outstanding() < wanted && post_receive()) {
  }
}

bool UnackedEnd::post_receive() {
  Receive receive;
  const std::uint32_t most = shared_.message_max + (shared_.connected ? 0 : 40);
  std::uint32_t length = most + static_cast<std::uint32_t>(random_.below(16));
  if (random_.chance(plan_.short_receive)) length = static_cast<std::uint32_t>(random_.below(most));
  if (!take_pieces(random_, cut(), receive_, length, 1, receive.local)) return false;
  receive.id = kFirstReceiveId + stage_.next_id++;
  std::array<nic::Sge, kSgesMax> sges;
  const nic::RecvWr wr{receive.id, sges_of(receive.local, host_.va(0), receive_key_, sges)};
  if (const nic::Errno error = host_.nic.post_recv(qp_, wr)) {
    incorrect("{}: posting receive WR {} fails with errno {}", name(), receive.id, error);
  }
  inbox_.posted(receive);
  return true;
}

void UnackedEnd::post_sends() {
  const std::size_t limit = std::min(plan_.depth, plan_.max_send_wr);
  while (ops_left_ > 0 && sends_.pending().size() < limit) {
    if (in_sqe_ && !random_.chance(plan_.post_in_error)) return;
    if (draw_op(false)) continue;
    const auto& pending = sends_.pending();
    const bool will_wake = std::any_of(pending.begin(), pending.end(), [](const Op& o) { return o.signaled; });
    if (!will_wake) draw_op(true);
    return;
  }
}

std::uint32_t UnackedEnd::draw_length() {
  const std::uint32_t mtu = proto::mtu_bytes(shared_.mtu_code), most = shared_.message_max;
  std::uint64_t length = random_.below(std::min(most, 2 * mtu) + 1);
  switch (random_.below(8)) {
    case 0:
      length = random_.below(5);
      break;
    case 1:
      length = mtu - 1 + random_.below(3);
      break;
    case 2:
      length = mtu * (1 + random_.below(4)) + random_.below(3) - 1;
      break;
    case 3:
      length = random_.below(most + 1);
      break;
    case 4:
      length = most;
      break;
    default:
      break;
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, most));
}

/// Draws one operation and posts it; false when there is no memory for it now. A marker has no bytes: its completion
/// tells that everything before it is done.
bool UnackedEnd::draw_op(bool marker) {
  std::uint64_t total = 0;
  for (const std::uint32_t weight : plan_.mix) total += weight;
  std::uint64_t ticket = random_.below(total);
  std::size_t work = 0;
  while (ticket >= plan_.mix[work]) ticket -= plan_.mix[work++];
  constexpr SendOp kKinds[] = {SendOp::kSend, SendOp::kSendImm, SendOp::kWrite, SendOp::kWriteImm};
  Op op;
  op.kind = kKinds[work];
  op.id = stage_.next_id++;
  op.seed = random_.next();
  op.imm = static_cast<std::uint32_t>(random_.next());
  op.length = marker ? 0 : draw_length();
  if (!marker && random_.chance(plan_.flaw)) op.flaw = random_.chance(0.5) ? Flaw::kBadLkey : Flaw::kBadRkey;
  if (op.flaw == Flaw::kBadLkey) op.length = std::max(op.length, 1u);
  op.is_inline = op.flaw != Flaw::kBadLkey && op.length <= 256 && random_.chance(plan_.inlined);
  if (!marker && !take_pieces(random_, cut(), local_, op.length, 1, op.local)) return false;
  scratch_.resize(op.length);
  fill_pattern(scratch_, op.seed);
  op.local.for_each(
      [&](Extent e, std::uint32_t offset) { host_.memory().store(e, Bytes(scratch_).subspan(offset, e.length)); });
  const bool must_signal = marker || unsignaled_ + 1 >= std::min(plan_.depth, plan_.max_send_wr) || ops_left_ == 1;
  if (!marker) --ops_left_;
  submit(op, must_signal || random_.chance(plan_.signaled));
  return true;
}

void UnackedEnd::submit(Op op, bool signal) {
  op.signaled = signal || plan_.sq_sig_all;
  unsignaled_ = op.signaled ? 0 : unsignaled_ + 1;
  nic::SendWr wr;
  wr.wr_id = op.id;
  wr.op = op.kind;
  wr.imm = op.imm;
  Sending sending;
  aim(op, sending, wr);
  wr.flags = (signal ? nic::kSignaled : 0u) | (op.is_inline ? nic::kInline : 0u) |
             (random_.chance(plan_.solicited) ? nic::kSolicited : 0u);
  if (sending.target.qpn != 0) wr.target = &sending.target;
  sending.id = op.id;
  sending.kind = op.kind;
  sending.seed = op.seed;
  sending.length = op.length;
  sending.imm = op.imm;
  sending.has_imm = op.has_imm();
  sending.is_write = op.is_write();
  sending.solicited = (wr.flags & nic::kSolicited) != 0;
  sending.must_fail = op.flaw == Flaw::kBadLkey || too_long(op);
  sending.va = wr.remote_addr;
  sending.rkey = wr.rkey;

  std::array<nic::Sge, kSgesMax> sges;
  const std::uint32_t key = local_key_ ^ (op.flaw == Flaw::kBadLkey ? 0x5Au : 0u);
  // Inline data is where the program has it, not where the NIC would look.
  const std::uint64_t base = op.is_inline ? reinterpret_cast<std::uintptr_t>(host_.memory().data()) : host_.va(0);
  wr.sges = sges_of(op.local, base, key, sges);
  const Pieces local = op.local;
  const bool was_inline = op.is_inline;
  const std::uint64_t id = op.id;
  wire_.posted(sending);
  sends_.posted(op);
  if (const nic::Errno error = host_.nic.post_send(qp_, wr)) {
    incorrect("{}: posting WR {} fails with errno {}", name(), id, error);
  }
  if (!was_inline) return;
  local.for_each([&](Extent e, std::uint32_t) {  // The buffer is the program's again.
    scratch_.resize(e.length);
    fill_pattern(scratch_, id);
    host_.memory().store(e, scratch_);
  });
}

}  // namespace uroce::simulator
