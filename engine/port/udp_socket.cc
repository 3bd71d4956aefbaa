// SPDX-License-Identifier: Apache-2.0
#include "engine/port/udp_socket.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "proto/address.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
// From <linux/udp.h>, which clashes with <netinet/udp.h>.
#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace uroce::engine {
namespace {

constexpr int kReceiveBufferBytes = 8 << 20;
constexpr int kSendBufferBytes = 2 << 20;

bool set_int(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/// The privileged variant ignores net.core.{r,w}mem_max.
void set_buffer(int fd, int forced, int ordinary, int bytes) {
  if (!set_int(fd, SOL_SOCKET, forced, bytes)) set_int(fd, SOL_SOCKET, ordinary, bytes);
}

std::string endpoint(const proto::Gid& local, std::uint16_t port) {
  return (local.is_v4() ? proto::to_string(local) : '[' + proto::to_string(local) + ']') + ':' + std::to_string(port);
}

/// What to do about EACCES; "" when it is not for the number of the port.
std::string way_to_bind(std::uint16_t port) {
  unsigned first = 0;
  if (!(std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> first) || port >= first) return "";
  return "; here ports below " + std::to_string(first) +
         " are for root only: sysctl -w net.ipv4.ip_unprivileged_port_start=" + std::to_string(port) +
         ", or run this as root";
}

SetupError bind_error(int error, const proto::Gid& local, std::uint16_t port) {
  const std::string what = "can't use " + endpoint(local, port) + " (UDP): ";
  switch (error) {
    case EADDRINUSE:
      return {error,
              what +
                  "another NIC has this address, in another process or in the kernel (rdma_rxe); give this NIC an "
                  "address of its own (UROCE_ADDR=ADDRESS), or none: it takes a free one then"};
    case EADDRNOTAVAIL:
      return {error, what + "this machine has no such address" +
                         (local.is_v4() ? "" : ", or IPv6 still looks whether another host has it (\"tentative\")") +
                         " (see: ip address); set UROCE_ADDR to one that it has"};
    case EACCES:
      return {error, what + std::strerror(error) + way_to_bind(port)};
    default:
      return {error, what + std::strerror(error)};
  }
}

Result<Fd, SetupError> open_socket(const proto::Gid& local) {
  const int family = local.is_v4() ? AF_INET : AF_INET6;
  Fd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!fd) {
    const int error = errno;
    return Err{SetupError{error, std::string("can't open an ") + (local.is_v4() ? "IPv4" : "IPv6") +
                                     " UDP socket: " + std::strerror(error) +
                                     (error == EMFILE ? "; raise RLIMIT_NOFILE (ulimit -n)" : "")}};
  }
  return fd;
}

std::uint32_t buffer_bytes_of(int fd) {
  std::uint32_t bytes = 0;
  socklen_t size = sizeof bytes;
  ::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &size);
  return bytes;
}

bool bind_to(const Fd& fd, const proto::Gid& local, std::uint16_t port, std::uint32_t scope) {
  const SocketAddress address(local, port, scope);
  return ::bind(fd.get(), address.get(), address.size) == 0;
}

template <class T>
void put(char*& at, int level, int type, T value) {
  cmsghdr header{};
  header.cmsg_level = level;
  header.cmsg_type = type;
  header.cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  at += CMSG_SPACE(sizeof value);
}

/// The socket is bound to one address, which is therefore the destination of all it receives: IP_PKTINFO would cost
/// some 25 ns a packet and tell nothing.
void set_up_to_receive(ReceiveSocket& socket) {
  const int fd = socket.fd.get();
  if (socket.local.is_v4()) {
    set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
    set_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
  } else {
    set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    set_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set_int(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
    set_int(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
  }
  set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, kReceiveBufferBytes);
  socket.buffer_bytes = buffer_bytes_of(fd);
}

/// Joins a group on the interface that has `local`; also when the socket has joined there before.
bool join(int fd, const proto::Gid& group, const proto::Gid& local) {
  int result = 0;
  if (group.is_v4()) {
    ip_mreqn membership{};
    std::memcpy(&membership.imr_multiaddr, group.v4(), sizeof membership.imr_multiaddr);
    std::memcpy(&membership.imr_address, local.v4(), sizeof membership.imr_address);
    result = ::setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership);
  } else {
    ipv6_mreq membership{};
    std::memcpy(&membership.ipv6mr_multiaddr, group.raw.data(), group.raw.size());
    membership.ipv6mr_interface = interface_of(local);
    result = ::setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &membership, sizeof membership);
  }
  return result == 0 || errno == EADDRINUSE;
}

}  // namespace

