// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/protocol.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "proto/address.h"

namespace uroce::engine {

BrokerName::BrokerName(const proto::Gid& local) {
  const std::string name = "uroce-broker-" + proto::to_string(local);
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);  // The first byte, 0, makes it an abstract name.
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

SetupError address_in_use(const proto::Gid& local, const std::string& why) {
  return {EADDRINUSE, "can't use " + proto::to_string(local) + ", port " + std::to_string(proto::kRocePort) +
                          " (UDP): " + why +
                          "; give this NIC an address of its own, for instance UROCE_ADDR=127.0.0.7"};
}

}  // namespace uroce::engine
