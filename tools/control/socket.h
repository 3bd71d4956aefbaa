// TCP sockets that never block for ever: every wait ends at a deadline or when the user interrupts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace uroce::tools {

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline after(std::chrono::milliseconds span) { return std::chrono::steady_clock::now() + span; }

/// Waits until `fd` is readable (or writable); false at the deadline. Throws when interrupted.
enum class Ready { kReadable, kWritable };
bool wait_ready(int fd, Ready what, Deadline deadline);

struct Listener {
  Socket socket;
  std::uint16_t port = 0;  ///< The real one, if 0 was asked for.
};
/// Listens on `address` ("" = all addresses, IPv6 and IPv4). Throws Failure with one sentence, e.g. if the port is
/// taken.
Listener listen_on(const std::string& address, std::uint16_t port);

struct Connection {
  Socket socket;
  std::string peer;  ///< Textual address.
};
/// Waits for a client, for as long as it takes.
Connection accept_client(const Listener& listener);
/// Connects to `host` (a name or an address). While it refuses, tries again until `patience` is over: the server may be
/// about to start.
Connection connect_to(const std::string& host, std::uint16_t port, std::chrono::milliseconds patience);

}  // namespace uroce::tools
