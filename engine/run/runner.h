// SPDX-License-Identifier: Apache-2.0
// Drives a NIC over a port: who turns the crank, and when.
//
// - A thread that polls (ibv_poll_cq on an empty CQ) turns it itself, in its own time: no wake-ups, no hand-over.
// - A background thread sleeps in the kernel, for packets and for the NIC's next deadline, and turns it when nobody
//   polls: targets of RDMA READ and WRITE, timers, programs that sleep on completion channels.
// - While somebody polls, packets do not wake the background thread (mask(), as a driver masks the interrupts of its
//   card while it polls). It looks every millisecond whether the poller is still there, and takes over when not. One
//   who has been there for long puts that off himself.
// - A thread that sleeps for an event of the NIC is woken by the packets themselves and turns the crank: one wake-up
//   instead of two. Until it returns they do not wake the background thread; nor after that, if it usually comes back
//   for the next event soon.
// - Where others want its processor, a thread that polls sleeps for the next packet, too, for a short time
//   (crowd_watch.h).
// - Where a peer usually writes to the program's memory next, a poll that has found something, or a post, waits for
//   that awake (await_write()). So do the background thread where requests follow each other, and the thread that
//   sleeps for events where those come soon (arrival_watch.h), be it here or in a poll() or epoll_wait() of its own.
//
// One lock guards NIC and port (turn_lock.h).
#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "engine/os/background_thread.h"
#include "engine/os/interruption.h"
#include "engine/os/os_clock.h"
#include "engine/os/poll_all.h"
#include "engine/os/processors.h"
#include "engine/run/arrival_watch.h"
#include "engine/run/background_sleep.h"
#include "engine/run/crank.h"
#include "engine/run/crowd_watch.h"
#include "engine/run/pace.h"
#include "engine/run/place_watch.h"
#include "engine/run/poll_watch.h"
#include "engine/run/silent_writes.h"
#include "engine/run/turn_lock.h"
#include "engine/run/write_watch.h"
#include "proto/base/check.h"
#include "proto/base/no_cancellation.h"

namespace uroce::engine {

template <SansIoNic N>
class Runner {
 public:
  /// Called with the lock held whenever the NIC may have got events: the place to take them out. And when what
  /// is_left_to_poller() says has become false.
  using OnProgress = std::function<void()>;
  /// Called with the lock held before this thread has the NIC move packets, with the time that the NIC is told.
  using BeforeTurn = std::function<void(Instant now)>;

