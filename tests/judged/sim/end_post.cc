// SPDX-License-Identifier: Apache-2.0
// Drawing work requests and posting them.
#include <algorithm>

#include "proto/timing.h"
#include "tests/judged/sim/connection.h"
#include "tests/judged/sim/end.h"
#include "tests/judged/sim/pieces.h"
#include "tests/judged/sim/srq_model.h"
#include "tests/judged/sim/violation.h"
#include "tests/judged/sim/wire_lint.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::simulator {

using nic::SendOp;

void End::work() {
  if (!alive() || qp_ == nullptr) return;
  post_receives();
  if (plan_.think == Duration{} || ops_left_ == 0) return post_sends();
  if (thinking_) return;
  thinking_ = true;
  stage_.world.after(plan_.think, [this] {
    thinking_ = false;
    if (!alive() || qp_ == nullptr) return;
    post_sends();
    stage_.world.kick(host_.node);
  });
}

void End::post_receives() {
  if (srq_ != nullptr) return;
  const std::uint32_t wanted = stage_.faults_over
                                   ? plan_.receive_depth
                                   : plan_.receive_depth - std::min(plan_.receive_depth, receives_withheld_);
  while (receives_.pending().size() < wanted && post_receive()) {
  }
}

bool End::post_receive() {
  Receive receive;
  std::uint32_t length = shared_.message_max + static_cast<std::uint32_t>(random_.below(16));
  if (random_.chance(plan_.short_receive)) length = static_cast<std::uint32_t>(random_.below(shared_.message_max));
  if (!take_pieces(random_, cut(), receive_, length, 1, receive.local)) return false;
  receive.id = kFirstReceiveId + stage_.next_id++;
  std::array<nic::Sge, kSgesMax> sges;
  const nic::RecvWr wr{receive.id, sges_of(receive.local, host_.va(0), receive_key_, sges)};
  receive.local.for_each([&](Extent e, std::uint32_t) {
    if (!receive_dead_) host_.memory().open(e);
  });
  if (const nic::Errno error = host_.nic.post_recv(qp_, wr)) {
    incorrect("{}: posting receive WR {} fails with errno {}", name(), receive.id, error);
  }
  stage_.lint.receive_posted(host_.node, qpn_);
  capacities_.push_back(length);
  receives_.posted(receive);
  return true;
}

void End::post_sends() {
  const std::size_t limit = std::min(plan_.depth, plan_.max_send_wr);
  while (ops_left_ > 0 && sends_.pending().size() < limit) {
    if (unsignaled_ + 1 < limit) tend_window();
    if (sends_.pending().size() == limit) return;
    Op op;
    if (!draw_op(op)) {
      const auto& pending = sends_.pending();
      const bool will_wake = std::any_of(pending.begin(), pending.end(), [](const Op& o) { return o.signaled; });
      if (!will_wake) post_marker();
      return;
    }
  }
}

/// Draws one operation and posts it; false when there is no memory for it now.
bool End::draw_op(Op& op) {
  std::uint64_t total = 0;
  for (const std::uint32_t weight : plan_.mix) total += weight;
  std::uint64_t ticket = random_.below(total);
  std::size_t work = 0;
  while (ticket >= plan_.mix[work]) ticket -= plan_.mix[work++];
  constexpr SendOp kKinds[] = {SendOp::kSend,        SendOp::kSendImm, SendOp::kWrite,       SendOp::kWriteImm,
                               SendOp::kRead,        SendOp::kRead,    SendOp::kCompareSwap, SendOp::kFetchAdd,
                               SendOp::kAtomicWrite, SendOp::kFlush};
  op.kind = in_bulk() ? SendOp::kWrite : kKinds[work];
  op.id = stage_.next_id++;
  op.seed = random_.next();
  op.imm = static_cast<std::uint32_t>(random_.next());
  op.posted = stage_.world.now();
  draw_size(op);
  if (!in_bulk() && static_cast<Work>(work) == Work::kReadBack && last_write_.valid) {
    op.source = last_write_.slot;
    op.source_seed = last_write_.seed;
    op.length = op.source.length;
  }
  draw_flaw(op);
  op.is_inline =
      (op.is_send() || op.is_write()) && op.flaw != Flaw::kBadLkey && op.length <= 256 && random_.chance(plan_.inlined);
  if (!draw_memory(op)) return false;
  draw_invalidation(op);
  const Window& window = peer_->window_;
  const bool within =
      op.remote.length != 0 && op.remote.begin >= window.covers.begin && op.remote.end() <= window.covers.end();
  op.windowed = op.flaw == Flaw::kNone && !op.is_atomic() && within && window.usable() && peer_->window_grants(op) &&
                random_.chance(plan_.windowed);

  const bool must_signal = unsignaled_ + 1 >= std::min(plan_.depth, plan_.max_send_wr) || ops_left_ == 1;
  const bool flag = must_signal || random_.chance(plan_.signaled);
  op.signaled = flag || plan_.sq_sig_all;
  unsignaled_ = op.signaled ? 0 : unsignaled_ + 1;
  std::uint32_t flags = flag ? nic::kSignaled : 0u;
  if (op.is_inline) flags |= nic::kInline;
  if (random_.chance(plan_.fence)) flags |= nic::kFence;
  if (random_.chance(plan_.solicited)) flags |= nic::kSolicited;
  if (!in_bulk()) --ops_left_;
  submit(op, flags);
  return true;
}

