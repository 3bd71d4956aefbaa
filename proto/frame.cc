// SPDX-License-Identifier: Apache-2.0
#include "proto/frame.h"

#include "proto/base/check.h"
#include "proto/headers.h"

namespace uroce::proto {
namespace {

using Fault = std::optional<FrameError>;

/// Takes a frame apart from the front: `rest` shrinks, `view` fills up.
struct Parser {
  Bytes rest;
  FrameView view{};

  template <class H>
  std::optional<ConstView<H>> take() {
    if (rest.size() < H::kSize) return std::nullopt;
    const ConstView<H> header{rest.data()};
    rest = rest.subspan(H::kSize);
    return header;
  }
  /// What lies behind the IP packet is trailer.
  void cut(std::size_t size) {
    view.fields.trailer = rest.subspan(size);
    rest = rest.first(size);
  }

  Fault ethernet(std::uint16_t& type);
  Fault ipv4();
  Fault ipv6();
  Fault udp();
  Fault grh();
};

Mac load_mac(std::uint64_t value) {
  Mac mac;
  store_be<6>(mac.raw.data(), value);
  return mac;
}

Gid load_gid(std::uint64_t high, std::uint64_t low) {
  Gid gid;
  store_be<8>(gid.raw.data(), high);
  store_be<8>(gid.raw.data() + 8, low);
  return gid;
}

Gid load_v4(std::uint32_t address) {
  Gid gid = Gid::from_v4(0, 0, 0, 0);
  store_be<4>(gid.raw.data() + 12, address);
  return gid;
}

std::uint64_t high(const Gid& gid) { return load_be<8>(gid.raw.data()); }
std::uint64_t low(const Gid& gid) { return load_be<8>(gid.raw.data() + 8); }
std::uint32_t v4(const Gid& gid) { return static_cast<std::uint32_t>(load_be<4>(gid.v4())); }

Fault Parser::ethernet(std::uint16_t& type) {
  const auto header = take<Ethernet>();
  if (!header) return FrameError::kEthernetTruncated;
  view.fields.destination = load_mac(header->get<Ethernet::Destination>());
  view.fields.source = load_mac(header->get<Ethernet::Source>());
  type = header->get<Ethernet::EtherType>();
  if (type != kEtherTypeVlan) return {};
  const auto tag = take<Vlan>();
  if (!tag) return FrameError::kVlanTruncated;
  view.fields.vlan_tci = tag->get<Vlan::Tci>();
  type = tag->get<Vlan::EtherType>();
  return {};
}

Fault Parser::ipv4() {
  const std::uint8_t* start = rest.data();
  const auto header = take<Ipv4>();
  if (!header) return FrameError::kIpTruncated;
  const std::size_t total = header->get<Ipv4::TotalLength>();
  if (header->get<Ipv4::Version>() != 4 || header->get<Ipv4::HeaderWords>() < 5) return FrameError::kBadIpHeader;
  if (header->get<Ipv4::HeaderWords>() > 5) return FrameError::kIpOptions;
  if (total < Ipv4::kSize) return FrameError::kBadIpHeader;
  if (total - Ipv4::kSize > rest.size()) return FrameError::kIpTruncated;
  cut(total - Ipv4::kSize);
  FrameFields& f = view.fields;
  f.ip_flags = header->get<Ipv4::Flags>();
  if ((f.ip_flags & 1) != 0 || header->get<Ipv4::FragmentOffset>() != 0) return FrameError::kFragment;
  if (header->get<Ipv4::Protocol>() != kProtocolUdp) return FrameError::kNotUdp;
  f.ip_id = header->get<Ipv4::Id>();
  f.path.tclass = header->get<Ipv4::Tos>();
  f.path.hop_limit = header->get<Ipv4::Ttl>();
  f.path.source = load_v4(header->get<Ipv4::Source>());
  f.path.destination = load_v4(header->get<Ipv4::Destination>());
  const std::uint16_t checksum = header->get<Ipv4::Checksum>();
  if (checksum != ipv4_checksum(start)) f.ip_checksum = checksum;
  return udp();
}

Fault Parser::ipv6() {
  const auto header = take<Ipv6>();
  if (!header) return FrameError::kIpTruncated;
  if (header->get<Ipv6::Version>() != 6) return FrameError::kBadIpHeader;
  if (header->get<Ipv6::PayloadLength>() > rest.size()) return FrameError::kIpTruncated;
  cut(header->get<Ipv6::PayloadLength>());
  if (header->get<Ipv6::NextHeader>() != kProtocolUdp) return FrameError::kNotUdp;
  Path& p = view.fields.path;
  p.tclass = header->get<Ipv6::TClass>();
  p.flow_label = header->get<Ipv6::FlowLabel>();
  p.hop_limit = header->get<Ipv6::HopLimit>();
  p.source = load_gid(header->get<Ipv6::SourceHigh>(), header->get<Ipv6::SourceLow>());
  p.destination = load_gid(header->get<Ipv6::DestinationHigh>(), header->get<Ipv6::DestinationLow>());
  if (p.source.is_v4() || p.destination.is_v4()) return FrameError::kMappedAddress;
  return udp();
}

Fault Parser::udp() {
  const std::size_t ip_payload = rest.size();
  const auto header = take<Udp>();
  if (!header) return FrameError::kUdpTruncated;
  if (header->get<Udp::Length>() != ip_payload) return FrameError::kBadUdpLength;
  if (header->get<Udp::DestinationPort>() != kRocePort) return FrameError::kNotRocePort;
  view.fields.path.source_port = header->get<Udp::SourcePort>();
  view.fields.udp_checksum = header->get<Udp::Checksum>();
  return {};
}

Fault Parser::grh() {
  const auto header = take<Grh>();
  if (!header) return FrameError::kIpTruncated;
  if (header->get<Grh::IpVer>() != 6) return FrameError::kBadIpHeader;
  if (header->get<Grh::PayLen>() > rest.size()) return FrameError::kIpTruncated;
  cut(header->get<Grh::PayLen>());
  if (header->get<Grh::NextHeader>() != kNextHeaderIba) return FrameError::kNotIba;
  FrameFields& f = view.fields;
  f.version = RoceVersion::kV1;
  f.path.source_port = 0;
  f.path.tclass = header->get<Grh::TClass>();
  f.path.flow_label = header->get<Grh::FlowLabel>();
  f.path.hop_limit = header->get<Grh::HopLimit>();
  f.path.source = load_gid(header->get<Grh::SgidHigh>(), header->get<Grh::SgidLow>());
  f.path.destination = load_gid(header->get<Grh::DgidHigh>(), header->get<Grh::DgidLow>());
  return {};
}

/// Writes headers one behind the other.
struct Writer {
  MutBytes rest;

