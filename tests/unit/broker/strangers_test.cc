// SPDX-License-Identifier: Apache-2.0
// Nobody can keep a broker busy but processes that have a slot of it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <filesystem>
#include <sstream>

#include "engine/os/unix_message.h"
#include "engine/os/users.h"
#include "tests/support/in_child.h"
#include "tests/unit/broker/lease_fixture.h"

namespace uroce::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t kStranger = 12345;

/// As with libfakeroot, libc says that we are another user.
bool claims_to_be_a_stranger = false;

/// Runs `body` in a child of fork(), which ends with the status that it returns.
template <class Body>
pid_t in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

int status_of(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

/// Whether the other end of `connection` closes it in time.
bool is_closed(const Fd& connection) {
  return eventually([&] {
    BrokerReply reply;
    std::vector<Fd> descriptors;
    return !receive_message(connection.get(), reply, descriptors) && errno == EPROTO;
  });
}

/// What a broker says to `request`, and whether it sends descriptors along.
struct Reply {
  BrokerReply reply;
  std::size_t descriptors = 0;
};
Reply reply_to(const Fd& connection, const BrokerRequest& request) {
  Reply result;
  std::vector<Fd> descriptors;
  send_message(connection.get(), request);
  EXPECT_TRUE(eventually([&] { return receive_message(connection.get(), result.reply, descriptors); }));
  result.descriptors = descriptors.size();
  return result;
}

Duration cpu_time_of(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(stat, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  long user = 0, system = 0;
  fields >> user >> system;
  return std::chrono::milliseconds((user + system) * 1000 / ::sysconf(_SC_CLK_TCK));
}

/// A socket of another user that has `name`, and does not listen. For root only.
Fd stranger_takes(const AbstractName& name) {
  EXPECT_EQ(::seteuid(kStranger), 0);
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), name.get(), name.size), 0);
  EXPECT_EQ(::seteuid(0), 0);
  return fd;
}

class StrangersTest : public LeaseTest {
 protected:
  /// A child that has a slot until it is killed. This process has no lease's thread then, which could hold a lock of
  /// the sanitizer's allocator when another child is made: there it would be held for ever.
  static pid_t lease_in_child() {
    int ready[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    const pid_t child = in_child([&] {
      const Slot slot = lease();
      ::close(ready[0]);
      ::close(ready[1]);
      ::pause();
      return 0;
    });
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 0) << "it has its slot";
    ::close(ready[0]);
    return child;
  }
  static void kill_child(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
};

TEST_F(StrangersTest, WhoMayNotAskWhoTheBrokerIsIsToldSo) {
  const pid_t holder = lease_in_child();
  EXPECT_THAT(uroce::test::in_child([] {
                uroce::test::forbid({SYS_getsockopt}, EPERM);
                return refusal().sentence;
              }),
              AllOf(HasSubstr("getsockopt: EPERM"), HasSubstr("seccomp")));
  kill_child(holder);
}

TEST_F(StrangersTest, ABrokerThatIsStoppedIsNamed) {
  const Slot slot = lease();
  const pid_t process = broker();
  ::kill(process, SIGSTOP);
  const SetupError error = refusal();
  ::kill(process, SIGCONT);
  EXPECT_EQ(error.error, EADDRINUSE);
  EXPECT_THAT(error.sentence, HasSubstr("kill -CONT " + std::to_string(process)));
}

TEST_F(StrangersTest, AnotherUserWithTheNameOfTheBrokerIsNamedAtOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a second user";
  const Fd taken = stranger_takes(broker_name(kLocal));
  const Instant start = os_now();
  const SetupError error = refusal();
  EXPECT_LT(os_now() - start, 5s);
  EXPECT_EQ(error.error, ECHILD) << "the address is free, for one process";
  EXPECT_THAT(error.sentence, AllOf(HasSubstr("user 12345"), HasSubstr("@uroce-broker-127.0.0.1")));
}

// Claims were names of sockets once, which anybody could take.
TEST_F(StrangersTest, NobodyElseKeepsRequestsFromWhoListens) {
  constexpr std::uint32_t kTheirService = 0x01061C16;
  std::vector<Fd> taken;
  for (const std::string& name : {std::string("lock"), std::to_string(kTheirService) + "-9"}) {
    const AbstractName address("uroce-cm-127.0.0.1-" + name);
    taken.emplace_back(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(taken.back().get(), address.get(), address.size), 0);
  }
  const Slot slot = lease();
  EXPECT_EQ(slot.lease->steer_management(), 0);
  EXPECT_TRUE(slot.lease->claim_service(kTheirService));
}

TEST_F(StrangersTest, WhoSaysNothingDoesNotKeepABrokerAlive) {
  pid_t process = 0;
  Fd silent;
  {
    const Slot slot = lease();
    process = broker();
    silent = visit();
  }
  EXPECT_TRUE(eventually([process] { return is_dead(process); }));
  EXPECT_TRUE(is_closed(silent));
}

TEST_F(StrangersTest, AnotherUserIsRefusedBeforeItSaysAnything) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a second user";
  const pid_t holder = lease_in_child();
  const pid_t child = in_child([] {
    if (::setresuid(kStranger, kStranger, kStranger) != 0) return 2;
    const Fd connection = visit();
    const Instant start = os_now();
    return connection && is_closed(connection) && os_now() - start < 1s ? 0 : 1;
  });
  EXPECT_EQ(status_of(child), 0);
  kill_child(holder);
}

