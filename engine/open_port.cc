#include "engine/open_port.h"

#include "engine/socket_port.h"
#include "engine/uring_port.h"

namespace uroce::engine {
namespace {

Result<std::unique_ptr<Port>, SetupError> open_socket_port(std::span<const proto::Gid> addresses, std::string reason,
                                                           SocketPort::Trains trains = SocketPort::Trains::kNo) {
  auto port = SocketPort::open(addresses, std::move(reason), trains);
  if (!port) return Err{port.error()};
  return std::unique_ptr<Port>(std::move(*port));
}

}  // namespace

Result<std::unique_ptr<Port>, SetupError> open_port(std::span<const proto::Gid> addresses, EngineChoice choice) {
  if (addresses.empty()) return Err{SetupError{EINVAL, "a NIC needs at least one address"}};
  if (choice == EngineChoice::kSocket) return open_socket_port(addresses, "UROCE_ENGINE=socket");
  if (choice == EngineChoice::kGso) return open_socket_port(addresses, "UROCE_OFFLOAD=gso", SocketPort::Trains::kYes);
  auto port =
      UringPort::open(addresses, choice == EngineChoice::kAuto ? "io_uring is available" : "UROCE_ENGINE=io_uring");
  if (port) return std::unique_ptr<Port>(std::move(*port));
  const SetupError& error = port.error();
  // Sockets would not get a busy or foreign address either.
  const bool is_address_error = error.error == EADDRINUSE || error.error == EADDRNOTAVAIL;
  if (choice == EngineChoice::kIoUring || is_address_error) return Err{error};
  return open_socket_port(addresses, error.sentence);
}

}  // namespace uroce::engine
