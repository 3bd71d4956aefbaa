// SPDX-License-Identifier: Apache-2.0
// RDMA devices as the kernel shows them in /sys/class/infiniband, and which of their GIDs a program should take.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "proto/path.h"

namespace uroce::tools {

struct GidRow {
  int index = 0;
  proto::Gid gid;
  std::string type;       ///< "RoCE v2", "IB/RoCE v1", as the kernel writes it.
  std::string interface;  ///< The network interface whose address it is; "" = not told.
};

struct RdmaPort {
  std::string device;
  int number = 1;
  std::string state;  ///< "ACTIVE", "DOWN", ...
  bool ethernet = true;
  std::string rate;            ///< "100 Gb/sec (4X EDR)"; "" = not told.
  std::string interface;       ///< The one that has its GIDs.
  unsigned interface_mtu = 0;  ///< 0 = not known.
  std::vector<GidRow> gids;    ///< Those that are not empty.
};

struct RdmaTree {
  /// A device whose ports can't be listed.
  struct Portless {
    std::string device, why;
  };
  std::vector<RdmaPort> ports;  ///< Of all devices, sorted by name.
  std::vector<Portless> portless;
  std::string wrong;  ///< Why there may be more devices; or "".
};

/// The devices below `sys`, a directory like /sys. Reads files only; what they say controls no terminal.
RdmaTree read_rdma_tree(const std::filesystem::path& sys);

/// What a GID can be used for, in a few words.
std::string judge(const RdmaPort& port, const GidRow& row);

/// The GID to take: RoCE v2 over IPv4, or else over IPv6 with an address that is routed. InfiniBand: the first.
std::optional<GidRow> best_gid(const RdmaPort& port);

/// The largest path MTU whose packets fit an Ethernet MTU; 0 when even 256 does not.
unsigned path_mtu_for(unsigned ethernet_mtu);

}  // namespace uroce::tools