TEST_F(StrangersTest, WhoIsRefusedNeedNotCloseTheConnection) {
  const Slot slot = lease();
  const Fd connection = visit();
  BrokerRequest request;
  request.protocol = kBrokerProtocol + 1;
  EXPECT_EQ(reply_to(connection, request).reply.error, EADDRINUSE);
  const Instant start = os_now();
  EXPECT_TRUE(is_closed(connection));
  EXPECT_LT(os_now() - start, 1s);
}

TEST_F(StrangersTest, WithoutFreeDescriptorsABrokerWaitsAndDoesNotSpin) {
  // Room for the sockets of the slots and some hundred connections.
  int ends[2], ready[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = in_child([&] {
    const rlimit few{.rlim_cur = 200, .rlim_max = 200};
    ::setrlimit(RLIMIT_NOFILE, &few);
    ::close(ends[1]);
    const Slot slot = lease();
    ::close(ready[0]);
    ::close(ready[1]);
    char byte = 0;
    return static_cast<int>(::read(ends[0], &byte, 1));
  });
  ::close(ends[0]);
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 0);  // The child has its slot, and this broker stays.
  ::close(ready[0]);
  const pid_t process = broker();
  ASSERT_NE(process, 0);
  std::vector<Fd> silent;
  while (silent.size() < 120) {
    if (Fd connection = visit()) silent.push_back(std::move(connection));
  }
  // We spin, for comparison: on a busy machine a second is not a second of a processor.
  const Duration before = cpu_time_of(process), ours_before = cpu_time_of(::getpid());
  const Instant start = os_now();
  while (os_now() < start + 1200ms) continue;
  EXPECT_LT(cpu_time_of(process) - before, (cpu_time_of(::getpid()) - ours_before) / 2);
  { const Slot slot = lease(); }  // In spite of them.
  for (const Fd& connection : silent) EXPECT_TRUE(is_closed(connection));
  ::close(ends[1]);
  EXPECT_EQ(status_of(child), 0);
}

TEST_F(StrangersTest, ACrowdDoesNotGetMoreConnectionsThanThereIsUseFor) {
  constexpr std::size_t kMost = 2 * kSlots;
  const Slot slot = lease();
  const auto descriptors = [process = broker()] {
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(process) + "/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  };
  const std::size_t before = descriptors();
  std::vector<Fd> crowd;
  while (crowd.size() < kMost + 44) {
    if (Fd connection = visit()) crowd.push_back(std::move(connection));
  }
  ASSERT_TRUE(eventually([&] { return descriptors() >= before + kMost - 8; })) << "most of them are there";
  for (int i = 0; i < 10; ++i) {
    EXPECT_LE(descriptors(), before + kMost);
    Waiter().wait({}, os_now() + 10ms);
  }
  for (const Fd& connection : crowd) EXPECT_TRUE(is_closed(connection)) << "those who waited had their turn, too";
}

TEST_F(StrangersTest, UsersWithoutANumberAreNotOneUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a second user";
  // In a user namespace that maps nobody, everybody is 65534: its own processes, and those of others.
  int ready[2], done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const std::string executable = testing::TempDir() + "uroce-broker-for-all";  // Others may not reach the build's.
  std::filesystem::copy_file(kBroker, executable, std::filesystem::copy_options::overwrite_existing);
  const pid_t child = in_child([&] {
    if (::setresuid(kStranger, kStranger, kStranger) != 0 || ::unshare(CLONE_NEWUSER) != 0) return 77;
    const auto mine = Lease::acquire(kLocal, std::nullopt, executable);
    const bool refused =
        !mine && mine.error().error == ECHILD && mine.error().sentence.find("map") != std::string::npos;
    [[maybe_unused]] ssize_t n = ::write(ready[1], "", 1);
    char byte = 0;
    ::close(done[1]);
    n = ::read(done[0], &byte, 1);
    return refused ? 0 : 1;
  });
  ::close(done[0]);
  ::close(ready[1]);
  char byte = 0;
  if (::read(ready[0], &byte, 1) == 1) {
    if (const Fd connection = visit()) {
      EXPECT_EQ(reply_to(connection, BrokerRequest{}).descriptors, 0u) << "sockets of another user";
    }
  }
  ::close(done[1]);
  ::close(ready[0]);
  std::filesystem::remove(executable);
  const int status = status_of(child);
  if (status == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(status, 0);
}

/// Under fakeroot a process shares its addresses all the same.
TEST(Users, AreWhoTheKernelSaysTheyAre) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Fd one(ends[0]), other(ends[1]);
  const auto peer = peer_user(one.get());
  claims_to_be_a_stranger = true;
  const auto own = own_user();
  claims_to_be_a_stranger = false;
  EXPECT_EQ(own, peer);
}

}  // namespace
}  // namespace uroce::engine

extern "C" uid_t geteuid() noexcept {
  using namespace uroce::engine;
  return claims_to_be_a_stranger ? kStranger : static_cast<uid_t>(::syscall(SYS_geteuid));
}
