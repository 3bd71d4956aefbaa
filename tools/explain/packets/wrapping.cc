// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/wrapping.h"

#include <algorithm>

#include "proto/headers.h"
#include "proto/ip_udp.h"

namespace uroce::explain {
namespace {

using namespace proto;  // NOLINT: everything here is about its values.

constexpr std::uint16_t kServiceTag = 0x88A8, kOldServiceTag = 0x9100;
constexpr std::uint16_t kErspan2 = 0x88BE, kErspan3 = 0x22EB, kBridged = 0x6558;
constexpr std::uint8_t kProtocolGre = 47;
constexpr std::uint16_t kVxlanPort = 4789;
constexpr std::size_t kVxlanSize = 8, kErspan2Size = 8, kErspan3Size = 12, kErspan3More = 8;
enum ExtensionHeader : std::uint8_t { kHopByHop = 0, kRouting = 43, kFragment = 44, kDestinationOptions = 60 };
constexpr std::size_t kExtensionUnit = 8;
/// More than anybody nests.
constexpr int kMostTunnels = 4, kMostExtensions = 16;

std::uint16_t half(Bytes bytes, std::size_t at) {
  return at + 2 <= bytes.size() ? static_cast<std::uint16_t>(load_be<2>(bytes.data() + at)) : std::uint16_t{0};
}

Bytes behind(Bytes bytes, std::size_t size) { return bytes.subspan(std::min(size, bytes.size())); }

bool is_tag(std::uint16_t type) { return type == kEtherTypeVlan || type == kServiceTag || type == kOldServiceTag; }

Unwrapped ethernet_frame(Bytes frame, std::string_view tunnel) {
  Unwrapped inner{half(frame, Ethernet::kSize - 2), behind(frame, Ethernet::kSize), 0, tunnel};
  while (is_tag(inner.type) && inner.network.size() >= Vlan::kSize) {
    inner.type = half(inner.network, 2);
    inner.network = behind(inner.network, Vlan::kSize);
    ++inner.tags;
  }
  return inner;
}

/// A frame, or an IP packet, in GRE. Nothing when it is something else.
bool take_off_gre(Unwrapped& at, Bytes gre) {
  const std::uint16_t flags = half(gre, 0), type = half(gre, 2);
  const bool has_sequence = (flags & 0x1000) != 0;
  if ((flags & 0x4007) != 0) return false;  // Source routes, and other versions.
  const std::size_t header =
      4 + ((flags & 0x8000) != 0 ? 4u : 0u) + ((flags & 0x2000) != 0 ? 4u : 0u) + (has_sequence ? 4u : 0u);
  const Bytes inside = behind(gre, header);
  switch (type) {
    case kErspan2:  // Type I has neither a sequence number nor a header.
      at = ethernet_frame(behind(inside, has_sequence ? kErspan2Size : 0), "ERSPAN");
      return true;
    case kErspan3: {
      const bool has_more = inside.size() >= kErspan3Size && (inside[kErspan3Size - 1] & 1) != 0;
      at = ethernet_frame(behind(inside, kErspan3Size + (has_more ? kErspan3More : 0)), "ERSPAN");
      return true;
    }
    case kBridged:
      at = ethernet_frame(inside, "GRE");
      return true;
    case kEtherTypeIpv4:
    case kEtherTypeIpv6:
      at = {type, inside, 0, "GRE"};
      return true;
    default:
      return false;
  }
}

bool take_off_tunnel(Unwrapped& at) {
  const Bytes ip = at.network;
  std::size_t header = 0;
  std::uint8_t protocol = 0;
  if (at.type == kEtherTypeIpv4 && ip.size() >= Ipv4::kSize) {
    header = static_cast<std::size_t>(ip[0] & 0xF) * 4;
    protocol = ip[9];
  } else if (at.type == kEtherTypeIpv6 && ip.size() >= Ipv6::kSize) {
    const Extensions extensions = extensions_of(ip);
    header = Ipv6::kSize + extensions.size;
    protocol = extensions.protocol;
  } else {
    return false;
  }
  const Bytes payload = behind(ip, header);
  if (protocol == kProtocolGre) return take_off_gre(at, payload);
  if (protocol != kProtocolUdp || half(payload, 2) != kVxlanPort) return false;
  at = ethernet_frame(behind(payload, Udp::kSize + kVxlanSize), "VXLAN");
  return true;
}

/// The bytes of the extension header that `rest` begins with; nothing when it is none, or must stay.
std::optional<std::size_t> extension_size(std::uint8_t protocol, Bytes rest) {
  if (rest.size() < kExtensionUnit) return std::nullopt;
  switch (protocol) {
    case kFragment:
      if ((half(rest, 2) & 0xFFF9) != 0) return std::nullopt;  // An offset, or more fragments.
      return kExtensionUnit;
    case kRouting:
      if (rest[3] != 0) return std::nullopt;  // The destination is only the next one on the way.
      break;
    case kHopByHop:
    case kDestinationOptions:
      break;
    default:
      return std::nullopt;
  }
  const std::size_t size = (std::size_t{rest[1]} + 1) * kExtensionUnit;
  return size <= rest.size() ? std::optional(size) : std::nullopt;
}

/// RFC 1071: over a header with its checksum in it, the sum is all ones.
bool checksum_fits(Bytes header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < header.size(); i += 2) sum += half(header, i);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return (sum & 0xFFFF) + (sum >> 16) == 0xFFFF;
}

}  // namespace

Unwrapped unwrap(Bytes ethernet) {
  Unwrapped at = ethernet_frame(ethernet, {});
  for (int i = 0; i < kMostTunnels && take_off_tunnel(at); ++i) {
  }
  return at;
}

Extensions extensions_of(Bytes ipv6) {
  if (ipv6.size() < Ipv6::kSize) return {};
  Extensions chain{.size = 0, .protocol = ipv6[6]};
  Bytes rest = behind(ipv6, Ipv6::kSize);
  rest = rest.first(std::min<std::size_t>(rest.size(), half(ipv6, 4)));
  for (int i = 0; i < kMostExtensions; ++i) {
    const auto size = extension_size(chain.protocol, rest);
    if (!size) break;
    chain = {.size = chain.size + *size, .protocol = rest[0]};
    rest = behind(rest, *size);
  }
  return chain;
}

std::vector<std::uint8_t> without(const Extensions& extensions, Bytes ipv6) {
  std::vector<std::uint8_t> packet(ipv6.begin(), ipv6.begin() + Ipv6::kSize);
  store_be<2>(packet.data() + 4, half(ipv6, 4) - extensions.size);
  packet[6] = extensions.protocol;
  const Bytes rest = behind(ipv6, Ipv6::kSize + extensions.size);
  packet.insert(packet.end(), rest.begin(), rest.end());
  return packet;
}

std::optional<std::size_t> missing_bytes(std::uint16_t type, Bytes network) {
  std::size_t whole = 0;
  if (type == kEtherTypeIpv4 && network.size() >= Ipv4::kSize && checksum_fits(network.first(Ipv4::kSize))) {
    whole = half(network, 2);
  } else if ((type == kEtherTypeIpv6 || type == kEtherTypeRoceV1) && network.size() >= Ipv6::kSize) {
    whole = Ipv6::kSize + half(network, 4);
  } else {
    return std::nullopt;
  }
  return whole > network.size() ? whole - network.size() : 0;
}

}  // namespace uroce::explain
