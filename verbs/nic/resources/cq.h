// SPDX-License-Identifier: Apache-2.0
// Completion queue: a ring that the NIC fills and the user drains, with one-shot notification (IBTA Vol 1, 11.4.2).
// Overflow is an error of the CQ: the completion that does not fit is lost and the NIC raises CQ_ERR, unless overruns
// are ignored.
#pragma once

#include <algorithm>
#include <optional>

#include "verbs/nic/model/types.h"
#include "verbs/nic/resources/raw_array.h"
#include "verbs/nic/resources/wrapped.h"

namespace uroce::nic {

class Cq {
 public:
  /// `capacity` >= 1 completions. `user` is the owner's cookie, returned with events.
  Cq(std::uint32_t capacity, void* user);

  enum class PushResult : std::uint8_t { kQueued, kNotify, kOverflow };
  /// Adds a completion. kNotify: the CQ was armed for this one; it is disarmed now and the owner must be told.
  PushResult push(const Completion& completion);
  /// From now on an armed CQ notifies after `count` completions, or `period` after the first of them if that is
  /// earlier. Where one is 0, and with a count of 1, at the first one.
  void moderate(std::uint32_t count, Duration period);
  /// When a notification that waits for more completions is due.
  std::optional<Instant> deadline() const { return deadline_; }
  /// True when that time has come, and the owner must be told.
  bool on_timeout(Instant now);
  /// A completion that does not fit is lost silently.
  void ignore_overrun() { ignore_overrun_ = true; }
  /// Takes up to `most` completions, oldest first, and calls `take(completion)` for each; returns how many.
  template <class Take>
  std::size_t poll(std::size_t most, const Take& take) {
    const std::size_t taken = std::min<std::size_t>(most, count_);
    for (std::size_t i = 0; i < taken; ++i) {
      const Completion& completion = ring_[head_];
      if (completion.unpolled != nullptr) --*completion.unpolled;
      take(completion);
      head_ = wrapped(head_ + 1, capacity_);
    }
    count_ -= static_cast<std::uint32_t>(taken);
    unheard_ = std::min(unheard_, count_);
    if (taken < most) was_empty_ = true;
    return taken;
  }
  /// The same, into `out`.
  std::size_t poll(std::span<Completion> out);
  /// Forgets the queued completions of QP `qpn`: they count as unpolled no longer.
  void drop(std::uint32_t qpn);
  /// Asks for one notification at the next completion (or the next solicited or failed one).
  void arm(bool solicited_only);
  /// The same for an owner who will not poll again before it waits. A completion that came after the CQ was last polled
  /// empty, and that no notification was for, counts as the next one. True when there is such a one: the owner must be
  /// told, and the CQ is not armed.
  bool notify_or_arm(bool solicited_only);
  /// EINVAL when more completions are queued than would fit, ENOMEM without memory. Nothing changes then.
  Errno resize(std::uint32_t capacity);

  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t size() const { return count_; }
  /// Whether it has lost a completion, and that was an error.
  bool overflowed() const { return overflowed_; }
  void* user() const { return user_; }
  /// QPs attached (twice when one serves both queues): a CQ in use can't be destroyed.
  std::uint32_t users = 0;

 private:
  enum class Armed : std::uint8_t { kNo, kSolicited, kAny };
  void notified();

  std::uint32_t capacity_;
  RawArray<Completion> ring_;
  std::size_t head_ = 0;
  std::uint32_t count_ = 0;
  Armed armed_ = Armed::kNo;
  bool was_empty_ = false;     ///< Polled empty after the last notification.
  std::uint32_t unheard_ = 0;  ///< So many of the newest completions came after that, and no notification was for them.
  bool overflowed_ = false;
  bool ignore_overrun_ = false;
  std::uint32_t moderate_count_ = 0;
  Duration moderate_period_{};
  std::uint32_t held_back_ = 0;  ///< Completions for which a notification is due, of those that it waits for.
  std::optional<Instant> deadline_;
  void* user_;
};

}  // namespace uroce::nic
