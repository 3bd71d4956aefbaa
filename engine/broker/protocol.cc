// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/protocol.h"

#include "proto/address.h"

namespace uroce::engine {

AbstractName broker_name(const proto::Gid& local) { return AbstractName("uroce-broker-" + proto::to_string(local)); }

SetupError address_in_use(const proto::Gid& local, const std::string& why) {
  return {EADDRINUSE,
          "can't use " + proto::to_string(local) + ", port " + std::to_string(proto::kRocePort) + " (UDP): " + why +
              "; give this NIC an address of its own (UROCE_ADDR=ADDRESS), or none: it takes a free one then"};
}

}  // namespace uroce::engine
