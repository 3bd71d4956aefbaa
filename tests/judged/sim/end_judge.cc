// SPDX-License-Identifier: Apache-2.0
// Judging completions: which statuses what has happened allows, and what each ending means for memory.
#include <algorithm>

#include "tests/judged/sim/connection.h"
#include "tests/judged/sim/end.h"
#include "tests/judged/sim/srq_model.h"
#include "tests/judged/sim/violation.h"
#include "tests/judged/sim/wire_lint.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::simulator {

using nic::WcStatus;

bool End::too_long(const Op& op) const {
  return op.is_send() && op.message < peer_->capacities_.size() && op.length > peer_->capacities_[op.message];
}

/// The owner of the other QP, or an error, has silenced it.
bool End::peer_is_dead() const {
  return peer_->qp_ == nullptr || peer_->qp_->state() == nic::QpState::kErr ||
         peer_->qp_->state() == nic::QpState::kReset;
}

/// Something was injected that makes this QP's responder refuse a request.
bool End::responder_may_fail() const {
  if (target_changed_ || receive_dead_ || deceived_ || lacked_ != 0 || host_.flickers() || peer_->flaw_posted_ ||
      plan_.max_dest_rd_atomic < peer_->plan_.max_rd_atomic)
    return true;
  // A READ that is asked for again, or late, is executed again, and then the window may be gone. A peer that has
  // failed has nothing outstanding any more, but packets are still under way.
  if (window_taken_back_ && (faults_ > 0 || peer_is_dead())) return true;
  for (std::size_t i = 0; i < std::min(peer_->messages_.size(), capacities_.size()); ++i) {
    if (!peer_->messages_[i].is_write && peer_->messages_[i].length > capacities_[i]) return true;
  }
  return false;
}

void End::note_forgery() {
  note_fault();
  stray_nak_until_ = stage_.world.now() + stage_.scenario.network.latency_max();
}

Statuses End::legal(const Op& op) const {
  Statuses set = only(WcStatus::kWrFlushErr);  // Explained when the connection comes down.
  const bool must_fail = op.flaw != Flaw::kNone || too_long(op) || peer_->refuses(op) ||
                         (op.consumes_receive() && op.message >= peer_->capacities_.size());
  if (!must_fail) set |= only(WcStatus::kSuccess);
  if (op.is_local()) return set | (op.flaw != Flaw::kNone ? only(WcStatus::kMwBindErr) : 0);
  if (is_refused(op.flaw)) set |= only(WcStatus::kRemAccessErr);
  if (peer_->target_changed_ && (op.is_write() || op.is_read() || op.is_flush()) && op.length != 0) {
    set |= only(WcStatus::kRemAccessErr) | only(WcStatus::kRemOpErr);
  }
  // A READ that is asked for again after its target has gone meets silence: its answer may have been lost.
  const bool may_come_late = op.is_read() && op.length != 0 && op.posted <= peer_->target_changed_at_;
  if (may_come_late && peer_->target_changed_ && faults_ > op.faults_before) set |= only(WcStatus::kRetryExcErr);
  if (op.flaw == Flaw::kBadLkey || (local_dead_ && op.length != 0 && !op.is_inline)) set |= only(WcStatus::kLocProtErr);
  if (too_long(op)) set |= only(WcStatus::kRemInvReqErr);
  if (op.counts_as_read() && plan_.max_rd_atomic > peer_->plan_.max_dest_rd_atomic) {
    set |= only(WcStatus::kRemInvReqErr);
  }
  if (op.is_flush() && peer_->plan_.max_dest_rd_atomic == 0) set |= only(WcStatus::kRemInvReqErr);
  if (op.windowed && op.is_read() && peer_->window_taken_back_ && faults_ > 0) {
    set |= only(WcStatus::kRemAccessErr) | only(WcStatus::kRetryExcErr);
  }
  if (peer_->may_refuse(op)) set |= only(WcStatus::kRemInvReqErr);
  if (op.is_atomic() && peer_->host_.flickers()) set |= only(WcStatus::kRemOpErr);
  if (peer_->deceived_) set |= only(WcStatus::kRemAccessErr) | only(WcStatus::kRemInvReqErr);
  if (peer_->receive_dead_ && op.is_send()) set |= only(WcStatus::kRemOpErr);
  if (plan_.timeout != 0 && peer_is_dead()) set |= only(WcStatus::kRetryExcErr);
  // A responder that keeps too few answers for what we may have outstanding is silent to some duplicates.
  if (faults_ > 0 && plan_.max_rd_atomic > peer_->plan_.max_dest_rd_atomic) set |= only(WcStatus::kRetryExcErr);
  // Each retry is for a packet that was lost since the WR was posted that fails; or for a NAK that was under way.
  // A lost packet can cost two: a NAK that a later packet has drawn may cross the one that the ACK timer sends again.
  const std::uint32_t stray_naks = op.posted <= stray_nak_until_ ? 1 : 0;
  const std::uint32_t crossing_naks = faults_ > op.faults_before ? 1 : 0;
  if (faults_ - op.faults_before + stray_naks + crossing_naks > plan_.retry_cnt) set |= only(WcStatus::kRetryExcErr);
  // The double of an RNR NAK that arrives after its time has passed is as good as a new one.
  if (op.consumes_receive() && plan_.rnr_retry < 7 &&
      stage_.lint.rnr_naks(peer_->host_.node, peer_->qpn_) + doubled_rnr_naks_ > plan_.rnr_retry) {
    set |= only(WcStatus::kRnrRetryExcErr);
  }
  return set;
}

