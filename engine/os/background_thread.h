// SPDX-License-Identifier: Apache-2.0
// A thread that lives inside somebody else's program.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>

namespace uroce::engine {

/// Of one thread: whether it runs, sleeps, or has been left.
struct SleepState;

/// While it lives, the thread of ours that made it sleeps for descriptors, and may be left. All that its owner has may
/// be gone when it wakes up then: it stays in the destructor for ever. On other threads it does nothing.
class LeavableSleep {
 public:
  LeavableSleep();
  ~LeavableSleep();
  LeavableSleep(const LeavableSleep&) = delete;
  LeavableSleep& operator=(const LeavableSleep&) = delete;

 private:
  SleepState* const state_;
};

/// A thread of ours, as start_background_thread() makes it.
class BackgroundThread {
 public:
  explicit BackgroundThread(std::shared_ptr<SleepState> state) : state_(std::move(state)) {}

  /// Starts it, once.
  void run(std::function<void()> body);
  /// Waits for its end, which somebody has asked for. A program that has closed all descriptors, as daemons do, has
  /// closed those that would wake it, too: if it sleeps on, it is left asleep.
  void join();
  void detach() { thread_.detach(); }

  BackgroundThread* left_before = nullptr;  ///< For leave_to_parent().

 private:
  const std::shared_ptr<SleepState> state_;
  std::thread thread_;
};

/// Sleeps a little: for threads whose descriptors the program has closed. They can only look from time to time.
void nap();

/// Starts a thread named "uroce" with all signals blocked: the program's signals are for the program's threads.
std::unique_ptr<BackgroundThread> start_background_thread(std::function<void()> body);

/// In a child of fork(), where the thread does not exist: it can't be joined, nor detached. Null: there was none.
void leave_to_parent(std::unique_ptr<BackgroundThread> thread);

}  // namespace uroce::engine
