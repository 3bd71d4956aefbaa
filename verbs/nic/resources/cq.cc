// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/resources/cq.h"

#include <cerrno>
#include <new>
#include <utility>

#include "proto/base/check.h"

namespace uroce::nic {
namespace {

/// A failed completion counts as solicited (IBTA Vol 1, 11.4.2.2).
bool is_solicited(const Completion& completion) {
  return completion.solicited || completion.status != WcStatus::kSuccess;
}

}  // namespace

Cq::Cq(std::uint32_t capacity, void* user) : capacity_(capacity), ring_(capacity), user_(user) {
  UROCE_ASSERT(capacity >= 1);
}

Cq::PushResult Cq::push(const Completion& completion) {
  if (count_ == capacity_) {
    if (ignore_overrun_) return PushResult::kQueued;
    overflowed_ = true;
    return PushResult::kOverflow;
  }
  ring_[wrapped(head_ + count_, capacity_)] = completion;
  ++count_;
  if (completion.unpolled != nullptr) ++*completion.unpolled;
  if (was_empty_) ++unheard_;
  if (armed_ == Armed::kNo || (armed_ == Armed::kSolicited && !is_solicited(completion))) return PushResult::kQueued;
  if (moderate_count_ > 1 && moderate_period_ > Duration{} && ++held_back_ < moderate_count_) {
    if (!deadline_) deadline_ = completion.when + moderate_period_;
    return PushResult::kQueued;
  }
  notified();
  return PushResult::kNotify;
}

void Cq::notified() {
  armed_ = Armed::kNo;
  was_empty_ = false;
  unheard_ = 0;
  held_back_ = 0;
  deadline_.reset();
}

void Cq::moderate(std::uint32_t count, Duration period) {
  moderate_count_ = count;
  moderate_period_ = period;
}

bool Cq::on_timeout(Instant now) {
  if (!deadline_ || now < *deadline_) return false;
  notified();
  return true;
}

std::size_t Cq::poll(std::span<Completion> out) {
  auto place = out.begin();
  return poll(out.size(), [&](const Completion& completion) { *place++ = completion; });
}

void Cq::drop(std::uint32_t qpn) {
  const std::uint32_t first_unheard = count_ - unheard_;
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const Completion& completion = ring_[wrapped(head_ + i, capacity_)];
    if (completion.qpn != qpn) {
      if (kept != i) ring_[wrapped(head_ + kept, capacity_)] = completion;
      ++kept;
      continue;
    }
    if (completion.unpolled != nullptr) --*completion.unpolled;
    if (i >= first_unheard) --unheard_;
  }
  count_ = kept;
}

void Cq::arm(bool solicited_only) {
  // Asking for less does not take back an earlier request for more (IBTA Vol 1, 11.4.2.2).
  if (!solicited_only) {
    armed_ = Armed::kAny;
  } else if (armed_ == Armed::kNo) {
    armed_ = Armed::kSolicited;
  }
}

bool Cq::notify_or_arm(bool solicited_only) {
  const bool was_armed_for_all = armed_ == Armed::kAny;
  arm(solicited_only);
  if (was_armed_for_all) return false;  // None can have come unheard; some may wait for more, as moderate() says.
  for (std::uint32_t i = count_ - unheard_; i < count_; ++i) {
    if (armed_ == Armed::kSolicited && !is_solicited(ring_[wrapped(head_ + i, capacity_)])) continue;
    notified();
    return true;
  }
  return false;
}

Errno Cq::resize(std::uint32_t capacity) {
  if (capacity < 1 || capacity < count_) return EINVAL;
  try {
    RawArray<Completion> ring(capacity);
    for (std::uint32_t i = 0; i < count_; ++i) ring[i] = ring_[wrapped(head_ + i, capacity_)];
    ring_ = std::move(ring);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  capacity_ = capacity;
  head_ = 0;
  return 0;
}

}  // namespace uroce::nic
