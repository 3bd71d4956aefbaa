// SPDX-License-Identifier: Apache-2.0
// Leases whose broker is gone, and which do not get another one at once.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "engine/broker/broker.h"
#include "tests/unit/broker/lease_fixture.h"

namespace uroce::engine {
namespace {

/// A broker's executable that can be taken away, and replaced.
class RenewalTest : public LeaseTest {
 protected:
  void SetUp() override {
    LeaseTest::SetUp();
    folder_ = testing::TempDir() + "uroce-renewal-" + std::to_string(::getpid());
    std::filesystem::create_directory(folder_);
    std::filesystem::copy_file(kBroker, executable());
  }
  void TearDown() override {
    LeaseTest::TearDown();
    EXPECT_TRUE(eventually([this] {
      std::error_code busy;  // One that was started meanwhile may still write there.
      std::filesystem::remove_all(folder_, busy);
      return !std::filesystem::exists(folder_);
    }));
  }
  std::string executable() const { return folder_ + "/uroce-broker"; }
  std::string aside() const { return folder_ + "/aside"; }
  std::string report() const { return folder_ + "/report"; }

  static void kill_broker() {
    const pid_t process = broker();
    ASSERT_GT(process, 0);
    ::kill(process, SIGKILL);
    EXPECT_TRUE(eventually([process] { return is_dead(process); }));
  }

  /// Starts a renewal that hangs: the next broker says nothing. Returns its process.
  pid_t kill_broker_with_a_mute_successor() {
    std::filesystem::rename(executable(), aside());
    const std::string next = executable() + ".next";
    std::ofstream(next) << "#!/bin/sh\necho $$ >" << report() << ".next\nmv " << report() << ".next " << report()
                        << "\nexec sleep 1000\n";
    ::chmod(next.c_str(), 0755);
    std::filesystem::rename(next, executable());
    kill_broker();
    EXPECT_TRUE(eventually([this] { return std::filesystem::exists(report()); }));
    pid_t process = 0;
    std::ifstream(report()) >> process;
    return process;
  }

  std::string folder_;
};

TEST_F(RenewalTest, AFailedOneIsTriedAgainUntilThereIsABroker) {
  const Slot old = lease(std::nullopt, executable());
  std::filesystem::rename(executable(), aside());
  kill_broker();
  // Time for an attempt, which fails. Not all of it is needed.
  Waiter().wait({}, os_now() + 300ms);
  EXPECT_EQ(broker(), 0);
  std::filesystem::rename(aside(), executable());
  EXPECT_TRUE(eventually([] { return broker() != 0; })) << "the lease starts one again";
  const Slot another = lease(std::nullopt, executable());
  EXPECT_NE(another.number(), old.number());
  EXPECT_TRUE(receives(old));
  EXPECT_EQ(refusal(old.number()).error, EBUSY);
}

TEST_F(RenewalTest, ABrokerThatSomebodyElseStartedIsNoticed) {
  const Slot old = lease(std::nullopt, executable());
  std::filesystem::remove(executable());
  kill_broker();
  Waiter().wait({}, os_now() + 300ms);
  const Slot another = lease();  // From where there is an executable.
  EXPECT_NE(another.number(), old.number());
  EXPECT_TRUE(receives(old));
  EXPECT_TRUE(eventually([&] { return refusal(old.number()).error == EBUSY; }));
}

// Only who has no slot yet may leave: the broker gives the slot of one who has left to somebody else.
TEST_F(RenewalTest, OneThatABrokerHasNotReadYetIsWaitedForWithoutEnd) {
  BrokerRequest any, keep;
  keep.kind = BrokerRequest::Kind::kKeepSlot;
  auto late = Broker::listen(kLocal);  // As one that is stopped.
  ASSERT_TRUE(late);
  std::optional<Inquiry> stranger, renewal;
  stranger.emplace(kLocal, kBroker, any, std::vector<int>{}, 0s);
  renewal.emplace(kLocal, kBroker, keep, std::vector<int>{}, 0s);
  EXPECT_FALSE(stranger->advance()) << "it asks";
  EXPECT_FALSE(renewal->advance()) << "it asks";
  EXPECT_TRUE(stranger->advance());
  EXPECT_FALSE(renewal->advance());
  stranger.reset();
  std::thread goes_on([&] { late->run(); });
  EXPECT_TRUE(eventually([&] { return renewal->advance(); }));
  EXPECT_TRUE(renewal->result() && renewal->result()->reply.error != 0) << "the reply: there is no such slot";
  renewal.reset();
  goes_on.join();
}

TEST_F(RenewalTest, AForkDoesNotWaitForOneThatHangs) {
  const Slot slot = lease(std::nullopt, executable());
  const pid_t mute = kill_broker_with_a_mute_successor();
  const Instant start = os_now();
  slot.lease->before_fork();
  slot.lease->after_fork_in_parent();
  EXPECT_LT(os_now() - start, 2s);
  ::kill(mute, SIGKILL);
}

TEST_F(RenewalTest, TheEndOfALeaseDoesNotWaitForOneThatHangs) {
  std::optional<Slot> slot = lease(std::nullopt, executable());
  const pid_t mute = kill_broker_with_a_mute_successor();
  const Instant start = os_now();
  slot.reset();
  EXPECT_LT(os_now() - start, 2s);
  ::kill(mute, SIGKILL);
}

TEST_F(RenewalTest, AChildOfForkKeepsNothingOfOneThatIsUnderWay) {
  std::optional<Slot> slot = lease(std::nullopt, executable());
  const pid_t mute = kill_broker_with_a_mute_successor();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  slot->lease->before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    slot->socket.fd.reset();
    slot->lease->after_fork_in_child();
    ::close(ends[1]);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int fd = std::stoi(entry.path().filename());
      const bool is_inherited = fd > 2 && fd != ends[0] && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
      if (is_inherited && std::filesystem::is_fifo(entry.path())) ::_exit(1);
    }
    ::_exit(0);
  }
  slot->lease->after_fork_in_parent();
  ::close(ends[0]);
  ::close(ends[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "the pipe to the broker that starts";
  ::kill(mute, SIGKILL);
}

}  // namespace
}  // namespace uroce::engine
