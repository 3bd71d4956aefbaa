// SPDX-License-Identifier: Apache-2.0
// Which engine is chosen, and what is said when one or the address can't be had.
#include "engine/port/open_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/in_child.h"
#include "tests/support/own_network.h"
#include "tests/support/port_fixture.h"

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

TEST_F(OpenPortTest, ChoosesIoUringWhenItCan) {
  EXPECT_EQ(outcome(EngineChoice::kAuto), "io_uring: io_uring is available");
  EXPECT_EQ(outcome(EngineChoice::kIoUring), "io_uring: UROCE_ENGINE=io_uring");
  EXPECT_EQ(outcome(EngineChoice::kSocket), "socket: UROCE_ENGINE=socket");
}

TEST_F(OpenPortTest, FallsBackToSocketsUnderASeccompFilterAndSaysWhy) {
  const std::string text = test::in_child([] {
    test::forbid({SYS_io_uring_setup}, EPERM);
    return outcome(EngineChoice::kAuto);
  });
  EXPECT_THAT(text, AllOf(StartsWith("socket: io_uring_setup: EPERM"), HasSubstr("seccomp")));
}

TEST_F(OpenPortTest, DemandedIoUringUnderASeccompFilterIsAnError) {
  const std::string text = test::in_child([] {
    test::forbid({SYS_io_uring_setup}, EPERM);
    return outcome(EngineChoice::kIoUring);
  });
  EXPECT_THAT(text, AllOf(StartsWith("error: io_uring_setup: EPERM"), HasSubstr("seccomp"), HasSubstr("UROCE_ENGINE")));
}

TEST_F(OpenPortTest, TheLimitOfDescriptorsIsTheProgramsAfterwards) {
  constexpr rlim_t kBelowFixedFiles = 200;
  EXPECT_EQ(test::in_child([] {
              rlimit limit{};
              ::getrlimit(RLIMIT_NOFILE, &limit);
              limit.rlim_cur = kBelowFixedFiles;
              ::setrlimit(RLIMIT_NOFILE, &limit);
              const std::string text = outcome(EngineChoice::kIoUring);
              ::getrlimit(RLIMIT_NOFILE, &limit);
              return text + ", " + std::to_string(limit.rlim_cur);
            }),
            "io_uring: UROCE_ENGINE=io_uring, 200");
}

TEST_F(OpenPortTest, OptionsThatTheKernelDoesNotKnowAreDoneWithout) {
  const std::string text = test::in_child([] {
    test::forbid({SYS_setsockopt}, ENOPROTOOPT);  // As qemu-user says it.
    return outcome(EngineChoice::kSocket);
  });
  EXPECT_EQ(text, "socket: UROCE_ENGINE=socket");
}

TEST_F(OpenPortTest, OtherReasonsHaveSentencesOfTheirOwn) {
  EXPECT_THAT(test::in_child([] {
                test::forbid({SYS_io_uring_setup}, ENOSYS);
                return outcome(EngineChoice::kIoUring);
              }),
              AllOf(HasSubstr("ENOSYS"), HasSubstr("Linux 6.1")));
  EXPECT_THAT(test::in_child([] {
                test::forbid({SYS_io_uring_setup}, ENOMEM);
                return outcome(EngineChoice::kIoUring);
              }),
              AllOf(HasSubstr("ENOMEM"), HasSubstr("RLIMIT_MEMLOCK")));
  EXPECT_THAT(test::in_child([] {
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
  EXPECT_THAT(test::in_child([] {
                const int next = ::dup(0);
                ::close(next);
                const rlimit room_for_one{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
                ::setrlimit(RLIMIT_NOFILE, &room_for_one);
                return outcome(EngineChoice::kSocket);
              }),
              AllOf(HasSubstr("error: can't wait for packets: "), HasSubstr("EMFILE"), HasSubstr("ulimit -n")));
}

TEST_F(OpenPortTest, ARingThatTakesNothingEndsTheTurnAndIsTriedAgainSoon) {
  EXPECT_EQ(
      test::in_child([] {
        const auto port = open_port({&kLocal, 1}, EngineChoice::kIoUring);
        if (!port) return port.error().sentence;
        test::forbid({SYS_io_uring_enter}, ENOMEM);
        for (int packets = 0; packets < 2; ++packets) {  // One alone needs no ring.
          if ((*port)->tx_frame().empty()) return std::string("no frame");
          (*port)->tx_commit({.path = {.source = kLocal, .destination = kLocal, .source_port = 0xC0DE}, .size = 64});
        }
        test::Inbox inbox;
        const std::size_t received = (*port)->exchange(inbox, 64);
        (*port)->wait(std::nullopt);
        return std::to_string(received);
      }),
      "0");
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
