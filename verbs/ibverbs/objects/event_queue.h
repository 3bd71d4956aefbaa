// SPDX-License-Identifier: Apache-2.0
// Events on their way to a user who may sleep on a file descriptor: completion channels and asynchronous events.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/os/interruption.h"
#include "engine/os/take_back.h"
#include "proto/base/fd.h"
#include "proto/base/no_cancellation.h"
#include "verbs/ibverbs/host/fork.h"

namespace uroce::ibv {

/// A queue with a file that is readable while it holds something, except what a thread in take() has pushed itself and
/// is about to take. Users have a descriptor of the file: they poll it, may make it non-blocking, and may move it to
/// another number, as with the real one; they never read it. Any thread may call anything.
///
/// A child of fork() shares the descriptor with its parent, and whatever it would read there, the parent would miss: so
/// what it inherited gives it nothing, and it leaves it as it is.
///
/// A thread may still sleep in take() when its owner ends: it finds the queue closed when it wakes up, or leaves it
/// alone when it is cancelled. The real call is a read(), which needs nothing but the descriptor.
template <class Item>
class EventQueue {
 public:
  /// Sets `descriptor`, where the user finds it, and may set another one that leads to the same file. -1 with errno
  /// when the system refuses.
  explicit EventQueue(int& descriptor) : state_(std::make_shared<State>(descriptor)) {
    descriptor = above_standard(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  }
  ~EventQueue() { close(); }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  bool is_inherited() const { return forks_ != forks(); }
  /// Nothing can be taken any more. Threads that sleep in take() are woken; the last of them closes the descriptor if
  /// the owner has ended meanwhile: until then its number must not be another file's.
  void end() {
    if (is_inherited()) return;
    const Exclusive use(*state_);
    state_->end();
  }
  /// From here on only remove_if() may be called.
  void close() {
    if (is_inherited()) {  // Nobody else is here. Who sleeps or has the mutex does so in the parent.
      state_->sleepers = 0;
      return state_->close();
    }
    const Exclusive use(*state_);
    state_->close();
  }

  void push(Item item) {
    if (is_inherited()) return;
    const Exclusive use(*state_);
    state_->items.push_back(std::move(item));
    state_->note_size();
    ++state_->untold;
    const bool is_from_taker = taker_in_this_thread_ == state_.get() && !engine::Asleep::is_this_thread();
    if (!is_from_taker) state_->tell_rest();
  }

  /// Moves the oldest item to `out`; waits for one unless the descriptor is non-blocking. Returns 0, EAGAIN, EINTR, EIO
  /// when it is inherited, or has ended, as in the kernel, or EBADF when the user has closed the descriptor. A
  /// cancellation point, as read() is. `on_taken(item)` runs before any remove_if() can miss it. `sleep(fd, holds_any)`
  /// waits until the descriptor is readable and returns 0 or an errno value; `holds_any()` says whether there is an
  /// item. What its thread pushes meanwhile has no token, unless it is `engine::Asleep`: then a signal handler pushes.
  template <class OnTaken, class Sleep>
  int take(Item& out, OnTaken on_taken, Sleep sleep) {
    if (is_inherited()) return EIO;
    ::pthread_testcancel();
    const std::shared_ptr<State> state = state_;  // From here on, there may be no queue any more.
    while (true) {
      int fd = -1;
      std::optional<Taker> taker;
      {
        const Exclusive use(*state);
        if (state->has_ended) return EIO;
        if (!state->items.empty()) {
          out = std::move(state->items.front());
          state->items.pop_front();
          state->note_size();
          if (state->untold > 0) {
            --state->untold;
          } else {
            state->drop_token();
          }
          state->tell_rest();
          on_taken(out);
          return 0;
        }
        fd = state->descriptor;
        const int flags = fcntl(fd, F_GETFL);
        if (flags < 0) return errno;
        if ((flags & O_NONBLOCK) != 0) return EAGAIN;
        taker.emplace(*state);
      }
      if (const int error = sleep(fd, [&state] { return state->holds_any(); })) return error;
      taker->is_awake = true;
    }
  }
  template <class OnTaken>
  int take(Item& out, OnTaken on_taken) {
    return take(out, on_taken,
                [](int fd, const auto& holds_any) { return engine::sleep_until_readable(fd, holds_any); });
  }

  /// Returns how many.
  template <class Predicate>
  std::size_t remove_if(Predicate predicate) {
    if (is_inherited()) return 0;
    const Exclusive use(*state_);
    std::size_t tokens = state_->items.size() - state_->untold;
    const std::size_t removed = std::erase_if(state_->items, predicate);
    state_->note_size();
    state_->untold = std::min(state_->untold, state_->items.size());
    for (; tokens > state_->items.size() - state_->untold; --tokens) state_->drop_token();
    return removed;
  }

 private:
  // The counter of the semaphore equals items.size(): one token an item, so that an edge-triggered epoll sees each.
  // Except for items that the thread that is about to take one has pushed itself, while it waited: nobody else need
  // know of the first of them, and the others get their tokens when it has taken that.
  struct State {
    explicit State(int& of_user) : descriptor(of_user) {}
    void end() {
      has_ended = true;
      if (sleepers > 0) add_token();  // Nobody takes it: it wakes them all.
    }
    void close() {
      const bool are_woken = std::exchange(has_ended, true) && sleepers > 0;
      const int fd = descriptor.exchange(-1);
      if (fd < 0) return;
      if (are_woken) {
        left_to_sleepers = fd;
      } else {
        ::close(fd);
      }
    }
    /// Without the mutex: a signal handler that pushes something may interrupt who asks.
    bool holds_any() const { return size.load(std::memory_order_acquire) != 0; }
    void note_size() { size.store(items.size(), std::memory_order_release); }
    void tell_rest() {
      while (untold > 0 && add_token()) --untold;
    }
    // Fails where the program has closed the descriptor. Perhaps it is about to set another one.
    bool add_token() {
      const std::uint64_t one = 1;
      return with_descriptor([&one](int fd) { return write(fd, &one, sizeof one) == sizeof one || errno != EBADF; });
    }
    /// Until `is_done(fd)`, or there is no other descriptor to try it with.
    template <class IsDone>
    bool with_descriptor(IsDone is_done) {
      for (int tried = -1;;) {
        const int fd = descriptor;
        if (fd == tried) return false;
        if (is_done(fd)) return true;
        tried = fd;
      }
    }
    void drop_token() {
      // A user who read the descriptor after all took our token; waiting for it would hang.
      with_descriptor(
          [](int fd) { return engine::take_back(fd, sizeof(std::uint64_t)) != engine::TakenBack::kNotOpen; });
    }

    const std::atomic_ref<int> descriptor;  ///< The user's, at every moment, until it is closed.
    std::mutex mutex;
    std::deque<Item> items;
    std::atomic<std::size_t> size = 0;  ///< Of `items`.
    std::size_t untold = 0;             ///< How many of them have no token.
    std::size_t sleepers = 0;
    int left_to_sleepers = -1;  ///< A descriptor that the last of them closes.
    bool has_ended = false;
  };

  /// Items and tokens change together, or not at all: to read or write the descriptor is a cancellation point.
  struct Exclusive {
    explicit Exclusive(State& state) : lock(state.mutex) {}
    const NoCancellation whole;
    const std::scoped_lock<std::mutex> lock;
  };
  /// What this thread pushes while it waits needs no token. If it ends otherwise than awake, interrupted or cancelled,
  /// it tells what it has pushed. Made by who has the mutex.
  struct Taker {
    explicit Taker(State& of) : state(of) {
      taker_in_this_thread_ = &of;
      ++state.sleepers;
    }
    ~Taker() noexcept(false) {
      taker_in_this_thread_ = nullptr;
      const Exclusive use(state);
      if (--state.sleepers == 0 && state.left_to_sleepers >= 0) ::close(state.left_to_sleepers);
      if (!is_awake && !state.has_ended) state.tell_rest();
    }
    Taker(const Taker&) = delete;
    Taker& operator=(const Taker&) = delete;
    State& state;
    bool is_awake = false;
  };

  const unsigned int forks_ = forks();
  const std::shared_ptr<State> state_;
  static inline thread_local State* taker_in_this_thread_ = nullptr;
};

}  // namespace uroce::ibv
