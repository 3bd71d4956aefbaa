// SPDX-License-Identifier: Apache-2.0
// The messages of communication management (IBTA Vol 1, 12.6 to 12.8), each field given once in the specification's
// coordinates, from the first byte behind the MAD header; and the header of RDMA CM (Annex A11) in their private data.
// Numbers of more than 64 bits are two fields, NAME_hi and NAME_lo.
#pragma once

#include "proto/cm/mad.h"
#include "proto/path.h"

namespace uroce::proto::cm {

/// Attribute of the MAD: which message it is.
enum class Attribute : std::uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1A,
};

/// Request for communication (12.6.5).
struct Req {
  static constexpr Attribute kAttribute = Attribute::kReq;
  static constexpr std::size_t kSize = 140;
  using LocalId = Field<Req, "local_id", std::uint32_t, 0, 32>;
  using Resv1 = Field<Req, "resv1", std::uint8_t, 32, 8>;
  using Vendor = Field<Req, "ece_vendor", std::uint32_t, 40, 24>;
  using ServiceId = Field<Req, "service_id", std::uint64_t, 64, 64>;
  using CaGuid = Field<Req, "ca_guid", std::uint64_t, 128, 64>;
  using Resv2 = Field<Req, "resv2", std::uint32_t, 192, 32>;
  using QKey = Field<Req, "qkey", std::uint32_t, 224, 32>;
  using Qpn = Field<Req, "qpn", std::uint32_t, 256, 24>;
  using ResponderResources = Field<Req, "responder_resources", std::uint8_t, 280, 8>;
  using Eecn = Field<Req, "eecn", std::uint32_t, 288, 24>;
  using InitiatorDepth = Field<Req, "initiator_depth", std::uint8_t, 312, 8>;
  using RemoteEecn = Field<Req, "remote_eecn", std::uint32_t, 320, 24>;
  using RemoteTimeout = Field<Req, "remote_timeout", std::uint8_t, 344, 5>;
  using TransportType = Field<Req, "transport", std::uint8_t, 349, 2>;
  using FlowControl = Field<Req, "flow_control", std::uint8_t, 351, 1>;
  using StartingPsn = Field<Req, "psn", std::uint32_t, 352, 24>;
  using LocalTimeout = Field<Req, "local_timeout", std::uint8_t, 376, 5>;
  using RetryCount = Field<Req, "retry_count", std::uint8_t, 381, 3>;
  using PKey = Field<Req, "pkey", std::uint16_t, 384, 16>;
  using PathMtu = Field<Req, "mtu", std::uint8_t, 400, 4>;
  using Rdc = Field<Req, "rdc", std::uint8_t, 404, 1>;
  using RnrRetryCount = Field<Req, "rnr_retry_count", std::uint8_t, 405, 3>;
  using MaxRetries = Field<Req, "max_retries", std::uint8_t, 408, 4>;
  using Srq = Field<Req, "srq", std::uint8_t, 412, 1>;
  using ExtendedTransport = Field<Req, "extended_transport", std::uint8_t, 413, 3>;
  using LocalLid = Field<Req, "local_lid", std::uint16_t, 416, 16>;
  using RemoteLid = Field<Req, "remote_lid", std::uint16_t, 432, 16>;
  using LocalGidHigh = Field<Req, "local_gid_hi", std::uint64_t, 448, 64>;
  using LocalGidLow = Field<Req, "local_gid_lo", std::uint64_t, 512, 64>;
  using RemoteGidHigh = Field<Req, "remote_gid_hi", std::uint64_t, 576, 64>;
  using RemoteGidLow = Field<Req, "remote_gid_lo", std::uint64_t, 640, 64>;
  using FlowLabel = Field<Req, "flow_label", std::uint32_t, 704, 20>;
  using Resv3 = Field<Req, "resv3", std::uint8_t, 724, 6>;
  using Rate = Field<Req, "rate", std::uint8_t, 730, 6>;
  using TClass = Field<Req, "tclass", std::uint8_t, 736, 8>;
  using HopLimit = Field<Req, "hop_limit", std::uint8_t, 744, 8>;
  using ServiceLevel = Field<Req, "sl", std::uint8_t, 752, 4>;
  using SubnetLocal = Field<Req, "subnet_local", std::uint8_t, 756, 1>;
  using Resv4 = Field<Req, "resv4", std::uint8_t, 757, 3>;
  using AckTimeout = Field<Req, "ack_timeout", std::uint8_t, 760, 5>;
  using Resv5 = Field<Req, "resv5", std::uint8_t, 765, 3>;
  using AltLocalLid = Field<Req, "alt_local_lid", std::uint16_t, 768, 16>;
  using AltRemoteLid = Field<Req, "alt_remote_lid", std::uint16_t, 784, 16>;
  using AltLocalGidHigh = Field<Req, "alt_local_gid_hi", std::uint64_t, 800, 64>;
  using AltLocalGidLow = Field<Req, "alt_local_gid_lo", std::uint64_t, 864, 64>;
  using AltRemoteGidHigh = Field<Req, "alt_remote_gid_hi", std::uint64_t, 928, 64>;
  using AltRemoteGidLow = Field<Req, "alt_remote_gid_lo", std::uint64_t, 992, 64>;
  using AltFlowLabel = Field<Req, "alt_flow_label", std::uint32_t, 1056, 20>;
  using Resv6 = Field<Req, "resv6", std::uint8_t, 1076, 6>;
  using AltRate = Field<Req, "alt_rate", std::uint8_t, 1082, 6>;
  using AltTClass = Field<Req, "alt_tclass", std::uint8_t, 1088, 8>;
  using AltHopLimit = Field<Req, "alt_hop_limit", std::uint8_t, 1096, 8>;
  using AltServiceLevel = Field<Req, "alt_sl", std::uint8_t, 1104, 4>;
  using AltSubnetLocal = Field<Req, "alt_subnet_local", std::uint8_t, 1108, 1>;
  using Resv7 = Field<Req, "resv7", std::uint8_t, 1109, 3>;
  using AltAckTimeout = Field<Req, "alt_ack_timeout", std::uint8_t, 1112, 5>;
  using Resv8 = Field<Req, "resv8", std::uint8_t, 1117, 3>;
  using All = Fields<LocalId, Resv1, Vendor, ServiceId, CaGuid, Resv2, QKey, Qpn, ResponderResources, Eecn,
                     InitiatorDepth, RemoteEecn, RemoteTimeout, TransportType, FlowControl, StartingPsn, LocalTimeout,
                     RetryCount, PKey, PathMtu, Rdc, RnrRetryCount, MaxRetries, Srq, ExtendedTransport, LocalLid,
                     RemoteLid, LocalGidHigh, LocalGidLow, RemoteGidHigh, RemoteGidLow, FlowLabel, Resv3, Rate, TClass,
                     HopLimit, ServiceLevel, SubnetLocal, Resv4, AckTimeout, Resv5, AltLocalLid, AltRemoteLid,
                     AltLocalGidHigh, AltLocalGidLow, AltRemoteGidHigh, AltRemoteGidLow, AltFlowLabel, Resv6, AltRate,
                     AltTClass, AltHopLimit, AltServiceLevel, AltSubnetLocal, Resv7, AltAckTimeout, Resv8>;
};
static_assert(Req::All::tile(Req::kSize));

