// SPDX-License-Identifier: Apache-2.0
// Which thread turns the crank: two NICs that answer each other over real ports.
#include "engine/run/runner.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "engine/os/processors.h"
#include "engine/os/wake_event.h"
#include "engine/run/crowd_watch.h"
#include "tests/support/echo_nic.h"
#include "tests/support/port_fixture.h"

namespace uroce::test {
namespace {

using engine::os_now;

// Habits are of microseconds, which sanitizers do not leave on a busy machine.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr Duration kPatience = 1s;
void habit_was_not_seen() { GTEST_SKIP() << "This is too slow for it."; }
#else
constexpr Duration kPatience = 20s;
void habit_was_not_seen() { FAIL() << "It did not learn the habit."; }
#endif

/// A NIC, its runner, and a way to sleep until something has happened to it.
class Station {
 public:
  Station(const proto::Gid& gid, std::unique_ptr<engine::Port> port)
      : nic_(gid), runner_(nic_, std::move(port), [this] { on_progress(); }) {}

  /// Sleeps until `done(nic)` holds, asked with the lock held; fails the test after some seconds.
  template <class Predicate>
  void sleep_until(Predicate done) {
    std::unique_lock lock = runner_.lock();
    EXPECT_TRUE(progress_.wait_for(lock, 5s, [&] { return done(nic_); }));
  }
  /// A poll that finds nothing.
  void poll() {
    std::unique_lock lock = runner_.lock();
    runner_.poll(lock);
    runner_.found_nothing(lock);
  }
  /// Polls until `done(nic)` holds.
  template <class Predicate>
  void poll_until(Predicate done) {
    const Instant limit = os_now() + 5s;
    while (!with_nic(done)) {
      poll();
      if (os_now() > limit) {
        ADD_FAILURE() << "nothing happened";
        return;
      }
    }
  }
  template <class Function>
  auto with_nic(Function function) {
    const std::unique_lock lock = runner_.lock();
    return function(nic_);
  }
  /// The NIC for a caller that holds the lock.
  EchoNic& nic() { return nic_; }
  /// Posts a request and tells the runner.
  void post(const proto::Gid& to, std::uint64_t tag) {
    std::unique_lock lock = runner_.lock();
    nic_.post(to, tag);
    runner_.posted(lock, engine::Runner<EchoNic>::Wait::kForNextCall);
  }
  void set_timer(Instant deadline) {
    std::unique_lock lock = runner_.lock();
    nic_.set_timer(deadline);
    runner_.posted(lock);
  }
  bool leaves_packets_to_program() {
    const std::unique_lock lock = runner_.lock();
    return runner_.leaves_packets_to_program();
  }
  bool is_left_to_poller() {
    const std::unique_lock lock = runner_.lock();
    return runner_.is_left_to_poller();
  }
  /// Whether the last on_progress() saw that if packets are not left to pollers.
  bool knows_who_takes_packets() {
    const std::unique_lock lock = runner_.lock();
    return runner_.is_left_to_poller() || !told_left_;
  }
  std::size_t queued() {
    return with_nic([](const EchoNic& nic) { return nic.queued(); });
  }
  std::uint64_t sent_packets() {
    const std::unique_lock lock = runner_.lock();
    return runner_.port().counters().sent_packets;
  }
  engine::Runner<EchoNic>& runner() { return runner_; }
  /// Sleeps until event() is readable, and moves packets meanwhile.
  int sleep_for_event() {
    return runner_.sleep_until_readable(event_.fd(), [this] { return has_event(); });
  }
  /// What a program does before it sleeps for event() in a poll() of its own.
  bool before_sleep() {
    return runner_.before_sleep([this] { return has_event(); });
  }
  bool has_event() {
    pollfd look{event_.fd(), POLLIN, 0};
    return ::poll(&look, 1, 0) == 1;
  }
  /// Readable when a reply has come that nobody has been told of.
  engine::WakeEvent& event() { return event_; }
  /// From here on also when a request has.
  void tell_of_requests() {
    const std::unique_lock lock = runner_.lock();
    tells_of_requests_ = true;
  }
  /// The thread that took the last reply from the network.
  std::thread::id taker() {
    const std::unique_lock lock = runner_.lock();
    return taker_;
  }

