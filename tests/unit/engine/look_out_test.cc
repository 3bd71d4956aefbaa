// SPDX-License-Identifier: Apache-2.0
// Where the next packet is known to come soon, a thread that has found its completion or has posted, one that sleeps
// for events, and the background thread look out for it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/os/wake_event.h"
#include "engine/run/crowd_watch.h"
#include "engine/run/runner.h"
#include "proto/packet.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::os_now;

/// What an exchange() with the network brings.
enum class Step : std::uint8_t { kNothing, kAck, kWrite };

/// A network that does what it is told.
class ScriptedPort final : public engine::Port {
 public:
  /// What the next calls of exchange() bring.
  void script(std::initializer_list<Step> steps) {
    const std::scoped_lock lock(mutex_);
    steps_.insert(steps_.end(), steps);
    changed_.notify_all();
    if (!steps_.empty()) arrived_.signal();
  }

  /// The same, once packets are left to the program.
  void script_when_masked(std::initializer_list<Step> steps) {
    const std::scoped_lock lock(mutex_);
    steps_when_masked_ = steps;
  }
  /// Takes that back. Returns whether there was nothing left of it.
  bool unscript() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(steps_when_masked_, {}).empty();
  }

  std::size_t exchange(engine::DatagramSink& sink, std::size_t) override {
    if (std::this_thread::get_id() == slow_) std::this_thread::sleep_for(takes_);
    std::unique_lock lock(mutex_);
    if (steps_.empty() && !is_flooded_) return 0;
    if (steps_.empty()) steps_.push_back(Step::kAck);
    const auto step = static_cast<std::uint8_t>(steps_.front());
    steps_.pop_front();
    if (steps_.empty()) arrived_.clear();
    lock.unlock();
    if (step == 0) return 0;
    sink.on_datagram({.path = {}, .payload = {&step, 1}});
    return 1;
  }
  /// How often the background thread has gone to sleep, and how often it only looked whether a packet is there.
  struct Waits {
    std::uint64_t sleeps = 0;
    std::uint64_t looks = 0;
  };
  Waits waits() {
    const std::scoped_lock lock(mutex_);
    return waits_;
  }
  /// Until it has gone to sleep since `before`, or looked twice before that, which is no end of a sleep. Whether it
  /// did.
  bool has_looked_since(const Waits& before) {
    std::unique_lock lock(mutex_);
    const auto has_looked = [&] { return waits_.looks > before.looks + 1; };
    EXPECT_TRUE(changed_.wait_for(lock, 5s, [&] { return has_looked() || waits_.sleeps > before.sleeps; }));
    return has_looked();
  }
  /// How often a thread of the program has gone to sleep for packets.
  std::uint64_t program_sleeps() {
    const std::scoped_lock lock(mutex_);
    return program_sleeps_;
  }
  /// Until it has done so more often than `before`.
  void see_program_sleep(std::uint64_t before) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 5s, [&] { return program_sleeps_ > before; }));
  }
  std::span<const int> packet_fds() const override { return {&arrived_fd_, 1}; }
  bool expect_packets(bool expected) override {
    const std::scoped_lock lock(mutex_);
    is_expecting_ = expected;
    if (expected) ++program_sleeps_;
    changed_.notify_all();
    return true;
  }
  bool is_empty() {
    const std::scoped_lock lock(mutex_);
    return steps_.empty();
  }
  /// What expect_packets() was told last.
  bool is_expecting() {
    const std::scoped_lock lock(mutex_);
    return is_expecting_;
  }
  /// Each of them takes so long from now on where this thread calls it.
  void slow_down(Duration takes) {
    takes_ = takes;
    slow_ = std::this_thread::get_id();
  }
  /// Each of them brings something from now on.
  void flood(bool flooded) {
    const std::scoped_lock lock(mutex_);
    is_flooded_ = flooded;
  }
  bool wait(std::optional<Instant> deadline) override {
    std::unique_lock lock(mutex_);
    ++(deadline && *deadline <= os_now() ? waits_.looks : waits_.sleeps);
    changed_.notify_all();
    const auto is_over = [this] { return std::exchange(is_woken_, false) || (!is_masked_ && !steps_.empty()); };
    return changed_.wait_for(lock, std::clamp<Duration>(deadline.value_or(Instant::max()) - os_now(), 0s, 1s), is_over);
  }
  void mask_packets(bool masked) override {
    const std::scoped_lock lock(mutex_);
    is_masked_ = masked;
    if (masked) steps_.insert(steps_.end(), steps_when_masked_.begin(), steps_when_masked_.end());
    if (masked) steps_when_masked_.clear();
    changed_.notify_all();
  }
  void wake() override {
    const std::scoped_lock lock(mutex_);
    is_woken_ = true;
    changed_.notify_all();
  }
  MutBytes tx_frame() override { return frame_; }
  void tx_commit(const proto::Transmit&) override {}
  void flush() override {}
  std::uint16_t acquire_source_port(const proto::Gid&, std::uint16_t wanted) override { return wanted; }
  void release_source_port(const proto::Gid&, std::uint16_t) override {}
  void abandon_after_fork() override {}
  engine::PortInfo info() const override { return {}; }
  engine::PortCounters counters() const override { return {}; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Step> steps_;
  std::vector<Step> steps_when_masked_;
  Duration takes_{};
  std::atomic<std::thread::id> slow_{};
  bool is_masked_ = false;
  bool is_woken_ = false;
  bool is_flooded_ = false;
  bool is_expecting_ = false;
  Waits waits_;
  std::uint64_t program_sleeps_ = 0;
  engine::WakeEvent arrived_;  ///< Readable while there are steps.
  const int arrived_fd_ = arrived_.fd();
  std::array<std::uint8_t, proto::kMaxPacketSize> frame_{};
};

