// Drives a NIC over a port: who turns the crank, and when.
//
// - A thread that polls (ibv_poll_cq on an empty CQ) turns it itself, in its own time: no wake-ups, no hand-over.
// - A background thread sleeps in the kernel, for packets and for the NIC's next deadline, and turns it when nobody
//   polls: targets of RDMA READ and WRITE, timers, programs that sleep on completion channels.
// - While somebody polls, the background thread does not look at packets at all; it checks once a millisecond whether
//   the poller is still there and takes over when not.
//
// One mutex guards NIC and port. It is handed on in order of arrival (see lock()): a thread that polls in a tight loop
// would otherwise take it again before a thread that posts has woken up.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/os/background_thread.h"
#include "engine/os/os_clock.h"
#include "engine/run/crank.h"
#include "engine/run/poll_watch.h"
#include "proto/base/check.h"

namespace uroce::engine {

template <SansIoNic N>
class Runner {
 public:
  /// Called with the lock held whenever the NIC may have got events: the place to take them out.
  using OnProgress = std::function<void()>;
  /// Called with the lock held before this thread has the NIC move packets, with the time that the NIC is told.
  using BeforeTurn = std::function<void(Instant now)>;

  /// Starts the background thread. `nic` must outlive the runner.
  Runner(N& nic, std::unique_ptr<Port> port, OnProgress on_progress = {}, BeforeTurn before_turn = {})
      : nic_(nic), port_(std::move(port)), on_progress_(std::move(on_progress)), before_turn_(std::move(before_turn)) {
    thread_ = start_background_thread([this] { run(); });
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  /// Stops the background thread, then sends what the NIC still has to send (last acknowledgements).
  ~Runner() {
    if (abandoned_) return;
    stop_.store(true, std::memory_order_relaxed);
    port_->wake();
    thread_->join();
    while (transmit(os_now()) == kCrankBurst) port_->flush();
    port_->flush();
  }

  /// Exclusive use of NIC and port. First come, first served.
  std::unique_lock<std::mutex> lock() {
    // A thread that waits for `mutex_` holds `turnstile_`, so that nobody overtakes it.
    const std::lock_guard turn(turnstile_);
    return std::unique_lock(mutex_);
  }
  /// The port, for acquire_source_port() and the counters. Only with the lock held.
  Port& port() { return *port_; }

  /// To be called, with the lock held, after a call on the NIC that may have produced packets or an earlier deadline.
  /// Sends at once unless a poller is about to.
  void posted(const std::unique_lock<std::mutex>& lock) {
    UROCE_ASSERT(lock.owns_lock());
    const Instant now = os_now();
    std::size_t count = 0;
    if (now >= polls_.trusted_until()) {
      count = transmit(now);
      if (count > 0) port_->flush();
      tell_progress();
    }
    inform_background(now, /*more=*/count >= kCrankBurst);
  }

  /// Sends what there is, up to a burst, with the lock held: before something is destroyed that has answers to send.
  void send_now(const std::unique_lock<std::mutex>& lock) {
    UROCE_ASSERT(lock.owns_lock());
    transmit(os_now());
    port_->flush();
  }
  /// The same when the process exits, unless somebody holds the lock, who may never give it back.
  void send_before_exit() {
    const std::unique_lock turn(turnstile_, std::try_to_lock);
    if (!turn) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) send_now(lock);
  }

  /// Turns the crank once, if nobody else does or waits to; never blocks. Returns whether it did, so that completions
  /// may be there now. For threads that poll: in time, the background thread leaves the network to them.
  bool try_progress() {
    const Instant now = os_now();
    polls_.on_poll(now);
    std::unique_lock turn(turnstile_, std::try_to_lock);
    if (!turn) return false;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    turn.unlock();  // Before the work: who comes meanwhile must be able to queue up.
    if (!lock) return false;
    // A poller that can be trusted to come again sends its answers then, in one system call with what it will have
    // posted. If it deceives us, the background thread sends them when trust ends, as with packets that arrive then.
    begin_turn(now);
    turn_crank(nic_, *port_, now, now < polls_.trusted_until() ? Answers::kNextTurn : Answers::kAtOnce,
               [this] { tell_progress(); });
    inform_background(now, /*more=*/false);
    polls_.on_poll_done(os_now());
    return true;
  }