void End::draw_size(Op& op) {
  if (op.is_word()) {
    op.length = 8;
    return;
  }
  if (op.is_flush()) {
    op.length = static_cast<std::uint32_t>(1 + random_.below(peer_->exposed_.length));
    op.whole_region = random_.chance(0.3);
    return;
  }
  const std::uint32_t mtu = proto::mtu_bytes(shared_.mtu_code);
  if (plan_.bulk_psns != 0) {  // Exactly as many PSNs as it is to take; of the others, few.
    const std::uint64_t left = in_bulk() ? std::uint64_t{plan_.bulk_after + plan_.bulk_psns - psns_} * mtu : 3 * mtu;
    const std::uint64_t most = std::min<std::uint64_t>(left, shared_.message_max / mtu * mtu);
    op.length = static_cast<std::uint32_t>(in_bulk() ? most : random_.below(most));
    return;
  }
  const auto pick = [&]() -> std::uint64_t {
    switch (random_.below(10)) {
      case 0:
        return random_.below(5);
      case 1:
        return mtu - 1;
      case 2:
        return mtu;
      case 3:
        return mtu + 1;
      case 4:
        return mtu * (1 + random_.below(4)) + random_.below(3) - 1;
      case 5:
        return random_.below(shared_.message_max + 1);
      case 6:
        return shared_.message_max;
      default:
        return random_.below(std::min(shared_.message_max, 2 * mtu) + 1);
    }
  };
  op.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(pick(), shared_.message_max));
}

/// Makes the operation one that must fail, with the probability of the plan or because a region is gone.
void End::draw_flaw(Op& op) {
  const bool wants = random_.chance(plan_.flaw);
  const bool remote = !op.is_send();
  if (wants && op.source_seed == 0) {
    constexpr Flaw kRemote[] = {Flaw::kBadRkey, Flaw::kOutOfBounds, Flaw::kNoRight, Flaw::kBadLkey};
    op.flaw = remote ? kRemote[random_.below(op.is_flush() ? 3 : 4)] : Flaw::kBadLkey;
    op.whole_region = op.whole_region && op.flaw != Flaw::kOutOfBounds;
    op.length = std::max(op.length, 1u);
  }
  if (op.length == 0) return;
  if (remote && !op.is_atomic() && peer_->target_dead_ && op.flaw == Flaw::kNone) op.flaw = Flaw::kBadRkey;
  if (local_dead_ && op.flaw == Flaw::kNone && !op.is_flush()) op.flaw = Flaw::kBadLkey;
  if (peer_->plan_.window != 0 && !peer_->target_dead_ && random_.chance(plan_.window_flaw)) draw_window_flaw(op);
}

bool End::draw_memory(Op& op) {
  if (op.is_flush()) {
    const auto skew = static_cast<std::uint32_t>(random_.below(peer_->exposed_.length - op.length + 1));
    op.remote = {peer_->exposed_.begin + skew, op.length};
    return true;
  }
  const bool has_source = op.is_send() || op.is_write();
  if (!take_pieces(random_, cut(), local_, op.length, op.is_atomic() ? 8 : 1, op.local)) return false;
  if (op.is_atomic()) {
    op.local.pieces[0] = {op.local.slot.begin, 8};
    op.local.count = 1;
  }
  const auto give_up = [&] {
    if (op.local.slot.length != 0) local_.give_back(op.local.slot);
    return false;
  };
  if (op.length != 0 && !op.is_atomic() && !op.is_send() && !is_refused(op.flaw)) {
    if (op.is_write()) {
      Extent slot;
      const auto skew = static_cast<std::uint32_t>(op.is_word() ? 0 : random_.below(4));
      if (!peer_->target_.take(op.length, slot, op.is_word() ? 8 : 1, skew)) return give_up();
      op.remote = slot;
      hold(slot);
    } else if (op.source_seed != 0) {
      op.remote = op.source;
      hold(op.remote);
    } else {
      const auto skew = static_cast<std::uint32_t>(random_.below(peer_->source_.length - op.length + 1));
      op.remote = op.source = {peer_->source_.begin + skew, op.length};
    }
  }
  if (has_source) {
    scratch_.resize(op.length);
    fill_pattern(scratch_, op.seed);
    op.local.for_each(
        [&](Extent e, std::uint32_t offset) { host_.memory().store(e, Bytes(scratch_).subspan(offset, e.length)); });
  }
  return true;
}

/// A WRITE of nothing: its completion tells that everything before it is done.
void End::post_marker() {
  Op op;
  op.kind = SendOp::kWrite;
  op.id = stage_.next_id++;
  op.signaled = true;
  op.posted = stage_.world.now();
  unsignaled_ = 0;
  submit(op, nic::kSignaled);
}