/// A NIC that counts the WRITEs of its peer.
class CountingNic {
 public:
  void on_datagram(const proto::Datagram& datagram, Instant) {
    if (datagram.payload.front() == static_cast<std::uint8_t>(Step::kWrite)) ++writes_;
  }
  void on_timeout(Instant) {}
  std::optional<proto::Transmit> poll_transmit(Instant, MutBytes) { return std::nullopt; }
  std::optional<Instant> next_deadline() const { return std::nullopt; }
  std::uint64_t silent_writes() const { return writes_; }

 private:
  std::uint64_t writes_ = 0;
};

/// With the NIC and the network above.
class LookOutTest : public testing::Test {
 protected:
  void SetUp() override {
    if (engine::has_one_processor()) GTEST_SKIP() << "There WRITEs come to polls anyway.";
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "Habits are of microseconds, which the thread sanitizer does not leave.";
#endif
  }

  /// Polls until packets are left to it.
  void poll_in_a_row(engine::TurnLock::Held& lock) {
    for (const Instant limit = os_now() + 5s; !runner.leaves_packets_to_program() && os_now() < limit;)
      runner.poll(lock);
  }
  /// Polls until its completion is there, and packets are the background thread's again. Whether a WRITE was taken
  /// meanwhile that came `nothing` turns later; if not, it may be in the network now.
  bool poll_until_acknowledged(int nothing) {
    std::unique_lock lock = runner.lock();
    const std::uint64_t before = nic.silent_writes();
    poll_in_a_row(lock);
    port.script({Step::kAck});
    for (int i = 0; i < nothing; ++i) port.script({Step::kNothing});
    port.script({Step::kWrite});
    runner.poll(lock);
    return nic.silent_writes() > before;
  }
  /// Does so until the poll takes the WRITE. Returns how many that took.
  std::uint64_t learn() {
    bool was_taken = false;
    std::uint64_t count = nic.silent_writes();
    for (const Instant limit = os_now() + 5s; !was_taken && os_now() < limit;) {
      was_taken = poll_until_acknowledged(/*nothing=*/5);
      see_write(++count);
    }
    EXPECT_TRUE(was_taken);
    return count;
  }
  /// Posts; `if_it_looks_out` comes if the post does so, and else what comes `behind` it. Whether it has taken a WRITE.
  bool post(std::initializer_list<Step> behind,
            std::initializer_list<Step> if_it_looks_out = {Step::kAck, Step::kNothing, Step::kWrite}) {
    std::unique_lock lock = runner.lock();
    const std::uint64_t before = nic.silent_writes();
    port.script_when_masked(if_it_looks_out);
    runner.posted(lock, engine::Runner<CountingNic>::Wait::kForNextCall);
    if (!port.unscript() || if_it_looks_out.size() == 0) port.script(behind);
    EXPECT_FALSE(runner.leaves_packets_to_program());
    return nic.silent_writes() > before;
  }
  /// Does so until a post has taken the WRITE.
  void learn_posts() {
    bool was_taken = false;
    for (const Instant limit = os_now() + 5s; !was_taken && os_now() < limit;) {
      const std::uint64_t before = nic.silent_writes();
      was_taken = post({Step::kWrite});
      see_write(before + 1);  // Else the background thread takes it, also where it has interrupted the post.
    }
    EXPECT_TRUE(was_taken);
  }
  /// Others want the processor of this thread, as far as it knows. `wakes_late`: and they kept it when it woke up.
  void be_in_a_crowd(bool wakes_late) {
    engine::CrowdWatch& crowd = engine::CrowdWatch::of_this_thread();
    const Instant now = os_now();
    const Instant woken = now - 2 * engine::kCrowdedFor;
    crowd.on_turn(&runner, woken, /*was_idle=*/true, [] { return 0L; });
    for (const Duration ago : {2ms, 2ms, 2ms, 2ms, 0ms}) {
      crowd.on_turn(&runner, now - ago, /*was_idle=*/true, [&] { return ago.count(); });
    }
    if (wakes_late) crowd.on_slept(now - 3 * engine::kCrowdedSleep, now, /*in_vain=*/false);
  }
  /// Watches memory until the WRITE is there.
  void see_write(std::uint64_t count) {
    for (const Instant limit = os_now() + 5s; os_now() < limit;) {
      const std::unique_lock lock = runner.lock();
      if (nic.silent_writes() == count) return;
    }
    FAIL() << "the background thread did not take it";
  }

