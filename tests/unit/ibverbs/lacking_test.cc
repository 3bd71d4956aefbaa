// SPDX-License-Identifier: Apache-2.0
// Opening a NIC in processes that lack something.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <array>
#include <csignal>

#include "tests/support/in_child.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/errors.h"

namespace uroce::ibv::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using uroce::test::forbid;
using uroce::test::in_child;

/// What opening the first device comes to: "open", or the name of the error and the sentence.
std::string outcome() {
  struct ibv_device** const list = v().ibv_get_device_list(nullptr);
  struct ibv_context* const context = v().ibv_open_device(list[0]);
  if (context == nullptr) return std::string(::strerrorname_np(errno)) + ": " + last_error();
  v().ibv_close_device(context);
  return "open";
}

TEST(Lacking, AThread) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  const std::string text = in_child([] {
    forbid({SYS_clone, SYS_clone3}, EAGAIN);
    const std::string said = outcome();
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    return said + (::sigismember(&blocked, SIGTERM) != 0 ? "; signals are blocked" : "");
  });
  EXPECT_THAT(text, AllOf(StartsWith("EAGAIN: "), HasSubstr("ulimit -u"), Not(HasSubstr("blocked"))));
}

/// A filter says which call it refuses, by which errno.
TEST(Lacking, AllowedCalls) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  struct Case {
    std::initializer_list<unsigned> calls;
    const char* name;
  };
  for (const Case& one : {Case{{SYS_epoll_create1}, "epoll_create1: "},
                          {{SYS_timerfd_create}, "timerfd_create: "},
                          {{SYS_eventfd2}, "eventfd2: "},
                          {{SYS_recvmmsg}, "recvmmsg: "},
                          {{SYS_sendmmsg, SYS_io_uring_setup}, "sendmmsg: "},
                          {{SYS_setsockopt}, "setsockopt: "},
                          {{SYS_clone, SYS_clone3}, "clone3 or clone: "}}) {
    const std::string text = in_child([&] {
      forbid(one.calls, EPERM);
      return outcome();
    });
    EXPECT_THAT(text, AllOf(StartsWith("EPERM: "), HasSubstr(one.name), HasSubstr("EPERM (Operation not permitted)"),
                            HasSubstr("seccomp")));
  }
}

/// What opening another context comes to, where opening a file fails with `error`.
std::string another_context(unsigned error) {
  return in_child([error] {
    struct ibv_device** const list = v().ibv_get_device_list(nullptr);
    if (v().ibv_open_device(list[0]) == nullptr) return last_error();
    forbid({SYS_openat}, error);
    return outcome();
  });
}
TEST(Lacking, AnotherFile) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  EXPECT_THAT(another_context(EMFILE), AllOf(StartsWith("EMFILE: "), HasSubstr("; raise RLIMIT_NOFILE (ulimit -n)")));
  EXPECT_THAT(another_context(ENFILE), AllOf(StartsWith("ENFILE: "), HasSubstr("; raise fs.file-max (sysctl)")));
  EXPECT_THAT(another_context(EACCES), AllOf(StartsWith("EACCES: "), HasSubstr("/dev/null"), Not(HasSubstr("raise"))));
}

TEST(Lacking, Memory) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  const std::string text = in_child([] {
    const rlimit none{1, 1};
    ::setrlimit(RLIMIT_AS, &none);
    return outcome();
  });
  EXPECT_THAT(text, StartsWith("E"));
}

TEST(Lacking, RandomNumbers) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  EXPECT_EQ(in_child([] {
              forbid({SYS_getrandom}, EPERM);
              return outcome();
            }),
            "open");
}

/// What the program prints must not get into our sockets, and what it puts there later must not take their place.
TEST(Lacking, StandardDescriptors) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  EXPECT_EQ(in_child([] {
              constexpr std::array kStandard{STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
              for (const int fd : kStandard) ::close(fd);
              struct ibv_device** const list = v().ibv_get_device_list(nullptr);
              struct ibv_context* const context = v().ibv_open_device(list[0]);
              if (context == nullptr) return last_error();
              struct ibv_comp_channel* const channel = v().ibv_create_comp_channel(context);
              std::string said = channel == nullptr ? last_error() : "open";
              for (const int fd : kStandard) {
                if (::fcntl(fd, F_GETFD) != -1) said += ", has taken " + std::to_string(fd);
              }
              v().ibv_destroy_comp_channel(channel);
              v().ibv_close_device(context);
              return said;
            }),
            "open");
}

}  // namespace
}  // namespace uroce::ibv::test
