// SPDX-License-Identifier: Apache-2.0
// Which engine is chosen, and what is said when one or the address can't be had.
#include "engine/port/open_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <functional>

#include "engine/os/fd.h"
#include "tests/support/own_network.h"

namespace uroce::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const proto::Gid kLocal = proto::Gid::from_v4(127, 0, 0, 1);
const proto::Gid kForeign = proto::Gid::from_v4(192, 0, 2, 1);

class OpenPortTest : public testing::Test {
 protected:
  void SetUp() override { UROCE_NEEDS_OWN_NETWORK(); }
};

/// "engine: reason" of the port that opens, or the sentence of the error.
std::string outcome(EngineChoice choice, const proto::Gid& gid = kLocal) {
  const auto port = open_port({&gid, 1}, choice);
  return port ? (*port)->info().engine + ": " + (*port)->info().reason : "error: " + port.error().sentence;
}

/// Runs `body` in a child process and returns what it returned.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = body();
    [[maybe_unused]] const ssize_t n = ::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  const Fd reader(ends[0]);
  std::string text(4096, '\0');
  const ssize_t size = ::read(reader.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  ::waitpid(child, nullptr, 0);
  return text;
}

/// Makes io_uring_setup() fail from now on, as the seccomp profiles of container runtimes do.
void forbid_io_uring(unsigned error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    ::_exit(1);
  }
}

TEST_F(OpenPortTest, ChoosesIoUringWhenItCan) {
  EXPECT_EQ(outcome(EngineChoice::kAuto), "io_uring: io_uring is available");
  EXPECT_EQ(outcome(EngineChoice::kIoUring), "io_uring: UROCE_ENGINE=io_uring");
  EXPECT_EQ(outcome(EngineChoice::kSocket), "socket: UROCE_ENGINE=socket");
}

TEST_F(OpenPortTest, FallsBackToSocketsUnderASeccompFilterAndSaysWhy) {
  const std::string text = in_child([] {
    forbid_io_uring(EPERM);
    return outcome(EngineChoice::kAuto);
  });
  EXPECT_THAT(text, AllOf(StartsWith("socket: io_uring_setup: EPERM"), HasSubstr("seccomp")));
}

TEST_F(OpenPortTest, DemandedIoUringUnderASeccompFilterIsAnError) {
  const std::string text = in_child([] {
    forbid_io_uring(EPERM);
    return outcome(EngineChoice::kIoUring);
  });
  EXPECT_THAT(text, AllOf(StartsWith("error: io_uring_setup: EPERM"), HasSubstr("seccomp"), HasSubstr("UROCE_ENGINE")));
}

TEST_F(OpenPortTest, OtherReasonsHaveSentencesOfTheirOwn) {
  EXPECT_THAT(in_child([] {
                forbid_io_uring(ENOSYS);
                return outcome(EngineChoice::kIoUring);
              }),
              AllOf(HasSubstr("ENOSYS"), HasSubstr("Linux 6.1")));
  EXPECT_THAT(in_child([] {
                forbid_io_uring(ENOMEM);
                return outcome(EngineChoice::kIoUring);
              }),
              AllOf(HasSubstr("ENOMEM"), HasSubstr("RLIMIT_MEMLOCK")));
  EXPECT_THAT(in_child([] {
                const rlimit few{64, 64};
                ::setrlimit(RLIMIT_NOFILE, &few);
                return outcome(EngineChoice::kIoUring);
              }),
              HasSubstr("RLIMIT_NOFILE"));
}

TEST_F(OpenPortTest, APortThatNobodyCouldWakeIsNotOpened) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer needs descriptors for its own checks";
#endif
  EXPECT_THAT(in_child([] {
                const int next = ::dup(0);
                ::close(next);
                const rlimit room_for_one{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
                ::setrlimit(RLIMIT_NOFILE, &room_for_one);
                return outcome(EngineChoice::kSocket);
              }),
              HasSubstr("error: can't open an event descriptor"));
}

TEST_F(OpenPortTest, ABusyAddressIsExplained) {
  const auto first = open_port({&kLocal, 1}, EngineChoice::kAuto);
  ASSERT_TRUE(first) << first.error().sentence;
  for (const EngineChoice choice : {EngineChoice::kAuto, EngineChoice::kIoUring, EngineChoice::kSocket}) {
    const auto second = open_port({&kLocal, 1}, choice);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().error, EADDRINUSE);
    EXPECT_THAT(second.error().sentence, AllOf(HasSubstr("127.0.0.1:4791"), HasSubstr("another NIC"),
                                               HasSubstr("rdma_rxe"), HasSubstr("UROCE_ADDR=")));
  }
}

TEST_F(OpenPortTest, AForeignAddressIsExplained) {
  EXPECT_THAT(outcome(EngineChoice::kAuto, kForeign),
              AllOf(StartsWith("error: "), HasSubstr("192.0.2.1:4791"), HasSubstr("no such address")));
}

TEST_F(OpenPortTest, NoAddressAtAllIsAnError) { EXPECT_EQ(open_port({}, EngineChoice::kAuto).error().error, EINVAL); }

TEST_F(OpenPortTest, AnAddressIsFreeAgainAtOnce) {
  for (int i = 0; i < 5; ++i) EXPECT_THAT(outcome(EngineChoice::kIoUring), StartsWith("io_uring"));
}

TEST_F(OpenPortTest, AnAddressIsFreeAgainWhenItsProcessWasKilled) {
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto port = open_port({&kLocal, 1}, EngineChoice::kIoUring);
      (*port)->acquire_source_port(kLocal, 0xC000);
      ::raise(SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
    EXPECT_THAT(outcome(EngineChoice::kIoUring), StartsWith("io_uring"));
  }
}

}  // namespace
}  // namespace uroce::engine
