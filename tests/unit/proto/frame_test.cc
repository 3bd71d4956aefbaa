// SPDX-License-Identifier: Apache-2.0
#include "proto/frame.h"

#include <gtest/gtest.h>

#include "proto/address.h"
#include "proto/packet.h"
#include "tests/unit/proto/hex.h"

namespace uroce::proto {
namespace {

using test::from_hex;
using test::kAckFrame;
using test::kSendFrame;
using test::kSendFrame6;
using Buffer = std::vector<std::uint8_t>;

Buffer rebuild(const FrameView& frame) {
  Buffer out(frame_size(frame.fields, frame.packet.size()), 0xEE);
  EXPECT_EQ(build_frame(frame.fields, frame.packet, out), out.size());
  return out;
}

/// The SEND frame with `bytes` at `offset`.
Buffer patched(std::size_t offset, const Buffer& bytes, Buffer frame = kSendFrame) {
  std::copy(bytes.begin(), bytes.end(), frame.begin() + static_cast<std::ptrdiff_t>(offset));
  return frame;
}

FrameError frame_error_of(const Buffer& frame) { return parse_frame(frame).error(); }

TEST(Frame, Ipv4Fields) {
  const auto frame = parse_frame(kSendFrame);
  ASSERT_TRUE(frame.ok());
  const FrameFields& f = frame->fields;
  EXPECT_EQ(to_string(f.destination), "52:54:00:77:00:12");
  EXPECT_EQ(to_string(f.source), "52:54:00:77:00:11");
  EXPECT_FALSE(f.vlan_tci);
  EXPECT_EQ(f.version, RoceVersion::kV2);
  EXPECT_EQ(f.path, (Path{Gid::from_v4(10, 77, 0, 11), Gid::from_v4(10, 77, 0, 12), 0xC144, 0, 64, 0}));
  EXPECT_EQ(f.ip_id, 0x5B07);
  EXPECT_EQ(f.ip_flags, kDontFragment);
  EXPECT_FALSE(f.ip_checksum);
  EXPECT_EQ(f.udp_checksum, 0);
  EXPECT_TRUE(f.trailer.empty());
  EXPECT_EQ(frame->packet.size(), 20u);
  EXPECT_TRUE(icrc_ok(*frame));
  EXPECT_EQ(rebuild(*frame), kSendFrame);
}

TEST(Frame, Ipv6Fields) {
  const auto frame = parse_frame(kSendFrame6);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(to_string(frame->fields.path.source), "fd77::11");
  EXPECT_EQ(to_string(frame->fields.path.destination), "fd77::12");
  EXPECT_TRUE(icrc_ok(*frame));
  EXPECT_EQ(rebuild(*frame), kSendFrame6);
}

TEST(Frame, EveryFieldSurvives) {
  FrameFields f;
  f.destination = Mac{{1, 2, 3, 4, 5, 6}};
  f.source = Mac{{7, 8, 9, 10, 11, 12}};
  f.path = {Gid::from_v4(1, 2, 3, 4), Gid::from_v4(5, 6, 7, 8), 0xDEAD, 0x6B, 3, 0};
  f.vlan_tci = 0x2FFF;
  f.ip_id = 0x1234;
  f.ip_flags = 0b100;
  f.ip_checksum = 0xABCD;
  f.udp_checksum = 0x4321;
  const Buffer packet(40, 7), trailer{9, 9, 9};
  f.trailer = trailer;
  Buffer out(frame_size(f, packet.size()));
  ASSERT_EQ(build_frame(f, packet, out), out.size());
  const auto frame = parse_frame(out);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->fields.path, f.path);
  EXPECT_EQ(frame->fields.vlan_tci, f.vlan_tci);
  EXPECT_EQ(frame->fields.ip_id, f.ip_id);
  EXPECT_EQ(frame->fields.ip_flags, f.ip_flags);
  EXPECT_EQ(frame->fields.ip_checksum, f.ip_checksum);
  EXPECT_EQ(frame->fields.udp_checksum, f.udp_checksum);
  EXPECT_EQ(frame->fields.trailer.size(), 3u);
  EXPECT_EQ(rebuild(*frame), out);
}

TEST(Frame, RoceV1) {
  FrameFields f = frame_fields_for({*parse_gid("fe80::1"), *parse_gid("10.0.0.1"), 0, 0x20, 9, 0xABCDE});
  f.version = RoceVersion::kV1;
  Buffer packet = from_hex("0430ffff 00000012 80000100 10000000 00000000");
  store_icrc(MutBytes(packet).last(kIcrcSize), icrc_v1(f.path, Bytes(packet).first(16)));
  Buffer out(frame_size(f, packet.size()));
  ASSERT_EQ(build_frame(f, packet, out), 14u + 40 + 20);
  EXPECT_EQ(load_be<2>(out.data() + 12), kEtherTypeRoceV1);
  EXPECT_EQ(out[14 + 6], 0x1B);
  const auto frame = parse_frame(out);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->fields.version, RoceVersion::kV1);
  EXPECT_EQ(frame->fields.path, f.path);
  EXPECT_TRUE(icrc_ok(*frame));
  EXPECT_TRUE(parse_packet(frame->packet).ok());
  EXPECT_EQ(rebuild(*frame), out);
  out[14 + 6] = 17;
  EXPECT_EQ(frame_error_of(out), FrameError::kNotIba);
}