/// Message receipt acknowledgment: "wait longer" (12.6.6).
struct Mra {
  static constexpr Attribute kAttribute = Attribute::kMra;
  static constexpr std::size_t kSize = 10;
  using LocalId = Field<Mra, "local_id", std::uint32_t, 0, 32>;
  using RemoteId = Field<Mra, "remote_id", std::uint32_t, 32, 32>;
  using Message = Field<Mra, "message", std::uint8_t, 64, 2>;  ///< Which one: 0 REQ, 1 REP, 2 LAP.
  using Resv1 = Field<Mra, "resv1", std::uint8_t, 66, 6>;
  using ServiceTimeout = Field<Mra, "service_timeout", std::uint8_t, 72, 5>;
  using Resv2 = Field<Mra, "resv2", std::uint8_t, 77, 3>;
  using All = Fields<LocalId, RemoteId, Message, Resv1, ServiceTimeout, Resv2>;
};
static_assert(Mra::All::tile(Mra::kSize));

/// Reject (12.6.7).
struct Rej {
  static constexpr Attribute kAttribute = Attribute::kRej;
  static constexpr std::size_t kSize = 12;
  using LocalId = Field<Rej, "local_id", std::uint32_t, 0, 32>;
  using RemoteId = Field<Rej, "remote_id", std::uint32_t, 32, 32>;
  using Message = Field<Rej, "message", std::uint8_t, 64, 2>;  ///< Which one: 0 REQ, 1 REP, 2 none of these.
  using Resv1 = Field<Rej, "resv1", std::uint8_t, 66, 6>;
  using InfoLength = Field<Rej, "info_length", std::uint8_t, 72, 7>;
  using Resv2 = Field<Rej, "resv2", std::uint8_t, 79, 1>;
  using Reason = Field<Rej, "reason", std::uint16_t, 80, 16>;
  using All = Fields<LocalId, RemoteId, Message, Resv1, InfoLength, Resv2, Reason>;
};
static_assert(Rej::All::tile(Rej::kSize));

