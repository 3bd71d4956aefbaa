// SPDX-License-Identifier: Apache-2.0
// Wills: what is sent for a process that is killed, and what is not.
#include "engine/broker/wills.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <set>

#include "engine/broker/execute_wills.h"
#include "engine/os/unix_message.h"
#include "tests/support/executors.h"
#include "tests/unit/broker/lease_fixture.h"

namespace uroce::engine {
namespace {

using test::executors;
using Letter = std::vector<std::uint8_t>;

proto::Path path() {
  proto::Path path;
  path.source = kOther;
  path.destination = kLocal;
  path.source_port = 0xD872;
  return path;
}

class WillsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    UROCE_NEEDS_OWN_NETWORK();
    auto socket = open_receive_socket(kLocal);
    ASSERT_TRUE(socket.ok());
    receiver = std::move(socket->fd);
  }

  /// A process that leaves `leave` behind, and has ended by `signal` on return; 0: by _exit().
  template <class Leave>
  void die(Leave leave, int signal = SIGKILL) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto wills = Wills::make();
      if (!wills || !wills->find_executor(kBroker) || !eventually([] { return executors().size() == 1; })) ::_exit(1);
      leave(*wills);
      if (signal != 0) ::raise(signal);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(signal, WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }

  /// All that arrives until the executor has ended, which it does by itself.
  std::multiset<Letter> received() {
    std::multiset<Letter> all;
    EXPECT_TRUE(eventually([&] {
      const bool has_ended = executors().empty();
      Letter packet(2048);
      sockaddr_in from{};
      socklen_t size = sizeof from;
      ssize_t n;
      while ((n = ::recvfrom(receiver.get(), packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&from),
                             &size)) >= 0) {
        EXPECT_EQ(gid_of(reinterpret_cast<sockaddr*>(&from)), kOther);
        EXPECT_EQ(ntohs(from.sin_port), 0xD872);  // The ICRC covers it.
        all.insert(Letter(packet.begin(), packet.begin() + n));
      }
      return has_ended;
    }));
    return all;
  }

  Fd receiver;
};

TEST_F(WillsTest, AreSentThreeTimesForAProcessThatIsKilled) {
  die([](Wills& wills) {
    EXPECT_TRUE(wills.deposit(1, path(), Letter{1, 1}));
    EXPECT_TRUE(wills.deposit(2, path(), Letter{2}));
    EXPECT_TRUE(wills.deposit(3, path(), Letter{3}));
    EXPECT_TRUE(wills.deposit(1, path(), Letter(280, 7)));  // Instead.
    wills.withdraw(2);
  });
  const auto all = received();
  EXPECT_EQ(all.count(Letter(280, 7)), 3u);
  EXPECT_EQ(all.count(Letter{3}), 3u);
  EXPECT_EQ(all.size(), 6u);
}

TEST_F(WillsTest, AreSentAfterAnExitThatAsksNobody) {
  die([](Wills& wills) { wills.deposit(1, path(), Letter{1}); }, 0);
  EXPECT_EQ(received().size(), 3u);
}

TEST_F(WillsTest, OfAProcessThatHasNoneLeftNothingIsSent) {
  die([](Wills& wills) {
    for (std::uint32_t i = 0; i < 1000; ++i) wills.deposit(i, path(), Letter{1});
    for (std::uint32_t i = 0; i < 1000; ++i) wills.withdraw(i);
  });
  EXPECT_TRUE(received().empty());
}

TEST_F(WillsTest, AKilledExecutorIsReplaced) {
  die([](Wills& wills) {
    wills.deposit(1, path(), Letter{1});
    const pid_t first = *executors().begin();
    ::kill(first, SIGKILL);
    EXPECT_TRUE(eventually([&] { return is_dead(first); }));
    EXPECT_TRUE(wills.find_executor(kBroker));
    EXPECT_TRUE(eventually([] { return executors().size() == 1; }));
  });
  EXPECT_EQ(received().size(), 3u);
}

TEST_F(WillsTest, AreLimited) {
  const auto wills = Wills::make();
  for (std::uint32_t i = 0; i < Wills::kMost; ++i) ASSERT_TRUE(wills->deposit(i, path(), Letter{1}));
  EXPECT_FALSE(wills->deposit(Wills::kMost, path(), Letter{1}));
  wills->withdraw(5);
  EXPECT_TRUE(wills->deposit(Wills::kMost, path(), Letter{1}));
  wills->withdraw(6);
  EXPECT_FALSE(wills->deposit(7, path(), Letter(Will::kMaxPacket + 1)));
  EXPECT_EQ(wills->size(), Wills::kMost - 2u);  // An old one that does not hold any more is gone.
}

// As by `ulimit -f`.
TEST_F(WillsTest, AreFewerWhereFilesMayNotBeLarge) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit few = before;
  few.rlim_cur = 3 * sizeof(Will) + 1;
  ::setrlimit(RLIMIT_FSIZE, &few);
  const auto wills = Wills::make();
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_NE(wills, nullptr);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(wills->deposit(i, path(), Letter{1}));
  EXPECT_FALSE(wills->deposit(3, path(), Letter{1}));
  EXPECT_TRUE(wills->find_executor(kBroker));
}

// It is the victim's memory control group that it would take it from.
TEST_F(WillsTest, ToLookForThemTakesNoMemory) {
  const Fd memory(::memfd_create("wills", MFD_CLOEXEC));
  constexpr std::size_t kAll = Wills::kMost * sizeof(Will);
  ASSERT_EQ(::ftruncate(memory.get(), kAll), 0);
  for (const std::size_t place : {0u, 1000u, Wills::kMost - 1}) {
    Will will{};
    will.is_valid = 1;
    will.size = 1;
    will.source = path().source;
    will.destination = path().destination;
    will.source_port = path().source_port;
    ASSERT_EQ(::pwrite(memory.get(), &will, sizeof will, static_cast<off_t>(place * sizeof will)), sizeof will);
  }
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Fd executor(ends[1]);
  {
    const Fd process(ends[0]);
    ASSERT_TRUE(send_message(process.get(), WillsHandover{.count = Wills::kMost}, std::array{memory.get()}));
  }
  EXPECT_TRUE(execute_wills(executor.get()));
  EXPECT_EQ(received().size(), 9u);
  struct stat status {};
  ASSERT_EQ(::fstat(memory.get(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 100'000);
}

}  // namespace
}  // namespace uroce::engine