 private:
  void on_progress() {
    told_left_ = runner_.is_left_to_poller();
    progress_.notify_all();
    const std::size_t count = tells_of_requests_ ? nic_.received.size() : nic_.replies.size();
    if (std::exchange(told_, count) == count) return;
    taker_ = std::this_thread::get_id();
    event_.signal();
  }

  EchoNic nic_;
  std::condition_variable_any progress_;
  engine::WakeEvent event_;
  std::size_t told_ = 0;
  bool told_left_ = false;
  bool tells_of_requests_ = false;
  std::thread::id taker_;
  engine::Runner<EchoNic> runner_;
};

/// A thread that sleeps for an event of `station`'s NIC; it is asleep when this is made.
class Sleeper {
 public:
  explicit Sleeper(Station& station) {
    std::atomic<pid_t> id = 0;
    thread_ = std::thread([&station, &id] {
      id = ::gettid();
      id.notify_one();
      EXPECT_EQ(station.sleep_for_event(), 0);
    });
    id.wait(0);
    const std::string path = "/proc/self/task/" + std::to_string(id) + "/stat";
    const Instant limit = os_now() + 5s;
    for (std::string stat; stat.find(") S ") == std::string::npos && os_now() < limit; std::this_thread::yield()) {
      std::ifstream file(path);
      std::getline(file, stat);
    }
  }
  std::thread* operator->() { return &thread_; }

 private:
  std::thread thread_;
};

class RunnerTest : public PortTest {
 protected:
  void SetUp() override {
    PortTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    a.emplace(address(1), std::move(a_));
    b.emplace(address(2), std::move(b_));
  }
  static auto replies(std::size_t count) {
    return [count](const EchoNic& nic) { return nic.replies.size() >= count; };
  }
  static auto timeouts(int count) {
    return [count](const EchoNic& nic) { return nic.timeouts >= count; };
  }
  /// Polls without finding anything for longer than it takes to be known as a poller.
  static void poll_idly(Station& station) {
    for (int i = 0; i < 1000; ++i) station.poll();
  }

  std::optional<Station> a, b;
};

INSTANTIATE_TEST_SUITE_P(Engines, RunnerTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(RunnerTest, BackgroundThreadsDoItAllWhenNobodyPolls) {
  for (std::uint64_t tag = 0; tag < 100; ++tag) {
    a->post(address(2), tag);
    a->sleep_until(replies(tag + 1));
  }
}

TEST_P(RunnerTest, APollerDoesItAll) {
  for (std::uint64_t tag = 0; tag < 1000; ++tag) {
    a->post(address(2), tag);
    a->poll_until(replies(tag + 1));
  }
}

/// All threads of this process share one processor.
class OneProcessor {
 public:
  OneProcessor() {
    CPU_ZERO(&before_);
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t i = 0; CPU_COUNT(&one) == 0; ++i) {
      if (CPU_ISSET(i, &before_)) CPU_SET(i, &one);
    }
    bind(one);
  }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;
  ~OneProcessor() { bind(before_); }

 private:
  static void bind(const cpu_set_t& set) {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      ::sched_setaffinity(std::stoi(task.path().filename()), sizeof set, &set);
  }

  cpu_set_t before_;
};

/// Whether polls for nothing give the processor away, of which there is only one.
class Yields {
 public:
  explicit Yields(Station& station) : station_(station) {
    while (turns_ == 0) ::sched_yield();
  }
  Yields(const Yields&) = delete;
  Yields& operator=(const Yields&) = delete;
  ~Yields() {
    stop_ = true;
    other_.join();
  }
  bool are_seen() {
    const int before = turns_;
    for (int i = 0; i < 1000; ++i) station_.poll();  // Which takes less than a time slice.
    return turns_ - before >= 100;
  }

