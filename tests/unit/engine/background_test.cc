// SPDX-License-Identifier: Apache-2.0
// When the background thread leaves packets to others who are there, and when it does not.
#include "engine/run/background.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/echo_nic.h"
#include "tests/unit/engine/waiting_port.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using engine::kPollerTrust;
using engine::os_now;

/// A NIC and its background thread.
struct Scene {
  /// Runs its work in this thread. The first sleep, and so on, is one of `sleeps`; then it stops.
  void run(const std::vector<std::function<void()>>& sleeps) {
    port.during_wait = [&, next = sleeps.begin()]() mutable {
      if (next == sleeps.end()) return background.stop();
      (*next++)();
    };
    background.run();
  }
  void sleeper_comes() { ASSERT_TRUE(drive.packets.on_sleep(&sleeper, os_now(), true)); }
  void sleeper_has_event() { drive.packets.on_event(os_now(), /*leaves=*/false); }
  /// So often that it is known to come back.
  void have_a_regular_sleeper() {
    for (int i = 0; i < 100; ++i) {
      sleeper_comes();
      sleeper_has_event();
    }
  }
  void program_polls() {
    drive.polls.on_poll(os_now(), [] { return false; });
  }

  EchoNic nic{proto::Gid()};
  std::unique_ptr<WaitingPort> owned_port = std::make_unique<WaitingPort>();
  WaitingPort& port = *owned_port;
  engine::Drive<EchoNic> drive{nic, std::move(owned_port), {}, {}};
  engine::Background<EchoNic> background{drive};
  const int sleeper = 0;
};

void nothing() {}

void pass(Duration time) {
  for (const Instant end = os_now() + time; os_now() < end;) continue;
}

/// How often it turned the crank in `play(scene)`, if that is over before anybody counts as late.
template <class Play>
int turns_in_time(const Play& play) {
  for (const Instant limit = os_now() + 10s; os_now() < limit;) {
    Scene scene;
    const Instant start = os_now();
    play(scene);
    if (os_now() - start < kPollerTrust) return scene.port.exchanges;
  }
  ADD_FAILURE() << "This is too slow for it.";
  return -1;
}

TEST(BackgroundTest, LeavesThemToASleeperWhoIsThere) {
  EXPECT_EQ(turns_in_time([](Scene& scene) {
              scene.sleeper_comes();
              scene.run({nothing, nothing, [&] { scene.sleeper_has_event(); }});
            }),
            0);
}

TEST(BackgroundTest, LeavesThemToASleeperWhoWillBeBack) {
  EXPECT_EQ(turns_in_time([](Scene& scene) {
              scene.have_a_regular_sleeper();
              scene.run({nothing, nothing});
            }),
            0);
}

TEST(BackgroundTest, DoesNotLookForThemBesideAProgramThatPolls) {
  EXPECT_EQ(turns_in_time([](Scene& scene) {
              scene.program_polls();
              scene.run({nothing, nothing, nothing});
            }),
            1)
      << "the first is that in which it finds out";
}

TEST(BackgroundTest, TakesThemFromASleeperWhoIsLate) {
  Scene scene;
  scene.have_a_regular_sleeper();
  scene.run({[] { pass(kPollerTrust + 1us); }, nothing});
  EXPECT_FALSE(scene.drive.packets.is_sleeper_due());
  EXPECT_GE(scene.port.exchanges, 1);
}

TEST(BackgroundTest, TakesThemFromASleeperWhoIsLateAlsoWhileAnotherIsBusyWithTheNic) {
  Scene scene;
  scene.have_a_regular_sleeper();
  std::promise<void> taken;
  std::future<bool> other;
  scene.run({[&] {
               pass(kPollerTrust + 1us);
               other = std::async(std::launch::async, [&] {
                 const engine::TurnLock::Held held = scene.drive.lock.queue_up();
                 taken.set_value();
                 for (const Instant limit = os_now() + 1s; !scene.drive.lock.is_wanted() && os_now() < limit;) continue;
                 return scene.drive.lock.is_wanted();
               });
               taken.get_future().wait();
             },
             nothing});
  EXPECT_TRUE(other.get());
}

TEST(BackgroundTest, TakesThoseThatWakeIt) {
  EXPECT_EQ(turns_in_time([](Scene& scene) {
              scene.program_polls();
              scene.run({[&] { scene.port.is_woken = true; }, [&] { scene.port.is_woken = false; }, nothing});
            }),
            2);
}

TEST(BackgroundTest, SendsWhatItIsWokenForBesideASleeper) {
  EXPECT_EQ(turns_in_time([](Scene& scene) {
              scene.sleeper_comes();
              scene.run({[&] {
                           scene.drive.background_sleep.wake();
                           scene.port.is_woken = true;
                         },
                         [&] { scene.port.is_woken = false; }});
            }),
            1);
}

TEST(BackgroundTest, MeetsDeadlinesBesideOthers) {
  Scene scene;
  scene.sleeper_comes();
  scene.run({[&] { scene.nic.set_timer(os_now()); }, nothing});
  EXPECT_EQ(scene.nic.timeouts, 1);
}

TEST(BackgroundTest, HearsOfDeadlinesWhenItLooks) {
  Scene scene;
  scene.program_polls();
  const Instant deadline = os_now() + 1h;
  scene.run({[&] { scene.nic.set_timer(deadline); }, nothing});
  EXPECT_LE(scene.drive.background_sleep.wake_at().value_or(Instant::max()), deadline);
}

TEST(BackgroundTest, DoesNotWaitForOneWhoIsBusyWithTheNic) {
  std::future<void> caller;
  for (const Instant limit = os_now() + 10s; !caller.valid() && os_now() < limit;) {
    Scene scene;
    std::promise<void> taken, over;
    const auto be_busy = [&] {
      if (!scene.drive.background_sleep.is_watching()) return scene.background.stop();  // This is too slow.
      caller = std::async(std::launch::async, [&] {
        const engine::TurnLock::Held held = scene.drive.lock.queue_up();
        taken.set_value();
        over.get_future().wait();
      });
      taken.get_future().wait();
    };
    scene.program_polls();
    scene.run({be_busy, [&] { over.set_value(); }});
    if (caller.valid()) caller.wait();
  }
  EXPECT_TRUE(caller.valid());
}

}  // namespace
}  // namespace uroce::test
