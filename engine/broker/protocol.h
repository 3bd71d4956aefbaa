// SPDX-License-Identifier: Apache-2.0
// What NICs and the broker of an address say to each other: one request and one reply per connection. The connection is
// the lease: it ends when its descriptors are closed, by whatever means. The broker closes the
// connection of a NIC that asks nothing, or that it refuses.
#pragma once

#include <cstdint>

#include "engine/os/abstract_name.h"
#include "engine/os/setup_error.h"
#include "proto/path.h"

namespace uroce::engine {

/// Changes with the layout or meaning of anything here.
inline constexpr std::uint32_t kBrokerProtocol = 2;

struct BrokerRequest {
  enum class Kind : std::uint8_t {
    kAnySlot,   ///< Lease a slot.
    kThisSlot,  ///< Lease slot `slot`.
    kKeepSlot,  ///< "I have slot `slot`, and my broker is gone"; comes with the bag and the claims.
  };
  std::uint32_t protocol = kBrokerProtocol;
  Kind kind = Kind::kAnySlot;
  std::uint8_t slot = 0;
  std::uint16_t reserved = 0;
};

/// A lease comes with three descriptors: the socket of the slot; the bag: a Unix socket in which a message with the
/// sockets of all slots lies, never to be taken out (its holder keeps them all open, and so in order); and the file of
/// claims (claims.h).
struct BrokerReply {
  std::uint32_t protocol = kBrokerProtocol;
  std::int32_t error = 0;  ///< errno, or 0.
  std::uint8_t slot = 0;
  std::uint8_t reserved = 0;
  std::uint16_t first_local = 0;  ///< First local part of a QPN to use: late packets for others that had the slot miss.
  char sentence[512] = {};        ///< For people, if there is an error.
};

/// The name of the broker for `local`.
AbstractName broker_name(const proto::Gid& local);

/// "can't use 127.0.0.1:4791 (UDP): " and the rest, with EADDRINUSE.
SetupError address_in_use(const proto::Gid& local, const std::string& why);

}  // namespace uroce::engine
