// SPDX-License-Identifier: Apache-2.0
#include "tools/control/socket.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "proto/base/this_host.h"
#include "tools/control/interrupt.h"
#include "tools/rdma/failure.h"

namespace uroce::tools {
namespace {

constexpr std::chrono::milliseconds kRetryPeriod{50};
constexpr std::chrono::milliseconds kRdmaAttempt{1000};

[[noreturn]] void give_up(const std::string& what, int error) {
  throw Failure(kExitUsage, fmt::format("{}: {}", what, std::strerror(error)));
}

void set_option(const Socket& socket, int level, int name, int value) {
  // All our options are refinements; a kernel that lacks one still works.
  socket.calls().setsockopt(socket.fd(), level, name, &value, sizeof value);
}

/// Small messages at once, and a peer whose host vanished is noticed after some 10 seconds.
void tune(const Socket& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList resolve(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    throw Failure(kExitUsage, fmt::format("can't resolve '{}': {}", host, gai_strerror(error)));
  }
  return {list, [](addrinfo* a) { freeaddrinfo(a); }};
}

std::string address_text(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  const std::string plain = text.data();
  return plain.rfind("::ffff:", 0) == 0 && plain.find('.') != std::string::npos ? plain.substr(7) : plain;
}

/// Our end of a socket that is connected.
std::string local_address(int fd, const SocketCalls& calls) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  return calls.getsockname(fd, generic, &length) == 0 ? address_text(generic, length) : "";
}

/// Whether `address`, a textual one, is one of this host; also when the system does not say, which others will tell.
bool is_of_this_host(const std::string& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), "9", &hints, &found) != 0) return false;
  const AddressList list(found, freeaddrinfo);
  return uroce::is_of_this_host(*list->ai_addr, list->ai_addrlen).value_or(true);
}

Connection connection_of(Socket socket, const sockaddr* peer, socklen_t length) {
  tune(socket);
  Connection connection{.socket = std::move(socket), .peer = address_text(peer, length)};
  connection.local = local_address(connection.socket.fd(), connection.socket.calls());
  connection.is_local = is_of_this_host(connection.peer);
  return connection;
}

Socket bound_socket(const sockaddr* address, socklen_t length, const SocketCalls& calls) {
  Socket socket(calls.open(address->sa_family), calls);
  if (!socket) return socket;
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (calls.bind(socket.fd(), address, length) == 0 && calls.listen(socket.fd(), 16) == 0) return socket;
  const int error = errno;
  socket = Socket();
  errno = error;
  return socket;
}