  /// To be called by a thread that has polled and is going to sleep for a completion: sends what is left and has the
  /// background thread take over at once instead of within a millisecond.
  void stop_polling() {
    const bool was_trusted = os_now() < polls_.trusted_until();
    polls_.on_stop();
    if (!was_trusted) return;
    posted(lock());
    port_->wake();
  }

  /// In the child of fork(), where the background thread does not exist: closes the descriptors. Afterwards only the
  /// destructor may be called. Takes no lock: the thread that held it may not exist either.
  void abandon_after_fork() {
    abandoned_ = true;
    static_cast<void>(thread_.release());  // Neither joinable nor detachable here.
    port_->abandon_after_fork();
  }

 private:
  void tell_progress() const {
    if (on_progress_) on_progress_();
  }
  void begin_turn(Instant now) const {
    if (before_turn_) before_turn_(now);
  }
  std::size_t transmit(Instant now) {
    begin_turn(now);
    return take_transmits(nic_, *port_, now);
  }

  void run() {
    while (!stop_.load(std::memory_order_relaxed)) {
      const Instant trusted_until = polls_.trusted_until();
      if (os_now() < trusted_until) {
        ticking_.store(true, std::memory_order_relaxed);
        port_->wait(trusted_until, /*for_packets=*/false);
        took_over_ = true;
        continue;
      }
      if (turn_in_background() || linger()) continue;
      port_->wait(wake_at_, /*for_packets=*/true);
      received_since_sleep_ = 0;
    }
  }

  /// In the midst of a stream the next packets are here sooner than a sleep and a wake-up take, of which the sender,
  /// too, pays a part. Looks out for them a little, without the lock. Returns whether something came.
  bool linger() {
    if (received_since_sleep_ < kStreamPackets) return false;
    const Instant now = os_now();
    const Instant end = std::min(now + kStreamLinger, wake_at_.value_or(Instant::max()));
    // No yield(): on a busy machine that gives the core away for milliseconds.
    while (!port_->wait(now, /*for_packets=*/true)) {
      if (os_now() >= end) return false;
    }
    return true;
  }

  /// Returns whether another turn is needed before sleeping; if not, `wake_at_` says how long to sleep.
  bool turn_in_background() {
    const std::unique_lock held = lock();
    const Instant now = os_now();
    ticking_.store(false, std::memory_order_relaxed);
    informed_ = false;
    begin_turn(now);
    const Progress progress = turn_crank(nic_, *port_, now, Answers::kAtOnce, [this] { tell_progress(); });
    received_since_sleep_ += progress.received;
    if (std::exchange(took_over_, false) && progress.received > 0) polls_.on_deserted(now);
    if (progress.more()) return true;
    // An earlier time than the NIC needs does no harm, and not having to be woken for the next deadline, which is
    // usually a moved retransmission timer, is worth one turn for nothing.
    const bool has_time = asleep_until_ > now && asleep_until_ != Instant::max();
    asleep_until_ = std::min(nic_.next_deadline().value_or(Instant::max()), has_time ? asleep_until_ : Instant::max());
    wake_at_ = asleep_until_ == Instant::max() ? std::nullopt : std::optional(asleep_until_);
    return false;
  }

  /// Wakes the background thread, with the lock held, if it sleeps although there is something for it to know: a poller
  /// to watch, a deadline before the end of its sleep, or more packets than were sent.
  void inform_background(Instant now, bool more) {
    if (informed_ || ticking_.load(std::memory_order_relaxed)) return;  // It will look by itself, and soon.
    if (!more && now >= polls_.trusted_until()) {
      const std::optional<Instant> deadline = nic_.next_deadline();
      if (!deadline || *deadline >= asleep_until_) return;
    }
    informed_ = true;
    port_->wake();
  }

  N& nic_;
  const std::unique_ptr<Port> port_;
  const OnProgress on_progress_;
  const BeforeTurn before_turn_;
  std::mutex turnstile_;
  std::mutex mutex_;
  PollWatch polls_;
  Instant asleep_until_ = Instant::max();  ///< Guarded by mutex_: when the background thread wakes up by itself.
  std::optional<Instant> wake_at_;         ///< The same, for the background thread alone.
  std::size_t received_since_sleep_ = 0;   ///< By the background thread.
  bool took_over_ = false;                 ///< The background thread has just watched a poller go away.
  bool informed_ = false;                  ///< Guarded by mutex_: woken since its last turn.
  std::atomic<bool> ticking_ = false;      ///< The background thread watches a poller.
  std::atomic<bool> stop_ = false;
  bool abandoned_ = false;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace uroce::engine
