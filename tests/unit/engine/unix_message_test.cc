// SPDX-License-Identifier: Apache-2.0
#include "engine/os/unix_message.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "tests/support/in_child.h"

namespace uroce::engine {
namespace {

constexpr char kWord = 'w';

/// Copies of a descriptor in messages that nobody receives, for as long as it lives.
struct UnderWay {
  explicit UnderWay(std::size_t count) {
    int both[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) != 0) return;
    ends = {Fd(both[0]), Fd(both[1])};
    for (std::size_t i = 0; i < count; ++i) sent += send_message(both[0], kWord, std::array{both[0]});
  }
  std::array<Fd, 2> ends;
  std::size_t sent = 0;
};

bool limit_descriptors(rlim_t soft, rlim_t hard) {
  const rlimit limit{.rlim_cur = soft, .rlim_max = hard};
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// More under way than the soft limit, as of a user with nine shared addresses.
TEST(UnixMessage, DescriptorsGetThroughBeyondTheSoftLimit) {
  constexpr rlim_t kSoft = 40, kHard = 60;
  EXPECT_EQ(test::in_child([]() -> std::string {
              if (::geteuid() == 0 && ::setresuid(54321, 54321, 54321) != 0) return "still root, which may";
              if (!limit_descriptors(kSoft, kHard)) return "no limits";
              const UnderWay all(kHard + 10);
              if (errno != ETOOMANYREFS) return std::strerror(errno);
              if (all.sent <= kSoft + 1) return "no more than the soft limit";
              if (all.sent == kHard + 10) return "more than the hard limit";
              rlimit now{};
              const bool same = ::getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == kSoft && now.rlim_max == kHard;
              return same ? "as many as may be" : "other limits than before";
            }),
            "as many as may be");
}

}  // namespace
}  // namespace uroce::engine
