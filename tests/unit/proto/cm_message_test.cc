// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/cm/message.h"
#include "proto/describe/describe.h"

namespace uroce::proto::cm {
namespace {

using Buffer = std::vector<std::uint8_t>;
const Path kPath{Gid::from_v4(127, 0, 0, 1), Gid::from_v4(127, 0, 0, 2)};

Buffer reject() {
  Buffer mad(kMadSize, 0xEE);
  MessageBuilder builder(mad, Attribute::kRej, 0x1122334455667788);
  builder.as<Rej>().set<Rej::LocalId>(1).set<Rej::RemoteId>(2).set<Rej::Reason>(28);
  builder.private_data()[0] = 0x42;
  return mad;
}

TEST(CmMessage, ABuiltMessageParses) {
  const Buffer mad = reject();
  const auto message = parse_message(mad);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->attribute(), Attribute::kRej);
  EXPECT_EQ(message->mad().get<Mad::TransactionId>(), 0x1122334455667788u);
  EXPECT_EQ(message->as<Rej>().get<Rej::Reason>(), 28);
  EXPECT_EQ(message->additional_info().size(), 72u);
  EXPECT_EQ(message->private_data().size(), 148u);
  EXPECT_EQ(message->private_data()[0], 0x42);
  EXPECT_EQ(message->private_data()[147], 0);
}

TEST(CmMessage, EveryOtherLengthIsRefused) {
  Buffer mad = reject();
  mad.resize(2 * kMadSize);
  for (std::size_t size = 0; size <= mad.size(); ++size) {
    const auto message = parse_message(Bytes(mad).first(size));
    ASSERT_EQ(message.ok(), size == kMadSize) << size;
    if (!message) {
      ASSERT_EQ(message.error(), MessageError::kWrongSize);
    }
  }
}

TEST(CmMessage, HeaderBytesAreExact) {
  const std::vector<std::pair<std::size_t, MessageError>> exact{
      {0, MessageError::kUnknownBaseVersion},  {1, MessageError::kOtherClass},
      {2, MessageError::kUnknownClassVersion}, {3, MessageError::kNotSend},
      {16, MessageError::kUnknownAttribute},
  };
  for (const auto& [byte, error] : exact) {
    for (int bit = 0; bit < 8; ++bit) {
      Buffer mad = reject();
      mad[byte] = static_cast<std::uint8_t>(mad[byte] ^ (1 << bit));
      const auto message = parse_message(mad);
      ASSERT_FALSE(message.ok()) << byte;
      EXPECT_EQ(message.error(), error);
      EXPECT_FALSE(to_string(error).empty());
    }
  }
  for (const int attribute : {0, 1, 0xF, 0x1B, 0xFF}) {
    Buffer mad = reject();
    mad[17] = static_cast<std::uint8_t>(attribute);
    EXPECT_FALSE(parse_message(mad).ok());
  }
}

TEST(CmMessage, AddressesInPrivateData) {
  Buffer data(92);
  const Addresses v4{Gid::from_v4(10, 0, 0, 1), Gid::from_v4(10, 0, 0, 2), 7000};
  build_addresses(v4, data);
  EXPECT_THAT(Bytes(data).first(4), testing::ElementsAre(0, 0x40, 0x1B, 0x58));
  EXPECT_THAT(Bytes(data).subspan(4, 16), testing::ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1));
  const auto back = parse_addresses(data);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->source, v4.source);
  EXPECT_EQ(back->destination, v4.destination);
  EXPECT_EQ(back->source_port, 7000);

  data[0] = 1;
  EXPECT_EQ(parse_addresses(data).error(), AddressError::kVersion);
  data[0] = 0;
  for (int ip = 0; ip < 16; ++ip) {
    data[1] = static_cast<std::uint8_t>(ip << 4);
    EXPECT_EQ(parse_addresses(data).ok(), ip == 4 || ip == 6) << ip;
  }
  // An IPv4-mapped address in an IPv6 header would be a second way to write IPv4.
  data[1] = 0x60;
  data[4 + 10] = data[4 + 11] = 0xFF;
  EXPECT_EQ(parse_addresses(data).error(), AddressError::kIpVersion);
}

TEST(CmMessage, Described) {
  Buffer frame(kMaxPacketSize);
  frame.resize(build_packet(reject(), Psn{7}, kPath, frame));
  EXPECT_EQ(frame.size(), kManagementPacketSize);
  EXPECT_EQ(one_line(frame),
            "UD SEND ONLY dqpn=0x1 a=1 psn=0x7 qkey=0x80010000 sqpn=0x1 | CM REJ local_id=0x1 remote_id=0x2 message=0 "
            "reason=28");
  EXPECT_THAT(tree(frame), testing::HasSubstr("CM REJ\n  local_id  0x1\n  remote_id 0x2\n"));
  EXPECT_THAT(tree(frame), testing::HasSubstr("private data 148 bytes 42 00"));
  // What is no message is payload.
  frame[Bth::kSize + Deth::kSize] = 2;
  EXPECT_THAT(one_line(frame), testing::EndsWith("sqpn=0x1 | 256 bytes"));
}

TEST(CmMessage, AddressesOfARequestAreDescribed) {
  Buffer mad(kMadSize);
  MessageBuilder builder(mad, Attribute::kReq, 1);
  set_gid<Req::LocalGidHigh, Req::LocalGidLow>(builder.as<Req>(), Gid::from_v4(10, 0, 0, 1));
  build_addresses({Gid::from_v4(10, 0, 0, 1), Gid::from_v4(10, 0, 0, 2), 7000}, builder.private_data());
  Buffer frame(kMaxPacketSize);
  frame.resize(build_packet(mad, Psn{7}, kPath, frame));
  EXPECT_THAT(tree(frame), testing::HasSubstr("  local_gid 10.0.0.1\n  remote_gid ::\n"));
  EXPECT_THAT(tree(frame), testing::HasSubstr("RDMA CM\n  version   0x0\n  ip_version 0x4\n"));
  EXPECT_THAT(tree(frame), testing::HasSubstr("  source_port 7000\n"));
  EXPECT_THAT(tree(frame), testing::HasSubstr("private data 56 bytes"));
}

}  // namespace
}  // namespace uroce::proto::cm
