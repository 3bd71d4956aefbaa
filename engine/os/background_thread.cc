// SPDX-License-Identifier: Apache-2.0
#include "engine/os/background_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/os/end_of_main.h"
#include "engine/os/fault_signals.h"
#include "engine/os/left_to_parent.h"
#include "engine/os/no_leak_check.h"
#include "engine/os/os_clock.h"
#include "engine/os/own_threads.h"
#include "proto/base/no_signals.h"

namespace uroce::engine {

struct SleepState {
  enum class Is : std::uint8_t { kAwake, kAsleep, kLeft };
  std::atomic<Is> is = Is::kAwake;
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false;  ///< Guarded by the mutex: the thread's body has returned.
};

namespace {

using Is = SleepState::Is;

/// Long enough for a thread that has been woken, on a busy machine: so many short waits, each of which ends in time.
constexpr std::chrono::milliseconds kWait{50};
constexpr int kWaits = 10;

/// No load, and nobody waits long for the end of a thread that sleeps so.
constexpr std::chrono::milliseconds kNap{20};

/// Null: not one of ours.
constinit thread_local SleepState* state_of_this_thread = nullptr;

}  // namespace

LeavableSleep::LeavableSleep() : state_(state_of_this_thread) {
  if (state_ != nullptr) state_->is.store(Is::kAsleep);
}

LeavableSleep::~LeavableSleep() {
  if (state_ == nullptr) return;
  Is asleep = Is::kAsleep;
  if (state_->is.compare_exchange_strong(asleep, Is::kAwake)) return;
  while (true) ::pause();
}

void BackgroundThread::run(std::function<void()> body) {
  const NoLeakCheck of_creation;
  thread_ = std::thread([body = std::move(body), state = state_] {
    const NoLeakCheck all_the_time;
    const OwnThread own;
    state_of_this_thread = state.get();
    body();
    const std::lock_guard lock(state->mutex);
    state->is_over = true;
    state->over.notify_all();
  });
  ::pthread_setname_np(thread_.native_handle(), "uroce");
}

void BackgroundThread::join() {
  {
    std::unique_lock lock(state_->mutex);
    Instant asked = os_now();
    for (int waits = 0; !state_->over.wait_for(lock, kWait, [this] { return state_->is_over; });) {
      const Instant now = os_now();
      // Held up: by a debugger, a quota, a machine that pauses. So was the thread.
      const bool is_late = now - std::exchange(asked, now) > 2 * kWait;
      if (is_late || ++waits < kWaits) continue;
      Is asleep = Is::kAsleep;
      if (!state_->is.compare_exchange_strong(asleep, Is::kLeft)) continue;  // It has long work.
      thread_.detach();
      return;
    }
  }
  thread_.join();
}

void nap() { std::this_thread::sleep_for(kNap); }

std::unique_ptr<BackgroundThread> start_background_thread(std::function<void()> body) {
  before_own_thread();
  auto thread = std::make_unique<BackgroundThread>(std::make_shared<SleepState>());
  const NoSignals guard(kFaultSignals);
  thread->run(std::move(body));
  return thread;
}

void leave_to_parent(std::unique_ptr<BackgroundThread> thread) {
  if (BackgroundThread* const left = thread.release()) leave_to_parent(*left);
}

}  // namespace uroce::engine
