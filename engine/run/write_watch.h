// SPDX-License-Identifier: Apache-2.0
// Tells whether a program waits for WRITEs of its peers by watching its memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "engine/run/habit.h"
#include "engine/run/tunables.h"
#include "proto/base/clock.h"

namespace uroce::engine {

/// Counts a program's calls of one kind, such as posts, and the WRITEs of its peers that answer them. Both are mostly
/// as many as the last time where it posts something, watches its memory for the answer, and so on. Then the last of
/// those calls had better look out for the answer before it returns: else it is the background thread that has to be
/// woken.
///
/// Any thread may call anything. What two threads do at the same moment may be counted once: this is a heuristic.
class WriteWatch {
 public:
  /// Such a call ends at `now`, and leaves packets to the background thread.
  void on_left(Instant now) {
    if (is_last()) left_.store(now, std::memory_order_relaxed);
    calls_.fetch_add(1, std::memory_order_relaxed);
  }
  /// The program makes a call of any kind: if no WRITE has come, it did not wait for one.
  void on_call() {
    if (writes_.load(std::memory_order_relaxed) > 0) {
      usual_writes_.store(writes_.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
    }
    if (left_.load(std::memory_order_relaxed) == Instant{}) return;
    left_.store(Instant{}, std::memory_order_relaxed);
    habit_.holds() ? habit_.forget() : habit_.learn(false);
    to_check_.store(kLookOutsToCheck, std::memory_order_relaxed);
  }
  /// It is going to sleep, which says nothing.
  void on_stop() { left_.store(Instant{}, std::memory_order_relaxed); }
  /// The background thread has taken so many `writes` at `now`.
  void on_written(Instant now, std::uint64_t writes) {
    writes_.fetch_add(writes, std::memory_order_relaxed);
    const Instant since = left_.exchange(Instant{}, std::memory_order_relaxed);
    const std::uint64_t calls = calls_.exchange(0, std::memory_order_relaxed);
    if (calls == 0) return;  // The answer goes on.
    if (usual_calls_.exchange(calls, std::memory_order_relaxed) != calls) return habit_.learn(false);
    if (since == Instant{}) return;
    const bool is_soon = now - since <= kWriteSoon;
    if (is_soon && habit_.holds()) {
      const std::uint32_t so_far = to_check_.load(std::memory_order_relaxed);
      to_check_.store(std::min(2 * so_far, kLookOutsToCheckMost), std::memory_order_relaxed);
    }
    if (is_soon || !habit_.holds()) habit_.learn(is_soon);
  }
  /// Whether an answer usually comes soon behind the last of the calls, and before another one, ...
  bool expects() const { return habit_.holds(); }
  /// ... and of how many WRITEs.
  std::uint64_t usual_writes() const { return usual_writes_.load(std::memory_order_relaxed); }
  /// Whether the call that ends now is to look out for it: mostly, where it usually comes; now and then not, to see
  /// what the program does then.
  bool should_look_out() {
    if (!expects() || !is_last()) return false;
    if (look_outs_.fetch_add(1, std::memory_order_relaxed) < to_check_.load(std::memory_order_relaxed)) return true;
    look_outs_.store(1, std::memory_order_relaxed);
    return false;
  }
  /// That has been done, and brought so many `writes`. `is_over`: it was not interrupted.
  void on_look_out(std::uint64_t writes, bool is_over) {
    writes_.fetch_add(writes, std::memory_order_relaxed);
    calls_.store(writes > 0 ? 0 : calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (writes >= usual_writes()) return habit_.learn(true);
    if (is_over) habit_.waited_in_vain();
  }

 private:
  /// Whether the next call is usually the last before an answer.
  bool is_last() const {
    return calls_.load(std::memory_order_relaxed) + 1 == usual_calls_.load(std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> calls_ = 0;         ///< Since the last WRITE, ...
  std::atomic<std::uint64_t> usual_calls_ = 1;   ///< ... and as many as there were before it.
  std::atomic<std::uint64_t> writes_ = 0;        ///< Since the last call of any kind.
  std::atomic<std::uint64_t> usual_writes_ = 1;  ///< As many as the last answer had.
  std::atomic<Instant> left_{};  ///< When the last call ended, and neither a WRITE nor a call has come; else Instant{}.
  Habit habit_;
  std::atomic<std::uint32_t> look_outs_ = 1;                ///< Since the last time that it did not, ...
  std::atomic<std::uint32_t> to_check_ = kLookOutsToCheck;  ///< ... and how many there are in between.
};

}  // namespace uroce::engine