/// Reply to a request for communication (12.6.8). The three vendor fields lie in bytes that it reserves.
struct Rep {
  static constexpr Attribute kAttribute = Attribute::kRep;
  static constexpr std::size_t kSize = 36;
  using LocalId = Field<Rep, "local_id", std::uint32_t, 0, 32>;
  using RemoteId = Field<Rep, "remote_id", std::uint32_t, 32, 32>;
  using QKey = Field<Rep, "qkey", std::uint32_t, 64, 32>;
  using Qpn = Field<Rep, "qpn", std::uint32_t, 96, 24>;
  using VendorHigh = Field<Rep, "ece_vendor_2", std::uint8_t, 120, 8>;
  using Eecn = Field<Rep, "eecn", std::uint32_t, 128, 24>;
  using VendorMiddle = Field<Rep, "ece_vendor_1", std::uint8_t, 152, 8>;
  using StartingPsn = Field<Rep, "psn", std::uint32_t, 160, 24>;
  using VendorLow = Field<Rep, "ece_vendor_0", std::uint8_t, 184, 8>;
  using ResponderResources = Field<Rep, "responder_resources", std::uint8_t, 192, 8>;
  using InitiatorDepth = Field<Rep, "initiator_depth", std::uint8_t, 200, 8>;
  using TargetAckDelay = Field<Rep, "target_ack_delay", std::uint8_t, 208, 5>;
  using Failover = Field<Rep, "failover", std::uint8_t, 213, 2>;
  using FlowControl = Field<Rep, "flow_control", std::uint8_t, 215, 1>;
  using RnrRetryCount = Field<Rep, "rnr_retry_count", std::uint8_t, 216, 3>;
  using Srq = Field<Rep, "srq", std::uint8_t, 219, 1>;
  using Resv = Field<Rep, "resv", std::uint8_t, 220, 4>;
  using CaGuid = Field<Rep, "ca_guid", std::uint64_t, 224, 64>;
  using All =
      Fields<LocalId, RemoteId, QKey, Qpn, VendorHigh, Eecn, VendorMiddle, StartingPsn, VendorLow, ResponderResources,
             InitiatorDepth, TargetAckDelay, Failover, FlowControl, RnrRetryCount, Srq, Resv, CaGuid>;
};
static_assert(Rep::All::tile(Rep::kSize));

