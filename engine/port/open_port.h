// SPDX-License-Identifier: Apache-2.0
// Choosing and opening the port of a NIC.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/os/setup_error.h"
#include "engine/port/port.h"
#include "engine/port/udp_socket.h"
#include "proto/base/result.h"

namespace uroce::engine {

/// What UROCE_ENGINE says; the caller parses it.
enum class EngineChoice : std::uint8_t {
  kAuto,     ///< io_uring if it can be had, else sockets; PortInfo::reason tells why.
  kIoUring,  ///< io_uring or an error.
  kSocket,
  kGso,  ///< Sockets with segmentation offload: UROCE_OFFLOAD=gso.
};

/// Opens UDP port 4791 on every address of `addresses` (at least one). Errors: EADDRINUSE (another NIC has one of
/// them), EADDRNOTAVAIL, and with kIoUring what stands in the way of io_uring.
Result<std::unique_ptr<Port>, SetupError> open_port(std::span<const proto::Gid> addresses, EngineChoice choice);

/// The same with sockets that are open already, one per address: those of a slot (engine/broker).
Result<std::unique_ptr<Port>, SetupError> open_port_on(std::vector<ReceiveSocket> receivers, EngineChoice choice);

}  // namespace uroce::engine
