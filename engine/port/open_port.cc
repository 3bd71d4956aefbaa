// SPDX-License-Identifier: Apache-2.0
#include "engine/port/open_port.h"

#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "engine/port/socket_port.h"
#include "engine/port/uring_port.h"

namespace uroce::engine {
namespace {

// A filter of system calls may refuse what packets need; such a port would lose all of them. It is found out by calls
// that ask for nothing: no packet, an option that means nothing here.

/// What every port calls.
std::optional<SetupError> refused_call(int socket) {
  mmsghdr none{};
  if (::recvmmsg(socket, &none, 0, MSG_DONTWAIT, nullptr) != 0) {
    return call_failed("can't receive packets", "recvmmsg", errno);
  }
  const int on = 1;
  // Some do not know all options (qemu-user), and nothing is lost by that.
  if (::setsockopt(socket, SOL_SOCKET, SO_NO_CHECK, &on, sizeof on) != 0 && errno != ENOPROTOOPT) {
    return call_failed("can't set up UDP sockets", "setsockopt", errno);
  }
  return std::nullopt;
}

Result<std::unique_ptr<Port>, SetupError> checked(std::unique_ptr<UdpPort> port) {
  const auto refusal = port->refusal();
  if (!refusal) return std::unique_ptr<Port>(std::move(port));
  return Err{call_failed("can't wait for packets", refusal->call, refusal->error)};
}

Result<std::unique_ptr<Port>, SetupError> socket_port(std::vector<ReceiveSocket> receivers, std::string reason,
                                                      SocketPort::Trains trains = SocketPort::Trains::kNo) {
  mmsghdr none{};
  if (::sendmmsg(receivers.front().fd.get(), &none, 0, MSG_DONTWAIT) != 0) {
    return Err{call_failed("can't send packets", "sendmmsg", errno)};
  }
  return checked(std::make_unique<SocketPort>(std::move(receivers), std::move(reason), trains));
}

}  // namespace

Result<std::unique_ptr<Port>, SetupError> open_port(std::span<const proto::Gid> addresses, EngineChoice choice) {
  std::vector<ReceiveSocket> receivers;
  for (const proto::Gid& address : addresses) {
    Result<ReceiveSocket, SetupError> socket = open_receive_socket(address);
    if (!socket) return Err{socket.error()};
    receivers.push_back(std::move(*socket));
  }
  return open_port_on(std::move(receivers), choice);
}

Result<std::unique_ptr<Port>, SetupError> open_port_on(std::vector<ReceiveSocket> receivers, EngineChoice choice) {
  if (receivers.empty()) return Err{SetupError{EINVAL, "a NIC needs at least one address"}};
  if (auto refused = refused_call(receivers.front().fd.get())) return Err{std::move(*refused)};
  if (choice == EngineChoice::kSocket) return socket_port(std::move(receivers), "UROCE_ENGINE=socket");
  if (choice == EngineChoice::kGso) {
    return socket_port(std::move(receivers), "UROCE_OFFLOAD=gso", SocketPort::Trains::kYes);
  }
  auto port =
      UringPort::open(receivers, choice == EngineChoice::kAuto ? "io_uring is available" : "UROCE_ENGINE=io_uring");
  if (port) return checked(std::move(*port));
  if (choice == EngineChoice::kIoUring) return Err{port.error()};
  return socket_port(std::move(receivers), port.error().sentence);
}

}  // namespace uroce::engine
