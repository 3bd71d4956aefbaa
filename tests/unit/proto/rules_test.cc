// SPDX-License-Identifier: Apache-2.0
// The wire lint's tests (tests/judged/sim) break each rule of one QP; here is what they cannot reach.
#include "proto/rules/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "proto/icrc.h"

namespace uroce::proto::rules {
namespace {

std::vector<std::uint8_t> packet(Opcode opcode, std::size_t payload, std::uint16_t ip_id = 0,
                                 bool ack_request = false) {
  std::vector<std::uint8_t> bytes(kMaxPacketSize);
  PacketBuilder builder(bytes, opcode);
  builder.bth().set<Bth::AckReq>(ack_request);
  if (info(opcode).has_payload) std::ranges::fill(builder.payload(payload), std::uint8_t{7});
  bytes.resize(builder.finish(Path{}));
  const auto size = bytes.size() - kIcrcSize;
  store_icrc(MutBytes(bytes).last(kIcrcSize), icrc(Path{}, Bytes(bytes).first(size), ip_id));
  return bytes;
}

std::optional<Rule> add(MessageOrder& order, Opcode opcode, std::size_t payload, std::uint32_t mtu) {
  const auto bytes = packet(opcode, payload);
  const auto breach = order.add(request_of(*parse_packet(bytes)), mtu);
  return breach ? std::optional(breach->rule) : std::nullopt;
}

TEST(Rules, OrderIsUnknownBehindMissingPackets) {
  MessageOrder order;
  EXPECT_EQ(add(order, Opcode::kRcWriteMiddle, 256, 256), Rule::kOpcodeSequence);
  order.forget();
  EXPECT_EQ(add(order, Opcode::kRcWriteLast, 3, 256), std::nullopt);  // How long the message is, is not known either.
  EXPECT_EQ(add(order, Opcode::kRcWriteLast, 3, 256), Rule::kOpcodeSequence);
}

TEST(Rules, WithoutAnMtuFirstAndMiddleAreAsLongAsSomeMtu) {
  MessageOrder order;
  EXPECT_EQ(add(order, Opcode::kUcSendFirst, 2048, 0), std::nullopt);
  EXPECT_EQ(add(order, Opcode::kUcSendMiddle, 1000, 0), Rule::kBelowMtu);
  EXPECT_TRUE(order.in_message());
  EXPECT_EQ(add(order, Opcode::kUcSendLast, 0, 0), Rule::kEmptyLast);
}

TEST(Rules, ContentIsTheSameEachTimeThatAPacketIsSent) {
  const auto first = packet(Opcode::kRcSendOnly, 9, 1);
  const auto again = packet(Opcode::kRcSendOnly, 9, 2, true);
  const auto other = packet(Opcode::kRcSendOnly, 10, 2, true);
  EXPECT_EQ(content(*parse_packet(first), {}), content(*parse_packet(again), {}));
  EXPECT_NE(content(*parse_packet(first), {}), content(*parse_packet(other), {}));
}

TEST(Rules, HabitsAreLegal) {
  EXPECT_FALSE(breaks_standard(Rule::kMigReq));
  EXPECT_TRUE(breaks_standard(Rule::kOpcodeSequence));
}

}  // namespace
}  // namespace uroce::proto::rules