  /// Sleeps until a WRITE has come, which is the event here. `steps`: what comes once it waits.
  void sleep_for_event(std::initializer_list<Step> steps) {
    looks = 0;
    const auto is_ready = [&] {
      if (looks++ == 0) port.script(steps);
      pollfd look{event.fd(), POLLIN, 0};
      return ::poll(&look, 1, 0) == 1;
    };
    EXPECT_EQ(runner.sleep_until_readable(event.fd(), is_ready), 0);
    event.clear();
  }
  /// Does so until it has not slept for it. Returns how many times that took; 0: this machine is too busy for it.
  std::uint64_t learn_events() {
    bool was_awake = false;
    std::uint64_t count = 0;
    std::uint64_t slow_rounds = 0;
    for (const Instant limit = os_now() + 5s; !was_awake && os_now() < limit; ++count) {
      const Instant begin = os_now();
      const std::uint64_t sleeps = port.program_sleeps();
      sleep_for_event({Step::kNothing, Step::kWrite});
      // With one look the background thread had brought the event before.
      was_awake = port.program_sleeps() == sleeps && looks > 1;
      ::sched_yield();
      if (os_now() - begin > engine::Pace::of(engine::kNextSoon)) ++slow_rounds;
    }
    if (!was_awake && slow_rounds > count / 8) return 0;
    EXPECT_TRUE(was_awake);
    return count;
  }
  /// The event comes when a thread sleeps for it, and late. Returns how often the thread has looked before it slept.
  int sleep_for_late_event() {
    const std::uint64_t sleeps = port.program_sleeps();
    std::thread sleeper([this] { sleep_for_event({}); });
    port.see_program_sleep(sleeps);
    const int looked = looks - 1;  // The last look is that of the sleep itself.
    std::this_thread::sleep_for(engine::Pace::of(engine::kNextSoon));
    port.script({Step::kWrite});
    sleeper.join();
    return looked;
  }

