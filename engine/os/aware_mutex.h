// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace uroce::engine {

/// A mutex of which a thread knows that it has it, or waits for it: a signal handler may run meanwhile, and to wait for
/// the thread that it interrupts would be for ever. `Of`: it knows this of all that have the same.
template <class Of>
class AwareMutex {
 public:
  void lock() {
    ++inside_;
    mutex_.lock();
  }
  bool try_lock() {
    ++inside_;
    if (mutex_.try_lock()) return true;
    --inside_;
    return false;
  }
  void unlock() {
    mutex_.unlock();
    --inside_;
  }
  /// Whether the calling thread has any of them, or waits for one.
  static bool is_inside() { return inside_ > 0; }

 private:
  std::mutex mutex_;
  [[gnu::tls_model("initial-exec")]] static inline thread_local int inside_ = 0;  ///< Read at every verb.
};

}  // namespace uroce::engine
