// SPDX-License-Identifier: Apache-2.0
// The NETLINK_RDMA socket, by which programs ask the kernel for its RDMA devices (iproute2's `rdma`, librdmacm). A
// kernel without RDMA has none, and one with RDMA would tell of other devices than ours.
//
// What a program gets instead is a netlink socket too, of NETLINK_USERSOCK, where the kernel only carries what
// processes send each other. So bind(), getsockname(), poll(), recvmsg(), dup() and close() are the kernel's. What the
// program sends to the kernel (port 0), where nobody would listen, comes to us; the answers are in its socket before
// its call returns. Where they don't fit, the rest follows as the program reads, as with the kernel: each call that
// receives fills the socket again, so one that has a rest always has something to read for poll().
#include "verbs/preload/netlink.h"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/os/process_mutex.h"
#include "proto/base/made_once.h"
#include "proto/base/no_cancellation.h"
#include "verbs/ibverbs/host/nic_source.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/view/rdma_netlink.h"

namespace uroce::preload {
namespace {

/// Whether what is sent on `fd` to `address` is for the kernel. Without an address it goes to whom connect() has named,
/// or to port 0.
bool is_to_kernel(int fd, const void* address, socklen_t size) {
  sockaddr_nl to{};
  if (address == nullptr || size == 0) {
    size = sizeof to;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&to), &size) != 0) return false;
  } else if (size >= sizeof to) {
    std::memcpy(&to, address, sizeof to);
  }
  return to.nl_family == AF_NETLINK && to.nl_pid == 0;
}

/// Whether this process has ever asked for such a socket. Until then, sending costs and touches nothing more.
std::atomic<bool> asked_for = false;

/// Whether what is sent to the kernel there is for us.
bool is_ours(int fd) {
  if (!asked_for.load(std::memory_order_relaxed)) return false;
  int protocol = -1;
  socklen_t size = sizeof protocol;
  return ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == NETLINK_USERSOCK;
}

/// The port number of the socket; as with the kernel's, sending gives it one. 0: it has none, errno says why.
std::uint32_t port_of(int fd) {
  sockaddr_nl own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0 || own.nl_pid != 0) return own.nl_pid;
  own.nl_family = AF_NETLINK;
  size = sizeof own;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) return 0;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 ? own.nl_pid : 0;
}

using Datagrams = std::vector<std::vector<std::uint8_t>>;

/// What a socket had no room for. The cookie is the socket's: all copies of a descriptor have the same.
struct Rest {
  std::uint64_t cookie = 0;
  std::deque<std::vector<std::uint8_t>> datagrams;
};
/// By port number: what a closed socket left goes when the next one gets its number. A child of fork() has a copy, for
/// whichever of both reads on. Guarded by engine::process_mutex.
std::map<std::uint32_t, Rest>& rests() {
  static constinit std::atomic<std::map<std::uint32_t, Rest>*> made = nullptr;
  return made_once(made);
}
/// Whether there are any. Without, receiving costs and touches nothing more.
std::atomic<bool> something_waits = false;

std::uint64_t cookie_of(int fd) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  ::getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size);
  return cookie;
}

/// Puts what is left for the socket into it, and then `more`, until it is full. 0, or an errno value.
int fill(int fd, std::uint32_t port, Datagrams more) {
  const sockaddr_nl own{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = port, .nl_groups = 0};
  const std::uint64_t cookie = cookie_of(fd);
  const std::scoped_lock lock(engine::process_mutex);
  Rest& rest = rests()[port];
  if (rest.cookie != cookie) rest = {.cookie = cookie, .datagrams = {}};
  auto& left = rest.datagrams;
  left.insert(left.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  something_waits = true;  // Before another thread reads the first one.
  for (; !left.empty(); left.pop_front()) {
    // From the socket to itself: that takes no other descriptor. After a connect() it hears port 0 only.
    const ssize_t given = UROCE_NEXT(sendto)(fd, left.front().data(), left.front().size(), MSG_DONTWAIT,
                                             reinterpret_cast<const sockaddr*>(&own), sizeof own);
    if (given < 0 && errno == EAGAIN) return 0;
    if (given < 0) break;
  }
  const int error = left.empty() ? 0 : errno;
  rests().erase(port);
  something_waits = !rests().empty();
  return error;
}

/// Answers `sent`. What send() returns.
ssize_t deliver(int fd, Bytes sent) {
  const NoCancellation whole;
  const std::uint32_t port = port_of(fd);
  if (port == 0) return -1;
  const int error = fill(fd, port, view::answer_netlink(ibv::nic_source(), sent, port));
  if (error == 0) return static_cast<ssize_t>(sent.size());
  errno = error;
  return -1;
}

}  // namespace