Result<ReceiveSocket, SetupError> open_receive_socket(const proto::Gid& local, Sharing sharing) {
  Result<Fd, SetupError> opened = open_socket(local);
  if (!opened) return Err{opened.error()};
  ReceiveSocket socket{.fd = std::move(*opened), .local = local, .scope = link_local_scope(local)};
  set_up_to_receive(socket);
  const int fd = socket.fd.get();
  if (sharing == Sharing::kReusePort) set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  if (!bind_to(socket.fd, local, proto::kRocePort, socket.scope)) {
    return Err{bind_error(errno, local, proto::kRocePort)};
  }
  return socket;
}

Result<ReceiveSocket, SetupError> open_group_socket(const proto::Gid& group, std::span<const proto::Gid> locals) {
  const auto of_its_version =
      std::find_if(locals.begin(), locals.end(), [&](const proto::Gid& l) { return l.is_v4() == group.is_v4(); });
  if (of_its_version == locals.end()) return Err{bind_error(EADDRNOTAVAIL, group, proto::kRocePort)};
  Result<Fd, SetupError> opened = open_socket(group);
  if (!opened) return Err{opened.error()};
  ReceiveSocket socket{.fd = std::move(*opened), .local = group};
  set_up_to_receive(socket);
  const int fd = socket.fd.get();
  set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  // Else it would receive from the interfaces that others have joined the group on.
  group.is_v4() ? set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0) : set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
  const std::uint32_t scope = group.is_v4() ? 0 : interface_of(*of_its_version);
  if (!bind_to(socket.fd, group, proto::kRocePort, scope)) return Err{bind_error(errno, group, proto::kRocePort)};
  bool joined = false;
  for (const proto::Gid& local : locals) {
    if (local.is_v4() == group.is_v4()) joined = join(fd, group, local) || joined;
  }
  if (!joined) return Err{bind_error(errno, group, proto::kRocePort)};
  return socket;
}

ReceiveSocket adopt_receive_socket(Fd fd, const proto::Gid& local) {
  const std::uint32_t bytes = buffer_bytes_of(fd.get());
  const std::uint32_t drops = drops_of(fd.get()).value_or(0);
  return {.fd = std::move(fd),
          .local = local,
          .scope = link_local_scope(local),
          .buffer_bytes = bytes,
          .drops_seen = drops};
}

std::optional<std::uint32_t> drops_of(int receive_fd) {
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  if (::getsockopt(receive_fd, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) != 0) return std::nullopt;
  return memory[SK_MEMINFO_DROPS];
}

void direct_multicast(int send_fd, const proto::Gid& local) {
  if (local.is_v4()) return;
  if (const auto interface = static_cast<int>(interface_of(local)); interface != 0) {
    set_int(send_fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, interface);
  }
}

