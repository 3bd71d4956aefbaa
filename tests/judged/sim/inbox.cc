// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/inbox.h"

#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using nic::Completion;
using nic::WcStatus;

void Inbox::hold() {
  if (held_) return;
  if (srq_ != nullptr) {
    held_ = srq_->take();
  } else {
    held_ = own_.front();
    own_.pop_front();
  }
}

void Inbox::write(std::uint32_t offset, Bytes bytes) {
  held_->local.for_each([&](Extent e, std::uint32_t at) {
    const std::uint32_t from = std::max(at, offset);
    const std::uint32_t to = std::min(at + e.length, offset + static_cast<std::uint32_t>(bytes.size()));
    if (from < to) host_.foresee({e.begin + from - at, to - from}, bytes.subspan(from - offset, to - from));
  });
}

void Inbox::complete(Completion completion) {
  completion.wr_id = held_->id;
  expected_.push_back({*held_, completion});
  held_.reset();
}

void Inbox::flush() {
  Completion flushed;
  flushed.status = WcStatus::kWrFlushErr;
  if (held_) complete(flushed);
  while (!own_.empty()) {
    hold();
    complete(flushed);
  }
}

void Inbox::clear() {
  for (const Expected& e : expected_) ended_(e.receive);
  if (held_ && srq_ != nullptr) {
    srq_->given_back(*held_);  // The next message has it, whosever it is.
  } else if (held_) {
    ended_(*held_);
  }
  for (const Receive& receive : own_) ended_(receive);
  expected_.clear();
  held_.reset();
  own_.clear();
}

void Inbox::completed(const Completion& c) {
  while (gaps_ && !expected_.empty() && expected_.front().completion.wr_id != c.wr_id) {
    ended_(expected_.front().receive);
    expected_.pop_front();
  }
  about([&] { return fmt::format("receive WR {} completes {}", c.wr_id, to_string(c.status)); },
        [&] {
          if (expected_.empty()) incorrect("none is due");
          const Completion& due = expected_.front().completion;
          if (c.wr_id != due.wr_id) incorrect("receive WR {} is due", due.wr_id);
          if (c.status != due.status) incorrect("{} is due", to_string(due.status));
          if (c.status != WcStatus::kSuccess) return;
          if (c.opcode != due.opcode)
            incorrect("opcode {}, should be {}", static_cast<int>(c.opcode), static_cast<int>(due.opcode));
          if (c.byte_len != due.byte_len) incorrect("byte_len is {}, should be {}", c.byte_len, due.byte_len);
          if (c.sl != due.sl) incorrect("sl is 0x{:x}, should be 0x{:x}", unsigned{c.sl}, unsigned{due.sl});
          if (c.flags != due.flags) incorrect("wc_flags are 0x{:x}, should be 0x{:x}", c.flags, due.flags);
          if (c.src_qp != due.src_qp) incorrect("src_qp is 0x{:x}, should be 0x{:x}", c.src_qp, due.src_qp);
          if ((due.flags & nic::kWcWithImm) != 0 && c.imm != due.imm) {
            incorrect("immediate data is 0x{:x}, should be 0x{:x}", c.imm, due.imm);
          }
          if (c.solicited != due.solicited) incorrect("solicited or not is wrong");
        });
  const Receive receive = expected_.front().receive;
  expected_.pop_front();
  ended_(receive);
}

void Inbox::drained() const {
  if (gaps_ || expected_.empty()) return;
  const Completion& due = expected_.front().completion;
  incorrect("receive WR {} has no completion, {} is due", due.wr_id, to_string(due.status));
}

}  // namespace uroce::simulator
