// SPDX-License-Identifier: Apache-2.0
// The transport headers of RoCE, each field given once in the coordinates of IBTA Vol 1 chapter 9.
#pragma once

#include "proto/field.h"

namespace uroce::proto {

/// Base Transport Header (IBTA Vol 1, 9.2): first in every packet.
struct Bth {
  static constexpr std::size_t kSize = 12;
  using Opcode = Field<Bth, "opcode", std::uint8_t, 0, 8>;
  using SolicitedEvent = Field<Bth, "se", std::uint8_t, 8, 1>;
  using MigReq = Field<Bth, "m", std::uint8_t, 9, 1>;
  using PadCount = Field<Bth, "pad", std::uint8_t, 10, 2>;
  using TVer = Field<Bth, "tver", std::uint8_t, 12, 4>;
  using PKey = Field<Bth, "pkey", std::uint16_t, 16, 16>;
  using Fecn = Field<Bth, "fecn", std::uint8_t, 32, 1>;
  using Becn = Field<Bth, "becn", std::uint8_t, 33, 1>;
  using Resv6 = Field<Bth, "resv6", std::uint8_t, 34, 6>;
  using DestQp = Field<Bth, "dqpn", std::uint32_t, 40, 24>;
  using AckReq = Field<Bth, "a", std::uint8_t, 64, 1>;
  using Resv7 = Field<Bth, "resv7", std::uint8_t, 65, 7>;
  using PsnField = Field<Bth, "psn", std::uint32_t, 72, 24>;
  using All =
      Fields<Opcode, SolicitedEvent, MigReq, PadCount, TVer, PKey, Fecn, Becn, Resv6, DestQp, AckReq, Resv7, PsnField>;
};
static_assert(Bth::All::tile(Bth::kSize));

/// RDMA Extended Transport Header (9.3.3): WRITE and READ requests.
struct Reth {
  static constexpr std::size_t kSize = 16;
  using Va = Field<Reth, "va", std::uint64_t, 0, 64>;
  using RKey = Field<Reth, "rkey", std::uint32_t, 64, 32>;
  using DmaLength = Field<Reth, "len", std::uint32_t, 96, 32>;
  using All = Fields<Va, RKey, DmaLength>;
};
static_assert(Reth::All::tile(Reth::kSize));

/// ACK Extended Transport Header (9.3.5): syndrome (see syndrome.h) and message sequence number.
struct Aeth {
  static constexpr std::size_t kSize = 4;
  using SyndromeField = Field<Aeth, "syndrome", std::uint8_t, 0, 8>;
  using Msn = Field<Aeth, "msn", std::uint32_t, 8, 24>;
  using All = Fields<SyndromeField, Msn>;
};
static_assert(Aeth::All::tile(Aeth::kSize));

/// Atomic Extended Transport Header (9.3.4): CAS and FAA requests.
struct AtomicEth {
  static constexpr std::size_t kSize = 28;
  using Va = Field<AtomicEth, "va", std::uint64_t, 0, 64>;
  using RKey = Field<AtomicEth, "rkey", std::uint32_t, 64, 32>;
  using SwapAdd = Field<AtomicEth, "swap_add", std::uint64_t, 96, 64>;
  using Compare = Field<AtomicEth, "compare", std::uint64_t, 160, 64>;
  using All = Fields<Va, RKey, SwapAdd, Compare>;
};
static_assert(AtomicEth::All::tile(AtomicEth::kSize));

/// Atomic ACK Extended Transport Header (9.5.3): the value before the operation.
struct AtomicAckEth {
  static constexpr std::size_t kSize = 8;
  using Original = Field<AtomicAckEth, "original", std::uint64_t, 0, 64>;
  using All = Fields<Original>;
};
static_assert(AtomicAckEth::All::tile(AtomicAckEth::kSize));

/// Immediate Extended Transport Header (9.3.6).
struct ImmDt {
  static constexpr std::size_t kSize = 4;
  using Data = Field<ImmDt, "imm", std::uint32_t, 0, 32>;
  using All = Fields<Data>;
};
static_assert(ImmDt::All::tile(ImmDt::kSize));

/// Invalidate Extended Transport Header (9.3.7).
struct Ieth {
  static constexpr std::size_t kSize = 4;
  using RKey = Field<Ieth, "rkey", std::uint32_t, 0, 32>;
  using All = Fields<RKey>;
};
static_assert(Ieth::All::tile(Ieth::kSize));

/// FLUSH Extended Transport Header (Annex A19): what a FLUSH covers, and how far the data must have come.
struct Feth {
  static constexpr std::size_t kSize = 4;
  using Resv26 = Field<Feth, "resv26", std::uint32_t, 0, 26>;
  using Selectivity = Field<Feth, "selectivity", std::uint8_t, 26, 2>;
  using Placement = Field<Feth, "placement", std::uint8_t, 28, 4>;
  using All = Fields<Resv26, Selectivity, Placement>;
};
static_assert(Feth::All::tile(Feth::kSize));

/// Selectivity levels and placement types (bits) of a FLUSH; all others are reserved.
inline constexpr std::uint8_t kFlushRange = 0, kFlushRegion = 1;
inline constexpr std::uint8_t kGlobalVisibility = 1, kPersistence = 2;

/// Datagram Extended Transport Header (9.3.2): UD.
struct Deth {
  static constexpr std::size_t kSize = 8;
  using QKey = Field<Deth, "qkey", std::uint32_t, 0, 32>;
  using Resv8 = Field<Deth, "resv8", std::uint8_t, 32, 8>;
  using SourceQp = Field<Deth, "sqpn", std::uint32_t, 40, 24>;
  using All = Fields<QKey, Resv8, SourceQp>;
};
static_assert(Deth::All::tile(Deth::kSize));

/// Body of a congestion notification packet (IBTA Annex A17.9.3): 16 reserved bytes.
struct CnpPad {
  static constexpr std::size_t kSize = 16;
  using ReservedHigh = Field<CnpPad, "resv_hi", std::uint64_t, 0, 64>;
  using ReservedLow = Field<CnpPad, "resv_lo", std::uint64_t, 64, 64>;
  using All = Fields<ReservedHigh, ReservedLow>;
};
static_assert(CnpPad::All::tile(CnpPad::kSize));

/// Global Route Header (8.3): in RoCEv1 it stands where RoCEv2 has IP and UDP. Same layout as an IPv6 header.
struct Grh {
  static constexpr std::size_t kSize = 40;
  using IpVer = Field<Grh, "ipver", std::uint8_t, 0, 4>;
  using TClass = Field<Grh, "tclass", std::uint8_t, 4, 8>;
  using FlowLabel = Field<Grh, "flow", std::uint32_t, 12, 20>;
  using PayLen = Field<Grh, "paylen", std::uint16_t, 32, 16>;
  using NextHeader = Field<Grh, "nxthdr", std::uint8_t, 48, 8>;
  using HopLimit = Field<Grh, "hop", std::uint8_t, 56, 8>;
  using SgidHigh = Field<Grh, "sgid_hi", std::uint64_t, 64, 64>;
  using SgidLow = Field<Grh, "sgid_lo", std::uint64_t, 128, 64>;
  using DgidHigh = Field<Grh, "dgid_hi", std::uint64_t, 192, 64>;
  using DgidLow = Field<Grh, "dgid_lo", std::uint64_t, 256, 64>;
  using All = Fields<IpVer, TClass, FlowLabel, PayLen, NextHeader, HopLimit, SgidHigh, SgidLow, DgidHigh, DgidLow>;
};
static_assert(Grh::All::tile(Grh::kSize));

/// ICRC: 4 bytes at the end of every packet, stored little-endian (see icrc.h).
inline constexpr std::size_t kIcrcSize = 4;

/// Headers that can follow BTH.
enum class HeaderId : std::uint8_t {
  kBth,
  kDeth,
  kReth,
  kAtomicEth,
  kAeth,
  kAtomicAckEth,
  kImmDt,
  kIeth,
  kCnpPad,
  kFeth,
  kCount
};

struct HeaderInfo {
  HeaderId id;
  std::string_view name;
  std::size_t size;
  std::span<const FieldInfo> fields;
};

/// HeaderId of a header type.
template <class H>
inline constexpr HeaderId kHeaderId = HeaderId::kCount;
template <>
inline constexpr HeaderId kHeaderId<Bth> = HeaderId::kBth;
template <>
inline constexpr HeaderId kHeaderId<Deth> = HeaderId::kDeth;
template <>
inline constexpr HeaderId kHeaderId<Reth> = HeaderId::kReth;
template <>
inline constexpr HeaderId kHeaderId<AtomicEth> = HeaderId::kAtomicEth;
template <>
inline constexpr HeaderId kHeaderId<Aeth> = HeaderId::kAeth;
template <>
inline constexpr HeaderId kHeaderId<AtomicAckEth> = HeaderId::kAtomicAckEth;
template <>
inline constexpr HeaderId kHeaderId<ImmDt> = HeaderId::kImmDt;
template <>
inline constexpr HeaderId kHeaderId<Ieth> = HeaderId::kIeth;
template <>
inline constexpr HeaderId kHeaderId<CnpPad> = HeaderId::kCnpPad;
template <>
inline constexpr HeaderId kHeaderId<Feth> = HeaderId::kFeth;

namespace detail {
template <class H>
constexpr HeaderInfo header_row(std::string_view name) {
  return {kHeaderId<H>, name, H::kSize, H::All::table};
}
}  // namespace detail

/// One row per HeaderId, in its order.
inline constexpr std::array kHeaders{
    detail::header_row<Bth>("BTH"),     detail::header_row<Deth>("DETH"),
    detail::header_row<Reth>("RETH"),   detail::header_row<AtomicEth>("AtomicETH"),
    detail::header_row<Aeth>("AETH"),   detail::header_row<AtomicAckEth>("AtomicAckETH"),
    detail::header_row<ImmDt>("ImmDt"), detail::header_row<Ieth>("IETH"),
    detail::header_row<CnpPad>("CNP"),  detail::header_row<Feth>("FETH"),
};
static_assert(kHeaders.size() == static_cast<std::size_t>(HeaderId::kCount));

constexpr const HeaderInfo& header_info(HeaderId id) { return kHeaders[static_cast<std::size_t>(id)]; }

}  // namespace uroce::proto
