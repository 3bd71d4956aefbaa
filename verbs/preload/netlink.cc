// SPDX-License-Identifier: Apache-2.0
// The NETLINK_RDMA socket, by which programs ask the kernel for its RDMA devices (iproute2's `rdma`, librdmacm). A
// kernel without RDMA has none, and one with RDMA would tell of other devices than ours.
//
// What a program gets instead is a netlink socket too, of NETLINK_USERSOCK, where the kernel only carries what
// processes send each other. So bind(), getsockname(), poll(), recvmsg(), dup() and close() are the kernel's. What the
// program sends to the kernel (port 0), where nobody would listen, comes to us; the answers are in its socket before
// its call returns.
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine/os/fd.h"
#include "proto/base/no_cancellation.h"
#include "verbs/ibverbs/host/nic_source.h"
#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/view/rdma_netlink.h"

namespace uroce::preload {
namespace {

/// How many bytes may wait in the program's socket, if the system allows it.
constexpr int kRoom = 4 << 20;

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

/// The address of the socket; as with the kernel's, sending gives it one.
bool address_of(int fd, sockaddr_nl& own) {
  socklen_t size = sizeof own;
  own = {};
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return false;
  if (own.nl_pid != 0) return true;
  own.nl_family = AF_NETLINK;
  size = sizeof own;
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
         ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
}

/// Puts the answers to `sent` into the socket. What send() returns.
ssize_t deliver(int fd, Bytes sent) {
  const NoCancellation whole;
  sockaddr_nl own{};
  const engine::Fd kernel(UROCE_NEXT(socket)(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK));
  if (!kernel || !address_of(fd, own)) return -1;
  own.nl_groups = 0;
  for (const auto& datagram : view::answer_netlink(ibv::nic_source(), sent, own.nl_pid)) {
    // A program that leaves that much unread loses the rest, as with the kernel. After a connect() it hears port 0
    // only.
    const ssize_t given = UROCE_NEXT(sendto)(kernel.get(), datagram.data(), datagram.size(), MSG_DONTWAIT,
                                             reinterpret_cast<const sockaddr*>(&own), sizeof own);
    if (given < 0 && errno == ECONNREFUSED) return -1;
  }
  return static_cast<ssize_t>(sent.size());
}

}  // namespace
}  // namespace uroce::preload

using namespace uroce::preload;

UROCE_EXPORT int socket(int domain, int type, int protocol) __THROW {
  if (domain != AF_NETLINK || protocol != NETLINK_RDMA) return UROCE_NEXT(socket)(domain, type, protocol);
  asked_for = true;
  const int made = UROCE_NEXT(socket)(domain, type, NETLINK_USERSOCK);
  if (made >= 0) ::setsockopt(made, SOL_SOCKET, SO_RCVBUF, &kRoom, sizeof kRoom);
  return made;
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