  CountingNic nic;
  engine::WakeEvent event;
  std::atomic<int> looks = 0;  ///< For that event.
  std::uint64_t told = 0;
  ScriptedPort& port = *new ScriptedPort;
  engine::Runner<CountingNic> runner{nic, std::unique_ptr<engine::Port>(&port), [this] {
                                       if (std::exchange(told, nic.silent_writes()) != told) event.signal();
                                     }};
};

TEST_F(LookOutTest, TheThreadTakesTheWriteItselfOnceThatIsKnownToCome) {
  EXPECT_GT(learn(), static_cast<std::uint64_t>(engine::kLoyaltyNeeded)) << "too early to know";
}

TEST_F(LookOutTest, APostTakesTheWriteItselfOnceThatIsKnownToCome) {
  learn_posts();
  EXPECT_GT(nic.silent_writes(), static_cast<std::uint64_t>(engine::kLoyaltyNeeded)) << "too early to know";
}

TEST_F(LookOutTest, APostDoesNotWhereAnotherOneMayComeBeforeTheWrite) {
  for (std::uint64_t count = 1; count < 3u * engine::kLoyaltyNeeded; ++count) {
    if (count % 2 == 0) {
      ASSERT_FALSE(post({}));
    }
    ASSERT_FALSE(post({Step::kWrite}));
    see_write(count);
  }
}

TEST_F(LookOutTest, APostInACrowdSleepsForTheWriteUnlessItWouldWakeUpLate) {
  // This thread alone must have used the NIC for a while.
  for (const Instant alone = os_now() + engine::kAloneFor; os_now() < alone;) learn_posts();
  const auto sleeps = [&](bool wakes_late) {
    learn_posts();
    be_in_a_crowd(wakes_late);
    const std::uint64_t before = port.program_sleeps();
    const std::uint64_t writes = nic.silent_writes();
    EXPECT_FALSE(post({Step::kWrite}, /*if_it_looks_out=*/{}));
    see_write(writes + 1);
    return port.program_sleeps() > before;
  };
  bool has_slept = false;
  for (const Instant limit = os_now() + 5s; !has_slept && os_now() < limit;) has_slept = sleeps(/*wakes_late=*/false);
  EXPECT_TRUE(has_slept);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(sleeps(/*wakes_late=*/true));
}

TEST_F(LookOutTest, ItDoesNotWaitForeverWhileOtherPacketsCome) {
  learn();
  std::unique_lock lock = runner.lock();
  poll_in_a_row(lock);
  port.flood(true);
  const clockid_t ran = engine::cpu_clock_of_this_thread();
  const Duration before = engine::cpu_time(ran);
  runner.poll(lock);
  EXPECT_LT(engine::cpu_time(ran) - before, 2 * engine::Pace::of(engine::kLookOutMost));
  port.flood(false);
}

TEST_F(LookOutTest, ItDoesNotWhereTheProgramCallsBeforeTheWriteComes) {
  for (std::uint64_t count = 1; count < 3u * engine::kLoyaltyNeeded; ++count) {
    std::unique_lock lock = runner.lock();
    poll_in_a_row(lock);
    port.script({Step::kAck});
    runner.poll(lock);
    runner.posted(lock);
    port.script({Step::kWrite});
    ASSERT_EQ(nic.silent_writes(), count - 1);
    lock.unlock();
    see_write(count);
  }
  ASSERT_FALSE(poll_until_acknowledged(/*nothing=*/1));
}