void refill(int fd) {
  if (!something_waits.load(std::memory_order_relaxed)) return;
  const int error = errno;
  const NoCancellation whole;
  if (is_ours(fd)) fill(fd, port_of(fd), {});
  errno = error;
}

}  // namespace uroce::preload

using namespace uroce::preload;

UROCE_EXPORT int socket(int domain, int type, int protocol) __THROW {
  if (domain != AF_NETLINK || protocol != NETLINK_RDMA) return UROCE_NEXT(socket)(domain, type, protocol);
  asked_for = true;
  return UROCE_NEXT(socket)(domain, type, NETLINK_USERSOCK);
}

UROCE_EXPORT ssize_t sendto(int fd, const void* data, std::size_t size, int flags, const struct sockaddr* to,
                            socklen_t to_size) {
  if (is_ours(fd) && is_to_kernel(fd, to, to_size)) return deliver(fd, {static_cast<const std::uint8_t*>(data), size});
  return UROCE_NEXT(sendto)(fd, data, size, flags, to, to_size);
}

UROCE_EXPORT ssize_t send(int fd, const void* data, std::size_t size, int flags) {
  if (is_ours(fd) && is_to_kernel(fd, nullptr, 0)) return deliver(fd, {static_cast<const std::uint8_t*>(data), size});
  return UROCE_NEXT(send)(fd, data, size, flags);
}

UROCE_EXPORT ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  if (!is_ours(fd) || !is_to_kernel(fd, message->msg_name, message->msg_namelen)) {
    return UROCE_NEXT(sendmsg)(fd, message, flags);
  }
  std::vector<std::uint8_t> sent;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
    const auto* const data = static_cast<const std::uint8_t*>(message->msg_iov[i].iov_base);
    sent.insert(sent.end(), data, data + message->msg_iov[i].iov_len);
  }
  return deliver(fd, sent);
}

UROCE_EXPORT ssize_t recv(int fd, void* to, std::size_t size, int flags) {
  const ssize_t received = UROCE_NEXT(recv)(fd, to, size, flags);
  refill(fd);
  return received;
}
extern "C" ssize_t __recv_chk(int fd, void* to, std::size_t size, std::size_t room, int flags);
UROCE_EXPORT ssize_t __recv_chk(int fd, void* to, std::size_t size, std::size_t room, int flags) {
  const ssize_t received = UROCE_NEXT(__recv_chk)(fd, to, size, room, flags);
  refill(fd);
  return received;
}

UROCE_EXPORT ssize_t recvfrom(int fd, void* to, std::size_t size, int flags, struct sockaddr* from,
                              socklen_t* from_size) {
  const ssize_t received = UROCE_NEXT(recvfrom)(fd, to, size, flags, from, from_size);
  refill(fd);
  return received;
}
extern "C" ssize_t __recvfrom_chk(int fd, void* to, std::size_t size, std::size_t room, int flags,
                                  struct sockaddr* from, socklen_t* from_size);
UROCE_EXPORT ssize_t __recvfrom_chk(int fd, void* to, std::size_t size, std::size_t room, int flags,
                                    struct sockaddr* from, socklen_t* from_size) {
  const ssize_t received = UROCE_NEXT(__recvfrom_chk)(fd, to, size, room, flags, from, from_size);
  refill(fd);
  return received;
}

UROCE_EXPORT ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  const ssize_t received = UROCE_NEXT(recvmsg)(fd, message, flags);
  refill(fd);
  return received;
}