/// Ready to use (12.6.9) and reply to a disconnect (12.6.11): two IDs and nothing else.
template <Attribute kWhich>
struct IdPair {
  static constexpr Attribute kAttribute = kWhich;
  static constexpr std::size_t kSize = 8;
  using LocalId = Field<IdPair, "local_id", std::uint32_t, 0, 32>;
  using RemoteId = Field<IdPair, "remote_id", std::uint32_t, 32, 32>;
  using All = Fields<LocalId, RemoteId>;
};
using Rtu = IdPair<Attribute::kRtu>;
using Drep = IdPair<Attribute::kDrep>;
static_assert(Rtu::All::tile(Rtu::kSize) && Drep::All::tile(Drep::kSize));

/// Request to disconnect (12.6.10).
struct Dreq {
  static constexpr Attribute kAttribute = Attribute::kDreq;
  static constexpr std::size_t kSize = 12;
  using LocalId = Field<Dreq, "local_id", std::uint32_t, 0, 32>;
  using RemoteId = Field<Dreq, "remote_id", std::uint32_t, 32, 32>;
  using RemoteQpn = Field<Dreq, "remote_qpn", std::uint32_t, 64, 24>;  ///< The receiver's QP.
  using Resv = Field<Dreq, "resv", std::uint8_t, 88, 8>;
  using All = Fields<LocalId, RemoteId, RemoteQpn, Resv>;
};
static_assert(Dreq::All::tile(Dreq::kSize));

/// Service ID resolution request (12.11.1).
struct SidrReq {
  static constexpr Attribute kAttribute = Attribute::kSidrReq;
  static constexpr std::size_t kSize = 16;
  using RequestId = Field<SidrReq, "request_id", std::uint32_t, 0, 32>;
  using PKey = Field<SidrReq, "pkey", std::uint16_t, 32, 16>;
  using Resv = Field<SidrReq, "resv", std::uint16_t, 48, 16>;
  using ServiceId = Field<SidrReq, "service_id", std::uint64_t, 64, 64>;
  using All = Fields<RequestId, PKey, Resv, ServiceId>;
};
static_assert(SidrReq::All::tile(SidrReq::kSize));

/// Service ID resolution response (12.11.2).
struct SidrRep {
  static constexpr Attribute kAttribute = Attribute::kSidrRep;
  static constexpr std::size_t kSize = 24;
  using RequestId = Field<SidrRep, "request_id", std::uint32_t, 0, 32>;
  using Status = Field<SidrRep, "status", std::uint8_t, 32, 8>;
  using InfoLength = Field<SidrRep, "info_length", std::uint8_t, 40, 8>;
  using Resv1 = Field<SidrRep, "resv1", std::uint16_t, 48, 16>;
  using Qpn = Field<SidrRep, "qpn", std::uint32_t, 64, 24>;
  using Resv2 = Field<SidrRep, "resv2", std::uint8_t, 88, 8>;
  using ServiceId = Field<SidrRep, "service_id", std::uint64_t, 96, 64>;
  using QKey = Field<SidrRep, "qkey", std::uint32_t, 160, 32>;
  using All = Fields<RequestId, Status, InfoLength, Resv1, Qpn, Resv2, ServiceId, QKey>;
};
static_assert(SidrRep::All::tile(SidrRep::kSize));

