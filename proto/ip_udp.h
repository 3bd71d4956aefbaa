// SPDX-License-Identifier: Apache-2.0
// The headers below the transport, for whole frames: Ethernet II, 802.1Q, IPv4, IPv6, UDP. In the coordinates of IEEE
// 802.3/802.1Q, RFC 791, RFC 8200 and RFC 768.
#pragma once

#include "proto/field.h"

namespace uroce::proto {

struct Ethernet {
  static constexpr std::size_t kSize = 14;
  using Destination = Field<Ethernet, "dst", std::uint64_t, 0, 48>;
  using Source = Field<Ethernet, "src", std::uint64_t, 48, 48>;
  using EtherType = Field<Ethernet, "type", std::uint16_t, 96, 16>;
  using All = Fields<Destination, Source, EtherType>;
};
static_assert(Ethernet::All::tile(Ethernet::kSize));

/// What follows EtherType 0x8100.
struct Vlan {
  static constexpr std::size_t kSize = 4;
  using Tci = Field<Vlan, "tci", std::uint16_t, 0, 16>;  ///< Priority (3), drop eligible (1), VLAN id (12).
  using EtherType = Field<Vlan, "type", std::uint16_t, 16, 16>;
  using All = Fields<Tci, EtherType>;
};
static_assert(Vlan::All::tile(Vlan::kSize));

/// IPv4 without options.
struct Ipv4 {
  static constexpr std::size_t kSize = 20;
  using Version = Field<Ipv4, "version", std::uint8_t, 0, 4>;
  using HeaderWords = Field<Ipv4, "ihl", std::uint8_t, 4, 4>;
  using Tos = Field<Ipv4, "tos", std::uint8_t, 8, 8>;
  using TotalLength = Field<Ipv4, "len", std::uint16_t, 16, 16>;
  using Id = Field<Ipv4, "id", std::uint16_t, 32, 16>;
  using Flags = Field<Ipv4, "flags", std::uint8_t, 48, 3>;  ///< Reserved, don't fragment, more fragments.
  using FragmentOffset = Field<Ipv4, "offset", std::uint16_t, 51, 13>;
  using Ttl = Field<Ipv4, "ttl", std::uint8_t, 64, 8>;
  using Protocol = Field<Ipv4, "protocol", std::uint8_t, 72, 8>;
  using Checksum = Field<Ipv4, "checksum", std::uint16_t, 80, 16>;
  using Source = Field<Ipv4, "src", std::uint32_t, 96, 32>;
  using Destination = Field<Ipv4, "dst", std::uint32_t, 128, 32>;
  using All = Fields<Version, HeaderWords, Tos, TotalLength, Id, Flags, FragmentOffset, Ttl, Protocol, Checksum, Source,
                     Destination>;
};
static_assert(Ipv4::All::tile(Ipv4::kSize));

struct Ipv6 {
  static constexpr std::size_t kSize = 40;
  using Version = Field<Ipv6, "version", std::uint8_t, 0, 4>;
  using TClass = Field<Ipv6, "tclass", std::uint8_t, 4, 8>;
  using FlowLabel = Field<Ipv6, "flow", std::uint32_t, 12, 20>;
  using PayloadLength = Field<Ipv6, "len", std::uint16_t, 32, 16>;
  using NextHeader = Field<Ipv6, "nexthdr", std::uint8_t, 48, 8>;
  using HopLimit = Field<Ipv6, "hop", std::uint8_t, 56, 8>;
  using SourceHigh = Field<Ipv6, "src_hi", std::uint64_t, 64, 64>;
  using SourceLow = Field<Ipv6, "src_lo", std::uint64_t, 128, 64>;
  using DestinationHigh = Field<Ipv6, "dst_hi", std::uint64_t, 192, 64>;
  using DestinationLow = Field<Ipv6, "dst_lo", std::uint64_t, 256, 64>;
  using All = Fields<Version, TClass, FlowLabel, PayloadLength, NextHeader, HopLimit, SourceHigh, SourceLow,
                     DestinationHigh, DestinationLow>;
};
static_assert(Ipv6::All::tile(Ipv6::kSize));

struct Udp {
  static constexpr std::size_t kSize = 8;
  using SourcePort = Field<Udp, "sport", std::uint16_t, 0, 16>;
  using DestinationPort = Field<Udp, "dport", std::uint16_t, 16, 16>;
  using Length = Field<Udp, "len", std::uint16_t, 32, 16>;
  using Checksum = Field<Udp, "checksum", std::uint16_t, 48, 16>;
  using All = Fields<SourcePort, DestinationPort, Length, Checksum>;
};
static_assert(Udp::All::tile(Udp::kSize));

inline constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherTypeIpv6 = 0x86DD;
inline constexpr std::uint16_t kEtherTypeVlan = 0x8100;
inline constexpr std::uint16_t kEtherTypeRoceV1 = 0x8915;
inline constexpr std::uint8_t kProtocolUdp = 17;
inline constexpr std::uint8_t kNextHeaderIba = 0x1B;  ///< GRH: BTH follows (IBTA Vol 1, 8.3).
inline constexpr std::uint8_t kDontFragment = 0b010;  ///< Ipv4::Flags.

}  // namespace uroce::proto