Statuses End::legal_receive() const {
  Statuses set = only(WcStatus::kWrFlushErr);
  const std::size_t n = receives_.consumed();
  if (deceived_) set |= only(WcStatus::kRemInvReqErr);  // In the midst of a message.
  if (n >= peer_->messages_.size()) return set;
  const Message& message = peer_->messages_[n];
  const bool fits = message.is_write || (n < capacities_.size() && message.length <= capacities_[n]);
  set |= only(fits ? WcStatus::kSuccess : WcStatus::kLocLenErr);
  if (receive_dead_ && !message.is_write) set |= only(WcStatus::kLocProtErr);
  return set;
}

void End::on_completion(const nic::Completion& c) {
  const bool is_receive = c.wr_id >= kFirstReceiveId;
  stage_.tally.add(fmt::format("{}: {}", is_receive ? "receive" : "send", to_string(c.status)));
  about([&] { return name(); },
        [&] {
          if (is_receive) {
            receives_.completed(c, peer_->messages_, legal_receive(),
                                [this](Receive& r, const Message* m, Ending e) { receive_ended(r, m, e); });
          } else {
            sends_.completed(
                c, [this](const Op& op) { return legal(op); },
                [this](Op& op, Ending ending) { send_ended(op, ending); });
          }
        });
  if ((c.flags & nic::kWcWithInv) != 0) window_invalidated();
  if (c.status != WcStatus::kSuccess) note_error(c.status);
}

void End::note_error(WcStatus status) {
  if (status != WcStatus::kWrFlushErr) {
    failure_seen_ = true;
  } else if (!owner_ended_) {
    flush_unexplained_ = true;
  }
  broken_ = true;
  if (up_) stage_.lint.errored(host_.node, qpn_);
  connection_.notice();
}

void End::on_cq_overflow(const nic::Cq* cq) {
  if (qp_ == nullptr) return;
  const bool sends = qp_->init().send_cq == cq, receives = qp_->init().recv_cq == cq;
  if (!sends && !receives) return;
  if (sends) sends_.expect_gaps();
  if (receives) receives_.expect_gaps();
  owner_ended_ = true;
  broken_ = true;
  connection_.give_up();
  connection_.notice();
}

/// The bytes that an operation carries.
Bytes End::payload(const Op& op) {
  scratch_.resize(op.length);
  fill_pattern(scratch_, op.is_read() ? op.source_seed : op.seed);
  if (op.is_read() && op.source_seed == 0 && op.source.length == op.length) {
    const Bytes source = peer_->host_.memory().model(op.source);
    std::copy(source.begin(), source.end(), scratch_.begin());
  }
  return scratch_;
}

