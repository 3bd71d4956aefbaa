// SPDX-License-Identifier: Apache-2.0
// Whole frames, for captures: Ethernet (with or without one 802.1Q tag), then IPv4 or IPv6 and UDP (RoCEv2), or a GRH
// (RoCEv1, EtherType 0x8915), then BTH .. ICRC. Parsing is total; what it accepts can be built again byte for byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proto/base/result.h"
#include "proto/headers.h"
#include "proto/icrc.h"
#include "proto/ip_udp.h"

namespace uroce::proto {

/// Why bytes are not a RoCE frame that we can take apart.
enum class FrameError : std::uint8_t {
  kEthernetTruncated,
  kVlanTruncated,
  kOtherEtherType,  ///< Neither IPv4, IPv6 nor RoCEv1 (ARP, a second VLAN tag, ...).
  kIpTruncated,     ///< Shorter than the header, or than the length in it.
  kBadIpHeader,     ///< Version does not fit the EtherType, or the length is impossible.
  kIpOptions,       ///< IPv4 options: no RoCE sender has them.
  kFragment,        ///< Part of an IPv4 datagram.
  kMappedAddress,   ///< An IPv4-mapped address in an IPv6 header (RFC 4291, 2.5.5.2: not for the wire).
  kNotUdp,          ///< Another protocol, or an IPv6 extension header.
  kUdpTruncated,
  kBadUdpLength,  ///< UDP and IP disagree about the length.
  kNotRocePort,   ///< UDP destination port other than 4791.
  kNotIba,        ///< A GRH that is not followed by BTH.
};
/// "not UDP port 4791", ...
std::string_view to_string(FrameError error);

struct Mac {
  std::array<std::uint8_t, 6> raw{};
  friend constexpr bool operator==(const Mac&, const Mac&) = default;
};
/// "02:00:7f:00:00:02"
std::string to_string(const Mac& mac);

enum class RoceVersion : std::uint8_t { kV1, kV2 };

/// Everything of a frame but BTH .. ICRC. Lengths and the usual checksums follow from the contents.
struct FrameFields {
  Mac destination;
  Mac source;
  std::optional<std::uint16_t> vlan_tci;  ///< 802.1Q tag: priority, drop eligible, VLAN id.
  RoceVersion version = RoceVersion::kV2;
  Path path;                ///< RoCEv1: the GRH's; no source port.
  std::uint16_t ip_id = 0;  ///< IPv4 only, as the three below.
  std::uint8_t ip_flags = kDontFragment;
  std::optional<std::uint16_t> ip_checksum;  ///< Set when it is not the right one.
  std::uint16_t udp_checksum = 0;            ///< As it stands; RoCEv2 senders leave it 0.
  Bytes trailer;                             ///< Bytes behind the IP packet: Ethernet padding, a captured FCS.
};

struct FrameView {
  FrameFields fields;
  Bytes packet;  ///< BTH .. ICRC, for parse_packet().

  Datagram datagram() const { return {fields.path, packet}; }
};

/// Takes a frame apart. Views point into `frame`. Says nothing about BTH .. ICRC.
Result<FrameView, FrameError> parse_frame(Bytes frame);

/// True when the ICRC in the frame is right for the headers in the frame, its own IPv4 Identification included.
bool icrc_ok(const FrameView& frame);

/// Fields of a frame of our own: locally administered MACs 02:00:<last four bytes of the address>, or that of the
/// multicast group; DF, this IPv4 ID.
FrameFields frame_fields_for(const Path& path, std::uint16_t ip_id = 0);
/// The same, with the Identification and the flags for which `icrc` has found the ICRC right.
FrameFields frame_fields_for(const Path& path, const IcrcCheck& icrc);

/// RFC 1071 over an IPv4 header of 20 bytes, of which the checksum field counts as zero.
std::uint16_t ipv4_checksum(const std::uint8_t* header);

/// What a UD receive finds in the 40 bytes before its message: the IPv6 header; or the IPv4 header, from byte 20 on
/// (IBTA Annex A17.4.5.2; as hardware and rxe do).
std::array<std::uint8_t, Grh::kSize> grh_area(const Path& path, std::size_t packet_size, const IcrcCheck& icrc);

/// Bytes that build_frame() will write.
std::size_t frame_size(const FrameFields& fields, std::size_t packet_size);
/// Most that a frame without trailer adds to its packet.
inline constexpr std::size_t kFrameOverheadMax = Ethernet::kSize + Vlan::kSize + Ipv6::kSize + Udp::kSize;

/// Writes the frame around `packet` (BTH .. ICRC, as much as the IP length field can say: 65507 bytes on
/// IPv4); returns its size. `out` must have frame_size() bytes.
std::size_t build_frame(const FrameFields& fields, Bytes packet, MutBytes out);

}  // namespace uroce::proto
