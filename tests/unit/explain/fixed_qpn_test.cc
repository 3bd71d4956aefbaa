// SPDX-License-Identifier: Apache-2.0
// NICs whose QPs have the same number in each connection: FPGAs, and programs that play a peer.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/scripted.h"

namespace uroce::explain::test {
namespace {

using O = proto::Opcode;
using testing::ElementsAre;

constexpr std::uint32_t kFixed = 0x77;

enum class Order : std::uint8_t { kAFirst, kBFirst, kBothAtOnce };

/// A connection of A's fixed QP.
struct Talk {
  std::uint32_t qp_b = 0, psn_a = 0, psn_b = 0;
  std::uint16_t port_a = 50000, port_b = 51000;
  std::size_t bytes = 4;
  Order order = Order::kAFirst;
};

/// Each end asks twice, and is answered; a second after the talk before.
void add(std::vector<Said>& packets, const Talk& talk) {
  const Ends ends{.qp_a = kFixed, .qp_b = talk.qp_b};
  int when = packets.empty() ? 0 : packets.back().packet.wait_us + 1'000'000;
  const auto say = [&](bool from_a, O op, std::uint32_t psn, std::size_t payload, const Octets& headers) {
    const std::uint16_t port = from_a ? talk.port_a : talk.port_b;
    packets.push_back({ends, {from_a, op, psn, payload, headers, false, when += 10, false, port}});
  };
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto ask = [&](bool a) { say(a, O::kRcSendOnly, (a ? talk.psn_a : talk.psn_b) + i, talk.bytes, {}); };
    const auto answer = [&](bool a) { say(!a, O::kRcAcknowledge, (a ? talk.psn_a : talk.psn_b) + i, 0, aeth(i + 1)); };
    const bool a_first = talk.order != Order::kBFirst;
    ask(a_first);
    if (talk.order != Order::kBothAtOnce) answer(a_first);
    ask(!a_first);
    if (talk.order == Order::kBothAtOnce) answer(a_first);
    answer(!a_first);
  }
}

Retold retell_talks(const std::vector<Talk>& talks) {
  std::vector<Said> packets;
  for (const Talk& talk : talks) add(packets, talk);
  return retell_bytes(told_by_turns(packets));
}

/// Of each connection: "0x77-0xb2 answers 2/2": its QPs, how they were paired, what each end has completed.
std::vector<std::string> connections_of(const Retold& retold) {
  std::vector<std::string> all;
  for (const auto& each : retold.story->connections()) {
    if (each->part_of) continue;
    const bool turned = each->left.gid != Ends{}.a;
    const auto completed = [&](bool of_a) {
      const Numbers& numbers = each->stream(of_a != turned).numbers();
      return numbers.operations[static_cast<std::size_t>(Operation::kSend)].completed;
    };
    all.push_back(fmt::format("{:#x}-{:#x} {} {}/{}", (turned ? each->right : each->left).qpn.value_or(0),
                              (turned ? each->left : each->right).qpn.value_or(0), to_string(each->pairing),
                              completed(true), completed(false)));
  }
  return all;
}

/// Whoever asks first, each packet is of its own connection, and nothing is odd.
void expect_two_pairs(std::vector<Talk> talks) {
  for (const Order order : {Order::kAFirst, Order::kBFirst, Order::kBothAtOnce}) {
    for (Talk& talk : talks) talk.order = order;
    const std::string how = order == Order::kBothAtOnce ? " guess 2/2" : " answers 2/2";
    const Retold retold = retell_talks(talks);
    EXPECT_EQ(retold.counts(), "") << how;
    EXPECT_THAT(connections_of(retold), ElementsAre("0x77-0xb2" + how, "0x77-0xb3" + how));
  }
}

TEST(FixedQpn, AnAnswerToRequestsOfANewPairIsOfIt) {
  expect_two_pairs({{0xB2, 0x1000, 0x9000, 50000, 51000}, {0xB3, 0x500000, 0x700000, 50001, 51001}});
  expect_two_pairs({{0xB2, 0x1000, 0x9000, 4791, 4791}, {0xB3, 0x500000, 0x700000, 4791, 4791}});
}

/// A test bench begins at the same PSN each time. The UDP ports tell the QPs apart.
TEST(FixedQpn, AnotherUdpPortIsAnotherPair) {
  expect_two_pairs({{0xB2, 0x1000, 0x2000, 50000, 51000}, {0xB3, 0x1000, 0x2000, 50001, 51001}});
}

/// Without other ports, what was not sent again is not answered again; but it can't be known.
TEST(FixedQpn, TheSamePsnsFromTheSamePortAreAGuess) {
  const Retold retold = retell_talks({{.qp_b = 0xB2, .psn_a = 0x1000, .psn_b = 0x2000, .port_b = 4791, .bytes = 4},
                                      {.qp_b = 0xB3, .psn_a = 0x1000, .psn_b = 0x2000, .port_b = 4791, .bytes = 8}});
  EXPECT_EQ(retold.counts(), "");
  EXPECT_THAT(connections_of(retold), ElementsAre("0x77-0xb2 answers 2/2", "0x77-0xb3 guess 2/2"));
}

/// A pair that goes on beside a new one keeps its answers.
TEST(FixedQpn, ADuplicateIsOfTheOldPair) {
  const Ends old{.qp_a = 0x11, .qp_b = 0x21}, fresh{.qp_a = 0x12, .qp_b = 0x22};
  const Scripted ask{.op = O::kRcSendOnly, .psn = 100, .payload = 4, .wait_us = 10};
  const auto later = [](Scripted packet, int wait_us) {
    packet.wait_us = wait_us;
    return packet;
  };
  const Scripted ack{.from_a = false, .op = O::kRcAcknowledge, .psn = 100, .headers = aeth(1), .wait_us = 20};
  const Retold retold = retell_bytes(told_by_turns({{old, ask},
                                                    {old, ack},
                                                    {fresh, later(ask, 500'000)},
                                                    {old, later(ask, 500'010)},
                                                    {old, later(ack, 500'020)},
                                                    {fresh, later(ack, 500'030)}}));
  EXPECT_EQ(retold.counts(), "answer_again:1 timeout?:1");
  ASSERT_EQ(retold.story->connections().size(), 2u);
  EXPECT_EQ(retold.lines.at(4).told.connection, 1u);
  EXPECT_EQ(retold.lines.at(5).told.connection, 2u);
}

/// What broke a connection ends it: the next answer to this QPN is one to the next connection.
TEST(FixedQpn, ABrokenConnectionAwaitsNothing) {
  constexpr std::uint32_t kInvalidRequest = 1;
  const Ends broken{.qp_a = kFixed, .qp_b = 0x21}, fresh{.qp_a = kFixed, .qp_b = 0x22};
  const Scripted ask{.op = O::kRcSendOnly, .psn = 100, .payload = 4};
  const Scripted refused{.from_a = false, .op = O::kRcAcknowledge, .psn = 100, .headers = nak(0, kInvalidRequest)};
  const Scripted ack{.from_a = false, .op = O::kRcAcknowledge, .psn = 100, .headers = aeth(1)};
  const Retold retold = retell_bytes(told_by_turns({{broken, ask}, {broken, refused}, {fresh, ask}, {fresh, ack}}));
  EXPECT_EQ(retold.counts(), "fatal_nak:1");
  EXPECT_THAT(connections_of(retold), ElementsAre("0x77-0x21 answers 0/0", "0x77-0x22 guess 1/0"));
}

}  // namespace
}  // namespace uroce::explain::test
