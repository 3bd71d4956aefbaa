// SPDX-License-Identifier: Apache-2.0
// Drives a NIC over a port: who turns the crank, and when.
//
// - A thread that polls (ibv_poll_cq on an empty CQ) turns it itself, in its own time: no wake-ups, no hand-over.
// - A background thread sleeps in the kernel, for packets and for the NIC's next deadline, and turns it when nobody
//   polls: targets of RDMA READ and WRITE, timers, programs that sleep on completion channels.
// - While somebody polls, packets do not wake the background thread, as a driver masks the interrupts of its card while
//   it polls (packet_owner.h). It looks every millisecond whether the poller is still there, and takes over when not;
//   every few milliseconds where he has been for long. It looks only: who is there takes the packets.
// - A thread that sleeps for an event of the NIC is woken by the packets themselves and turns the crank: one wake-up
//   instead of two. Until it returns they do not wake the background thread; nor after that, if it usually comes back
//   for the next event soon.
// - Where others want its processor, a thread that polls sleeps for the next packet, too, for a short time
//   (crowd_watch.h).
// - Where a peer usually writes to the program's memory next, a poll that has found something, or a post, waits for
//   that awake (Poller::await_write()). So do the background thread where requests follow each other, and the thread
//   that sleeps for events where those come soon (arrival_watch.h), be it here or in a poll() or epoll_wait() of its
//   own.
//
// Each of the three has a file: poller.h, background.h, event_sleeper.h; drive.h is what they share. One lock guards
// NIC and port (turn_lock.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/os/background_thread.h"
#include "engine/os/os_clock.h"
#include "engine/os/processors.h"
#include "engine/run/background.h"
#include "engine/run/drive.h"
#include "engine/run/event_sleeper.h"
#include "engine/run/poller.h"
#include "proto/base/check.h"

namespace uroce::engine {

template <SansIoNic N>
class Runner {
 public:
  /// Called with the lock held whenever the NIC may have got events: the place to take them out. And when what
  /// is_left_to_poller() says has become false.
  using OnProgress = typename Drive<N>::OnProgress;
  /// Called with the lock held before this thread has the NIC move packets, with the time that the NIC is told.
  using BeforeTurn = typename Drive<N>::BeforeTurn;

