// SPDX-License-Identifier: Apache-2.0
#include "engine/os/unix_message.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "proto/base/check.h"

namespace uroce::engine {
namespace {

/// SCM_MAX_FD of the kernel.
constexpr std::size_t kMaxDescriptors = 253;
constexpr std::size_t kControlSize = CMSG_SPACE(kMaxDescriptors * sizeof(int));

/// All processes of a user may together have RLIMIT_NOFILE descriptors in messages that nobody has received, and each
/// shared address takes 128 (ADR 9). The program's own limit may be low because it uses select(2): it is what it may be
/// at most during `send` only.
template <class Send>
bool with_highest_limit(Send send) {
  rlimit own{};
  if (::getrlimit(RLIMIT_NOFILE, &own) != 0 || own.rlim_cur >= own.rlim_max) return false;
  const rlimit highest{.rlim_cur = own.rlim_max, .rlim_max = own.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &highest) != 0) return false;
  const bool sent = send();
  const int error = errno;
  ::setrlimit(RLIMIT_NOFILE, &own);
  errno = error;
  return sent;
}

}  // namespace

bool send_message(int socket, const void* bytes, std::size_t size, std::span<const int> descriptors) {
  UROCE_ASSERT(descriptors.size() <= kMaxDescriptors);
  alignas(cmsghdr) char control[kControlSize];
  iovec part{.iov_base = const_cast<void*>(bytes), .iov_len = size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    cmsghdr header{};
    header.cmsg_level = SOL_SOCKET;
    header.cmsg_type = SCM_RIGHTS;
    header.cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(control, &header, sizeof header);
    std::memcpy(control + CMSG_LEN(0), descriptors.data(), descriptors.size_bytes());
    message.msg_control = control;
    message.msg_controllen = header.cmsg_len;
  }
  const auto send = [&] {
    return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  };
  return send() || (errno == ETOOMANYREFS && with_highest_limit(send));
}

bool receive_message(int socket, void* bytes, std::size_t size, std::vector<Fd>& descriptors, int flags) {
  descriptors.clear();
  alignas(cmsghdr) char control[kControlSize];
  iovec part{.iov_base = bytes, .iov_len = size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) errno = EPROTO;
    return false;
  }
  for (const cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr;
       at = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(at))) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  if (static_cast<std::size_t>(got) == size && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) return true;
  errno = (message.msg_flags & MSG_CTRUNC) != 0 ? EMFILE : EPROTO;
  return false;
}

}  // namespace uroce::engine
