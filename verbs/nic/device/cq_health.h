// SPDX-License-Identifier: Apache-2.0
// What becomes of the NIC's CQs besides completions: overflow, of which a CQ does not recover, and notifications that
// are held back.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "verbs/nic/resources/cq.h"

namespace uroce::nic {

class CqHealth {
 public:
  /// Before there are `count` CQs.
  void reserve(std::size_t count) {
    for (std::vector<Cq*>* cqs : {&overflowed_, &dead_, &moderated_}) {
      if (count > cqs->capacity()) cqs->reserve(std::max(count, 2 * cqs->capacity()));
    }
  }
  /// `cq` has lost a completion, or has got one although it is dead; take_overflowed() will name it.
  void overflow(Cq& cq) {
    if (!contains(overflowed_, cq)) overflowed_.push_back(&cq);
  }
  /// A CQ whose QPs have not been told of it yet; null when there is none.
  Cq* take_overflowed() {
    if (overflowed_.empty()) return nullptr;
    Cq* const cq = overflowed_.front();
    overflowed_.erase(overflowed_.begin());
    return cq;
  }
  /// For good. False: it was dead before.
  bool kill(Cq& cq) {
    if (is_dead(cq)) return false;
    dead_.push_back(&cq);
    return true;
  }
  bool is_dead(const Cq& cq) const { return contains(dead_, cq); }

  /// See Cq::moderate(). For good: a notification that is held back when moderation ends still has its time.
  void moderate(Cq& cq, std::uint32_t count, Duration period) {
    cq.moderate(count, period);
    if (!contains(moderated_, cq)) moderated_.push_back(&cq);
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
  static bool contains(const std::vector<Cq*>& cqs, const Cq& cq) {
    return std::find(cqs.begin(), cqs.end(), &cq) != cqs.end();
  }

  std::vector<Cq*> overflowed_, dead_;
  std::vector<Cq*> moderated_;  ///< CQs that hold back notifications. Few, if any.
};

}  // namespace uroce::nic
