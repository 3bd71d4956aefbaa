// SPDX-License-Identifier: Apache-2.0
// What a requester has sent, by the number of each packet counted from its first one. For a long connection only the
// newest part is kept: nobody comes back to what lies far behind.
#pragma once

#include <deque>
#include <optional>

#include "proto/base/check.h"
#include "proto/opcodes.h"

namespace uroce::simulator {

/// What a requester has sent under one PSN.
struct SentPsn {
  proto::Opcode opcode{};
  std::uint32_t content = 0;                   ///< CRC of the packet but for AckReq; not for READs.
  std::uint32_t msn_after = 0;                 ///< Messages complete when this packet has been executed.
  std::optional<std::uint32_t> takes_receive;  ///< Which receive, counted from 0.
  // READ: each PSN is one response packet.
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t bytes = 0;  ///< In the response.
  bool ends = false;        ///< Last PSN of its request.
};

class PsnHistory {
 public:
  std::uint32_t size() const { return dropped_ + static_cast<std::uint32_t>(kept_.size()); }
  bool empty() const { return size() == 0; }
  /// False: not sent, or forgotten.
  bool has(std::uint32_t at) const { return at >= dropped_ && at < size(); }
  const SentPsn& operator[](std::uint32_t at) const {
    UROCE_ASSERT(has(at));
    return kept_[at - dropped_];
  }
  void push_back(const SentPsn& sent) {
    kept_.push_back(sent);
    if (kept_.size() <= kKept) return;
    kept_.pop_front();
    ++dropped_;
  }

 private:
  static constexpr std::size_t kKept = 1u << 17;

  std::deque<SentPsn> kept_;
  std::uint32_t dropped_ = 0;
};

}  // namespace uroce::simulator