 private:
  Station& station_;
  std::atomic<int> turns_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread other_{[this] {
    for (; !stop_; ++turns_) ::sched_yield();
  }};
};

class OneProcessorTest : public RunnerTest {
  OneProcessor one_;
};

INSTANTIATE_TEST_SUITE_P(Engines, OneProcessorTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(OneProcessorTest, APollForNothingLetsOthersRun) { EXPECT_TRUE(Yields(*a).are_seen()); }

TEST_P(RunnerTest, ThatIsNoticedWhereAllProcessorsButOneAreTakenAwayLater) {
  if (engine::has_one_processor()) GTEST_SKIP() << "So it is from the beginning.";
  const OneProcessor one;
  Yields yields(*a);
  bool are_seen = false;
  for (const Instant limit = os_now() + 10s; !are_seen && os_now() < limit;) are_seen = yields.are_seen();
  EXPECT_TRUE(are_seen);
}

TEST_P(RunnerTest, ALonePostIsSentAtOnce) {
  a->post(address(2), 1);
  EXPECT_EQ(a->sent_packets(), 1u);
}

TEST_P(RunnerTest, APostAfterStopPollingIsSentAtOnce) {
  poll_idly(*a);
  a->runner().stop_polling(a->runner().lock());
  const std::uint64_t before = a->sent_packets();
  a->post(address(2), 1);
  EXPECT_EQ(a->sent_packets(), before + 1);
  a->sleep_until(replies(1));
}

TEST_P(RunnerTest, StopPollingSendsWhatWasLeftToThePoller) {
  poll_idly(*a);
  a->post(address(2), 1);
  a->runner().stop_polling(a->runner().lock());
  EXPECT_EQ(a->sent_packets(), 1u);
}

TEST_P(RunnerTest, TheBackgroundThreadTakesOverWhenPollingStops) {
  for (std::uint64_t round = 1; round <= 20; ++round) {
    poll_idly(*b);
    a->post(address(2), round);  // b must answer, and nobody polls it any more.
    a->sleep_until(replies(round));
  }
}

TEST_P(RunnerTest, ItTakesOverFromOneWhoHasPolledForLong) {
  // Until it looks less often.
  const Instant end = os_now() + 2 * engine::kWatchesToRelax * engine::kPollerTrust;
  while (os_now() < end) b->poll();
  a->post(address(2), 1);
  a->sleep_until(replies(1));
}

TEST_P(RunnerTest, ItIsToldWhenPacketsAreNoLongerLeftToAPoller) {
  bool were_left = false;
  for (std::uint64_t tag = 0; tag < 20; ++tag) {
    poll_idly(*a);
    were_left |= a->is_left_to_poller();
    a->post(address(2), tag);
    a->poll_until(replies(tag + 1));
    EXPECT_TRUE(a->knows_who_takes_packets());
  }
  EXPECT_TRUE(were_left);
}

TEST_P(RunnerTest, AnswersAreLeftToAProgramThatPollsWhenItHasPosted) {
  // It posts after a pause, polls until it has its answer, and not beyond.
  const Instant limit = os_now() + 5s;
  bool are_left = false;
  for (std::uint64_t tag = 0; !are_left && os_now() < limit; ++tag) {
    for (const Instant end = os_now() + 2 * engine::Pace::of(engine::kPollPause); os_now() < end;) continue;
    // Unless they have been since its last polls, whose answer the background thread took.
    const bool were_left = a->leaves_packets_to_program();
    a->post(address(2), tag);
    are_left = !were_left && a->leaves_packets_to_program();
    EXPECT_FALSE(are_left && tag < engine::kLoyaltyNeeded) << "too early to know";
    a->poll_until(replies(tag + 1));
  }
  EXPECT_TRUE(are_left);
}

/// A port that says that it needs no system calls, and whether somebody has dozed at it.
class QuickPort final : public engine::Port {
 public:
  explicit QuickPort(std::unique_ptr<engine::Port> port) : port_(std::move(port)) {}
  std::uint16_t acquire_source_port(const proto::Gid& local, std::uint16_t wanted) override {
    return port_->acquire_source_port(local, wanted);
  }
  void release_source_port(const proto::Gid& local, std::uint16_t port) override {
    port_->release_source_port(local, port);
  }
  MutBytes tx_frame() override { return port_->tx_frame(); }
  void tx_commit(const proto::Transmit& transmit) override { port_->tx_commit(transmit); }
  void flush() override { port_->flush(); }
  std::size_t exchange(engine::DatagramSink& sink, std::size_t budget) override {
    return port_->exchange(sink, budget);
  }
  bool was_quick() const override { return true; }
  bool wait(std::optional<Instant> deadline) override { return port_->wait(deadline); }
  bool doze(Instant earliest, Duration slack) override {
    was_dozing = true;
    return port_->doze(earliest, slack);
  }
  void mask_packets(bool masked) override { port_->mask_packets(masked); }
  void wake() override { port_->wake(); }
  void abandon_after_fork() override { port_->abandon_after_fork(); }
  engine::PortInfo info() const override { return port_->info(); }
  engine::PortCounters counters() const override { return port_->counters(); }

  std::atomic<bool> was_dozing = false;

 private:
  std::unique_ptr<engine::Port> port_;
};

class QuickPortTest : public PortTest {};

INSTANTIATE_TEST_SUITE_P(Engines, QuickPortTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(QuickPortTest, NoPostBehindAPollWaitsForTheNextOne) {
  if (engine::has_one_processor()) GTEST_SKIP() << "There who reads the packet would run in between.";
  Station a(address(1), std::make_unique<QuickPort>(std::move(a_)));
  Station b(address(2), std::move(b_));
  constexpr std::uint64_t kRounds = 4 * engine::kLoyaltyNeeded;  // Long enough to know that it polls on.
  for (std::uint64_t tag = 0; tag < kRounds; ++tag) {
    for (int i = 0; i < 10; ++i) a.poll();
    a.post(address(2), tag);
    ASSERT_EQ(a.sent_packets(), tag + 1);
    a.poll_until([tag](const EchoNic& nic) { return nic.replies.size() > tag; });
  }
}

TEST_P(QuickPortTest, NoTimerIsSetToLookWhetherAPollerIsThereWhoHasBeenForLong) {
  auto port = std::make_unique<QuickPort>(std::move(a_));
  const std::atomic<bool>& was_dozing = port->was_dozing;
  Station a(address(1), std::move(port));
  for (const Instant limit = os_now() + kPatience; !was_dozing && os_now() < limit;) a.poll();
  if (!was_dozing) habit_was_not_seen();
}

TEST_P(RunnerTest, APostThatWasLeftToAPollerWhoWentAwayIsSent) {
  poll_idly(*a);
  a->post(address(2), 1);
  a->sleep_until(replies(1));
}

class CrowdTest : public RunnerTest {
 protected:
  void SetUp() override {
    RunnerTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (engine::has_one_processor()) GTEST_SKIP() << "There polls give the processor away.";
  }
  /// This thread was kept from polling, as far as it knows.
  void be_in_a_crowd() {
    const Instant now = os_now();
    for (const Duration later : {0ms, 0ms, 0ms, 0ms, 1ms}) {
      engine::CrowdWatch::of_this_thread().on_turn(&a->runner(), now + later, /*was_idle=*/true,
                                                   [&] { return later.count(); });
    }
  }
  /// Polls for what does not come, until a poll sleeps for its whole time, but for no longer than a millisecond.
  /// Returns whether one did: it took that time, and nearly no processor time.
  bool poll_until_asleep() {
    const clockid_t ran = engine::cpu_clock_of_this_thread();
    for (const Instant end = os_now() + 1ms; os_now() < end;) {
      const Instant before = os_now();
      const Duration ran_before = engine::cpu_time(ran);
      a->poll();
      const Duration took = os_now() - before;
      if (took >= engine::kCrowdedSleep && engine::cpu_time(ran) - ran_before < took / 4) return true;
    }
    return false;
  }
  /// One message, after which it polls on. Some of them make that known.
  void exchange() {
    a->post(address(2), tag++);
    a->poll_until(replies(tag));
  }
  static constexpr int kRows = 10;
  std::uint64_t tag = 0;
};

INSTANTIATE_TEST_SUITE_P(Engines, CrowdTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(CrowdTest, APollerSleeps) {
  int slept = 0;
  for (const Instant limit = os_now() + kPatience; slept < kRows && os_now() < limit;) {
    exchange();
    be_in_a_crowd();
    if (poll_until_asleep()) ++slept;
  }
  if (slept < kRows) return habit_was_not_seen();
  for (const Instant limit = os_now() + 5s; a->leaves_packets_to_program() && os_now() < limit;) continue;
  EXPECT_FALSE(a->leaves_packets_to_program()) << "The background thread takes over when it has gone.";
}

/// One that finishes with what it has found before it polls again says nothing of polls for what has not come.
TEST_P(CrowdTest, APollerWhoPausesWhenItHasFoundSomethingSleeps) {
  int slept = 0;
  for (int rows = 0; slept < kRows && rows < 50 * kRows; ++rows) {
    exchange();
    for (const Instant end = os_now() + 10 * engine::kPollPause; os_now() < end;) continue;
    be_in_a_crowd();
    if (poll_until_asleep()) ++slept;
  }
  if (slept < kRows) habit_was_not_seen();
}

class PostRowTest : public RunnerTest {
 protected:
  /// Posts rows of three, after a pause, and polls until it has their answers and not beyond, until the last post of a
  /// row waits. False when rows are too slow for that.
  bool post_until_some_wait() {
    for (const Instant limit = os_now() + kPatience; os_now() < limit;) {
      for (const Instant end = os_now() + 2 * engine::Pace::of(engine::kPollPause); os_now() < end;) continue;
      for (int i = 0; i < 3; ++i) a->post(address(2), tag++);
      if (a->sent_packets() < tag) {
        EXPECT_GE(tag, 3u * engine::kLoyaltyNeeded) << "too early to know";
        return true;
      }
      a->poll_until(replies(tag));
    }
    return false;
  }
  std::uint64_t tag = 0;
};

INSTANTIATE_TEST_SUITE_P(Engines, PostRowTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(PostRowTest, WithoutThePollsTheBackgroundThreadSends) {
  if (!post_until_some_wait()) return habit_was_not_seen();
  a->sleep_until(replies(tag));
}

TEST_P(PostRowTest, APollThatFindsSomethingSends) {
  if (!post_until_some_wait()) return habit_was_not_seen();
  {
    std::unique_lock lock = a->runner().lock();
    a->runner().found(lock);
  }
  EXPECT_EQ(a->sent_packets(), tag);
}

TEST_P(RunnerTest, BurstsLargerThanACrankTurnAllGoOut) {
  constexpr std::uint64_t kRequests = 1000;
  {
    std::unique_lock lock = a->runner().lock();
    for (std::uint64_t tag = 0; tag < kRequests; ++tag) a->nic().post(address(2), tag);
    a->runner().posted(lock);
  }
  a->sleep_until(replies(kRequests));
}

TEST_P(RunnerTest, TimersRunInTheBackgroundAndAnEarlierOneWakesIt) {
  const Instant start = os_now();
  a->set_timer(start + 1h);
  a->set_timer(start + 20ms);
  a->sleep_until(timeouts(1));
  EXPECT_GE(os_now(), start + 20ms);
  EXPECT_LT(os_now(), start + 4s);
}

TEST_P(RunnerTest, TimersRunUnderAPoller) {
  const Instant start = os_now();
  poll_idly(*a);
  a->set_timer(start + 20ms);
  a->poll_until(timeouts(1));
  EXPECT_GE(os_now(), start + 20ms);
}

TEST_P(RunnerTest, TimersRunAfterThePollerHasGone) {
  const Instant start = os_now();
  poll_idly(*a);
  a->set_timer(start + 5ms);
  a->sleep_until(timeouts(1));
}

TEST_P(RunnerTest, AnIdleNicUsesNoCpu) {
  a->post(address(2), 1);
  a->sleep_until(replies(1));
  poll_idly(*a);
  const auto cpu_time = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto of = [](const timeval& t) {
      return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
  };
  a->set_timer(os_now() + 10ms);  // Let the hand-over from the poller pass.
  a->sleep_until(timeouts(1));
  const auto before = cpu_time();
  a->set_timer(os_now() + 400ms);
  a->sleep_until(timeouts(2));
  EXPECT_LT(cpu_time() - before, engine::Pace::of(20ms)) << "a thread that ticks or spins would use more";
}

TEST_P(RunnerTest, PacketsWakeTheSleeperWhoTakesThem) {
  // Not all: it may have slept for the lock only, when the packet was sent, and mostly does on a busy machine.
  constexpr int kEnough = 10;
  int taken = 0;
  const Instant limit = os_now() + 5s;
  for (std::uint64_t tag = 0; taken < kEnough && os_now() < limit; ++tag) {
    Sleeper sleeper(*a);
    const std::thread::id id = sleeper->get_id();
    a->post(address(2), tag);
    sleeper->join();
    a->event().clear();
    taken += a->taker() == id ? 1 : 0;
  }
  EXPECT_EQ(taken, kEnough);
}

TEST_P(RunnerTest, PacketsAreLeftToASleeperWhoComesBackSoonAndNotForLongIfItDoesNot) {
  bool are_left = false;
  const Instant patience = os_now() + kPatience;
  for (std::uint64_t tag = 0; !are_left && os_now() < patience; ++tag) {
    a->post(address(2), tag);
    EXPECT_EQ(a->sleep_for_event(), 0);
    a->event().clear();
    are_left = a->leaves_packets_to_program();
    EXPECT_FALSE(are_left && tag < engine::kLoyaltyNeeded) << "too early to know";
  }
  if (!are_left) return habit_was_not_seen();
  b->post(address(1), 0);  // a must answer, and nobody sleeps any more.
  b->sleep_until(replies(1));
  const Instant limit = os_now() + 5s;
  while (a->leaves_packets_to_program() && os_now() < limit) std::this_thread::yield();
  EXPECT_FALSE(a->leaves_packets_to_program());
}

class KeptAnswerTest : public RunnerTest {
 protected:
  void SetUp() override {
    RunnerTest::SetUp();
    if (b) b->tell_of_requests();
  }
  /// b sleeps for a's requests, posts one itself if it is to, and comes back soon, until an answer waits for what it
  /// does next or `limit` has passed. Returns whether one waits.
  bool is_kept(bool posts, Instant limit) {
    while (os_now() < limit) {
      a->post(address(2), tag++);
      EXPECT_EQ(b->sleep_for_event(), 0);
      b->event().clear();
      if (b->queued() > 0) return true;
      if (posts) b->post(address(1), tag);
    }
    return false;
  }
  /// False when the thread is kept from running so often that it has no habits.
  bool sleep_until_one_is_kept() {
    if (!is_kept(/*posts=*/true, os_now() + kPatience)) return false;
    EXPECT_GE(tag, engine::kLoyaltyNeeded / 2) << "too early to know: b is woken by answers, too";
    return true;
  }
  std::uint64_t tag = 0;
};

INSTANTIATE_TEST_SUITE_P(Engines, KeptAnswerTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(KeptAnswerTest, GoesWithWhatIsPosted) {
  if (!sleep_until_one_is_kept()) return habit_was_not_seen();
  b->post(address(1), 1);
  EXPECT_EQ(b->queued(), 0u);
}

TEST_P(KeptAnswerTest, GoesWhenTheSleeperIsBack) {
  if (!sleep_until_one_is_kept()) return habit_was_not_seen();
  b->event().signal();
  EXPECT_EQ(b->sleep_for_event(), 0);
  EXPECT_EQ(b->queued(), 0u);
}

TEST_P(KeptAnswerTest, GoesWithoutTheSleeper) {
  if (!sleep_until_one_is_kept()) return habit_was_not_seen();
  a->sleep_until(replies(tag));
}

TEST_P(KeptAnswerTest, IsNotWhereTheSleeperPostsNothing) { EXPECT_FALSE(is_kept(/*posts=*/false, os_now() + 50ms)); }

class OwnSleepTest : public RunnerTest {
 protected:
  /// a has its events soon after it went to sleep for them elsewhere.
  void learn() {
    for (int i = 0; i < engine::kLoyaltyMax; ++i) {
      a->runner().before_sleep([] { return true; });
      a->runner().on_event_taken();
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, OwnSleepTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(OwnSleepTest, WaitsAwakeForWhatComesSoon) {
  if (engine::has_one_processor()) GTEST_SKIP() << "On a single processor nobody waits awake.";
  a->tell_of_requests();
  const Instant limit = os_now() + kPatience;
  bool has_come = false;
  std::uint64_t tag = 0;
  std::uint64_t crowded = 0;
  for (; !has_come && os_now() < limit; ++tag) {
    learn();
    const Instant before = os_now();
    ::sched_yield();
    if (os_now() - before > engine::kYieldForNobody) ++crowded;
    int asked = 0;
    const bool is_ready = a->runner().before_sleep([&] {
      if (++asked == 2) b->post(address(1), tag);  // It is about to wait, and nobody else is told of packets.
      return a->has_event();
    });
    EXPECT_TRUE(!is_ready || a->has_event());
    has_come = is_ready && a->taker() == std::this_thread::get_id();
    a->event().clear();
  }
  if (!has_come && crowded > tag / 8) GTEST_SKIP() << "Others want the processors.";
  if (!has_come) return habit_was_not_seen();
}

TEST_P(OwnSleepTest, LeavesPacketsToTheBackgroundThreadWhenNothingComes) {
  for (int i = 0; i < engine::kLoyaltyMax; ++i) {  // As one who comes back soon, to whom packets are left meanwhile.
    a->event().signal();
    EXPECT_EQ(a->sleep_for_event(), 0);
  }
  a->event().clear();
  learn();
  EXPECT_FALSE(a->before_sleep());
  EXPECT_FALSE(a->leaves_packets_to_program());
  b->post(address(1), 1);
  b->sleep_until(replies(1));
}

TEST_P(OwnSleepTest, StopsToWaitWhereItIsInVain) {
  learn();
  const Instant limit = os_now() + kPatience;
  int asked = 1;
  while (asked > 0 && os_now() < limit) {
    asked = 0;
    EXPECT_FALSE(a->runner().before_sleep([&asked] {
      ++asked;
      return false;
    }));
  }
  if (asked > 0) return habit_was_not_seen();
}

TEST_P(OwnSleepTest, IsNotOfOneWhoSleepsHere) {
  learn();
  a->event().signal();
  EXPECT_EQ(a->sleep_for_event(), 0);
  a->runner().before_sleep([] {
    ADD_FAILURE() << "It did not forget.";
    return true;
  });
}

TEST_P(RunnerTest, TimersRunWhileSomebodySleepsAndPacketsAreTakenWhenNobodyDoes) {
  Sleeper sleeper(*a);
  a->set_timer(os_now() + 5ms);
  a->sleep_until(timeouts(1));
  a->event().signal();
  sleeper->join();
  a->post(address(2), 1);
  a->sleep_until(replies(1));
}

TEST_P(RunnerTest, WhoHasItsEventAlreadyDoesNotSleep) {
  // Its descriptor does not say so, as with an event that taking the turn has brought.
  auto sleep = std::async(std::launch::async,
                          [&] { return a->runner().sleep_until_readable(a->event().fd(), [] { return true; }); });
  EXPECT_EQ(sleep.wait_for(5s), std::future_status::ready);
  a->event().signal();
  EXPECT_EQ(sleep.get(), 0);
}

TEST_P(RunnerTest, ManyThreadsSleepForOneEvent) {
  Sleeper one(*a), two(*a), three(*a);
  a->post(address(2), 1);
  one->join();
  two->join();
  three->join();
}

TEST_P(RunnerTest, ASleeperMayBeCancelled) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "The thread sanitizer does not see what a thread that was cancelled in poll() locks afterwards; the "
                  "address sanitizer takes the stack for that of the functions that were left (as of clang 14).";
#endif
  Sleeper sleeper(*a);
  ASSERT_EQ(::pthread_cancel(sleeper->native_handle()), 0);
  sleeper->join();
  a->post(address(2), 1);
  a->sleep_until(replies(1));
}

class HandlerTest : public RunnerTest {
 protected:
  /// SIGUSR1's handler keeps the thread that it runs in until `may_leave`.
  void install(int flags) {
    is_inside = may_leave = false;
    struct sigaction action {};
    action.sa_flags = flags;
    action.sa_handler = [](int) {
      is_inside = true;
      while (!may_leave) ::usleep(100);
    };
    ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
  }
  void SetUp() override {
    RunnerTest::SetUp();
    ASSERT_EQ(::sigaction(SIGUSR1, nullptr, &before_), 0);
  }
  void TearDown() override {
    ::sigaction(SIGUSR1, &before_, nullptr);
    RunnerTest::TearDown();
  }
  /// Sends the signal to a thread, and waits until its handler runs.
  static void interrupt(pthread_t thread) {
    ASSERT_EQ(::pthread_kill(thread, SIGUSR1), 0);
    for (const Instant limit = os_now() + 5s; !is_inside && os_now() < limit;) std::this_thread::yield();
    ASSERT_TRUE(is_inside);
  }
  static inline std::atomic<bool> is_inside, may_leave;

 private:
  struct sigaction before_ {};
};

INSTANTIATE_TEST_SUITE_P(Engines, HandlerTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(HandlerTest, APeerIsAnsweredWhileAHandlerKeepsTheSleeper) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "The thread sanitizer runs handlers when the call that they interrupt has returned.";
#endif
  install(SA_RESTART);
  Sleeper sleeper(*a);
  interrupt(sleeper->native_handle());
  std::uint64_t tag = 0;
  for (const Instant limit = os_now() + 5s; a->leaves_packets_to_program() && os_now() < limit;) {
    b->post(address(1), tag++);
    b->sleep_until(replies(tag));
  }
  EXPECT_FALSE(a->leaves_packets_to_program());
  may_leave = true;
  a->event().signal();
  sleeper->join();
  a->post(address(2), 1);
  a->sleep_until(replies(1));
}

TEST_P(HandlerTest, EndsASleepUnlessItRestarts) {
  for (const int flags : {0, SA_RESTART}) {
    install(flags);
    may_leave = true;
    std::promise<int> result;
    std::future<int> done = result.get_future();
    std::thread sleeper([&] { result.set_value(a->sleep_for_event()); });
    // As often as it takes to meet it asleep.
    for (int i = 0; i < (flags == 0 ? 5000 : 20) && done.wait_for(1ms) != std::future_status::ready; ++i) {
      ::pthread_kill(sleeper.native_handle(), SIGUSR1);
    }
    EXPECT_EQ(done.wait_for(0s) == std::future_status::ready, flags == 0);
    if (flags != 0) a->event().signal();
    EXPECT_EQ(done.get(), flags == 0 ? EINTR : 0);
    sleeper.join();
  }
}

TEST_P(RunnerTest, SleepersAndPollersTakeTurns) {
  std::atomic<bool> stop = false;
  std::thread poller([&] {
    while (!stop) a->poll();
  });
  for (std::uint64_t tag = 0; tag < 200; ++tag) {
    a->post(address(2), tag);
    EXPECT_EQ(a->sleep_for_event(), 0);
    a->event().clear();
    a->sleep_until(replies(tag + 1));
  }
  stop = true;
  poller.join();
}

TEST_P(RunnerTest, APollerDoesNotStarveThreadsThatPost) {
  std::atomic<bool> stop = false;
  std::thread poller([&] {
    while (!stop) a->poll();
  });
  for (std::uint64_t tag = 0; tag < 500; ++tag) a->post(address(2), tag);
  a->sleep_until(replies(500));
  stop = true;
  poller.join();
}

TEST_P(RunnerTest, ManyThreadsPostAndPoll) {
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        (i % 2 == 0 ? a : b)->post(address(i % 2 == 0 ? 2 : 1), thread * 1000 + i);
        a->poll();
        b->poll();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  a->sleep_until(replies(400));
  b->sleep_until(replies(400));
}

TEST_P(RunnerTest, TheDestructorSendsWhatIsLeft) {
  {
    const std::unique_lock lock = a->runner().lock();
    for (std::uint64_t tag = 0; tag < 2 * engine::kCrankBurst + 1; ++tag) a->nic().post(address(2), tag);
  }
  a.reset();
  b->sleep_until([](const EchoNic& nic) { return nic.received.size() == 2 * engine::kCrankBurst + 1; });
}

TEST_P(RunnerTest, AChildOfForkLetsGoAndItsParentGoesOn) {
  const pid_t child = ::fork();
  if (child == 0) {
    a->runner().abandon_after_fork();
    b->runner().abandon_after_fork();
    a.reset();
    b.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  a->post(address(2), 1);
  a->sleep_until(replies(1));
}

}  // namespace
}  // namespace uroce::test
