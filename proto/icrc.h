// SPDX-License-Identifier: Apache-2.0
// Invariant CRC of RoCEv2 (IBTA Annex A17.3.3): CRC-32 (reflected 0x04C11DB7) over 8 bytes of 0xFF, the IP and UDP
// headers with the fields that routers may change forced to ones, and BTH (its FECN/BECN/reserved byte as ones) ..
// payload and pad. Stored little-endian.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/ip_udp.h"
#include "proto/path.h"

namespace uroce::proto {

/// The ICRC as it stands in a packet: the only little-endian field of the protocol. `at` must have 4 bytes.
constexpr std::uint32_t load_icrc(Bytes at) {
  return std::uint32_t{at[0]} | std::uint32_t{at[1]} << 8 | std::uint32_t{at[2]} << 16 | std::uint32_t{at[3]} << 24;
}
constexpr void store_icrc(MutBytes at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i, value >>= 8) at[i] = static_cast<std::uint8_t>(value);
}

/// ICRC of a packet on `path` whose bytes from BTH to the last pad byte are `packet`, at least the 12 bytes of BTH.
/// `ip_id` and `ip_flags` are the Identification and the three flag bits of IPv4, which the ICRC covers (ignored for
/// IPv6).
std::uint32_t icrc(const Path& path, Bytes packet, std::uint16_t ip_id = 0, std::uint8_t ip_flags = kDontFragment);

/// icrc() as far as `beginning`, the first bytes of a packet of `size` bytes, and at least its BTH. With crc32() over
/// the others it becomes the ICRC.
std::uint32_t icrc_so_far(const Path& path, Bytes beginning, std::size_t size);

/// Copies BTH .. ICRC, `size` bytes, and returns what the ICRC of the copy should be. Nothing: they are fewer than
/// kOnePassLeast, and only copied.
std::optional<std::uint32_t> copy_with_icrc(const Path& path, std::uint8_t* to, const std::uint8_t* from,
                                            std::size_t size);

/// As icrc(), for RoCEv1: the GRH takes the place of IP and UDP (IBTA Annex A16).
std::uint32_t icrc_v1(const Path& path, Bytes packet);

/// Outcome of checking a received packet.
struct IcrcCheck {
  bool ok = false;
  /// The IPv4 Identification under which the ICRC is right: 0 unless the sender numbers its packets, as rxe does.
  std::uint16_t ip_id = 0;
  /// And the flags of IPv4: DF, or none.
  std::uint8_t ip_flags = kDontFragment;
};

/// Checks the ICRC of what was received; any bytes, too few are simply not ok. A UDP socket does not
/// show the IPv4 Identification. CRC is linear, so the difference to the ICRC for ID 0 and DF must be the image of a
/// 16-bit ID; that recovers the ID and leaves 16 bits of redundancy (none of it is used up when the ID is 0). ID 0
/// without DF is right as well; other IDs without DF are not, which would use up one bit more.
IcrcCheck check_icrc(const Datagram& datagram);
inline IcrcCheck check_icrc(const Path& path, Bytes packet_with_icrc) { return check_icrc({path, packet_with_icrc}); }

}  // namespace uroce::proto
