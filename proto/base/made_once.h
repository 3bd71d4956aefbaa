// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

namespace uroce {

/// What a process has one of, made when it is first wanted, and never destroyed: destructors of programs may want it
/// after ours would have run. `make()` returns a std::unique_ptr<T>. Threads that come at the same time may each make
/// one, of which one stays. That is for children of fork(): a function's static variable has a lock, which they may
/// find held for ever, by a thread that they don't have.
template <class T, class Make>
T& made_once(std::atomic<T*>& place, Make make) {
  if (T* const there = place.load(std::memory_order_acquire)) return *there;
  std::unique_ptr<T> made = make();
  T* before = nullptr;
  if (!place.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel)) return *before;
  return *made.release();
}
template <class T>
T& made_once(std::atomic<T*>& place) {
  return made_once(place, [] { return std::make_unique<T>(); });
}

}  // namespace uroce
