// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/completion_check.h"

#include <algorithm>

#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using nic::SendOp;
using nic::WcOpcode;
using nic::WcStatus;

std::string_view to_string(SendOp op) {
  constexpr std::string_view kNames[] = {"WRITE", "WRITE_IMM", "SEND",    "SEND_IMM",    "READ", "CAS",
                                         "FAA",   "LOCAL_INV", "BIND_MW", "SEND_INV",    "?",    "?",
                                         "?",     "?",         "FLUSH",   "ATOMIC_WRITE"};
  return kNames[static_cast<std::size_t>(op)];
}

namespace {

WcOpcode opcode_of(SendOp op) {
  switch (op) {
    case SendOp::kWrite:
    case SendOp::kWriteImm:
      return WcOpcode::kWrite;
    case SendOp::kRead:
      return WcOpcode::kRead;
    case SendOp::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case SendOp::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case SendOp::kBindMw:
      return WcOpcode::kBindMw;
    case SendOp::kLocalInv:
      return WcOpcode::kLocalInv;
    case SendOp::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
    case SendOp::kFlush:
      return WcOpcode::kFlush;
    default:
      return WcOpcode::kSend;
  }
}

}  // namespace

void SendCheck::completed(const nic::Completion& c, const std::function<Statuses(const Op&)>& legal,
                          const Ended& ended) {
  const auto at = std::find_if(pending_.begin(), pending_.end(), [&](const Op& op) { return op.id == c.wr_id; });
  if (at == pending_.end()) {
    incorrect("completion {} for send WR {}, which is not outstanding", to_string(c.status), c.wr_id);
  }
  about([&] { return fmt::format("WR {} ({}, {} bytes)", at->id, to_string(at->kind), at->length); },
        [&] {
          if (broken_ && c.status != WcStatus::kWrFlushErr)
            incorrect("completed {} after an error", to_string(c.status));
          if (const Statuses set = legal(*at); !contains(set, c.status)) {
            incorrect("completed {}, which nothing that happened explains", to_string(c.status));
          }
          if (c.status == WcStatus::kSuccess) {
            if (!at->signaled) incorrect("completed although it is not signalled and was successful");
            if (c.opcode != opcode_of(at->kind)) incorrect("completed as opcode {}", static_cast<int>(c.opcode));
            const bool has_length = at->counts_as_read() || at->is_flush();
            if (has_length && c.byte_len != at->length) incorrect("byte_len is {}", c.byte_len);
          }
        });
  for (const std::uint64_t id = at->id; pending_.front().id != id;) {
    const Op& skipped = pending_.front();
    if (gaps_) {
      end_front(Ending::kFlushed, ended);
    } else if (skipped.signaled || broken_) {
      incorrect("WR {} completed {} before WR {} ({}), which is older", c.wr_id, to_string(c.status), skipped.id,
                to_string(skipped.kind));
    } else {
      // Successful and unsignalled: that something later has completed is all that there is to hear of it.
      if (!contains(legal(skipped), WcStatus::kSuccess)) incorrect("WR {} cannot have succeeded", skipped.id);
      end_front(Ending::kSuccess, ended);
    }
  }
  const bool first_error = !broken_ && c.status != WcStatus::kSuccess && c.status != WcStatus::kWrFlushErr;
  broken_ = broken_ || c.status != WcStatus::kSuccess;
  end_front(c.status == WcStatus::kSuccess ? Ending::kSuccess
            : first_error                  ? Ending::kFailed
                                           : Ending::kFlushed,
            ended);
}

void SendCheck::finished(const std::function<Statuses(const Op&)>& legal, const Ended& ended) {
  while (!pending_.empty() && !gaps_) {
    const Op& op = pending_.front();
    if (op.signaled || broken_) incorrect("WR {} ({}) has no completion in ERR", op.id, to_string(op.kind));
    if (!contains(legal(op), WcStatus::kSuccess)) incorrect("WR {} cannot have succeeded", op.id);
    end_front(Ending::kSuccess, ended);
  }
}

void SendCheck::dropped(const Ended& ended) {
  while (!pending_.empty()) end_front(Ending::kFlushed, ended);
}

void SendCheck::end_front(Ending ending, const Ended& ended) {
  Op op = pending_.front();
  pending_.pop_front();
  ended(op, ending);
}

void ReceiveCheck::completed(const nic::Completion& c, const std::deque<Message>& messages, Statuses legal,
                             const Ended& ended) {
  while (gaps_ && !pending_.empty() && pending_.front().id != c.wr_id) end_front(messages, Ending::kFlushed, ended);
  if (pending_.empty()) incorrect("completion for receive WR {}, which is not outstanding", c.wr_id);
  about([&] { return fmt::format("receive WR {}", c.wr_id); },
        [&] {
          if (pending_.front().id != c.wr_id)
            incorrect("completed before receive WR {}, which is older", pending_.front().id);
          if (broken_ && c.status != WcStatus::kWrFlushErr)
            incorrect("completed {} after an error", to_string(c.status));
          if (!contains(legal, c.status))
            incorrect("completed {}, which nothing that happened explains", to_string(c.status));
          if (c.status == WcStatus::kWrFlushErr) return;
          if (consumed_ >= messages.size())
            incorrect("completed {} although no message was sent for it", to_string(c.status));
          if (c.status != WcStatus::kSuccess) return;
          const Message& m = messages[consumed_];
          const std::uint32_t room = pending_.front().local.length();
          if (!m.is_write && m.length > room) incorrect("took a message of {} bytes into {}", m.length, room);
          if (c.byte_len != m.length) incorrect("byte_len is {}, the message has {}", c.byte_len, m.length);
          if (c.opcode != (m.is_write ? WcOpcode::kRecvWithImm : WcOpcode::kRecv)) {
            incorrect("completed as opcode {}", static_cast<int>(c.opcode));
          }
          if (((c.flags & nic::kWcWithInv) != 0) != m.invalidates) incorrect("flag WITH_INV is wrong");
          if (m.invalidates && c.invalidated_rkey != m.key)
            incorrect("the invalidated key is 0x{:x}, should be 0x{:x}", c.invalidated_rkey, m.key);
          if (((c.flags & nic::kWcWithImm) != 0) != m.has_imm) incorrect("flag WITH_IMM is wrong");
          if (m.has_imm && c.imm != m.imm) incorrect("immediate data is 0x{:x}, should be 0x{:x}", c.imm, m.imm);
        });
  const bool first_error = !broken_ && c.status != WcStatus::kSuccess && c.status != WcStatus::kWrFlushErr;
  broken_ = broken_ || c.status != WcStatus::kSuccess;
  end_front(messages,
            c.status == WcStatus::kSuccess ? Ending::kSuccess
            : first_error                  ? Ending::kFailed
                                           : Ending::kFlushed,
            ended);
}

void ReceiveCheck::finished() const {
  if (!pending_.empty() && !gaps_) incorrect("receive WR {} has no completion in ERR", pending_.front().id);
}

void ReceiveCheck::dropped(const std::deque<Message>& messages, const Ended& ended) {
  while (!pending_.empty()) end_front(messages, Ending::kFlushed, ended);
}

void ReceiveCheck::end_front(const std::deque<Message>& messages, Ending ending, const Ended& ended) {
  Receive receive = pending_.front();
  pending_.pop_front();
  const Message* message = consumed_ < messages.size() ? &messages[consumed_] : nullptr;
  ++consumed_;
  ended(receive, message, ending);
}

}  // namespace uroce::simulator
