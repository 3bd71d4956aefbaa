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

#include "tools/control/interrupt.h"
#include "tools/rdma/failure.h"

namespace uroce::tools {
namespace {

constexpr std::chrono::milliseconds kRetryPeriod{50};

[[noreturn]] void refuse(const std::string& what, int error) {
  throw Failure(kExitUsage, fmt::format("{}: {}", what, std::strerror(error)));
}

void set_option(const Socket& socket, int level, int name, int value) {
  // All our options are refinements; a kernel that lacks one still works.
  setsockopt(socket.fd(), level, name, &value, sizeof value);
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

Socket bound_socket(const sockaddr* address, socklen_t length) {
  Socket socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.fd(), address, length) != 0 || listen(socket.fd(), 16) != 0) return Socket();
  return socket;
}

/// One attempt; returns 0 or an errno value.
int try_connect(const addrinfo& address, Deadline deadline, Socket& socket) {
  socket = Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_ready(socket.fd(), Ready::kWritable, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

bool wait_ready(int fd, Ready what, Deadline deadline) {
  while (true) {
    throw_if_interrupted();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    const auto timeout = static_cast<int>(std::min<long long>(left, 60'000));
    std::array<pollfd, 2> fds = {pollfd{fd, static_cast<short>(what == Ready::kReadable ? POLLIN : POLLOUT), 0},
                                 pollfd{interrupt_fd(), POLLIN, 0}};
    if (poll(fds.data(), fds.size(), timeout) > 0 && fds[0].revents != 0) return true;
  }
}

Listener listen_on(const std::string& address, std::uint16_t port) {
  Socket socket;
  if (address.empty()) {
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(port);
    socket = bound_socket(reinterpret_cast<const sockaddr*>(&any6), sizeof any6);
    if (!socket && errno != EADDRINUSE && errno != EACCES) {  // a host without IPv6
      sockaddr_in any4{};
      any4.sin_family = AF_INET;
      any4.sin_port = htons(port);
      socket = bound_socket(reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
    }
  } else {
    const AddressList list = resolve(address, port, AI_PASSIVE);
    socket = bound_socket(list->ai_addr, list->ai_addrlen);
  }
  if (!socket && errno == EADDRINUSE) {
    throw Failure(kExitUsage, fmt::format("TCP port {} is in use: another server runs, or pass another --port", port));
  }
  if (!socket) refuse(fmt::format("can't listen on TCP port {}", port), errno);
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local), &length);
  // The port lies at the same place in both families.
  const std::uint16_t real_port = ntohs(reinterpret_cast<const sockaddr_in*>(&local)->sin_port);
  return {std::move(socket), real_port};
}

Connection accept_client(const Listener& listener) {
  while (true) {
    while (!wait_ready(listener.socket.fd(), Ready::kReadable, after(std::chrono::hours(1)))) {
    }
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    Socket socket(accept4(listener.socket.fd(), generic, &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // The client may be gone again before we took it.
      if (errno == ECONNABORTED || errno == EAGAIN || errno == EINTR) continue;
      refuse("can't accept a client", errno);
    }
    tune(socket);
    return {std::move(socket), address_text(generic, length)};
  }
}

Connection connect_to(const std::string& host, std::uint16_t port, std::chrono::milliseconds patience) {
  const AddressList list = resolve(host, port, 0);
  const Deadline deadline = after(patience);
  int error = ETIMEDOUT;
  do {
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
      Socket socket;
      error = try_connect(*address, deadline, socket);
      if (error != 0) continue;
      tune(socket);
      return {std::move(socket), address_text(address->ai_addr, address->ai_addrlen)};
    }
    // Nobody listens there: yet, perhaps, as server and client are often started together.
  } while (error == ECONNREFUSED &&
           !wait_ready(interrupt_fd(), Ready::kReadable, std::min(deadline, after(kRetryPeriod))) &&
           std::chrono::steady_clock::now() < deadline);
  const char* hint = error == ECONNREFUSED ? " (is rdma_server running there?)" : "";
  refuse(fmt::format("can't connect to {} port {}{}", host, port, hint), error);
}

}  // namespace uroce::tools
