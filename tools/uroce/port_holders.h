// SPDX-License-Identifier: Apache-2.0
// The processes that have bound a UDP port on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace uroce::tools {

struct PortHolder {
  std::string address;
  unsigned int uid = 0;
  std::string process;  ///< "name (pid)", or empty: of another user, or of the kernel.

  /// Who that is, for people.
  std::string who() const;
};

/// The sockets that are bound to `port` in this network namespace, in the kernel's order.
std::vector<PortHolder> port_holders(std::uint16_t port);

}  // namespace uroce::tools
