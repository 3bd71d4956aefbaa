// SPDX-License-Identifier: Apache-2.0
// Addresses and paths: what identifies a RoCEv2 flow outside of BTH. A GID is an address: IPv4 ones are written
// IPv4-mapped (::ffff:a.b.c.d), as in the GID table of every RoCEv2 device.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "proto/bytes.h"

namespace uroce::proto {

/// 16 bytes in network order: an IPv6 address, or an IPv4 address in ::ffff:0:0/96.
struct Gid {
  std::array<std::uint8_t, 16> raw{};

  static constexpr Gid from_v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
    return Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d}};
  }
  constexpr bool is_v4() const { return load_be<8>(raw.data()) == 0 && load_be<4>(raw.data() + 8) == 0xFFFF; }
  constexpr bool is_zero() const { return *this == Gid{}; }
  /// 0.0.0.0 or ::, the wildcard of sockets: no address of an interface.
  constexpr bool is_any() const { return is_zero() || *this == from_v4(0, 0, 0, 0); }
  /// 127.0.0.0/8 or ::1: no other host has them.
  constexpr bool is_loopback() const {
    return is_v4() ? raw[12] == 127 : *this == Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  }
  /// fe80::/10 (RFC 4291 2.5.6): means something on one link only.
  constexpr bool is_link_local() const { return raw[0] == 0xFE && (raw[1] & 0xC0) == 0x80; }
  /// 224.0.0.0/4 or ff00::/8.
  constexpr bool is_multicast() const { return is_v4() ? (raw[12] & 0xF0) == 0xE0 : raw[0] == 0xFF; }
  /// The four IPv4 bytes; meaningful only when is_v4().
  constexpr const std::uint8_t* v4() const { return raw.data() + 12; }
  friend constexpr bool operator==(const Gid& a, const Gid& b) {
    using Halves = std::array<std::uint64_t, 2>;  // For each packet some: compilers call memcmp() for bytes.
    return std::bit_cast<Halves>(a.raw) == std::bit_cast<Halves>(b.raw);
  }
};

/// UDP destination port of RoCEv2 (IBTA Annex A17).
inline constexpr std::uint16_t kRocePort = 4791;

/// The IP and UDP side of one packet, as seen from its sender. Everything here but `tclass` and `hop_limit`
/// is covered by the ICRC.
struct Path {
  Gid source;
  Gid destination;
  std::uint16_t source_port = 0xC000;  ///< Entropy only; receivers accept any.
  std::uint8_t tclass = 0;             ///< IPv4 TOS or IPv6 traffic class: DSCP (6 bits) and ECN (2 bits).
  std::uint8_t hop_limit = 64;         ///< IPv4 TTL or IPv6 hop limit.
  std::uint32_t flow_label = 0;        ///< IPv6 only, 20 bits.

  /// Both ends are on one host, for all that the addresses tell.
  constexpr bool stays_here() const { return source == destination || destination.is_loopback(); }

  friend constexpr bool operator==(const Path&, const Path&) = default;
};

/// Whether there is room at the end of a path for a packet that nobody acknowledges.
enum class Room : std::uint8_t {
  kUnknown,  ///< As on every network: it may be lost there.
  kNone,     ///< Not now.
  kEnough,   ///< It is not lost for want of room.
  kRead,     ///< The same, and the program at the end reads packets itself, and can post receives as it does.
};

/// ECN field of IP: 3 = congestion experienced (RFC 3168).
inline constexpr std::uint8_t kEcnMask = 0x3;

/// One received RoCEv2 packet: the addresses it came with, and the UDP payload (BTH .. ICRC).
/// The bytes belong to the driver and are borrowed for the duration of the call.
struct Datagram {
  Path path;
  Bytes payload;
  /// What its ICRC should be, with the IPv4 Identification 0: of a port that has computed it as it copied the bytes.
  std::optional<std::uint32_t> icrc = std::nullopt;
};

/// One packet to send: where to, and how many bytes of the lent frame are filled (BTH .. ICRC).
struct Transmit {
  Path path;
  std::uint32_t size = 0;
  std::uint32_t sender = 0;  ///< QPN; 0: not told.
};

}  // namespace uroce::proto
