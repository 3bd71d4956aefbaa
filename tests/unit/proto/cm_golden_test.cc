// SPDX-License-Identifier: Apache-2.0
// Every message of communication management that the kernel sent in the lab: taken apart field by field and built again
// byte for byte, described, and counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "proto/describe/describe.h"
#include "tests/unit/proto/cm_reencode.h"
#include "tests/unit/proto/golden.h"
#include "tests/unit/proto/hex.h"

namespace uroce::proto::cm::test {
namespace {

using proto::test::GoldenFrame;

const std::vector<GoldenFrame>& captured(const char* folder) {
  return std::string_view(folder) == "rxe" ? proto::test::golden_frames() : proto::test::connection_frames();
}

class CmGolden : public testing::TestWithParam<const char*> {};

TEST_P(CmGolden, MessagesAreBuiltAgainByteForByte) {
  std::map<std::string, int> seen;
  for (const GoldenFrame& golden : captured(GetParam())) {
    const auto frame = parse_frame(golden.bytes);
    if (!frame) {
      ++seen["not RoCE"];  // Neighbour discovery, ICMP.
      continue;
    }
    const auto packet = parse_packet(frame->packet);
    if (!packet || packet->dest_qp() != kManagementQpn) continue;
    const auto message = parse_message(*packet);
    if (!message) {
      ++seen["not a message: " + std::string(to_string(message.error()))];
      continue;
    }
    const std::string name(message->info().name);
    ++seen[name];
    ASSERT_EQ(proto::test::to_hex(proto::test::reencode(*message)), proto::test::to_hex(message->bytes()))
        << golden.label();
    ASSERT_THAT(one_line(*frame), testing::HasSubstr("| CM " + name + " ")) << golden.label();
    ASSERT_THAT(frame_tree(golden.bytes), testing::HasSubstr("\nCM " + name + "\n")) << golden.label();

    // The packet around it too.
    std::vector<std::uint8_t> built(kMaxPacketSize);
    built.resize(build_packet(message->bytes(), packet->psn(), frame->fields.path, built));
    const std::size_t covered = built.size() - kIcrcSize;
    store_icrc(MutBytes(built).last(kIcrcSize),
               icrc(frame->fields.path, Bytes(built).first(covered), frame->fields.ip_id));
    ASSERT_EQ(proto::test::to_hex(built), proto::test::to_hex(frame->packet)) << golden.label();

    if (message->attribute() != Attribute::kReq && message->attribute() != Attribute::kSidrReq) continue;
    const auto addresses = parse_addresses(message->private_data());
    ASSERT_TRUE(addresses.ok()) << golden.label();
    EXPECT_EQ(addresses->source, frame->fields.path.source);
    EXPECT_EQ(addresses->destination, frame->fields.path.destination);
    std::vector<std::uint8_t> again(message->private_data().size(), 0);
    build_addresses(*addresses, again);
    EXPECT_EQ(proto::test::to_hex(Bytes(again).first(CmaHeader::kSize)),
              proto::test::to_hex(message->private_data().first(CmaHeader::kSize)));
  }
  const std::map<std::string, std::map<std::string, int>> expected{
      {"rxe",
       {{"REQ", 14},
        {"REP", 15},
        {"RTU", 13},
        {"REJ", 1},
        {"DREQ", 11},
        {"DREP", 10},
        {"SIDR_REQ", 1},
        {"SIDR_REP", 1}}},
      {"rxe_cm",
       {{"REQ", 95},
        {"MRA", 9},
        {"REP", 47},
        {"RTU", 24},
        {"REJ", 16},
        {"DREQ", 59},
        {"DREP", 22},
        {"SIDR_REQ", 10},
        {"SIDR_REP", 8},
        {"not RoCE", 16}}},
  };
  EXPECT_EQ(seen, expected.at(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Folders, CmGolden, testing::Values("rxe", "rxe_cm"),
                         [](const auto& folder) { return folder.param; });

}  // namespace
}  // namespace uroce::proto::cm::test