  /// Starts the background thread. `nic` must outlive the runner.
  Runner(N& nic, std::unique_ptr<Port> port, OnProgress on_progress = {}, BeforeTurn before_turn = {})
      : nic_(nic), port_(std::move(port)), on_progress_(std::move(on_progress)), before_turn_(std::move(before_turn)) {
    thread_ = start_background_thread([this] {
      ask_for_short_slices();
      run();
    });
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  /// Stops the background thread, then sends what the NIC still has to send (last acknowledgements). Where the network
  /// is full, it waits for room, but not for longer than kLastWait.
  ~Runner() {
    if (abandoned_) return;
    stop_.store(true, std::memory_order_relaxed);
    port_->wake();
    thread_->join();
    send_last();
  }

  /// Exclusive use of NIC and port. To wait for it is no pause between polls.
  TurnLock::Held lock() {
    if (TurnLock::Held held = lock_.try_lock()) return held;
    const Instant now = os_now();
    const bool in_row = polls_.is_recent(now, Pace::of(kPollPause));
    TurnLock::Held held = lock_.queue_up(one_processor_ ? Duration() : Pace::of(kLockSpin));
    if (in_row) polls_.on_call_done(os_now());
    return held;
  }
  /// The port, for acquire_source_port() and the counters. Only with the lock held.
  Port& port() { return *port_; }

  /// Whether what a call gave rise to may wait for the program's next call: it was a post.
  enum class Wait : std::uint8_t { kNo, kForNextCall };
  /// To be called, with the lock held, after a call on the NIC that may have produced packets or an earlier deadline.
  /// Sends at once, unless a poll or another post will do so in a moment. Behind a post it may look out for a peer's
  /// WRITE, and sleep for that without the lock (kLookOutMost).
  void posted(TurnLock::Held& lock, Wait wait = Wait::kNo) {
    UROCE_ASSERT(lock.owns_lock());
    const Instant now = os_now();
    const bool in_row = polls_.is_recent(now, Pace::of(kPollPause));
    note_caller(now);
    place_.on_post();
    sleeps_.on_post();
    if (in_row) polls_.on_call_done(now);
    if (!polls_.on_post(now, was_preempted) && masked() && !polls_.is_loyal(now)) unmask();
    // Where packets are the background thread's.
    const bool is_left = wait == Wait::kForNextCall && !masked();
    const bool looks_out = is_left && writes_after_posts_.should_look_out();
    bool more = false;
    Instant done = now;
    // Without a system call to save, the first packet behind a poll need not wait for the next one. (With a single
    // processor, who reads it would run in between.)
    const bool is_first = !one_processor_ && port_->was_quick() && !polls_.continues_posts(now);
    if ((is_first || !leaves_to_poller(now)) && (wait == Wait::kNo || !leaves_to_next_call(now))) {
      // The answer is for the polls that follow, or for this call. To wake the background thread for that would take
      // longer than it saves.
      if (looks_out || (!masked() && background_sleep_.is_watching() && polls_.follows_posts(now))) mask();
      more = send(now, masked() ? kBurstsUnderMask : 1);
      if (more && masked()) unmask();
      done = os_now();
      if (in_row) polls_.on_call_done(done);
    }
    polls_.on_posted(done);
    if (looks_out && masked()) {
      const bool is_told = await_write(lock, writes_after_posts_);
      polls_.on_poll_done(os_now(), /*found=*/false, is_told);
    } else if (is_left) {
      writes_after_posts_.on_left(done);
    }
    inform_background(more);
  }

  /// Sends what there is, up to a burst, with the lock held: before something is destroyed that has answers to send.
  void send_now(const TurnLock::Held& lock) {
    UROCE_ASSERT(lock.owns_lock());
    transmit(os_now());
    port_->flush();
  }
  /// The same when the process exits, unless somebody holds the lock for longer than kExitWait: perhaps for ever.
  void send_before_exit() {
    if (const TurnLock::Held lock = lock_.try_lock_for(kExitWait)) send_now(lock);
  }

  /// Turns the crank once, with the lock held, for a thread that polls and found nothing; completions may be there now.
  /// In time, the background thread leaves the network to such threads. A turn for nothing gives the processor away,
  /// without the lock, when there is only one; and to look out for a peer's WRITE may sleep without it (kLookOutMost).
  void poll(TurnLock::Held& held) {
    UROCE_ASSERT(held.owns_lock());
    const Instant now = os_now();
    CrowdWatch& crowd = note_caller(now);
    note_poll(now);
    if (!masked() && polls_.waits(now)) mask();
    // A poller that can be trusted to come again sends its answers then, in one system call with what it will have
    // posted. If it deceives us, the background thread sends them when trust ends, as with packets that arrive then.
    begin_turn(now);
    const SilentWrites writes(nic_);
    const Progress progress = turn_crank(
        nic_, *port_, now, leaves_to_poller(now) ? Answers::kNextTurn : Answers::kAtOnce, [this] { tell_progress(); });
    const bool was_idle = progress.is_idle();
    crowd.on_turn(this, now, was_idle, preemptions);
    bool is_told = may_react(writes);
    // The program may have found what it waited for.
    if (masked() && progress.received > 0 && !polls_.is_loyal(now)) is_told |= hand_back(held, writes.count() > 0);
    inform_background(/*more=*/progress.transmitted >= kCrankBurst);
    if (was_idle && one_processor_) {
      held.unlock();
      ::sched_yield();  // A peer that could send something may need this processor.
      held = lock();
    } else if (was_idle && port_->was_quick()) {
      return;  // `now` is still right.
    }
    polls_.on_poll_done(os_now(), progress.received > 0, is_told);
  }

  /// To be called, with the lock held, when that turn has not brought what the thread polls for either. Where others
  /// want its processor it sleeps here, without the lock, until packets come, kCrowdedSleep at most.
  void found_nothing(TurnLock::Held& held) {
    UROCE_ASSERT(held.owns_lock());
    if (!CrowdWatch::of_this_thread().should_sleep()) return;
    const Instant now = os_now();
    if (!may_sleep(now)) return;
    sleep_for_packets(held, now + kCrowdedSleep);
    polls_.on_poll_done(os_now(), /*found=*/false);
  }

  /// To be called, with the lock held, by a thread that polled and found something. May sleep without it, as poll().
  void found(TurnLock::Held& held) {
    UROCE_ASSERT(held.owns_lock());
    const Instant now = os_now();
    note_caller(now).on_found();
    note_poll(now);
    // The background thread may bring packets so fast that the program never gets to turn the crank; both lose time.
    if (!masked() && polls_.waits(now) && polls_.is_loyal(now)) mask();
    if (!masked() || polls_.is_loyal(now)) return polls_.on_poll_done(now, /*found=*/true);
    // What posts left to the polls behind them is here, and the program may not poll on.
    const bool more = posts_left_ > 0 && send(now, kBurstsUnderMask);
    const bool is_told = hand_back(held, /*is_written=*/false);
    if (more) inform_background(more);  // Else it looks soon anyway: no wake-up for a deadline.
    polls_.on_poll_done(os_now(), /*found=*/true, is_told);
  }

  /// To be called, with the lock held, by a thread that has polled and is going to sleep for a completion: sends what
  /// is left and has the background thread take over at once instead of within a millisecond.
  void stop_polling(const TurnLock::Held& lock) {
    UROCE_ASSERT(lock.owns_lock());
    polls_.on_stop();
    writes_after_finds_.on_stop();
    writes_after_posts_.on_stop();
    if (!masked()) return;
    unmask();
    inform_background(send(os_now()));
  }

  /// Blocks until `fd` is readable, and turns the crank meanwhile whenever packets arrive: `fd` is something that
  /// on_progress() makes readable, and `is_ready()` says whether it has. Where that usually comes soon, it waits awake
  /// first, kLinger at most. Returns 0, or EINTR (engine/os/interruption.h). A cancellation point.
  template <class IsReady>
  int sleep_until_readable(int fd, const IsReady& is_ready) {
    std::vector<pollfd> polled{{.fd = fd, .events = POLLIN, .revents = 0}};
    // Who sleeps here need not look out before.
    idle_since_.store(Instant{}, std::memory_order_relaxed);
    own_sleeps_.forget();
    const SleepersTurn turn(*this);
    if (turn.is_mine()) {
      for (const int socket : port_->packet_fds()) polled.push_back({.fd = socket, .events = POLLIN, .revents = 0});
    }
    if (is_ready()) return 0;  // To take the turn may have sent something, and completed it.
    if (!turn.is_mine()) return sleep_until_ready(polled, turn, is_ready);
    ::pthread_testcancel();
    const Instant start = os_now();
    const bool has_come = may_stay_awake(event_arrivals_, start) && look_out_for_event(event_arrivals_, is_ready);
    const int error = has_come ? 0 : sleep_until_ready(polled, turn, is_ready);
    if (error == 0) event_arrivals_.on_wait(os_now() - start);
    return error;
  }

  /// To be called, without the lock, by a thread that has armed a CQ and polled it in vain: it is going to sleep for
  /// the event, perhaps in a poll() or epoll_wait() of its own, where only the background thread could move packets.
  /// Where the event usually comes soon, it waits here, awake, kLinger at most. Returns whether `is_ready()`.
  template <class IsReady>
  bool before_sleep(const IsReady& is_ready) {
    const Instant start = os_now();
    idle_since_.store(start, std::memory_order_relaxed);
    if (!own_sleeps_.comes_soon() || is_ready()) return false;
    const bool waits = may_stay_awake(own_sleeps_, start);
    // It was expected back from the last time, and packets are still left to it: only it can change that at once.
    if (!waits && !is_sleeper_due_) return false;
    SleepersTurn turn(*this);
    if (!turn.is_mine()) return false;
    if (!waits || !(is_ready() || look_out_for_event(own_sleeps_, is_ready))) {
      turn.leave();
      return false;
    }
    on_event_taken();
    return true;
  }
  /// A thread of the program has got an event, and has not slept for it in sleep_until_readable().
  void on_event_taken() {
    const Instant since = idle_since_.exchange(Instant{}, std::memory_order_relaxed);
    if (since != Instant{}) own_sleeps_.on_wait(os_now() - since);
  }

  /// Whether packets do not wake the background thread. With the lock held.
  bool leaves_packets_to_program() const { return port_masked_; }
  /// Whether they are left to threads that poll: one of them will be back in a moment, and turn the crank. With the
  /// lock held.
  bool is_left_to_poller() const { return masked(); }

  /// In the child of fork(), where the background thread does not exist: closes the descriptors. Afterwards only the
  /// destructor may be called. Takes no lock: the thread that held it may not exist either.
  void abandon_after_fork() {
    abandon_thread();
    port_->abandon_after_fork();
  }
  /// The same where a signal handler forked inside a call, which may go on with the port.
  void abandon_thread() {
    abandoned_ = true;
    static_cast<void>(thread_.release());  // Neither joinable nor detachable here.
  }

 private:
  /// While it lives, packets are left to the thread that made it, unless another sleeper has them already.
  class SleepersTurn {
   public:
    explicit SleepersTurn(Runner& runner) : runner_(runner) {
      const NoCancellation whole;
      const TurnLock::Held held = runner.lock();
      ++runner.sleepers_;
      is_mine_ = !runner.port_->packet_fds().empty() && !runner.poller_sleeps_ && runner.sleeper_ == nullptr;
      if (!is_mine_) return;
      const Instant now = os_now();
      runner.sleeper_ = this;
      runner.sleeper_seen_ = now;
      runner.sleeps_.on_sleep(now);
      runner.is_sleeper_due_ = false;
      runner.update_mask();
      runner.background_sleep_.on_sleeper();
      if (runner.has_kept_ || runner.posts_left_ > 0) runner.inform_background(runner.send(os_now()));
    }
    ~SleepersTurn() {
      const NoCancellation whole;
      const TurnLock::Held held = runner_.lock();
      if (is_mine_ && runner_.sleeper_ != this) return;  // Dismissed; what the port expects is up to others now.
      if (is_mine_) {
        runner_.port_->expect_packets(false);  // A thread that was cancelled has not said so.
        if (!leaves_) runner_.sleeps_.on_event(os_now());
        runner_.is_sleeper_due_ = !leaves_ && runner_.expects_sleeper();
        runner_.sleeper_ = nullptr;
        runner_.update_mask();
        if (runner_.is_sleeper_due_) {
          runner_.background_sleep_.have_it_watch();
        } else if (runner_.has_kept_) {
          runner_.inform_background(runner_.send(os_now()));
        }
      }
      --runner_.sleepers_;
    }
    SleepersTurn(const SleepersTurn&) = delete;
    SleepersTurn& operator=(const SleepersTurn&) = delete;
    bool is_mine() const { return is_mine_ && runner_.sleeper_ == this; }
    /// It goes without its event, and sleeps elsewhere: packets are the background thread's.
    void leave() { leaves_ = true; }

   private:
    Runner& runner_;
    bool is_mine_ = false;
    bool leaves_ = false;
  };

  /// Whether the sleeper will be back soon, and nobody else sleeps. If it deceives us, the background thread does what
  /// there is to do, within two milliseconds. With the lock held.
  bool expects_sleeper() const { return sleepers_ == 1 && sleeps_.comes_back(); }
  /// Sleeps, and turns the crank whenever a packet has come. `polled`: the descriptor of events, then those of packets.
  template <class IsReady>
  int sleep_until_ready(std::vector<pollfd>& polled, const SleepersTurn& turn, const IsReady& is_ready) {
    while (true) {
      const bool may_sleep = !turn.is_mine() || port_->expect_packets(true);
      const timespec no_time{};
      const int ready = poll_all(polled, may_sleep ? nullptr : &no_time);
      const int error = errno;
      if (turn.is_mine()) port_->expect_packets(false);
      if (ready < 0 && error == EINTR && handlers_restart()) continue;
      if (ready < 0) return error;
      if (polled.front().revents != 0) return 0;
      const NoCancellation whole;
      Turned turned = Turned::kUnfinished;
      while (turned == Turned::kUnfinished) turned = turn_for_sleeper(lock_.queue_up(), is_ready);
      if (turned == Turned::kEvent) return 0;
    }
  }
  /// Turns the crank for a sleeper that waits awake where events usually come soon. Returns whether it has its event.
  template <class IsReady>
  bool look_out_for_event(ArrivalWatch& watch, const IsReady& is_ready) {
    const Instant start = os_now();
    constexpr int kPauses = 16;
    const NoCancellation whole;
    Turned turned = Turned::kNothing;
    while (turned == Turned::kUnfinished || os_now() < start + Pace::of(kLinger)) {
      if (const TurnLock::Held held = lock_.try_lock()) {
        turned = turn_for_sleeper(held, is_ready);
      } else {  // Who has the lock may find it, and must not have to wait for us meanwhile.
        for (int i = 0; i < kPauses; ++i) pause_processor();
        if (turned != Turned::kUnfinished && is_ready()) turned = Turned::kEvent;
      }
      if (turned == Turned::kEvent) return true;
    }
    watch.on_nothing();
    return false;
  }
  enum class Turned : std::uint8_t {
    kNothing,
    kEvent,       ///< The sleeper has it.
    kUnfinished,  ///< There is more to send.
  };
  /// Takes what has come. If the sleeper has its event then, what that gave rise to, the answer above all, waits for
  /// what the sleeper posts, if it usually posts something and comes back: the peer is woken once for both.
  template <class IsReady>
  Turned turn_for_sleeper(const TurnLock::Held& held, const IsReady& is_ready) {
    UROCE_ASSERT(held.owns_lock());
    const Instant now = os_now();
    sleeper_seen_ = now;
    begin_turn(now);
    const Progress progress = turn_crank(nic_, *port_, now, Answers::kNextTurn, [this] { tell_progress(); });
    const bool has_event = is_ready();
    if (progress.is_idle()) {
      inform_background(/*more=*/false);  // Of what the turn before, if it was unfinished, gave rise to.
      return has_event ? Turned::kEvent : Turned::kNothing;
    }
    bool more = progress.transmitted >= kCrankBurst;
    if (has_event && !more && progress.received <= kAnswersKept && expects_sleeper() && sleeps_.posts()) {
      keep_answers();
    } else {
      more |= send(os_now());
    }
    if (more && !has_event) return Turned::kUnfinished;
    inform_background(more);
    return has_event || is_ready() ? Turned::kEvent : Turned::kNothing;
  }
  void keep_answers() {
    has_kept_ = true;
    if constexpr (requires { nic_.answer_first(); }) nic_.answer_first();
  }

  /// Whether the calling thread, which polls and has found nothing, may sleep for the next packet. Only if nobody else
  /// needs the turns that it does not take, nor to be told of packets, and nothing waits to be sent.
  bool may_sleep(Instant now) {
    const bool is_alone = now - alone_since_ >= kAloneFor && sleepers_ == 0 && !is_sleeper_due_;
    return is_alone && !one_processor_ && is_polled(now) && (polls_.is_loyal(now) || awaits_write()) &&
           !port_->packet_fds().empty() && !port_->tx_frame().empty();
  }
  /// Sleeps for such a thread, without the lock, until packets come, the NIC has something to do, or until `latest`.
  /// Returns false for the last.
  bool sleep_for_packets(TurnLock::Held& held, Instant latest) {
    std::vector<pollfd> polled;
    for (const int fd : port_->packet_fds()) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    const Instant end = std::min(nic_.next_deadline().value_or(latest), latest);
    poller_sleeps_ = true;
    held.unlock();
    const NoCancellation whole;
    const Instant since = os_now();
    const timespec most = time_until(end);
    const bool came = !port_->expect_packets(true) || poll_all(polled, &most) != 0;
    port_->expect_packets(false);
    held = lock();
    poller_sleeps_ = false;
    const bool in_vain = !came && end == latest;
    CrowdWatch::of_this_thread().on_slept(since, os_now(), in_vain);
    return !in_vain;
  }

  /// Whether the program, as far as is known, watches its memory.
  bool awaits_write() const { return writes_after_finds_.expects() || writes_after_posts_.expects(); }
  /// Leaves packets to the background thread again, behind a poll that has received some. `is_written`: peers wrote to
  /// the program's memory. When they will do so in a moment, that is taken before: to have the background thread woken
  /// for it costs more. Returns whether it was.
  bool hand_back(TurnLock::Held& held, bool is_written) {
    if (!is_written && writes_after_finds_.should_look_out()) return await_write(held, writes_after_finds_);
    unmask();
    if (!is_written) writes_after_finds_.on_left(os_now());
    return false;
  }
  /// Takes an answer that is known to come, while packets are masked, and unmasks them. Returns whether some of it
  /// came.
  bool await_write(TurnLock::Held& held, WriteWatch& watch) {
    const NoCancellation whole;  // The program has not got what it found, or does not know what it has posted.
    const SilentWrites writes(nic_);
    const LookOut done = look_out(held, writes, watch);
    watch.on_look_out(writes.count(), done.is_over);
    if (masked()) unmask();
    if (done.more) inform_background(done.more);
    return writes.count() > 0;
  }
  struct LookOut {
    bool is_over = true;  ///< Its time was; else it was interrupted.
    bool more = false;    ///< There is more to send.
  };
  /// Turns the crank until there are as many `writes` as usual, its time is over, or another thread wants the NIC or
  /// has taken over. Behind a post also until it had better sleep, but would wake up late: meanwhile the program could
  /// watch its memory, and the background thread gets a processor at once (ask_for_short_slices()).
  LookOut look_out(TurnLock::Held& held, const SilentWrites<N>& writes, const WriteWatch& watch) {
    CrowdWatch& crowd = CrowdWatch::of_this_thread();
    LookOut done;
    Instant now = os_now();
    const Instant latest = now + Pace::of(kLookOutMost);
    for (Instant end = now + Pace::of(kLookOut); now < end && writes.count() < watch.usual_writes(); now = os_now()) {
      if (lock_.is_wanted() || !masked()) return {.is_over = false, .more = done.more};
      begin_turn(now);
      const Progress progress = turn_crank(nic_, *port_, now, Answers::kAtOnce, [this] { tell_progress(); });
      done.more = progress.transmitted >= kCrankBurst;
      crowd.on_turn(this, now, progress.is_idle(), preemptions);
      polls_.on_call_done(now);
      bool goes_on = progress.received > 0;
      if (!goes_on && crowd.should_sleep()) {
        if (&watch == &writes_after_posts_ && crowd.wakes_late()) return {.is_over = false, .more = done.more};
        goes_on = may_sleep(now) && sleep_for_packets(held, std::min(now + kCrowdedSleep, latest));
      }
      if (goes_on) end = std::min(os_now() + Pace::of(kLookOut), latest);
    }
    return done;
  }

  /// Whether the program may react to what was written in a turn. With one processor the peer runs only while the
  /// program polls or sleeps, so that its WRITEs come to polls.
  bool may_react(const SilentWrites<N>& writes) const { return writes.are_few() && !one_processor_; }

  /// Notes which thread of the program calls, and returns its watch. With the lock held.
  CrowdWatch& note_caller(Instant now) {
    CrowdWatch& crowd = CrowdWatch::of_this_thread();
    if (std::exchange(caller_, &crowd) != &crowd) alone_since_ = now;
    writes_after_finds_.on_call();
    writes_after_posts_.on_call();
    return crowd;
  }

  /// With the lock held.
  void note_poll(Instant now) {
    const bool was_there = polls_.is_recent(now, kPollerTrust);
    polls_.on_poll(now, was_preempted);
    if (was_there && masked()) background_sleep_.put_off(now);
  }

  void tell_progress() const {
    if (on_progress_) on_progress_();
  }
  void begin_turn(Instant now) {
    posts_left_ = 0;
    has_kept_ = false;
    if (before_turn_) before_turn_(now);
  }
  std::size_t transmit(Instant now) {
    begin_turn(now);
    return take_transmits(nic_, *port_, now);
  }

  void send_last() {
    port_->mask_packets(true);  // Nobody takes them any more: they must not end the waits for room.
    const Instant latest = os_now() + kLastWait;
    while (true) {
      const bool had_room = !port_->tx_frame().empty();
      const std::size_t sent = transmit(os_now());
      port_->flush();
      if (sent > 0) continue;
      const Instant now = os_now();
      if ((had_room && port_->is_idle()) || now >= latest) return;
      port_->wait(std::min(now + kLastLook, latest));
    }
  }

  /// Sends what there is, up to so many bursts, and tells of what came of it. Returns whether there may be more.
  bool send(Instant now, int bursts = 1) {
    bool more = true;
    for (int i = 0; more && i < bursts; ++i) {
      const std::size_t count = transmit(i == 0 ? now : os_now());
      if (count > 0) port_->flush();
      more = count >= kCrankBurst;
    }
    tell_progress();
    return more;
  }

  void run() {
    while (!stop_.load(std::memory_order_relaxed)) {
      if (masked()) {
        if (watch_poller()) continue;
      } else {
        watches_ = 0;
        is_relaxed_ = false;
        poller_ran_ = {};
      }
      if (turn_in_background() || linger()) continue;
      const Instant now = os_now();
      leave_program_alone(now);
      // While a program polls time and again, masking need not wake this thread.
      if (is_sleeper_due_ || polls_.is_recent(now, kPollsOver) || sleeps_.is_recent(now, kPollsOver)) {
        background_sleep_.sleep_watching(kPollerTrust);
      } else if (sleeper_ != nullptr) {
        background_sleep_.sleep_beside_sleeper();
      } else {
        background_sleep_.sleep();
      }
      received_since_sleep_ = 0;
    }
  }

  /// Moves this thread to another processor when it keeps interrupting the program that it works for.
  void leave_program_alone(Instant now) {
    if (one_processor_) return;
    const int processor = ::sched_getcpu();
    if (place_.is_in_the_way(now, processor, received_since_sleep_, [this] { return polls_.poller_ran(); })) {
      leave_processor(processor);
    }
  }

  /// Packets are masked: sleeps until it is time to look again whether the poller is still there. Returns false when it
  /// is not.
  bool watch_poller() {
    const bool is_there = polls_.is_recent(os_now(), kPollerTrust);
    // After a long sleep nobody knows what the poller did in the end of it.
    const bool was_long = is_relaxed_;
    watches_ = is_there ? watches_ + 1 : 0;
    if (!is_there && !was_long) return false;
    is_relaxed_ = watches_ > kWatchesToRelax && !was_long;
    const Duration ran_before = polls_.poller_ran();
    is_relaxed_ ? background_sleep_.watch_relaxed() : background_sleep_.watch_for(kPollerTrust);
    poller_ran_ = polls_.poller_ran() - ran_before;
    return true;
  }

  bool masked() const { return masked_.load(std::memory_order_relaxed); }
  /// Whether a poller will be back in a moment, to send what there is to send.
  bool leaves_to_poller(Instant now) const { return is_polled(now) && polls_.is_loyal(now); }
  /// Whether packets are left to a thread that polls, and did so a moment ago.
  bool is_polled(Instant now) const { return masked() && !poller_sleeps_ && polls_.is_recent(now, kPollerTrust); }
  /// Whether a post in a row, to be called once for each, waits for the next one or for the poll behind the last: one
  /// system call for all of them.
  bool leaves_to_next_call(Instant now) {
    if (!masked() || poller_sleeps_ || !polls_.follows_posts(now) || !polls_.continues_posts(now)) return false;
    return ++posts_left_ < kPostsTogether;
  }
  /// Leaves packets to the polling threads. With the lock held.
  void mask() {
    masked_.store(true, std::memory_order_seq_cst);
    update_mask();
    background_sleep_.have_it_watch();
  }
  /// Has packets wake the background thread, and at once if there are any. With the lock held.
  void unmask() {
    masked_.store(false, std::memory_order_relaxed);
    forget_late_sleeper(os_now());
    update_mask();
    background_sleep_.on_unmask();
    tell_progress();
  }
  /// Packets are no longer left to a sleeper that is not there in time.
  void forget_late_sleeper(Instant now) {
    if (!is_sleeper_due_ || sleeps_.is_recent(now, kPollerTrust)) return;
    is_sleeper_due_ = false;
    sleeps_.on_absence();
    update_mask();
  }
  /// Packets are no longer left to a sleeper that does not come for them: some were there. With the lock held.
  void dismiss_late_sleeper(Instant now) {
    if (sleeper_ == nullptr || now - sleeper_seen_ < kSleeperTrust) return;
    sleeper_ = nullptr;
    --sleepers_;
    port_->expect_packets(false);
    update_mask();
  }
  /// Has packets wake the background thread unless a poller or a sleeper has them. With the lock held.
  void update_mask() {
    const bool wanted = masked() || sleeper_ != nullptr || is_sleeper_due_;
    if (std::exchange(port_masked_, wanted) != wanted) port_->mask_packets(wanted);
  }

  bool is_stream() const { return received_since_sleep_ >= kStreamPackets; }
  /// In the midst of a stream, and where requests follow each other, the next packets are here sooner than a sleep and
  /// a wake-up take, of which the sender, too, pays a part. Looks out for them a little, without the lock. Returns
  /// whether something came. On a single processor it would keep the sender from sending them.
  bool linger() {
    if (one_processor_) return false;
    const Instant start = os_now();
    const bool in_stream = is_stream();
    if (!in_stream && !stays_awake(start)) return false;
    const Instant deadline = background_sleep_.wake_at().value_or(Instant::max());
    // No more yields: on a busy machine each gives the core away for milliseconds.
    while (!port_->wait(start)) {
      const Instant now = os_now();
      if (now < std::min(start + Pace::of(kLinger), deadline)) continue;
      if (!in_stream && now < deadline) arrivals_.on_nothing();
      return false;
    }
    if (!in_stream) received_since_sleep_ = 0;  // One by one they are no stream.
    return true;
  }
  /// Whether the next packet usually comes soon, behind one that was taken, and nobody else wants this processor.
  bool stays_awake(Instant now) {
    return has_taken_ && !masked() && !is_sleeper_due_ && may_stay_awake(arrivals_, now);
  }
  /// Whether what `watch` watches usually comes soon, and nobody else wants this processor, of several.
  bool may_stay_awake(ArrivalWatch& watch, Instant now) const {
    if (one_processor_ || !watch.should_stay_awake(now)) return false;
    ::sched_yield();
    return watch.on_yield(now, os_now());
  }

  /// Returns whether another turn is needed before sleeping; if not, background_sleep_ knows how long.
  bool turn_in_background() {
    const TurnLock::Held held = lock_.queue_up();
    const Instant now = os_now();
    if (masked() && polls_.is_recent(now, kPollerTrust)) return true;  // It was there, in a long turn of its own.
    background_sleep_.on_turn();
    const bool took_over = masked();
    if (took_over) unmask();
    forget_late_sleeper(now);
    // How long the poller ran while it was watched.
    const bool is_deserted = took_over && std::exchange(poller_ran_, Duration{}) > kPollerTrust / 2;
    const bool had_posts = posts_left_ > 0;
    begin_turn(now);
    const SilentWrites writes(nic_);
    const Progress progress = turn_crank(nic_, *port_, now, Answers::kAtOnce, [this] { tell_progress(); });
    received_since_sleep_ += progress.received;
    has_taken_ = progress.received > 0;
    if (may_react(writes)) polls_.on_written();
    if (writes.count() > 0 && !one_processor_) {
      writes_after_finds_.on_written(now, writes.count());
      writes_after_posts_.on_written(now, writes.count());
    }
    if (has_taken_) {
      dismiss_late_sleeper(now);
      arrivals_.on_packets(os_now());
    }
    const bool was_needed = progress.received > 0 || had_posts;
    if (took_over && was_needed) polls_.on_absence();
    if (is_deserted && was_needed) polls_.on_deserted(now);
    // In a stream more are there by now. Else the sleep will tell, and a turn for nothing costs as much.
    if ((progress.received > 0 && is_stream()) || progress.transmitted >= kCrankBurst) return true;
    background_sleep_.plan(now, nic_.next_deadline(), progress.received > 0);
    return false;
  }

  /// Wakes the background thread, with the lock held, if it sleeps although there is something for it to know: a
  /// deadline before the end of its sleep, or more packets than were sent.
  void inform_background(bool more) {
    if (background_sleep_.is_informed() || masked()) return;  // It will look by itself, and soon.
    more ? background_sleep_.wake() : background_sleep_.inform(nic_.next_deadline());
  }

  N& nic_;
  const std::unique_ptr<Port> port_;
  const OnProgress on_progress_;
  const BeforeTurn before_turn_;
  TurnLock lock_;
  PollWatch polls_;
  WriteWatch writes_after_finds_;  ///< Behind polls that found something, ...
  WriteWatch writes_after_posts_;  ///< ... and behind posts that no poll followed.
  int posts_left_ = 0;             ///< Posts of a row that were not sent yet. Guarded by lock_.
  bool has_kept_ = false;          ///< Answers wait for the sleeper's next call. Guarded by lock_.
  PlaceWatch place_;
  ArrivalWatch arrivals_;              ///< Of the background thread, ...
  ArrivalWatch event_arrivals_;        ///< ... of the SleepersTurn, ...
  ArrivalWatch own_sleeps_;            ///< ... and of one that goes on to sleep elsewhere.
  std::atomic<Instant> idle_since_{};  ///< When it was last about to, and has had no event since; else Instant{}.
  BackgroundSleep background_sleep_{*port_};
  Duration poller_ran_{};                 ///< While the background thread watched it, the last time.
  bool is_relaxed_ = false;               ///< That was for kRelaxedWatch, else for kPollerTrust.
  int watches_ = 0;                       ///< In a row at whose end the poller was there.
  bool has_taken_ = false;                ///< Packets, in the background thread's last turn.
  std::size_t received_since_sleep_ = 0;  ///< By the background thread.
  std::atomic<bool> masked_ = false;      ///< Packets are left to pollers. Changed with the lock held.
  SleepWatch sleeps_;
  std::atomic<const SleepersTurn*> sleeper_ = nullptr;  ///< Packets are left to it.
  Instant sleeper_seen_{};                              ///< When it came, or last turned the crank. Guarded by lock_.
  int sleepers_ = 0;                          ///< Threads that sleep for events. Guarded by lock_, up to port_masked_.
  std::atomic<bool> is_sleeper_due_ = false;  ///< Packets are left to one that will be there soon.
  bool port_masked_ = false;                  ///< What the port was told.
  bool poller_sleeps_ = false;                ///< In sleep_for_packets(). Guarded by lock_, ...
  const CrowdWatch* caller_ = nullptr;        ///< ... as is that of the thread that called last, ...
  Instant alone_since_{};                     ///< ... and since when it has been the only one.
  std::atomic<bool> stop_ = false;
  bool abandoned_ = false;
  const bool one_processor_ = has_one_processor();
  std::unique_ptr<BackgroundThread> thread_;
};

}  // namespace uroce::engine
