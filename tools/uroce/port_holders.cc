// SPDX-License-Identifier: Apache-2.0
#include "tools/uroce/port_holders.h"

#include <filesystem>
#include <map>

#include "proto/address.h"
#include "proto/base/directory.h"
#include "tools/uroce/process_name.h"
#include "verbs/ibverbs/host/bound_ports.h"

namespace uroce::tools {
namespace {

/// Names of processes by the inode of a socket that they have open, as far as we may look.
std::map<std::string, std::string> socket_owners() {
  std::map<std::string, std::string> owners;
  std::error_code error;
  for (const auto& process : entries_of("/proc", error)) {
    const std::string pid = process.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    for (const auto& descriptor : entries_of(process.path() / "fd", error)) {
      const std::string target = std::filesystem::read_symlink(descriptor.path(), error).string();
      if (!target.starts_with("socket:[")) continue;
      owners[target.substr(8, target.size() - 9)] = process_name(pid) + " (" + pid + ")";
    }
  }
  return owners;
}

}  // namespace

std::string PortHolder::who() const {
  if (!process.empty()) return process;
  return uid == 0 ? "a process of root, or the kernel" : "a process of user " + std::to_string(uid);
}

std::vector<PortHolder> port_holders(std::uint16_t port) {
  const std::vector<ibv::BoundPort> ports = ibv::bound_udp_ports(port);
  if (ports.empty()) return {};
  const auto owners = socket_owners();
  std::vector<PortHolder> holders;
  for (const ibv::BoundPort& bound : ports) {
    const auto owner = owners.find(bound.inode);
    holders.push_back({proto::to_string(bound.address), bound.uid, owner == owners.end() ? "" : owner->second});
  }
  return holders;
}

}  // namespace uroce::tools
