// SPDX-License-Identifier: Apache-2.0
// Stream sockets, of TCP or RDMA, that never block for ever: every wait ends at a deadline or when the user interrupts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "tools/control/socket_calls.h"
#include "tools/version/version.h"

namespace uroce::tools {

/// Owns a socket.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd, const SocketCalls& calls = kTcpCalls) : fd_(fd), calls_(&calls) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)), calls_(other.calls_) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(calls_, other.calls_);
    return *this;
  }
  int fd() const { return fd_; }
  const SocketCalls& calls() const { return *calls_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
  const SocketCalls* calls_ = &kTcpCalls;
};

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline after(std::chrono::milliseconds span) { return std::chrono::steady_clock::now() + span; }

/// Waits until the socket is readable (or writable); false at the deadline. Throws when interrupted.
enum class Ready { kReadable, kWritable };
bool wait_ready(const Socket& socket, Ready what, Deadline deadline);
/// Waits until one of two descriptors, of which the second is a socket, is readable. As wait_ready().
bool wait_readable(int fd, const Socket& socket, Deadline deadline);
/// Waits, unless interrupted.
void pause_until(Deadline deadline);

struct Listener {
  Socket socket;
  std::uint16_t port = 0;  ///< The real one, if 0 was asked for.
  std::string address{};   ///< Textual; "::" = all addresses.
};
/// Listens on `address` ("" = all addresses, IPv6 and IPv4). Throws Failure with one sentence, e.g. if the port is
/// taken.
Listener listen_on(const std::string& address, std::uint16_t port, const SocketCalls& calls = kTcpCalls);

struct Connection {
  Socket socket;
  std::string peer{};     ///< Textual address.
  std::string local{};    ///< Ours of this connection.
  bool is_local = false;  ///< The peer is on this host.
};
/// Waits for a client, for as long as it takes.
Connection accept_client(const Listener& listener);
/// The address from which this host reaches the other host `host`, by its routes; "" if that is this one, or unknown.
std::string address_towards(const std::string& host);
/// Connects to `host` (a name or an address). While it refuses, tries again until `patience` is over: the server may be
/// about to start. `from`: a numeric address of ours, or "" for what the host chooses. `server`: what should run there,
/// for the hint when nobody listens.
Connection connect_to(const std::string& host, std::uint16_t port, std::chrono::milliseconds patience,
                      const std::string& from = "", const SocketCalls& calls = kTcpCalls,
                      const std::string& server = server_name());

}  // namespace uroce::tools