/// One attempt; returns 0 or an errno value. `from` may be null.
int try_connect(const addrinfo& address, const addrinfo* from, Deadline deadline, Socket& socket,
                const SocketCalls& calls) {
  socket = Socket(calls.open(address.ai_family), calls);
  if (!socket) return errno;
  if (from != nullptr && calls.bind(socket.fd(), from->ai_addr, from->ai_addrlen) != 0) return errno;
  if (calls.connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_ready(socket, Ready::kWritable, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  calls.getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

/// Without an address of the family of `own`, `host` can't be reached from there.
void check_family(const std::string& host, const addrinfo* list, const addrinfo& own, const std::string& where) {
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    if (address->ai_family == own.ai_family) return;
  }
  const bool is_ipv4 = own.ai_family == AF_INET;
  throw Failure(kExitUsage,
                fmt::format("can't connect to {0} {1}: {0} has no {2} address, and the one of our NIC is {3}: give the "
                            "NIC an {4} address (--addr), or choose one (--gid-index)",
                            host, where, is_ipv4 ? "IPv4" : "IPv6", address_text(own.ai_addr, own.ai_addrlen),
                            is_ipv4 ? "IPv6" : "IPv4"));
}

/// Waits for one of `fds`, the last of which becomes an interrupt.
template <std::size_t N>
bool wait_for(std::array<pollfd, N> fds, const SocketCalls& calls, Deadline deadline) {
  fds[N - 1] = {interrupt_fd(), POLLIN, 0};
  while (true) {
    throw_if_interrupted();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    const auto timeout = static_cast<int>(std::min<long long>(left, 60'000));
    if (calls.poll(fds.data(), fds.size(), timeout) <= 0) continue;
    for (std::size_t i = 0; i + 1 < N; ++i) {
      if (fds[i].revents != 0) return true;
    }
  }
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) calls_->close(fd_);
}

bool wait_ready(const Socket& socket, Ready what, Deadline deadline) {
  const short events = what == Ready::kReadable ? POLLIN : POLLOUT;
  return wait_for(std::array<pollfd, 2>{pollfd{socket.fd(), events, 0}}, socket.calls(), deadline);
}

bool wait_readable(int fd, const Socket& socket, Deadline deadline) {
  return wait_for(std::array<pollfd, 3>{pollfd{fd, POLLIN, 0}, pollfd{socket.fd(), POLLIN, 0}}, socket.calls(),
                  deadline);
}

void pause_until(Deadline deadline) { wait_for(std::array<pollfd, 1>{}, kTcpCalls, deadline); }

Listener listen_on(const std::string& address, std::uint16_t port, const SocketCalls& calls) {
  Socket socket;
  if (address.empty()) {
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(port);
    socket = bound_socket(reinterpret_cast<const sockaddr*>(&any6), sizeof any6, calls);
    if (!socket && errno != EADDRINUSE && errno != EACCES) {  // a host without IPv6
      sockaddr_in any4{};
      any4.sin_family = AF_INET;
      any4.sin_port = htons(port);
      socket = bound_socket(reinterpret_cast<const sockaddr*>(&any4), sizeof any4, calls);
    }
  } else {
    const AddressList list = resolve(address, port, AI_PASSIVE);
    socket = bound_socket(list->ai_addr, list->ai_addrlen, calls);
  }
  if (!socket && errno == EADDRINUSE) {
    throw Failure(kExitUsage,
                  fmt::format("{} port {} is in use: another server runs, or pass another --port", calls.name, port));
  }
  if (!socket) give_up(fmt::format("can't listen on {} port {}", calls.name, port), errno);
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  auto* const generic = reinterpret_cast<sockaddr*>(&local);
  calls.getsockname(socket.fd(), generic, &length);
  // The port lies at the same place in both families.
  const std::uint16_t real_port = ntohs(reinterpret_cast<const sockaddr_in*>(&local)->sin_port);
  return {std::move(socket), real_port, address_text(generic, length)};
}

Connection accept_client(const Listener& listener) {
  const SocketCalls& calls = listener.socket.calls();
  while (true) {
    while (!wait_ready(listener.socket, Ready::kReadable, after(std::chrono::hours(1)))) {
    }
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    Socket socket(calls.accept(listener.socket.fd(), generic, &length), calls);
    if (!socket) {
      // The client may be gone again before we took it. Errors of its network come here, too: accept(2).
      constexpr std::array kOfThisClient{ECONNABORTED, EAGAIN, EINTR,        ENETDOWN,   EPROTO,     ENOPROTOOPT,
                                         EHOSTDOWN,    ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH};
      if (std::ranges::find(kOfThisClient, errno) != kOfThisClient.end()) continue;
      give_up("can't accept a client", errno);
    }
    return connection_of(std::move(socket), generic, length);
  }
}

std::string address_towards(const std::string& host) {
  const AddressList list = resolve(host, 1, 0);
  const Socket socket(::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // On a datagram socket, connect() sends nothing.
  if (!socket || ::connect(socket.fd(), list->ai_addr, list->ai_addrlen) != 0) return "";
  if (is_of_this_host(address_text(list->ai_addr, list->ai_addrlen))) return "";
  return local_address(socket.fd(), kTcpCalls);
}

Connection connect_to(const std::string& host, std::uint16_t port, std::chrono::milliseconds patience,
                      const std::string& from, const SocketCalls& calls, const std::string& server) {
  const AddressList list = resolve(host, port, 0);
  const AddressList own = from.empty() ? AddressList(nullptr, freeaddrinfo) : resolve(from, 0, AI_NUMERICHOST);
  if (own) check_family(host, list.get(), *own, fmt::format("{} port {}", calls.name, port));
  const Deadline deadline = after(patience);
  // RDMA CM repeats a lost request after four seconds only: one that is sent before the server's NIC is there is lost.
  const bool is_rdma = &calls == &kRdmaCalls;
  const auto attempt = is_rdma ? std::min(patience, kRdmaAttempt) : patience;
  int error = ETIMEDOUT;
  bool refused = false, again = false;
  do {
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
      if (own && own->ai_family != address->ai_family) continue;
      Socket socket;
      error = try_connect(*address, own.get(), std::min(deadline, after(attempt)), socket, calls);
      if (error != 0) continue;
      return connection_of(std::move(socket), address->ai_addr, address->ai_addrlen);
    }
    // Nobody listens there: yet, perhaps, as server and client are often started together.
    refused |= error == ECONNREFUSED;
    if (error == ECONNREFUSED) pause_until(std::min(deadline, after(kRetryPeriod)));
    again = (error == ECONNREFUSED || (is_rdma && error == ETIMEDOUT)) && std::chrono::steady_clock::now() < deadline;
  } while (again);
  if (refused && error == ETIMEDOUT) error = ECONNREFUSED;  // There was no time left for the last attempt.
  const std::string name = is_rdma ? server + " --cm" : server;
  // Requests by RDMA CM may wait a second for a listener, longer than we do.
  const bool is_nobody = error == ECONNREFUSED || (is_rdma && error == ETIMEDOUT);
  // An rsocket hears of no reason for which it is rejected.
  const char* const mtu = is_rdma && error == ECONNREFUSED ? " has the path the same MTU at both ends?" : "";
  const std::string hint = is_nobody ? " (is " + name + " running there?" + mtu + ")" : "";
  give_up(fmt::format("can't connect to {} {} port {}{}", host, calls.name, port, hint), error);
}

}  // namespace uroce::tools