  template <class H>
  MutView<H> put() {
    const MutView<H> header{rest.data()};
    std::fill_n(rest.data(), H::kSize, std::uint8_t{0});
    rest = rest.subspan(H::kSize);
    return header;
  }
  void put(Bytes bytes) {
    std::copy(bytes.begin(), bytes.end(), rest.begin());
    rest = rest.subspan(bytes.size());
  }

  void ethernet(const FrameFields& f);
  void ipv4(const FrameFields& f, std::size_t udp_size);
  void ipv6(const Path& path, std::size_t udp_size);
  void udp(const FrameFields& f, std::size_t udp_size);
  void grh(const Path& path, std::size_t packet_size);
};

void Writer::ethernet(const FrameFields& f) {
  const std::uint16_t type = f.version == RoceVersion::kV1 ? kEtherTypeRoceV1
                             : f.path.destination.is_v4()  ? kEtherTypeIpv4
                                                           : kEtherTypeIpv6;
  put<Ethernet>()
      .set<Ethernet::Destination>(load_be<6>(f.destination.raw.data()))
      .set<Ethernet::Source>(load_be<6>(f.source.raw.data()))
      .set<Ethernet::EtherType>(f.vlan_tci ? kEtherTypeVlan : type);
  if (f.vlan_tci) put<Vlan>().set<Vlan::Tci>(*f.vlan_tci).set<Vlan::EtherType>(type);
}

void Writer::ipv4(const FrameFields& f, std::size_t udp_size) {
  std::uint8_t* start = rest.data();
  const MutView<Ipv4> header = put<Ipv4>()
                                   .set<Ipv4::Version>(4)
                                   .set<Ipv4::HeaderWords>(5)
                                   .set<Ipv4::Tos>(f.path.tclass)
                                   .set<Ipv4::TotalLength>(static_cast<std::uint16_t>(Ipv4::kSize + udp_size))
                                   .set<Ipv4::Id>(f.ip_id)
                                   .set<Ipv4::Flags>(f.ip_flags)
                                   .set<Ipv4::Ttl>(f.path.hop_limit)
                                   .set<Ipv4::Protocol>(kProtocolUdp)
                                   .set<Ipv4::Source>(v4(f.path.source))
                                   .set<Ipv4::Destination>(v4(f.path.destination));
  header.set<Ipv4::Checksum>(f.ip_checksum.value_or(ipv4_checksum(start)));
}

void Writer::ipv6(const Path& path, std::size_t udp_size) {
  put<Ipv6>()
      .set<Ipv6::Version>(6)
      .set<Ipv6::TClass>(path.tclass)
      .set<Ipv6::FlowLabel>(path.flow_label)
      .set<Ipv6::PayloadLength>(static_cast<std::uint16_t>(udp_size))
      .set<Ipv6::NextHeader>(kProtocolUdp)
      .set<Ipv6::HopLimit>(path.hop_limit)
      .set<Ipv6::SourceHigh>(high(path.source))
      .set<Ipv6::SourceLow>(low(path.source))
      .set<Ipv6::DestinationHigh>(high(path.destination))
      .set<Ipv6::DestinationLow>(low(path.destination));
}

void Writer::udp(const FrameFields& f, std::size_t udp_size) {
  put<Udp>()
      .set<Udp::SourcePort>(f.path.source_port)
      .set<Udp::DestinationPort>(kRocePort)
      .set<Udp::Length>(static_cast<std::uint16_t>(udp_size))
      .set<Udp::Checksum>(f.udp_checksum);
}

void Writer::grh(const Path& path, std::size_t packet_size) {
  put<Grh>()
      .set<Grh::IpVer>(6)
      .set<Grh::TClass>(path.tclass)
      .set<Grh::FlowLabel>(path.flow_label)
      .set<Grh::PayLen>(static_cast<std::uint16_t>(packet_size))
      .set<Grh::NextHeader>(kNextHeaderIba)
      .set<Grh::HopLimit>(path.hop_limit)
      .set<Grh::SgidHigh>(high(path.source))
      .set<Grh::SgidLow>(low(path.source))
      .set<Grh::DgidHigh>(high(path.destination))
      .set<Grh::DgidLow>(low(path.destination));
}

Mac mac_for(const Gid& gid) {
  const std::uint8_t* const ip = gid.raw.data() + 12;
  if (!gid.is_multicast()) return {{2, 0, ip[0], ip[1], ip[2], ip[3]}};
  if (!gid.is_v4()) return {{0x33, 0x33, ip[0], ip[1], ip[2], ip[3]}};                 // RFC 2464, 7.
  return {{0x01, 0x00, 0x5E, static_cast<std::uint8_t>(ip[1] & 0x7F), ip[2], ip[3]}};  // RFC 1112, 6.4.
}

}  // namespace

std::string_view to_string(FrameError error) {
  switch (error) {
    case FrameError::kEthernetTruncated:
      return "Ethernet header truncated";
    case FrameError::kVlanTruncated:
      return "VLAN tag truncated";
    case FrameError::kOtherEtherType:
      return "EtherType is not IPv4, IPv6 or RoCEv1";
    case FrameError::kIpTruncated:
      return "IP packet truncated";
    case FrameError::kBadIpHeader:
      return "bad IP header";
    case FrameError::kIpOptions:
      return "IPv4 options";
    case FrameError::kFragment:
      return "IP fragment";
    case FrameError::kMappedAddress:
      return "IPv4-mapped address in an IPv6 header";
    case FrameError::kNotUdp:
      return "not UDP";
    case FrameError::kUdpTruncated:
      return "UDP header truncated";
    case FrameError::kBadUdpLength:
      return "UDP length differs from the IP payload";
    case FrameError::kNotRocePort:
      return "not UDP port 4791";
    case FrameError::kNotIba:
      return "no BTH behind the GRH";
  }
  return "?";
}

std::string to_string(const Mac& mac) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : mac.raw) {
    if (!text.empty()) text += ':';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Result<FrameView, FrameError> parse_frame(Bytes frame) {
  Parser parser{frame};
  std::uint16_t type = 0;
  Fault fault = parser.ethernet(type);
  if (!fault) {
    fault = type == kEtherTypeIpv4     ? parser.ipv4()
            : type == kEtherTypeIpv6   ? parser.ipv6()
            : type == kEtherTypeRoceV1 ? parser.grh()
                                       : Fault{FrameError::kOtherEtherType};
  }
  if (fault) return Err{*fault};
  parser.view.packet = parser.rest;
  return parser.view;
}

bool icrc_ok(const FrameView& frame) {
  if (frame.packet.size() < Bth::kSize + kIcrcSize) return false;
  const Bytes covered = frame.packet.first(frame.packet.size() - kIcrcSize);
  const std::uint32_t right = frame.fields.version == RoceVersion::kV1
                                  ? icrc_v1(frame.fields.path, covered)
                                  : icrc(frame.fields.path, covered, frame.fields.ip_id, frame.fields.ip_flags);
  return right == load_icrc(frame.packet.last(kIcrcSize));
}

std::uint16_t ipv4_checksum(const std::uint8_t* header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < Ipv4::kSize; i += 2) {
    if (i != 10) sum += static_cast<std::uint32_t>(load_be<2>(header + i));
  }
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

std::array<std::uint8_t, Grh::kSize> grh_area(const Path& path, std::size_t packet_size, const IcrcCheck& icrc) {
  std::array<std::uint8_t, Grh::kSize> area{};
  const bool v4 = path.destination.is_v4();
  Writer writer{.rest = MutBytes(area).subspan(v4 ? Grh::kSize - Ipv4::kSize : 0)};
  const std::size_t udp_size = Udp::kSize + packet_size;
  if (v4) {
    writer.ipv4(frame_fields_for(path, icrc), udp_size);
  } else {
    writer.ipv6(path, udp_size);
  }
  return area;
}

FrameFields frame_fields_for(const Path& path, std::uint16_t ip_id) {
  FrameFields fields;
  fields.destination = mac_for(path.destination);
  fields.source = mac_for(path.source);
  fields.path = path;
  fields.ip_id = ip_id;
  return fields;
}

FrameFields frame_fields_for(const Path& path, const IcrcCheck& icrc) {
  FrameFields fields = frame_fields_for(path, icrc.ip_id);
  fields.ip_flags = icrc.ip_flags;
  return fields;
}

std::size_t frame_size(const FrameFields& fields, std::size_t packet_size) {
  const std::size_t network = fields.version == RoceVersion::kV1 ? Grh::kSize
                              : fields.path.destination.is_v4()  ? Ipv4::kSize + Udp::kSize
                                                                 : Ipv6::kSize + Udp::kSize;
  return Ethernet::kSize + (fields.vlan_tci ? Vlan::kSize : 0) + network + packet_size + fields.trailer.size();
}

std::size_t build_frame(const FrameFields& fields, Bytes packet, MutBytes out) {
  const bool v1 = fields.version == RoceVersion::kV1;
  const bool ipv4 = fields.path.destination.is_v4();
  const std::size_t packet_max = 0xFFFF - (v1 ? 0 : ipv4 ? Ipv4::kSize + Udp::kSize : Udp::kSize);
  const std::size_t size = frame_size(fields, packet.size());
  const std::size_t udp_size = Udp::kSize + packet.size();
  UROCE_ASSERT(packet.size() <= packet_max && size <= out.size());
  UROCE_ASSERT(v1 || fields.path.source.is_v4() == ipv4);
  Writer writer{out};
  writer.ethernet(fields);
  if (v1) {
    writer.grh(fields.path, packet.size());
  } else {
    ipv4 ? writer.ipv4(fields, udp_size) : writer.ipv6(fields.path, udp_size);
    writer.udp(fields, udp_size);
  }
  writer.put(packet);
  writer.put(fields.trailer);
  return size;
}

}  // namespace uroce::proto
