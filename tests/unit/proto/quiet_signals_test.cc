// SPDX-License-Identifier: Apache-2.0
#include "proto/quiet_signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "tests/support/in_child.h"

namespace uroce::proto {
namespace {

using uroce::test::forbid;
using uroce::test::in_child;

constexpr std::array<std::uint8_t, 3> kWords{1, 2, 3};

/// Writes into a pipe with a reader, into one that is full, and into one that nobody reads any more.
std::string write_into_pipes() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_NONBLOCK) != 0) return "no pipe";
  ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  const auto result = [&] {
    const ssize_t written = write_quietly(ends[1], kWords);
    return std::to_string(written) + ' ' + std::to_string(written < 0 ? errno : 0) + "; ";
  };
  std::string text = result();
  std::array<std::uint8_t, 4> read{};
  if (::read(ends[0], read.data(), read.size()) != 3 || read[2] != 3) text += "they do not arrive; ";
  while (write_quietly(ends[1], kWords) > 0) continue;
  text += result();
  ::close(ends[0]);
  return text + result();
}

const std::string kAsItShouldBe = "3 0; -1 " + std::to_string(EAGAIN) + "; -1 " + std::to_string(EPIPE) + "; ";

TEST(WriteQuietly, RaisesNoSignal) { EXPECT_EQ(in_child(write_into_pipes), kAsItShouldBe); }

TEST(WriteQuietly, DoesSoOnOlderKernelsToo) {
  if (::prctl(PR_GET_SECCOMP) < 0) GTEST_SKIP() << "no filters of system calls here, as under qemu-user";
  for (const int error : {ENOSYS, EOPNOTSUPP, EPERM}) {
    const auto text = in_child([error] {
      forbid({SYS_pwritev2}, static_cast<unsigned>(error));
      return write_into_pipes();
    });
    EXPECT_EQ(text, kAsItShouldBe) << error;
  }
}

}  // namespace
}  // namespace uroce::proto