TEST(Frame, TrailerIsNotPacket) {
  Buffer padded = kAckFrame;
  padded.insert(padded.end(), {0, 0, 1, 2});
  const auto frame = parse_frame(padded);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->packet.size(), 20u);
  EXPECT_EQ(frame->fields.trailer.size(), 4u);
  EXPECT_TRUE(icrc_ok(*frame));
  EXPECT_EQ(rebuild(*frame), padded);
}

TEST(Frame, WrongIpChecksumIsKept) {
  const Buffer wrong = patched(24, {0, 0});
  const auto frame = parse_frame(wrong);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->fields.ip_checksum, 0);
  EXPECT_EQ(rebuild(*frame), wrong);
}

TEST(Frame, OurOwnFramesAreValid) {
  const Path path{Gid::from_v4(127, 0, 0, 1), Gid::from_v4(127, 0, 0, 2), 0xC001, 0x02, 64, 0};
  const FrameFields fields = frame_fields_for(path, 77);
  Buffer packet(64);
  PacketBuilder builder(packet, Opcode::kRcSendOnly);
  builder.payload(5);
  packet.resize(builder.finish(path));
  Buffer out(packet.size() + kFrameOverheadMax);
  out.resize(build_frame(fields, packet, out));
  const auto frame = parse_frame(out);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(to_string(frame->fields.source), "02:00:7f:00:00:01");
  EXPECT_EQ(to_string(frame->fields.destination), "02:00:7f:00:00:02");
  EXPECT_EQ(frame->fields.path, path);
  EXPECT_EQ(frame->fields.ip_id, 77);
  EXPECT_FALSE(icrc_ok(*frame));  // the builder's ICRC is for ID 0
  out[18] = out[19] = 0;
  EXPECT_TRUE(icrc_ok(*parse_frame(out)));
}

TEST(Frame, EveryTruncationHasAName) {
  for (const Buffer& frame : {kSendFrame, kSendFrame6}) {
    for (std::size_t size = 0; size < frame.size(); ++size) {
      const auto result = parse_frame(Bytes(frame).first(size));
      ASSERT_FALSE(result.ok()) << size;
      EXPECT_EQ(result.error(), size < 14 ? FrameError::kEthernetTruncated : FrameError::kIpTruncated) << size;
    }
  }
}

TEST(Frame, NamedErrors) {
  EXPECT_EQ(frame_error_of(patched(12, from_hex("8100"))),
            FrameError::kOtherEtherType);  // the tag's EtherType is 0x0030
  EXPECT_EQ(frame_error_of(from_hex("525400770012 525400770011 8100 0005 08")), FrameError::kVlanTruncated);
  EXPECT_EQ(frame_error_of(patched(12, from_hex("0806"))), FrameError::kOtherEtherType);
  EXPECT_EQ(frame_error_of(patched(12, from_hex("8100 0001 8100"))), FrameError::kOtherEtherType);
  EXPECT_EQ(frame_error_of(patched(14, from_hex("65"))), FrameError::kBadIpHeader);
  EXPECT_EQ(frame_error_of(patched(14, from_hex("44"))), FrameError::kBadIpHeader);
  EXPECT_EQ(frame_error_of(patched(14, from_hex("46"))), FrameError::kIpOptions);
  EXPECT_EQ(frame_error_of(patched(16, from_hex("0013"))), FrameError::kBadIpHeader);
  EXPECT_EQ(frame_error_of(patched(16, from_hex("0031"))), FrameError::kIpTruncated);
  EXPECT_EQ(frame_error_of(patched(16, from_hex("001b"))), FrameError::kUdpTruncated);
  EXPECT_EQ(frame_error_of(patched(16, from_hex("002f"))), FrameError::kBadUdpLength);
  EXPECT_EQ(frame_error_of(patched(20, from_hex("2000"))), FrameError::kFragment);
  EXPECT_EQ(frame_error_of(patched(20, from_hex("0001"))), FrameError::kFragment);
  EXPECT_EQ(frame_error_of(patched(23, from_hex("06"))), FrameError::kNotUdp);
  EXPECT_EQ(frame_error_of(patched(36, from_hex("12b8"))), FrameError::kNotRocePort);
  EXPECT_EQ(frame_error_of(patched(38, from_hex("001b"))), FrameError::kBadUdpLength);
  EXPECT_EQ(frame_error_of(patched(14, from_hex("40"), kSendFrame6)), FrameError::kBadIpHeader);
  EXPECT_EQ(frame_error_of(patched(20, from_hex("00"), kSendFrame6)), FrameError::kNotUdp);
  EXPECT_EQ(frame_error_of(patched(22, from_hex("00000000000000000000ffff"), kSendFrame6)), FrameError::kMappedAddress);
  EXPECT_EQ(frame_error_of(patched(56, from_hex("0035"), kSendFrame6)), FrameError::kNotRocePort);
}

TEST(FrameDeathTest, MisuseIsABug) {
  const auto frame = parse_frame(kSendFrame);
  Buffer small(kSendFrame.size() - 1);
  EXPECT_DEATH(build_frame(frame->fields, frame->packet, small), "broken invariant");
  FrameFields mixed = frame->fields;
  mixed.path.source = *parse_gid("::1");
  Buffer large(200);
  EXPECT_DEATH(build_frame(mixed, frame->packet, large), "broken invariant");
}

}  // namespace
}  // namespace uroce::proto
