// SPDX-License-Identifier: Apache-2.0
// What a queue owes: every posted WR completes at most once, in order, silently only when it succeeded and was not
// signalled; after the first failure everything is flushed.
#pragma once

#include <algorithm>
#include <deque>

#include "proto/base/check.h"
#include "verbs/nic/model/types.h"

namespace uroce::fuzz {

class WorkModel {
 public:
  void post(std::uint64_t id, bool signaled, std::uint64_t length) { posted_.push_back({id, signaled, length}); }
  void complete(std::uint64_t id, nic::WcStatus status, std::uint32_t byte_len) {
    const bool is_good = status == nic::WcStatus::kSuccess;
    for (;; posted_.pop_front()) {
      UROCE_ASSERT(!posted_.empty() && "a completion for nothing, or out of order");
      if (posted_.front().id == id) break;
      UROCE_ASSERT(!posted_.front().signaled && !failed_ && "a completion is missing");
    }
    UROCE_ASSERT((posted_.front().signaled || !is_good) && "nobody asked for this completion");
    UROCE_ASSERT((!is_good || byte_len <= posted_.front().length) && "more than there is room for");
    UROCE_ASSERT((!failed_ || status == nic::WcStatus::kWrFlushErr) && "only flushes after a failure");
    failed_ = failed_ || !is_good;
    posted_.pop_front();
  }
  /// Nothing is owed: what is left has succeeded in silence.
  bool settled() const {
    const auto is_silent = [](const Posted& p) { return !p.signaled; };
    return posted_.empty() || (!failed_ && std::all_of(posted_.begin(), posted_.end(), is_silent));
  }
  bool failed() const { return failed_; }
  std::size_t size() const { return posted_.size(); }
  void reset() { *this = {}; }

 private:
  struct Posted {
    std::uint64_t id;
    bool signaled;
    std::uint64_t length;
  };
  std::deque<Posted> posted_;
  bool failed_ = false;
};

}  // namespace uroce::fuzz