void End::send_ended(Op& op, Ending ending) {
  if (op.is_local()) return local_ended(op, ending);
  if ((op.is_atomic_write() || op.is_flush()) && ending != Ending::kFlushed) {
    stage_.tally.add(fmt::format("{}: {}", to_string(op.kind), ending == Ending::kSuccess ? "done" : "refused"));
  }
  Memory& memory = host_.memory();
  about([&] { return fmt::format("WR {} ({}, {} bytes)", op.id, to_string(op.kind), op.length); },
        [&] {
          if (op.is_write()) {
            write_ended(op, ending);
          } else if (op.is_read()) {
            const Bytes data = payload(op);
            op.local.for_each([&](Extent e, std::uint32_t offset) {
              const Bytes part = data.subspan(offset, std::min<std::size_t>(e.length, data.size() - offset));
              if (ending == Ending::kSuccess) {
                memory.settle(e, part, "the bytes of a READ");
              } else if (op.flaw == Flaw::kNone && memory.is_open(e)) {
                memory.settle_partly(e, part, "the bytes of a READ that failed");
              } else if (memory.is_open(e) && op.length > kReadPiece) {
                memory.settle_unknown(e);  // Asked for in pieces: those before the wrong one are there.
              } else if (memory.is_open(e)) {
                memory.settle(e, memory.model(e), "the buffer of a READ that must fail");
              }
            });
            if (op.source_seed != 0 && op.remote.length != 0) release(op.remote);
          } else if (op.is_atomic()) {
            const Extent e = op.local.pieces[0];
            std::memcpy(&op.atomic.original, memory.actual(e).data(), 8);
            memory.settle_unknown(e);
            op.atomic.completed = stage_.world.now();
            AtomicWord& word = peer_->host_.history(op.word);
            if (ending == Ending::kSuccess) {
              word.succeeded(op.atomic);
            } else if (op.flaw == Flaw::kNone || op.flaw == Flaw::kBadLkey) {
              word.unknown(op.atomic);
            }
          }
        });
  if (op.local.slot.length != 0) local_.give_back(op.local.slot);
}

void End::write_ended(Op& op, Ending ending) {
  if (op.remote.length == 0) return;
  if (ending == Ending::kSuccess) {
    if (!op.committed) peer_->host_.memory().settle(op.remote, payload(op), "the bytes of a WRITE");
    op.committed = true;
  }
  if (op.committed) return release(op.remote);
  limbo_.push_back({op.remote, op.seed, op.is_atomic_write()});
}

void End::receive_ended(Receive& receive, const Message* message, Ending ending, bool given_back) {
  Memory& memory = host_.memory();
  const std::uint32_t room = receive.local.length();
  // What the buffer held, and over it the message.
  std::vector<std::uint8_t> expected(room);
  receive.local.for_each([&](Extent e, std::uint32_t offset) {
    const Bytes old = memory.model(e);
    std::copy(old.begin(), old.end(), expected.begin() + offset);
  });
  if (message != nullptr && !message->is_write) {
    scratch_.resize(message->length);
    fill_pattern(scratch_, message->seed);
    std::copy_n(scratch_.begin(), std::min<std::size_t>(room, message->length), expected.begin());
  }
  about([&] { return fmt::format("receive WR {}", receive.id); },
        [&] {
          receive.local.for_each([&](Extent e, std::uint32_t offset) {
            const Bytes part = Bytes(expected).subspan(offset, e.length);
            if (ending == Ending::kSuccess) {
              memory.settle(e, part, "the bytes of a SEND");
            } else if (memory.is_open(e)) {
              memory.settle_partly(e, part, "the bytes of a SEND that failed");
            }
          });
        });
  if (srq_ != nullptr && given_back) {
    srq_->given_back(receive);
  } else if (srq_ != nullptr) {
    srq_->ended(receive);
  } else if (receive.local.slot.length != 0) {
    receive_.give_back(receive.local.slot);
  }
  if (ending != Ending::kSuccess || message == nullptr) return;
  peer_->commit_until(message->op_id);
  if (srq_ != nullptr || plan_.repost_delay == Duration{} || stage_.faults_over) return;
  ++receives_withheld_;
  stage_.world.after(plan_.repost_delay, [this] {
    receives_withheld_ -= std::min(receives_withheld_, 1u);
    work();
    stage_.world.kick(host_.node);
  });
}

/// The peer has the message of this WR: every WRITE before it is in its memory.
void End::commit_until(std::uint64_t op_id) {
  for (Op& op : sends_.pending()) {
    if (op.id > op_id) return;
    if (!op.is_write() || op.committed || op.remote.length == 0) continue;
    about([&] { return fmt::format("{}: WR {} ({}, {} bytes)", name(), op.id, to_string(op.kind), op.length); },
          [&] { peer_->host_.memory().settle(op.remote, payload(op), "a WRITE before a message that has arrived"); });
    op.committed = true;
  }
}

void End::hold(Extent slot) {
  const auto at = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.slot.begin == slot.begin; });
  if (at == held_.end()) {
    held_.push_back({slot, 1});
  } else {
    ++at->users;
  }
}

void End::release(Extent slot) {
  const auto at = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.slot.begin == slot.begin; });
  UROCE_ASSERT(at != held_.end());
  if (--at->users > 0) return;
  peer_->target_.give_back(at->slot);
  if (last_write_.slot.begin == slot.begin) last_write_.valid = false;
  held_.erase(at);
}

}  // namespace uroce::simulator
