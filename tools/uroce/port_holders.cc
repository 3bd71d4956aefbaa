#include "tools/uroce/port_holders.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "proto/address.h"

namespace uroce::tools {
namespace {

/// Names of processes by the inode of a socket that they have open, as far as we may look.
std::map<std::string, std::string> socket_owners() {
  std::map<std::string, std::string> owners;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    const std::string pid = process.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    for (const auto& descriptor : std::filesystem::directory_iterator(process.path() / "fd", error)) {
      const std::string target = std::filesystem::read_symlink(descriptor.path(), error).string();
      if (!target.starts_with("socket:[")) continue;
      std::string name;
      std::getline(std::ifstream(process.path() / "comm"), name);
      owners[target.substr(8, target.size() - 9)] = name + " (" + pid + ")";
    }
  }
  return owners;
}

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

}  // namespace

std::vector<PortHolder> port_holders(std::uint16_t port) {
  std::vector<PortHolder> holders;
  std::optional<std::map<std::string, std::string>> owners;
  std::set<std::string> seen;  // The kernel tells of a socket twice when others come and go meanwhile.
  for (const char* table : {"/proc/net/udp", "/proc/net/udp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // Headings.
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, queues, timer, retransmits, timeout, inode;
      PortHolder holder;
      fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> holder.uid >> timeout >> inode;
      const std::size_t colon = local.rfind(':');
      if (!fields || colon == std::string::npos || std::stoul(local.substr(colon + 1), nullptr, 16) != port) continue;
      const auto address = parse_address(local.substr(0, colon));
      if (!address || !seen.insert(inode).second) continue;
      if (!owners) owners = socket_owners();
      holder.address = proto::to_string(*address);
      if (const auto owner = owners->find(inode); owner != owners->end()) holder.process = owner->second;
      holders.push_back(std::move(holder));
    }
  }
  return holders;
}

}  // namespace uroce::tools
