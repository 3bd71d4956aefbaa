// SPDX-License-Identifier: Apache-2.0
// Sleeping until a packet comes, until a deadline, or until another thread says wake().
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"
#include "engine/os/wake_event.h"

namespace uroce::engine {

/// An epoll set over the sockets of a port. Waiting happens here and never inside an io_uring: a request armed by one
/// thread completes in that thread's context, which may be gone or busy when the packet arrives.
///
/// Packets can be masked while somebody waits, as a driver masks the interrupts of its network card while it polls: a
/// thread that is woken for a packet which another thread is about to take costs both of them, and the sender, more
/// than the packet.
class Interrupts {
 public:
  Interrupts();

  /// Adds a socket. Before the first wait().
  void add(int fd);
  /// Adds a socket that seldom has packets: it is masked by mask_rare() alone, so that mask() costs less.
  void add_rare(int fd);
  /// Adds a descriptor that ends a wait() each time that it is made readable; nobody needs to read it, and mask() does
  /// not concern it.
  void add_bell(int fd);
  /// Whether packets leave wait() asleep. At first they end it. One thread at a time. Unmasking ends a wait() that
  /// runs, or the next one, if there are packets. Should the kernel refuse that for a while, waits are short
  /// until then.
  void mask(bool masked);
  /// The same for the socket of add_rare().
  void mask_rare(bool masked);

  /// What add() and add_rare() were told.
  std::span<const int> sockets() const { return sockets_; }

  /// Blocks until a socket is readable, unless masked, until `deadline`, or until wake(). One thread. Spurious returns
  /// are possible. Returns false when it was the deadline.
  bool wait(std::optional<Instant> deadline);
  /// The same until `earliest`, or up to `slack` later: with a tick of the kernel that is due anyway, if there is one
  /// by then. Sets no timer of its own for that, and interrupts nobody.
  bool doze(Instant earliest, Duration slack);
  /// Ends a wait() or doze() that runs, or the next one. Any thread; async-signal-safe.
  void wake() const { event_.signal(); }
  /// The system call that this process may not make, or has no descriptor for; without one, nobody can wait.
  struct Refusal {
    const char* call = nullptr;
    int error = 0;
  };
  const std::optional<Refusal>& refusal() const { return refusal_; }
  void close();

 private:
  std::span<const int> often() const;
  std::span<const int> rare() const;
  void mask(std::span<const int> sockets, bool& are_masked, bool masked);
  bool control(std::span<const int> sockets, bool masked) const;
  bool hear_again();
  /// What ends a sleep at its deadline: the alarm, or a timeout of the system call.
  enum class Timer : std::uint8_t { kAlarm, kTimeout };
  bool wait(std::optional<Instant> deadline, Timer timer);
  bool wait_for_events(std::optional<Instant> deadline, Timer timer);
  void wake_for(int fd, std::uint32_t events);
  /// What ended a sleep; kNothing: its timeout.
  enum class Cause : std::uint8_t { kEvent, kAlarm, kNothing };
  /// nullptr: until an event or the alarm.
  Cause sleep(const timespec* timeout) const;
  /// Has the alarm ring no later than `deadline`. One that is set already stays: to set a timer for each sleep, and to
  /// cancel it when a packet comes first, takes a virtual machine more time than the packet. If it rings too early,
  /// the sleep goes on. False: the kernel refuses, and the alarm is as it was.
  bool set_alarm(Instant deadline, Instant now);

  Fd epoll_;
  WakeEvent event_;
  Fd alarm_;                           ///< A timerfd.
  Instant alarm_at_ = Instant::max();  ///< When it rings; max(): it is not set.
  std::vector<int> sockets_;           ///< The one of add_rare() comes last.
  bool has_rare_ = false;
  std::atomic<bool> is_deaf_ = false;  ///< A socket could not be unmasked. To be tried again at each wait().
  std::mutex mask_mutex_;              ///< Guards what follows, and what is in epoll_ of sockets_.
  bool is_masked_ = false;
  bool is_rare_masked_ = false;
  std::optional<Refusal> refusal_;
};

}  // namespace uroce::engine
