// SPDX-License-Identifier: Apache-2.0
#include "engine/os/take_back.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

#include "engine/os/fd.h"
#include "proto/base/no_cancellation.h"

namespace uroce::engine {
namespace {

/// For a kernel, or a filter of system calls, that can't do it in one step: before Linux 6.4, pipes could not.
bool take_back_in_steps(int fd, iovec to) {
  pollfd look{fd, POLLIN, 0};
  if (::poll(&look, 1, 0) != 1) return true;
  if ((look.revents & POLLNVAL) != 0) return false;
  // Of a pipe others may read meanwhile, and a read would wait for the next token. This does not.
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (::splice(fd, nullptr, nowhere.get(), nullptr, to.iov_len, SPLICE_F_NONBLOCK) >= 0 || errno == EAGAIN) return true;
  // An eventfd, of which only we read; or there is no descriptor left. By readv(), since a program's read() of
  // /dev/infiniband/rdma_cm fails.
  return ::readv(fd, &to, 1) >= 0 || errno != EBADF;
}

}  // namespace

bool take_back(int fd, std::size_t size) {
  if (fd < 0) return false;
  const NoCancellation whole;
  std::array<char, 8> token{};
  const iovec to{token.data(), size};
  constexpr off_t kNoOffset = -1;
  if (::preadv2(fd, &to, 1, kNoOffset, RWF_NOWAIT) >= 0 || errno == EAGAIN) return true;
  return errno != EBADF && take_back_in_steps(fd, to);
}

}  // namespace uroce::engine