void End::aim_wrong(const Op& op, nic::SendWr& wr) {
  switch (op.flaw) {
    case Flaw::kBadRkey:
      // A key that was never given out, unless the region it named is gone anyway.
      wr.remote_addr = peer_->host_.va(op.is_atomic() ? op.remote.begin : peer_->exposed_.begin);
      if (op.is_atomic() || !peer_->target_dead_) wr.rkey ^= static_cast<std::uint32_t>(1 + random_.below(255));
      break;
    case Flaw::kOutOfBounds:
      wr.rkey = op.kind == SendOp::kSendInv ? op.key : peer_->target_key_;
      wr.remote_addr =
          peer_->host_.va(op.is_word() ? (peer_->exposed_.end() + 7) / 8 * 8 : peer_->exposed_.end() - op.length + 1);
      if (random_.chance(0.3)) wr.remote_addr = peer_->host_.va(peer_->exposed_.begin) - 8;
      break;
    case Flaw::kNoRight:
      wr.rkey = peer_->host_.locked_mr->key;
      wr.remote_addr = peer_->host_.locked_mr->iova;
      break;
    default:
      break;
  }
}

void End::submit(Op op, std::uint32_t flags) {
  nic::SendWr wr;
  wr.wr_id = op.id;
  wr.op = op.kind;
  wr.flags = flags;
  wr.imm = op.imm;
  wr.rkey = op.kind == SendOp::kSendInv ? op.key : peer_->target_key_;
  wr.remote_addr = peer_->host_.va(op.remote.begin);
  if (op.is_atomic()) {
    op.word = random_.below(Host::kWords);
    op.remote = peer_->host_.word(op.word);
    op.atomic.id = op.id;
    op.atomic.group = incarnation_;
    op.atomic.is_swap = op.kind == SendOp::kCompareSwap;
    op.atomic.operand = random_.next();
    op.atomic.compare = random_.chance(0.8) ? peer_->host_.history(op.word).latest() : random_.next();
    op.atomic.posted = op.posted;
    wr.remote_addr = peer_->host_.va(op.remote.begin);
    wr.rkey = peer_->host_.words_mr->key;
    wr.compare_add = op.atomic.is_swap ? op.atomic.compare : op.atomic.operand;
    wr.swap = op.atomic.is_swap ? op.atomic.operand : 0;
  }
  if (op.is_flush()) {
    wr.flush = {op.length, proto::kGlobalVisibility, op.whole_region ? proto::kFlushRegion : proto::kFlushRange};
  }
  name_window(op, wr);
  aim_wrong(op, wr);
  std::array<nic::Sge, kSgesMax> sges;
  for (std::uint32_t i = 0; i < op.local.count; ++i) {
    const Extent& e = op.local.pieces[i];
    sges[i] = {host_.va(e.begin), e.length,
               op.flaw == Flaw::kBadLkey && !local_dead_ ? local_key_ ^ 0x5Au : local_key_};
    // Inline data is where the program has it, not where the NIC would look.
    if (op.is_inline) sges[i].addr = reinterpret_cast<std::uintptr_t>(host_.memory().data() + e.begin);
  }
  wr.sges = {sges.data(), op.local.count};
  flaw_posted_ = flaw_posted_ || op.flaw != Flaw::kNone;

  // The oracle knows of it before the NIC does.
  op.faults_before = faults_;
  const bool harmless = !is_refused(op.flaw);
  if (op.is_write() && harmless && op.length != 0) {
    peer_->host_.memory().open(op.remote);
    if (op.flaw == Flaw::kNone) last_write_ = {op.remote, op.seed, true};
  }
  if (op.is_read() || op.is_atomic()) {
    op.local.for_each([&](Extent e, std::uint32_t) {
      if (!local_dead_) host_.memory().open(e);
    });
  }
  if (op.consumes_receive()) {
    op.message = static_cast<std::uint32_t>(messages_.size());
    messages_.push_back(
        {op.id, op.seed, op.length, op.imm, op.has_imm(), op.is_write(), op.kind == SendOp::kSendInv, op.key});
  }
  const Pieces local = op.local;
  const bool was_inline = op.is_inline;
  const std::uint64_t id = op.id;
  const std::uint32_t mtu = proto::mtu_bytes(shared_.mtu_code);
  const std::uint32_t psns = op.is_atomic() || op.is_flush() ? 1 : std::max(1u, (op.length + mtu - 1) / mtu);
  psns_ += psns;
  stage_.lint.send_posted(host_.node, qpn_, psns, (flags & nic::kFence) != 0);
  sends_.posted(op);
  if (const nic::Errno error = host_.nic.post_send(qp_, wr)) {
    incorrect("{}: posting WR {} fails with errno {}", name(), id, error);
  }
  if (was_inline) {  // The buffer is the program's again.
    local.for_each([&](Extent e, std::uint32_t) {
      scratch_.resize(e.length);
      fill_pattern(scratch_, id);
      host_.memory().store(e, scratch_);
    });
  }
}

}  // namespace uroce::simulator
