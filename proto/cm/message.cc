// SPDX-License-Identifier: Apache-2.0
#include "proto/cm/message.h"

#include <algorithm>

namespace uroce::proto::cm {

std::string_view to_string(MessageError error) {
  switch (error) {
    case MessageError::kWrongSize:
      return "not 256 bytes";
    case MessageError::kUnknownBaseVersion:
      return "unknown base version";
    case MessageError::kOtherClass:
      return "not communication management";
    case MessageError::kUnknownClassVersion:
      return "unknown class version";
    case MessageError::kNotSend:
      return "method is not Send";
    case MessageError::kUnknownAttribute:
      return "unknown attribute";
  }
  return {};
}

Result<MessageView, MessageError> parse_message(Bytes mad) {
  if (mad.size() != kMadSize) return Err{MessageError::kWrongSize};
  const ConstView<Mad> header{mad.data()};
  if (header.get<Mad::BaseVersion>() != kBaseVersion) return Err{MessageError::kUnknownBaseVersion};
  if (header.get<Mad::Class>() != kClass) return Err{MessageError::kOtherClass};
  if (header.get<Mad::ClassVersion>() != kClassVersion) return Err{MessageError::kUnknownClassVersion};
  if (header.get<Mad::Method>() != kMethodSend) return Err{MessageError::kNotSend};
  const MessageInfo* const info = find_message(header.get<Mad::Attribute>());
  if (info == nullptr) return Err{MessageError::kUnknownAttribute};
  return MessageView{*info, mad};
}

Result<MessageView, MessageError> parse_message(const PacketView& packet) {
  if (packet.op().code != Opcode::kUdSendOnly) return Err{MessageError::kOtherClass};
  return parse_message(packet.payload());
}

MessageBuilder::MessageBuilder(MutBytes out, Attribute attribute, std::uint64_t transaction_id)
    : info_(find_message(static_cast<std::uint16_t>(attribute))), out_(out.first(kMadSize)) {
  UROCE_ASSERT(info_ != nullptr);
  std::fill(out_.begin(), out_.end(), std::uint8_t{0});
  mad()
      .set<Mad::BaseVersion>(kBaseVersion)
      .set<Mad::Class>(kClass)
      .set<Mad::ClassVersion>(kClassVersion)
      .set<Mad::Method>(kMethodSend)
      .set<Mad::TransactionId>(transaction_id)
      .set<Mad::Attribute>(static_cast<std::uint16_t>(attribute));
}

std::uint32_t build_packet(Bytes mad, Psn psn, const Path& path, MutBytes frame) {
  PacketBuilder packet(frame, Opcode::kUdSendOnly);
  packet.bth().set<Bth::DestQp>(kManagementQpn).set<Bth::AckReq>(1).set<Bth::PsnField>(psn.value());
  packet.header<Deth>().set<Deth::QKey>(kManagementQkey).set<Deth::SourceQp>(kManagementQpn);
  const MutBytes payload = packet.payload(mad.size());
  std::copy(mad.begin(), mad.end(), payload.begin());
  return packet.finish(path);
}

namespace {

constexpr std::uint8_t kIpV4 = 4, kIpV6 = 6;

/// Four bytes at the end of sixteen are an IPv4 address; a GID has ones before them.
Gid without_mapping(Gid gid) {
  if (gid.is_v4()) gid.raw[10] = gid.raw[11] = 0;
  return gid;
}
Gid with_mapping(const Gid& field) { return Gid::from_v4(field.raw[12], field.raw[13], field.raw[14], field.raw[15]); }

}  // namespace

Result<Addresses, AddressError> parse_addresses(Bytes private_data) {
  UROCE_ASSERT(private_data.size() >= CmaHeader::kSize);
  const ConstView<CmaHeader> header{private_data.data()};
  if (header.get<CmaHeader::Version>() != 0) return Err{AddressError::kVersion};
  const std::uint8_t ip = header.get<CmaHeader::IpVersion>();
  if (ip != kIpV4 && ip != kIpV6) return Err{AddressError::kIpVersion};
  const Gid source = get_gid<CmaHeader::SourceHigh, CmaHeader::SourceLow>(header);
  const Gid destination = get_gid<CmaHeader::DestinationHigh, CmaHeader::DestinationLow>(header);
  const std::uint16_t port = header.get<CmaHeader::SourcePort>();
  if (ip == kIpV4) return Addresses{with_mapping(source), with_mapping(destination), port};
  if (source.is_v4() || destination.is_v4()) return Err{AddressError::kIpVersion};
  return Addresses{source, destination, port};
}

void build_addresses(const Addresses& addresses, MutBytes private_data) {
  UROCE_ASSERT(private_data.size() >= CmaHeader::kSize);
  const MutView<CmaHeader> header{private_data.data()};
  header.set<CmaHeader::Version>(0)
      .set<CmaHeader::IpVersion>(addresses.source.is_v4() ? kIpV4 : kIpV6)
      .set<CmaHeader::Resv>(0)
      .set<CmaHeader::SourcePort>(addresses.source_port);
  set_gid<CmaHeader::SourceHigh, CmaHeader::SourceLow>(header, without_mapping(addresses.source));
  set_gid<CmaHeader::DestinationHigh, CmaHeader::DestinationLow>(header, without_mapping(addresses.destination));
}

}  // namespace uroce::proto::cm
