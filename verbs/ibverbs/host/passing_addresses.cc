// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/passing_addresses.h"

#include <linux/if_addr.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "proto/base/number.h"

namespace uroce::ibv {
namespace {

/// 32 hexadecimal digits.
std::optional<proto::Gid> parse_digits(std::string_view digits) {
  proto::Gid gid;
  if (digits.size() != 2 * gid.raw.size()) return std::nullopt;
  for (std::size_t i = 0; i < gid.raw.size(); ++i) {
    const auto byte = parse_number<std::uint8_t>(digits.substr(2 * i, 2), 16);
    if (!byte) return std::nullopt;
    gid.raw.at(i) = *byte;
  }
  return gid;
}

}  // namespace

std::vector<proto::Gid> passing_addresses() {
  std::vector<proto::Gid> passing;
  // Not /proc/net: that is the network of the main thread, and this one may have moved to another.
  std::ifstream file("/proc/thread-self/net/if_inet6");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string digits, interface, prefix, scope, flags;
    fields >> digits >> interface >> prefix >> scope >> flags;
    const auto address = parse_digits(digits);
    const auto set = parse_number<std::uint32_t>(flags, 16);
    if (address && set && (*set & (IFA_F_TEMPORARY | IFA_F_DEPRECATED)) != 0) passing.push_back(*address);
  }
  return passing;
}

}  // namespace uroce::ibv
