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
TakenBack take_back_in_steps(int fd, iovec to) {
  pollfd look{fd, POLLIN, 0};
  if (::poll(&look, 1, 0) != 1) return TakenBack::kNothing;
  if ((look.revents & POLLNVAL) != 0) return TakenBack::kNotOpen;
  if ((look.revents & POLLIN) == 0) return TakenBack::kNothing;
  // Of a pipe others may read meanwhile, and a read would wait for the next token. This does not.
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const ssize_t moved = ::splice(fd, nullptr, nowhere.get(), nullptr, to.iov_len, SPLICE_F_NONBLOCK);
  if (moved > 0) return TakenBack::kToken;
  if (moved == 0 || errno == EAGAIN) return TakenBack::kNothing;
  // An eventfd, of which only we read; or there is no descriptor left. By readv(), since a program's read() of
  // /dev/infiniband/rdma_cm fails.
  if (::readv(fd, &to, 1) > 0) return TakenBack::kToken;
  return errno == EBADF ? TakenBack::kNotOpen : TakenBack::kNothing;
}

}  // namespace

TakenBack take_back(int fd, std::size_t size) {
  if (fd < 0) return TakenBack::kNotOpen;
  const NoCancellation whole;
  std::array<char, 8> token{};
  const iovec to{token.data(), size};
  constexpr off_t kNoOffset = -1;
  const ssize_t count = ::preadv2(fd, &to, 1, kNoOffset, RWF_NOWAIT);
  if (count > 0) return TakenBack::kToken;
  if (count == 0 || errno == EAGAIN) return TakenBack::kNothing;
  return errno == EBADF ? TakenBack::kNotOpen : take_back_in_steps(fd, to);
}

}  // namespace uroce::engine