TEST_F(LookOutTest, APollerIsThereDuringALongTurnOfItsOwn) {
  port.slow_down(2 * engine::kPollerTrust);
  std::unique_lock lock = runner.lock();
  int turns = 0;
  for (const Instant limit = os_now() + 5s; turns < 50 && os_now() < limit;) {
    poll_in_a_row(lock);
    runner.poll(lock);
    const Instant end = os_now();
    lock.unlock();
    lock = runner.lock();  // Behind the background thread, which wants to see who is there.
    if (os_now() - end > engine::kPollerTrust) continue;  // Nobody was, perhaps.
    ++turns;
    ASSERT_TRUE(runner.leaves_packets_to_program());
  }
}

TEST_F(LookOutTest, TheBackgroundThreadStaysAwakeOnceRequestsAreKnownToFollowEachOther) {
  std::uint64_t count = 0;
  std::uint64_t slow_rounds = 0;
  bool stayed = false;
  for (const Instant limit = os_now() + 5s; !stayed && os_now() < limit;) {
    const Instant begin = os_now();
    const ScriptedPort::Waits before = port.waits();
    port.script({Step::kWrite});
    see_write(++count);
    stayed = port.has_looked_since(before);
    ::sched_yield();
    if (os_now() - begin > engine::Pace::of(engine::kNextSoon)) ++slow_rounds;
  }
  if (!stayed && slow_rounds > count / 8) GTEST_SKIP() << "Others want the processors, or wake-ups take too long here.";
  EXPECT_TRUE(stayed);
  EXPECT_GT(count, static_cast<std::uint64_t>(engine::kLoyaltyNeeded)) << "too early to know";
}

TEST_F(LookOutTest, ASleeperStaysAwakeOnceEventsAreKnownToComeSoon) {
  const std::uint64_t count = learn_events();
  if (count == 0) GTEST_SKIP() << "Others want the processors, or wake-ups take too long here.";
  EXPECT_GT(count, static_cast<std::uint64_t>(engine::kLoyaltyNeeded)) << "too early to know";
}

TEST_F(LookOutTest, ASleeperThatDidNotComeForPacketsLeavesTheNextOneInPeace) {
  std::latch is_kept(1), may_leave(1);
  std::thread kept([&] {
    const auto is_ready = [&] {
      is_kept.count_down();
      may_leave.wait();
      return true;
    };
    EXPECT_EQ(runner.sleep_until_readable(event.fd(), is_ready), 0);
  });
  is_kept.wait();
  const auto are_left = [this] {
    const std::unique_lock lock = runner.lock();
    return runner.leaves_packets_to_program();
  };
  EXPECT_TRUE(are_left());
  for (const Instant limit = os_now() + 5s; are_left() && os_now() < limit; std::this_thread::yield()) {
    if (port.is_empty()) port.script({Step::kAck});
  }
  EXPECT_FALSE(are_left());

  const std::uint64_t sleeps = port.program_sleeps();
  std::thread next([this] { sleep_for_event({}); });
  port.see_program_sleep(sleeps);
  may_leave.count_down();
  kept.join();
  EXPECT_TRUE(port.is_expecting());
  EXPECT_TRUE(are_left());
  port.script({Step::kWrite});
  next.join();
}

TEST_F(LookOutTest, ASleeperSleepsWhereTheEventComesLateAndSoonAtOnce) {
  if (learn_events() == 0) GTEST_SKIP() << "Others want the processors, or wake-ups take too long here.";
  for (int i = 0; i < engine::kLoyaltyMax; ++i) sleep_for_event({Step::kWrite});
  // At most: where a yield took long it did not wait awake, which is no evidence.
  constexpr int kWaits = 1 + (engine::kLoyaltyMax - engine::kLoyaltyNeeded) / engine::kLoyaltyLost;
  int awake = 0;
  for (int i = 0; i < kWaits; ++i) awake += sleep_for_late_event() > 1;
  EXPECT_LE(awake, 1 + (engine::kLoyaltyMax - engine::kLoyaltyNeeded) / (engine::kLookOutsLost * engine::kLoyaltyLost));
  EXPECT_EQ(sleep_for_late_event(), 1);
}

}  // namespace
}  // namespace uroce::test