  /// Starts the background thread. `nic` must outlive the runner.
  Runner(N& nic, std::unique_ptr<Port> port, OnProgress on_progress = {}, BeforeTurn before_turn = {})
      : drive_(nic, std::move(port), std::move(on_progress), std::move(before_turn)) {
    thread_ = start_background_thread([this] {
      ask_for_short_slices();
      background_.run();
    });
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  /// Stops the background thread, then sends what the NIC still has to send (last acknowledgements). Where the network
  /// is full, it waits for room, but not for longer than kLastWait.
  ~Runner() {
    if (abandoned_) return;
    background_.stop();
    thread_->join();
    send_last();
  }

  /// Exclusive use of NIC and port. To wait for it is no pause between polls.
  TurnLock::Held lock() { return drive_.lock_for_call(); }
  /// The port, for acquire_source_port() and the counters. Only with the lock held.
  Port& port() { return *drive_.port; }

  /// Whether what a call gave rise to may wait for the program's next call: it was a post.
  enum class Wait : std::uint8_t { kNo, kForNextCall };
  /// To be called, with the lock held, after a call on the NIC that may have produced packets or an earlier deadline.
  /// Sends at once, unless a poll or another post will do so in a moment. Behind a post it may look out for a peer's
  /// WRITE, and sleep for that without the lock (kLookOutMost).
  void posted(TurnLock::Held& lock, Wait wait = Wait::kNo) {
    background_.on_post();
    poller_.posted(lock, wait == Wait::kForNextCall);
  }

  /// Sends what there is, up to a burst, with the lock held: before something is destroyed that has answers to send.
  void send_now(const TurnLock::Held& lock) {
    UROCE_ASSERT(lock.owns_lock());
    drive_.transmit(os_now());
    drive_.port->flush();
  }
  /// The same when the process exits, unless somebody holds the lock for longer than kExitWait: perhaps for ever.
  void send_before_exit() {
    if (const TurnLock::Held lock = drive_.lock.try_lock_for(kExitWait)) send_now(lock);
  }
  /// Takes the packets that are here, with the lock held, so that what the caller does next does not concern them.
  /// Where packets come all the time, not for ever.
  void take_arrived(const TurnLock::Held& lock) {
    UROCE_ASSERT(lock.owns_lock());
    for (int turns = 0; turns < kTurnsForArrived; ++turns) {
      drive_.port->look_everywhere();
      if (drive_.turn(os_now(), Answers::kAtOnce).received == 0) return;
    }
  }

  /// Turns the crank once, with the lock held, for a thread that polls and found nothing; completions may be there now.
  /// In time, the background thread leaves the network to such threads. A turn for nothing gives the processor away,
  /// without the lock, when there is only one; and to look out for a peer's WRITE may sleep without it (kLookOutMost).
  void poll(TurnLock::Held& held) { poller_.poll(held); }
  /// To be called, with the lock held, when that turn has not brought what the thread polls for either. Where others
  /// want its processor it sleeps here, without the lock, until packets come, kCrowdedSleep at most.
  void found_nothing(TurnLock::Held& held) { poller_.found_nothing(held); }
  /// To be called, with the lock held, by a thread that polled and found something. May sleep without it, as poll().
  void found(TurnLock::Held& held) { poller_.found(held); }
  /// To be called, with the lock held, by a thread that has polled and is going to sleep for a completion: sends what
  /// is left and has the background thread take over at once instead of within a millisecond.
  void stop_polling(const TurnLock::Held& lock) { poller_.stop(lock); }

  /// Blocks until `fd` is readable, and turns the crank meanwhile whenever packets arrive: `fd` is something that
  /// on_progress() makes readable, and `is_ready()` says whether it has. Where that usually comes soon, it waits awake
  /// first, kLinger at most. Returns 0, or EINTR (engine/os/interruption.h). A cancellation point.
  template <class IsReady>
  int sleep_until_readable(int fd, const IsReady& is_ready) {
    return sleeper_.sleep_until_readable(fd, is_ready);
  }
  /// To be called, without the lock, by a thread that has armed a CQ and polled it in vain: it is going to sleep for
  /// the event, perhaps in a poll() or epoll_wait() of its own, where only the background thread could move packets.
  /// Where the event usually comes soon, it waits here, awake, kLinger at most. Returns whether `is_ready()`.
  template <class IsReady>
  bool before_sleep(const IsReady& is_ready) {
    return sleeper_.before_sleep(is_ready);
  }
  /// A thread of the program has got an event, and has not slept for it in sleep_until_readable().
  void on_event_taken() { sleeper_.on_event_taken(); }

  /// Whether packets do not wake the background thread. With the lock held.
  bool leaves_packets_to_program() const { return drive_.packets.are_masked(); }
  /// Whether they are left to threads that poll: one of them will be back in a moment, and turn the crank. With the
  /// lock held.
  bool is_left_to_poller() const { return drive_.packets.are_left_to_pollers(); }

  /// In the child of fork(), where the background thread does not exist: closes the descriptors. Afterwards only the
  /// destructor may be called. Takes no lock: the thread that held it may not exist either.
  void abandon_after_fork() {
    abandon_thread();
    drive_.port->abandon_after_fork();
  }
  /// The same where a signal handler forked inside a call, which may go on with the port.
  void abandon_thread() {
    abandoned_ = true;
    leave_to_parent(std::move(thread_));
  }

 private:
  void send_last() {
    Port& port = *drive_.port;
    port.mask_packets(true);  // Nobody takes them any more: they must not end the waits for room.
    const Instant latest = os_now() + kLastWait;
    while (true) {
      const bool had_room = !port.tx_frame().empty();
      const std::size_t sent = drive_.transmit(os_now());
      port.flush();
      if (sent > 0) continue;
      const Instant now = os_now();
      if ((had_room && port.is_idle()) || now >= latest) return;
      port.wait(std::min(now + kLastLook, latest));
    }
  }

  Drive<N> drive_;
  Poller<N> poller_{drive_};
  EventSleeper<N> sleeper_{drive_};
  Background<N> background_{drive_};
  bool abandoned_ = false;
  std::unique_ptr<BackgroundThread> thread_;
};

}  // namespace uroce::engine