/// Load alternate path (12.8.1).
struct Lap {
  static constexpr Attribute kAttribute = Attribute::kLap;
  static constexpr std::size_t kSize = 64;
  using LocalId = Field<Lap, "local_id", std::uint32_t, 0, 32>;
  using RemoteId = Field<Lap, "remote_id", std::uint32_t, 32, 32>;
  using Resv1 = Field<Lap, "resv1", std::uint32_t, 64, 32>;
  using RemoteQpn = Field<Lap, "remote_qpn", std::uint32_t, 96, 24>;
  using RemoteTimeout = Field<Lap, "remote_timeout", std::uint8_t, 120, 5>;
  using Resv2 = Field<Lap, "resv2", std::uint8_t, 125, 3>;
  using Resv3 = Field<Lap, "resv3", std::uint32_t, 128, 32>;
  using AltLocalLid = Field<Lap, "alt_local_lid", std::uint16_t, 160, 16>;
  using AltRemoteLid = Field<Lap, "alt_remote_lid", std::uint16_t, 176, 16>;
  using AltLocalGidHigh = Field<Lap, "alt_local_gid_hi", std::uint64_t, 192, 64>;
  using AltLocalGidLow = Field<Lap, "alt_local_gid_lo", std::uint64_t, 256, 64>;
  using AltRemoteGidHigh = Field<Lap, "alt_remote_gid_hi", std::uint64_t, 320, 64>;
  using AltRemoteGidLow = Field<Lap, "alt_remote_gid_lo", std::uint64_t, 384, 64>;
  using AltFlowLabel = Field<Lap, "alt_flow_label", std::uint32_t, 448, 20>;
  using Resv4 = Field<Lap, "resv4", std::uint8_t, 468, 4>;
  using AltTClass = Field<Lap, "alt_tclass", std::uint8_t, 472, 8>;
  using AltHopLimit = Field<Lap, "alt_hop_limit", std::uint8_t, 480, 8>;
  using Resv5 = Field<Lap, "resv5", std::uint8_t, 488, 2>;
  using AltRate = Field<Lap, "alt_rate", std::uint8_t, 490, 6>;
  using AltServiceLevel = Field<Lap, "alt_sl", std::uint8_t, 496, 4>;
  using AltSubnetLocal = Field<Lap, "alt_subnet_local", std::uint8_t, 500, 1>;
  using Resv6 = Field<Lap, "resv6", std::uint8_t, 501, 3>;
  using AltAckTimeout = Field<Lap, "alt_ack_timeout", std::uint8_t, 504, 5>;
  using Resv7 = Field<Lap, "resv7", std::uint8_t, 509, 3>;
  using All = Fields<LocalId, RemoteId, Resv1, RemoteQpn, RemoteTimeout, Resv2, Resv3, AltLocalLid, AltRemoteLid,
                     AltLocalGidHigh, AltLocalGidLow, AltRemoteGidHigh, AltRemoteGidLow, AltFlowLabel, Resv4, AltTClass,
                     AltHopLimit, Resv5, AltRate, AltServiceLevel, AltSubnetLocal, Resv6, AltAckTimeout, Resv7>;
};
static_assert(Lap::All::tile(Lap::kSize));

/// Alternate path response (12.8.2).
struct Apr {
  static constexpr Attribute kAttribute = Attribute::kApr;
  static constexpr std::size_t kSize = 12;
  using LocalId = Field<Apr, "local_id", std::uint32_t, 0, 32>;
  using RemoteId = Field<Apr, "remote_id", std::uint32_t, 32, 32>;
  using InfoLength = Field<Apr, "info_length", std::uint8_t, 64, 8>;
  using Status = Field<Apr, "status", std::uint8_t, 72, 8>;
  using Resv = Field<Apr, "resv", std::uint16_t, 80, 16>;
  using All = Fields<LocalId, RemoteId, InfoLength, Status, Resv>;
};
static_assert(Apr::All::tile(Apr::kSize));

/// What RDMA CM puts in front of the program's private data in REQ and SIDR_REQ (Annex A11.3): the two IP addresses,
/// IPv4 ones in the last four of sixteen bytes, and the port that the request comes from.
struct CmaHeader {
  static constexpr std::size_t kSize = 36;
  using Version = Field<CmaHeader, "version", std::uint8_t, 0, 8>;
  using IpVersion = Field<CmaHeader, "ip_version", std::uint8_t, 8, 4>;
  using Resv = Field<CmaHeader, "resv", std::uint8_t, 12, 4>;
  using SourcePort = Field<CmaHeader, "source_port", std::uint16_t, 16, 16>;
  using SourceHigh = Field<CmaHeader, "source_hi", std::uint64_t, 32, 64>;
  using SourceLow = Field<CmaHeader, "source_lo", std::uint64_t, 96, 64>;
  using DestinationHigh = Field<CmaHeader, "destination_hi", std::uint64_t, 160, 64>;
  using DestinationLow = Field<CmaHeader, "destination_lo", std::uint64_t, 224, 64>;
  using All = Fields<Version, IpVersion, Resv, SourcePort, SourceHigh, SourceLow, DestinationHigh, DestinationLow>;
};
static_assert(CmaHeader::All::tile(CmaHeader::kSize));

