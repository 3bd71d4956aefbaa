// SPDX-License-Identifier: Apache-2.0
// What becomes of the NIC's CQs besides completions: overflow, which is for good, and notifications that are held back.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "verbs/nic/resources/cq.h"

namespace uroce::nic {

class CqHealth {
 public:
  /// `cq` has lost a completion; take_overflowed() will name it, once in its life.
  void overflow(Cq& cq) {
    if (std::find(overflowed_.begin(), overflowed_.end(), &cq) == overflowed_.end()) overflowed_.push_back(&cq);
  }
  /// A CQ that overflowed and that nobody has been told of yet; null when there is none.
  Cq* take_overflowed() {
    while (!overflowed_.empty()) {
      Cq* const cq = overflowed_.front();
      overflowed_.erase(overflowed_.begin());
      if (std::find(dead_.begin(), dead_.end(), cq) != dead_.end()) continue;
      dead_.push_back(cq);
      return cq;
    }
    return nullptr;
  }

  /// See Cq::moderate(). For good: a notification that is held back when moderation ends still has its time.
  void moderate(Cq& cq, std::uint32_t count, Duration period) {
    cq.moderate(count, period);
    if (std::find(moderated_.begin(), moderated_.end(), &cq) == moderated_.end()) moderated_.push_back(&cq);
  }
  /// Calls fn(cq) for each CQ whose held notification is due.
  template <class Fn>
  void on_timeout(Instant now, Fn fn) {
    for (Cq* cq : moderated_) {
      if (cq->on_timeout(now)) fn(*cq);
    }
  }
  /// Instant::max(): none.
  Instant next_deadline() const {
    Instant earliest = Instant::max();
    for (const Cq* cq : moderated_) earliest = std::min(earliest, cq->deadline().value_or(Instant::max()));
    return earliest;
  }

  void forget(Cq* cq) {
    std::erase(moderated_, cq);
    std::erase(overflowed_, cq);
    std::erase(dead_, cq);
  }

 private:
  std::vector<Cq*> overflowed_, dead_;
  std::vector<Cq*> moderated_;  ///< CQs that hold back notifications. Few, if any.
};

}  // namespace uroce::nic