Result<Fd, SetupError> open_send_socket(const proto::Gid& local, std::uint16_t port) {
  Result<Fd, SetupError> opened = open_socket(local);
  if (!opened) return opened;
  const int fd = opened->get();
  // For UDP on Linux, SO_REUSEADDR lets any number of sockets that all have it share an address and port, of any user
  // (SO_REUSEPORT: of one user).
  set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  bool as_needed = false;
  // PROBE: DF, and no belief in path MTUs. Anybody can tell the kernel of one (ICMP), and packets beyond it are refused
  // with IP_PMTUDISC_DO. A QP has a path MTU of its own, which its user sets.
  if (local.is_v4()) {
    as_needed = set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) && set_int(fd, SOL_SOCKET, SO_NO_CHECK, 1);
  } else {
    set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    // The kernel invents flow labels otherwise (net.ipv6.auto_flowlabels).
    as_needed = set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) &&
                set_int(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, 1) && set_int(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);
  }
  direct_multicast(fd, local);
  if (!as_needed) return Err{SetupError{errno, std::string("can't set up a UDP socket: ") + std::strerror(errno)}};
  set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, kSendBufferBytes);
  // Nobody has reason to send to our source ports; what arrives there all the same finds no room. (A filter that drops
  // it takes the kernel 100 us and more to compile, at each RTR of a QP.)
  set_int(fd, SOL_SOCKET, SO_RCVBUF, 0);
  if (!bind_to(*opened, local, port, link_local_scope(local))) return Err{bind_error(errno, local, port)};
  return opened;
}

bool set_header_fields(int fd, const proto::Gid& local, std::uint8_t tclass, std::uint8_t hop_limit) {
  if (local.is_v4()) return set_int(fd, IPPROTO_IP, IP_TOS, tclass) && set_int(fd, IPPROTO_IP, IP_TTL, hop_limit);
  return set_int(fd, IPPROTO_IPV6, IPV6_TCLASS, tclass) && set_int(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, hop_limit);
}

bool allow_trains(int send_fd, const proto::Gid& local) {
  return local.is_v4() ? set_int(send_fd, SOL_SOCKET, SO_NO_CHECK, 0)
                       : set_int(send_fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, 0);
}

bool receive_trains(int receive_fd, bool wanted) { return set_int(receive_fd, IPPROTO_UDP, UDP_GRO, wanted ? 1 : 0); }

std::size_t SendControl::fill(const proto::Gid& local, std::uint8_t tclass, std::uint8_t hop_limit) {
  char* at = bytes.data();
  if (local.is_v4()) {
    put<int>(at, IPPROTO_IP, IP_TOS, tclass);
    put<int>(at, IPPROTO_IP, IP_TTL, hop_limit);
  } else {
    put<int>(at, IPPROTO_IPV6, IPV6_TCLASS, tclass);
    put<int>(at, IPPROTO_IPV6, IPV6_HOPLIMIT, hop_limit);
  }
  return static_cast<std::size_t>(at - bytes.data());
}

std::size_t SendControl::fill_train(std::uint16_t packet_size) {
  char* at = bytes.data();
  put(at, IPPROTO_UDP, UDP_SEGMENT, packet_size);
  return static_cast<std::size_t>(at - bytes.data());
}

ReceiveControl parse_receive_control(const msghdr& message) {
  ReceiveControl result;
  const char* at = static_cast<const char*>(message.msg_control);
  const char* const end = at + message.msg_controllen;
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(cmsghdr))) {
    cmsghdr header;
    std::memcpy(&header, at, sizeof header);
    if (header.cmsg_len < CMSG_LEN(0) || header.cmsg_len > static_cast<std::size_t>(end - at)) break;
    // IP_TOS is one byte, everything else an int; hosts are little-endian.
    std::uint32_t value = 0;
    std::memcpy(&value, at + CMSG_LEN(0), std::min(header.cmsg_len - CMSG_LEN(0), sizeof value));
    // By value: clang does not capture a struct with a flexible array.
    const auto is = [at_level = header.cmsg_level, of_type = header.cmsg_type](int level, int type) {
      return at_level == level && of_type == type;
    };
    if (is(IPPROTO_IP, IP_TOS) || is(IPPROTO_IPV6, IPV6_TCLASS)) {
      result.tclass = static_cast<std::uint8_t>(value);
    } else if (is(IPPROTO_IP, IP_TTL) || is(IPPROTO_IPV6, IPV6_HOPLIMIT)) {
      result.hop_limit = static_cast<std::uint8_t>(value);
    } else if (is(IPPROTO_UDP, UDP_GRO)) {
      result.packet_size = value;
    }
    at += std::min(CMSG_ALIGN(header.cmsg_len), static_cast<std::size_t>(end - at));
  }
  return result;
}

}  // namespace uroce::engine