struct MessageInfo {
  Attribute attribute;
  std::string_view name;  ///< "REQ"
  std::size_t size;       ///< Bytes of the fields.
  std::size_t info_size;  ///< Bytes of the additional information that follows; InfoLength of them count.
  std::span<const FieldInfo> fields;

  constexpr std::size_t private_data_offset() const { return Mad::kSize + size + info_size; }
  constexpr std::size_t private_data_size() const { return kMadSize - private_data_offset(); }
};

namespace detail {
template <class M>
constexpr MessageInfo message_row(std::string_view name, std::size_t info_size = 0) {
  return {M::kAttribute, name, M::kSize, info_size, M::All::table};
}
}  // namespace detail

/// Additional information of REJ, SIDR_REP and APR.
inline constexpr std::size_t kInfoSize = 72;

/// One row per attribute, in its order.
inline constexpr std::array kMessages{
    detail::message_row<Req>("REQ"),
    detail::message_row<Mra>("MRA"),
    detail::message_row<Rej>("REJ", kInfoSize),
    detail::message_row<Rep>("REP"),
    detail::message_row<Rtu>("RTU"),
    detail::message_row<Dreq>("DREQ"),
    detail::message_row<Drep>("DREP"),
    detail::message_row<SidrReq>("SIDR_REQ"),
    detail::message_row<SidrRep>("SIDR_REP", kInfoSize),
    detail::message_row<Lap>("LAP"),
    detail::message_row<Apr>("APR", kInfoSize),
};

/// Nothing (null) for an attribute that is no CM message.
constexpr const MessageInfo* find_message(std::uint16_t attribute) {
  const std::size_t row = std::size_t{attribute} - static_cast<std::size_t>(Attribute::kReq);
  return row < kMessages.size() ? &kMessages[row] : nullptr;
}
static_assert([] {
  for (const MessageInfo& m : kMessages) {
    if (find_message(static_cast<std::uint16_t>(m.attribute)) != &m) return false;
  }
  return find_message(0x0F) == nullptr && find_message(0x1B) == nullptr && find_message(0xFFFF) == nullptr;
}());
// The sizes of private data that the specification gives.
static_assert(kMessages[0].private_data_size() == 92 && kMessages[1].private_data_size() == 222 &&
              kMessages[2].private_data_size() == 148 && kMessages[3].private_data_size() == 196 &&
              kMessages[4].private_data_size() == 224 && kMessages[5].private_data_size() == 220 &&
              kMessages[6].private_data_size() == 224 && kMessages[7].private_data_size() == 216 &&
              kMessages[8].private_data_size() == 136 && kMessages[9].private_data_size() == 168 &&
              kMessages[10].private_data_size() == 148);

/// A GID from its two halves, and back.
template <class High, class Low, class H>
constexpr Gid get_gid(ConstView<H> from) {
  Gid gid;
  store_be<8>(gid.raw.data(), from.template get<High>());
  store_be<8>(gid.raw.data() + 8, from.template get<Low>());
  return gid;
}
template <class High, class Low, class H>
constexpr void set_gid(MutView<H> to, const Gid& gid) {
  to.template set<High>(load_be<8>(gid.raw.data())).template set<Low>(load_be<8>(gid.raw.data() + 8));
}

}  // namespace uroce::proto::cm
