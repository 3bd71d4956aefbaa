// SPDX-License-Identifier: Apache-2.0
#include "proto/describe/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/proto/hex.h"

namespace uroce::proto {
namespace {

using Buffer = std::vector<std::uint8_t>;
const Path kPath{Gid::from_v4(127, 0, 0, 1), Gid::from_v4(127, 0, 0, 2)};

TEST(Describe, Lines) {
  EXPECT_EQ(frame_line(test::kSendFrame), "10.77.0.11 > 10.77.0.12 RC SEND ONLY dqpn=0x12 a=1 psn=0x100 | 1 byte");
  EXPECT_EQ(frame_line(test::kAckFrame), "10.77.0.12 > 10.77.0.11 RC ACK dqpn=0x12 a=0 psn=0x100 ACK msn=1");
  EXPECT_EQ(frame_line(test::kSendFrame6), "fd77::11 > fd77::12 RC SEND ONLY dqpn=0x7a a=1 psn=0x100 | 1 byte");
}

TEST(Describe, WriteFirst) {
  Buffer buffer(kMaxPacketSize);
  PacketBuilder builder(buffer, Opcode::kRcWriteFirst);
  builder.bth().set<Bth::DestQp>(0x11).set<Bth::PsnField>(0x100).set<Bth::SolicitedEvent>(1).set<Bth::PKey>(0x7FFF);
  builder.header<Reth>().set<Reth::Va>(0x10000000).set<Reth::RKey>(0x3F01).set<Reth::DmaLength>(3000);
  builder.payload(1024);
  buffer.resize(builder.finish(kPath));
  EXPECT_EQ(one_line(buffer),
            "RC WRITE FIRST se=1 pkey=0x7fff dqpn=0x11 a=0 psn=0x100 va=0x10000000 rkey=0x3f01 len=3000 | 1024 bytes");
}

TEST(Describe, Syndromes) {
  EXPECT_EQ(describe(decode_syndrome(0x1F)), "ACK");
  EXPECT_EQ(describe(decode_syndrome(0x05)), "ACK credits=6");
  EXPECT_EQ(describe(decode_syndrome(0x3A)), "RNR NAK 81.92 ms");
  EXPECT_EQ(describe(decode_syndrome(0x21)), "RNR NAK 0.01 ms");
  EXPECT_EQ(describe(decode_syndrome(0x20)), "RNR NAK 655.36 ms");
  EXPECT_EQ(describe(decode_syndrome(0x60)), "NAK PSN sequence error");
  EXPECT_EQ(describe(decode_syndrome(0x62)), "NAK remote access error");
  EXPECT_EQ(describe(decode_syndrome(0x41)), "reserved syndrome 0x41");
}

TEST(Describe, MalformedAndForeign) {
  EXPECT_EQ(one_line(Bytes{}), "malformed packet: too short, 0 bytes");
  Buffer unknown(26);
  unknown[0] = 0x15;
  EXPECT_EQ(one_line(unknown), "malformed packet: unknown opcode 0x15, 26 bytes");
  EXPECT_EQ(frame_line(Buffer(1)), "not a RoCE frame: Ethernet header truncated, 1 byte");
  EXPECT_THAT(tree(unknown), testing::StartsWith(
                                 "malformed packet: unknown opcode 0x15, 26 bytes\nBTH\n  opcode    0x15 (unknown)\n"));
  EXPECT_EQ(frame_tree(Buffer(60)), "not a RoCE frame: EtherType is not IPv4, IPv6 or RoCEv1, 60 bytes\n");
}

TEST(Describe, FramesTellIcrcAndCongestion) {
  Buffer frame = test::kSendFrame;
  frame[54] ^= 1;  // a payload bit
  EXPECT_THAT(frame_line(frame), testing::EndsWith("| 1 byte ICRC wrong"));
  EXPECT_THAT(frame_tree(frame), testing::EndsWith("ICRC wrong\n"));
  frame = test::kSendFrame;
  frame[15] = 3;
  EXPECT_THAT(frame_line(frame), testing::HasSubstr("> 10.77.0.12 CE RC SEND ONLY"));
}

TEST(Describe, Tree) {
  EXPECT_EQ(frame_tree(test::kAckFrame),
            "Ethernet\n"
            "  dst       52:54:00:77:00:11\n"
            "  src       52:54:00:77:00:12\n"
            "IPv4\n"
            "  src       10.77.0.12\n"
            "  dst       10.77.0.11\n"
            "  tclass    0x0\n"
            "  ttl       64\n"
            "  id        41091\n"
            "  flags     0x2 (DF)\n"
            "UDP\n"
            "  sport     49476\n"
            "  dport     4791\n"
            "  checksum  0x0\n"
            "BTH\n"
            "  opcode    0x11 (RC ACK)\n"
            "  se        0\n"
            "  m         0\n"
            "  pad       0\n"
            "  tver      0\n"
            "  pkey      0xffff\n"
            "  fecn      0\n"
            "  becn      0\n"
            "  resv6     0x0\n"
            "  dqpn      0x12\n"
            "  a         0\n"
            "  resv7     0x0\n"
            "  psn       0x100\n"
            "AETH\n"
            "  syndrome  0x1f (ACK)\n"
            "  msn       1\n"
            "ICRC 0x1aa61e9a\n"
            "ICRC right\n");
  const Bytes packet = Bytes(test::kSendFrame).subspan(42);
  EXPECT_THAT(tree(packet, 4),
              testing::HasSubstr("\n    payload 1 byte 10\n    pad 3 bytes 00 00 00\n    ICRC 0x94926c62\n"));
}

// A line and a tree for every row of the catalogue, without a word about it in describe.cc.
TEST(Describe, EveryOpcode) {
  for (const OpcodeInfo& op : kOpcodes) {
    Buffer buffer(kMaxPacketSize);
    PacketBuilder builder(buffer, op.code);
    buffer.resize(builder.finish(kPath));
    EXPECT_THAT(one_line(buffer), testing::StartsWith(std::string(op.name) + " dqpn=0x0"));
    for (std::size_t i = 0; i < op.stack.count; ++i) {
      EXPECT_THAT(tree(buffer), testing::HasSubstr(std::string(header_info(op.stack.ids[i]).name) + "\n"));
    }
  }
}

}  // namespace
}  // namespace uroce::proto
