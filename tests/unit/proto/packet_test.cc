// SPDX-License-Identifier: Apache-2.0
#include "proto/packet.h"

#include <gtest/gtest.h>

#include "proto/icrc.h"
#include "tests/unit/proto/reencode.h"

namespace uroce::proto {
namespace {

const Path kLoopback4{Gid::from_v4(127, 0, 0, 1), Gid::from_v4(127, 0, 0, 2)};
const Path kLoopback6{Gid{{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11}},
                      Gid{{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12}}};

using Buffer = std::vector<std::uint8_t>;

Buffer build(Opcode opcode, std::size_t payload_size, const Path& path = kLoopback4) {
  Buffer buffer(kMaxPacketSize, 0xEE);
  PacketBuilder builder(buffer, opcode);
  builder.bth().set<Bth::DestQp>(0x11).set<Bth::PsnField>(0x123456);
  const MutBytes payload = builder.payload(payload_size);
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::uint8_t>(i + 1);
  buffer.resize(builder.finish(path));
  return buffer;
}

ParseError error_of(const Buffer& buffer) { return parse_packet(buffer).error(); }

// One row of the catalogue at a time: what is built is parsed to the same, on IPv4 and IPv6, at every pad count.
TEST(Packet, EveryOpcodeRoundTrips) {
  for (const OpcodeInfo& op : kOpcodes) {
    for (const std::size_t size : {0u, 1u, 2u, 3u, 4u, 255u, 256u, 1023u, 4095u, 4096u}) {
      if (!op.has_payload && size != 0) continue;
      for (const Path& path : {kLoopback4, kLoopback6}) {
        SCOPED_TRACE(std::string(op.name) + ' ' + std::to_string(size));
        const Buffer buffer = build(op.code, size, path);
        const auto packet = parse_packet(buffer);
        ASSERT_TRUE(packet.ok()) << to_string(packet.error());
        EXPECT_EQ(packet->op().code, op.code);
        EXPECT_EQ(packet->dest_qp(), 0x11u);
        EXPECT_EQ(packet->psn(), Psn{0x123456});
        EXPECT_EQ(packet->bth().get<Bth::PKey>(), 0xFFFF);
        EXPECT_EQ(packet->payload().size(), size);
        EXPECT_EQ(packet->pad().size(), (4 - size % 4) % 4);
        for (const std::uint8_t byte : packet->pad()) EXPECT_EQ(byte, 0);
        const IcrcCheck check = check_icrc(path, buffer);
        EXPECT_TRUE(check.ok);
        EXPECT_EQ(check.ip_id, 0);
        EXPECT_EQ(test::reencode(*packet, path, 0), buffer);
      }
    }
  }
}

TEST(Packet, HeadersHoldWhatWasSet) {
  Buffer buffer(kMaxPacketSize, 0xEE);
  PacketBuilder builder(buffer, Opcode::kRcWriteOnlyImm);
  builder.header<Reth>().set<Reth::Va>(0x123456789ABCDEF0).set<Reth::RKey>(0xCAFE).set<Reth::DmaLength>(5);
  builder.header<ImmDt>().set<ImmDt::Data>(0x01020304);
  std::fill_n(builder.payload(5).begin(), 5, std::uint8_t{7});
  const auto packet = parse_packet(Bytes(buffer).first(builder.finish(kLoopback4)));
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet->header<Reth>().get<Reth::Va>(), 0x123456789ABCDEF0u);
  EXPECT_EQ(packet->header<Reth>().get<Reth::RKey>(), 0xCAFEu);
  EXPECT_EQ(packet->header<Reth>().get<Reth::DmaLength>(), 5u);
  EXPECT_EQ(packet->header<ImmDt>().get<ImmDt::Data>(), 0x01020304u);
  EXPECT_TRUE(packet->has<ImmDt>());
  EXPECT_FALSE(packet->has<Aeth>());
}

TEST(Packet, BuilderWritesNothingBehindThePacket) {
  Buffer buffer(64, 0xEE);
  PacketBuilder builder(buffer, Opcode::kRcSendOnly);
  builder.payload(3);
  EXPECT_EQ(builder.finish(kLoopback4), 20u);
  EXPECT_EQ(std::count(buffer.begin() + 20, buffer.end(), 0xEE), 44);
}

TEST(Packet, LargestPacketFits) { EXPECT_LE(build(Opcode::kRcWriteOnlyImm, 4096).size(), kMaxPacketSize); }

TEST(Packet, ErrorTooShort) {
  EXPECT_EQ(error_of({}), ParseError::kTooShort);
  Buffer buffer = build(Opcode::kRcSendOnly, 0);
  EXPECT_TRUE(parse_packet(buffer).ok());
  buffer.pop_back();
  EXPECT_EQ(error_of(buffer), ParseError::kTooShort);
}

TEST(Packet, ErrorBadTransportVersion) {
  Buffer buffer = build(Opcode::kRcSendOnly, 8);
  buffer[1] |= 1;
  EXPECT_EQ(error_of(buffer), ParseError::kBadTransportVersion);
}

TEST(Packet, ErrorUnknownOpcode) {
  Buffer buffer = build(Opcode::kRcSendOnly, 8);
  int unknown = 0;
  for (unsigned code = 0; code < 256; ++code) {
    buffer[0] = static_cast<std::uint8_t>(code);
    const auto packet = parse_packet(buffer);
    if (!packet && packet.error() == ParseError::kUnknownOpcode) ++unknown;
  }
  EXPECT_EQ(unknown, 256 - static_cast<int>(kOpcodes.size()));
}

TEST(Packet, ErrorHeaderTruncated) {
  Buffer buffer = build(Opcode::kRcWriteOnly, 0);
  buffer.resize(buffer.size() - 4);
  EXPECT_EQ(error_of(buffer), ParseError::kHeaderTruncated);
}

TEST(Packet, ErrorPadTooLong) {
  Buffer buffer = build(Opcode::kRcSendOnly, 0);
  MutView<Bth>{buffer.data()}.set<Bth::PadCount>(1);
  EXPECT_EQ(error_of(buffer), ParseError::kPadTooLong);
}

TEST(Packet, ErrorUnexpectedPayload) {
  Buffer buffer = build(Opcode::kRcAcknowledge, 0);
  buffer.resize(buffer.size() + 4);
  EXPECT_EQ(error_of(buffer), ParseError::kUnexpectedPayload);
  buffer.resize(buffer.size() - 4);
  EXPECT_TRUE(parse_packet(buffer).ok());
  MutView<Bth>{buffer.data()}.set<Bth::PadCount>(3);
  EXPECT_EQ(error_of(buffer), ParseError::kUnexpectedPayload);
}

TEST(Packet, ErrorNotAligned) {
  Buffer buffer = build(Opcode::kRcSendOnly, 8);
  buffer.push_back(0);
  EXPECT_EQ(error_of(buffer), ParseError::kNotAligned);
}

TEST(PacketDeathTest, MisuseOfTheBuilderIsABug) {
  Buffer small(19);
  EXPECT_DEATH(PacketBuilder(small, Opcode::kRcWriteOnly), "broken invariant");
  EXPECT_DEATH(PacketBuilder(small, Opcode::kRcSendOnly).payload(4), "broken invariant");
  EXPECT_DEATH(PacketBuilder(small, Opcode::kRcSendOnly).payload(~std::size_t{0}), "broken invariant");
  Buffer large(64);
  EXPECT_DEATH(PacketBuilder(large, Opcode::kRcAcknowledge).payload(4), "broken invariant");
  EXPECT_DEATH(PacketBuilder(large, Opcode::kRcSendOnly).header<Reth>(), "broken invariant");
  PacketBuilder twice(large, Opcode::kRcSendOnly);
  twice.payload(4);
  EXPECT_DEATH(twice.payload(4), "broken invariant");
}

}  // namespace
}  // namespace uroce::proto
