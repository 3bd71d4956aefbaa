// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/bound_ports.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "engine/port/socket_address.h"
#include "proto/base/this_host.h"

namespace uroce::ibv {
namespace {

/// An address as /proc/net/udp has it: 32-bit words in the machine's byte order, in hexadecimal.
std::optional<proto::Gid> parse_address(const std::string& text) {
  std::array<std::uint32_t, 4> words{};
  const std::size_t count = text.size() / 8;
  if (count != 1 && count != words.size()) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    words.at(i) = static_cast<std::uint32_t>(std::stoul(text.substr(8 * i, 8), nullptr, 16));
  }
  proto::Gid gid = proto::Gid::from_v4(0, 0, 0, 0);
  std::memcpy(gid.raw.data() + (count == 1 ? 12 : 0), words.data(), 4 * count);
  return gid;
}

bool is_here(const proto::Gid& address) {
  const engine::SocketAddress at(address, proto::kRocePort, engine::link_local_scope(address));
  return is_of_this_host(*at.get(), at.size).value_or(false);
}

}  // namespace

std::vector<BoundPort> bound_udp_ports(std::uint16_t port) {
  std::vector<BoundPort> ports;
  std::set<std::string> seen;  // The kernel tells of a socket twice when others come and go meanwhile.
  // Not /proc/net: that is the network of the main thread, and this one may have moved to another.
  for (const char* table : {"/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // Headings.
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, queues, timer, retransmits, timeout;
      BoundPort bound;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> bound.uid >> timeout >>
          bound.inode;
      const std::size_t colon = local.rfind(':');
      if (!fields || colon == std::string::npos || std::stoul(local.substr(colon + 1), nullptr, 16) != port) continue;
      const auto address = parse_address(local.substr(0, colon));
      if (!address || !seen.insert(bound.inode).second) continue;
      bound.address = *address;
      ports.push_back(std::move(bound));
    }
  }
  return ports;
}

std::optional<bool> is_bound_here(const proto::Gid& address, const std::vector<BoundPort>& ports) {
  if (!is_here(address)) return std::nullopt;
  return std::any_of(ports.begin(), ports.end(),
                     [&](const BoundPort& port) { return port.address == address || port.address.is_any(); });
}

}  // namespace uroce::ibv
