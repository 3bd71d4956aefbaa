// SPDX-License-Identifier: Apache-2.0
// Packets that no NIC of ours sends.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "proto/cm/message.h"
#include "proto/frame.h"
#include "proto/icrc.h"
#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/scripted.h"
#include "tools/explain/words/sentences.h"

namespace uroce::explain::test {
namespace {

using O = proto::Opcode;

/// A QP that is connected to itself: an answer to it is one to its own requests.
TEST(Script, AQpIsConnectedToItself) {
  Ends itself;
  itself.b = itself.a;
  itself.qp_b = itself.qp_a;
  const Retold retold = retell_bytes(scripted_pcap({{true, O::kRcSendFirst, 1, 1024},
                                                    {true, O::kRcSendLast, 2, 4},
                                                    {false, O::kRcAcknowledge, 2, 0, aeth(1)},
                                                    {true, O::kRcReadRequest, 3, 0, reth(2048)},
                                                    {false, O::kRcReadResponseFirst, 3, 1024, aeth(2)},
                                                    {false, O::kRcReadResponseLast, 4, 1024, aeth(2)},
                                                    {true, O::kRcSendOnly, 5, 4},
                                                    {false, O::kRcAcknowledge, 5, 0, aeth(3)}},
                                                   itself));
  EXPECT_EQ(retold.counts(), "");
  ASSERT_EQ(retold.story->connections().size(), 1u);
  const Connection& connection = *retold.story->connections()[0];
  EXPECT_EQ(connection.pairing, Pairing::kAnswers);
  EXPECT_EQ(connection.left.qpn, itself.qp_a);
  EXPECT_EQ(connection.to_right.numbers().unanswered, 0u);
  EXPECT_EQ(connection.to_right.numbers().acked_bytes, 1028u + 2048 + 4);
  EXPECT_EQ(connection.to_left.numbers().packets, 0u);
  EXPECT_FALSE(retold.lines.at(2).told.from_left);
}

/// The only connection of a capture in which A sends PSN 100 three times, and B answers in this way.
std::string failure_of(const Scripted& answer) {
  std::vector<Scripted> packets;
  for (int i = 0; i < 3; ++i) {
    packets.push_back({.op = O::kRcSendOnly, .psn = 100, .payload = 4, .wait_us = 20'000});
    packets.push_back(answer);
  }
  const Retold retold = retell_bytes(scripted_pcap(packets));
  EXPECT_EQ(retold.story->connections().size(), 1u);
  const Connection& connection = *retold.story->connections()[0];
  EXPECT_EQ(connection.pairing, Pairing::kGuess);
  return connection.to_right.failure();
}

TEST(Script, EndsThatBeginWithOtherPsnsAreAPair) {
  const auto waits_for = [](std::string_view psn) {
    return "3 transmissions of PSN 0x64, but the responder waits for PSN " + std::string(psn) +
           ": its rq_psn and the requester's sq_psn must be the same. The requester has probably given up "
           "(RETRY_EXC_ERR)";
  };
  EXPECT_EQ(failure_of({false, O::kRcAcknowledge, 7, 0, nak(0)}), waits_for("0x7"));
  EXPECT_EQ(failure_of({false, O::kRcAcknowledge, 0x1FF, 0, aeth(0)}), waits_for("0x200"));
}

/// A NAK is an answer, also one that says nothing new.
TEST(Script, EachTransmissionMayBeAnsweredByANak) {
  std::vector<Scripted> packets{{true, O::kRcSendOnly, 99, 4}, {false, O::kRcAcknowledge, 99, 0, aeth(1)}};
  for (int i = 0; i < 3; ++i) {
    packets.push_back({.op = O::kRcSendOnly, .psn = 100, .payload = 4, .wait_us = 20'000});
    packets.push_back({false, O::kRcAcknowledge, 100, 0, nak(0)});
  }
  const auto failure_of_last = [&packets] {
    return retell_bytes(scripted_pcap(packets)).story->connections().at(0)->to_right.failure();
  };
  EXPECT_EQ(failure_of_last().substr(0, failure_of_last().find(';')),
            "3 transmissions of PSN 0x64, the last one answered by a NAK that asks for it again: the requester has "
            "probably given up (RETRY_EXC_ERR)");
  packets.pop_back();
  EXPECT_EQ(failure_of_last().substr(0, failure_of_last().find(';')),
            "3 transmissions of PSN 0x64, no answer: the requester has probably given up (RETRY_EXC_ERR)");
}

/// rnr_retry counts to 6; 7 is for ever.
TEST(Script, WhoIsRefusedMoreThanSevenTimesDoesNotGiveUp) {
  const auto failure_after = [](int times) {
    std::vector<Scripted> packets{{true, O::kRcSendOnly, 99, 4}, {false, O::kRcAcknowledge, 99, 0, aeth(1)}};
    for (int i = 0; i < times; ++i) {
      packets.push_back({.op = O::kRcSendOnly, .psn = 100, .payload = 4, .wait_us = 500});
      packets.push_back({false, O::kRcAcknowledge, 100, 0, rnr_nak(1)});
    }
    return retell_bytes(scripted_pcap(packets)).story->connections().at(0)->to_right.failure();
  };
  EXPECT_EQ(failure_after(7),
            "7 transmissions of PSN 0x64, each refused with an RNR NAK: the requester has probably given up "
            "(RNR_RETRY_EXC_ERR)");
  EXPECT_EQ(failure_after(8),
            "8 transmissions of PSN 0x64, each refused with an RNR NAK: the requester probably tries for ever "
            "(rnr_retry 7), until a receive is posted");
}

TEST(Script, AnAnswerToNobodyGoesToNobodyWhereTwoWait) {
  constexpr std::size_t kFileHeader = 24;
  Octets both = scripted_pcap({{true, O::kRcSendOnly, 100, 4}});
  const Octets other = scripted_pcap({{true, O::kRcSendOnly, 100, 4}, {false, O::kRcAcknowledge, 7, 0, nak(0)}},
                                     {.qp_a = 0x33, .qp_b = 0x44});
  both.insert(both.end(), other.begin() + kFileHeader, other.end());
  const Retold retold = retell_bytes(both);
  ASSERT_EQ(retold.story->connections().size(), 3u);
  for (const auto& connection : retold.story->connections()) EXPECT_EQ(connection->pairing, Pairing::kOneSided);
}

/// Hardware sets MigReq in each packet, and nothing is unusual about that.
TEST(Script, MigReqIsARemark) {
  const auto from_hardware = [](Scripted packet) {
    packet.migrated = true;
    return packet;
  };
  const Retold retold = retell_bytes(
      scripted_pcap({from_hardware({true, O::kRcSendOnly, 1, 4}), from_hardware({true, O::kRcSendOnly, 2, 4}),
                     from_hardware({false, O::kRcAcknowledge, 2, 0, aeth(2)})}));
  EXPECT_EQ(retold.counts(), "");
  const auto& habits = retold.story->connections().at(0)->left_habits.all();
  ASSERT_EQ(habits.size(), 1u);
  EXPECT_EQ(habits[0].note.text, "MigReq is set");
  EXPECT_EQ(habits[0].note.severity, Severity::kRemark);
  EXPECT_EQ(habits[0].packets, 2u);
}

/// Requests of several QPs, and then the answers of all: each pair of QPs, as "0x11-0x21".
std::vector<std::string> pairs_of(const Retold& retold) {
  std::vector<std::string> pairs;
  for (const auto& each : retold.story->connections()) {
    if (each->part_of) continue;
    EXPECT_EQ(each->pairing, Pairing::kAnswers) << each->number;
    const std::uint32_t left = each->left.qpn.value_or(0), right = each->right.qpn.value_or(0);
    pairs.push_back(fmt::format("{:#x}-{:#x}", std::min(left, right), std::max(left, right)));
  }
  std::ranges::sort(pairs);
  return pairs;
}

TEST(Script, QpsOfOneAddressArePairedByAnswers) {
  const proto::Gid here = proto::Gid::from_v4(10, 0, 0, 1);
  std::vector<Said> packets;
  const auto ends = [&](std::uint32_t n) { return Ends{.a = here, .b = here, .qp_a = 0x10 + n, .qp_b = 0x20 + n}; };
  for (std::uint32_t n = 1; n <= 4; ++n) packets.push_back({ends(n), {true, O::kRcSendOnly, n * 1000, 4}});
  for (std::uint32_t n = 1; n <= 4; ++n) {
    packets.push_back({ends(n), {false, O::kRcAcknowledge, n * 1000, 0, aeth(1)}});
    packets.push_back({ends(n), {false, O::kRcSendOnly, n * 1000 + 500, 4}});
  }
  for (std::uint32_t n = 1; n <= 4; ++n) {
    packets.push_back({ends(n), {true, O::kRcAcknowledge, n * 1000 + 500, 0, aeth(1)}});
  }
  const Retold retold = retell_bytes(told_by_turns(packets));
  EXPECT_EQ(retold.counts(), "");
  EXPECT_THAT(pairs_of(retold), testing::ElementsAre("0x11-0x21", "0x12-0x22", "0x13-0x23", "0x14-0x24"));
}

/// Both ends of the address ask before anybody answers.
TEST(Script, QpsOfOneAddressThatAllAskAtFirstArePairedByAnswers) {
  const proto::Gid here = proto::Gid::from_v4(10, 0, 0, 1);
  std::vector<Said> packets;
  const auto ends = [&](std::uint32_t n) { return Ends{.a = here, .b = here, .qp_a = 0x10 + n, .qp_b = 0x20 + n}; };
  for (const bool from_a : {true, false}) {
    for (std::uint32_t n = 1; n <= 2; ++n) {
      packets.push_back({ends(n), {from_a, O::kRcSendOnly, n * 1000 + (from_a ? 0 : 500), 4}});
    }
  }
  for (std::uint32_t n = 1; n <= 2; ++n) {
    packets.push_back({ends(n), {false, O::kRcAcknowledge, n * 1000, 0, aeth(1)}});
    packets.push_back({ends(n), {true, O::kRcAcknowledge, n * 1000 + 500, 0, aeth(1)}});
  }
  const Retold retold = retell_bytes(told_by_turns(packets));
  EXPECT_EQ(retold.counts(), "");
  EXPECT_THAT(pairs_of(retold), testing::ElementsAre("0x11-0x21", "0x12-0x22"));
}

/// Two connections between two hosts, one asked in each direction: the first requests look like a pair.
TEST(Script, AnAnswerUndoesAPairThatWasGuessed) {
  const Ends one{.qp_a = 0x11, .qp_b = 0x21}, other{.qp_a = 0x12, .qp_b = 0x22};
  const Retold retold = retell_bytes(told_by_turns({{one, {true, O::kRcSendOnly, 1000, 4}},
                                                    {other, {false, O::kRcSendOnly, 2000, 4}},
                                                    {one, {false, O::kRcAcknowledge, 1000, 0, aeth(1)}},
                                                    {other, {true, O::kRcAcknowledge, 2000, 0, aeth(1)}}}));
  EXPECT_EQ(retold.counts(), "");
  EXPECT_THAT(pairs_of(retold), testing::ElementsAre("0x11-0x21", "0x12-0x22"));
}

/// Requests of two QPs under the same PSNs, as UCX begins: what they ask for tells their answers.
TEST(Script, AnAnswerGoesToTheReadOfItsLength) {
  const Ends one{.qp_a = 0x11, .qp_b = 0x21}, other{.qp_a = 0x12, .qp_b = 0x22};
  const auto answer = [](const Ends& ends, std::size_t bytes) -> Said {
    return {ends, {false, O::kRcReadResponseOnly, 0, bytes, aeth(1)}};
  };
  const Retold retold = retell_bytes(told_by_turns({{one, {true, O::kRcReadRequest, 0, 0, reth(100)}},
                                                    {other, {true, O::kRcReadRequest, 0, 0, reth(200)}},
                                                    answer(one, 100),
                                                    answer(other, 200)}));
  EXPECT_EQ(retold.counts(), "");
  EXPECT_THAT(pairs_of(retold), testing::ElementsAre("0x11-0x21", "0x12-0x22"));
}

/// On one address such a QP may also be connected to itself.
TEST(Script, AnAnswerMayGoToItsOwnQp) {
  const proto::Gid here = proto::Gid::from_v4(10, 0, 0, 1);
  const Ends one{here, here, 0x11, 0x11}, other{here, here, 0x12, 0x12};
  const auto retold_with = [&](std::uint32_t length_of_other) {
    return retell_bytes(told_by_turns({{one, {true, O::kRcReadRequest, 0, 0, reth(100)}},
                                       {other, {true, O::kRcReadRequest, 0, 0, reth(length_of_other)}},
                                       {one, {false, O::kRcReadResponseOnly, 0, 100, aeth(1)}}}));
  };
  const Retold told = retold_with(200);
  EXPECT_EQ(told.story->connections().at(0)->left.qpn, 0x11u);
  EXPECT_EQ(told.story->connections().at(0)->pairing, Pairing::kAnswers);
  const Retold open = retold_with(100);
  EXPECT_EQ(open.story->connections().at(0)->pairing, Pairing::kGuess);
}

/// As above, with three connections: an answer to a QP whose own pair was guessed.
TEST(Script, AnAnswerInsideAWrongPairUndoesIt) {
  const Ends one{.qp_a = 0x11, .qp_b = 0x21}, other{.qp_a = 0x12, .qp_b = 0x22};
  const Retold retold = retell_bytes(told_by_turns({{one, {true, O::kRcSendOnly, 1000, 4}},
                                                    {other, {false, O::kRcSendOnly, 2000, 4}},
                                                    {other, {true, O::kRcSendOnly, 3000, 4}},
                                                    {other, {false, O::kRcAcknowledge, 3000, 0, aeth(1)}},
                                                    {one, {false, O::kRcAcknowledge, 1000, 0, aeth(1)}},
                                                    {other, {true, O::kRcAcknowledge, 2000, 0, aeth(1)}}}));
  EXPECT_EQ(retold.counts(), "");
  EXPECT_THAT(pairs_of(retold), testing::ElementsAre("0x11-0x21", "0x12-0x22"));
}

TEST(Script, WithoutAnswersTheOnlyTwoQpsOfAnAddressAreProbablyAPair) {
  const proto::Gid here = proto::Gid::from_v4(10, 0, 0, 1);
  const Retold retold = retell_bytes(
      scripted_pcap({{true, O::kUcSendOnly, 1000, 4}, {false, O::kUcSendOnly, 2000, 4}}, {.a = here, .b = here}));
  const auto& connections = retold.story->connections();
  ASSERT_EQ(connections.size(), 2u);
  EXPECT_EQ(connections[0]->pairing, Pairing::kGuess);
  EXPECT_EQ(connections[1]->part_of, 1u);
}

/// Two QPs of one host stay two.
TEST(Script, TwoQpsOfOneHostAreNotTakenForOne) {
  Ends one_host;
  one_host.b = one_host.a;
  const Retold retold = retell_bytes(scripted_pcap({{true, O::kRcSendOnly, 1, 4},
                                                    {false, O::kRcSendOnly, 1, 4},
                                                    {true, O::kRcAcknowledge, 1, 0, aeth(1)},
                                                    {false, O::kRcAcknowledge, 1, 0, aeth(1)}},
                                                   one_host));
  EXPECT_EQ(retold.counts(), "");
  const Connection& connection = *retold.story->connections().at(0);
  EXPECT_EQ(connection.to_right.numbers().acked_bytes, 4u);
  EXPECT_EQ(connection.to_left.numbers().acked_bytes, 4u);
}

const Numbers& numbers_of(const Retold& retold) { return retold.story->connections().at(0)->to_right.numbers(); }

/// A READ of 2048 bytes, answered with these, and a SEND behind it.
Retold read_answered(std::vector<Scripted> answers) {
  std::vector<Scripted> packets{{true, O::kRcReadRequest, 1, 0, reth(2048)}};
  packets.insert(packets.end(), answers.begin(), answers.end());
  return retell_bytes(scripted_pcap(packets));
}

/// What no requester takes for the answer to its READ completes nothing.
TEST(Script, AReadIsNotCompletedByWrongAnswers) {
  const auto first = [](std::size_t bytes) { return Scripted{false, O::kRcReadResponseFirst, 1, bytes, aeth(1)}; };
  const auto last = [](std::size_t bytes) { return Scripted{false, O::kRcReadResponseLast, 2, bytes, aeth(1)}; };
  const Retold right = read_answered({first(1024), last(1024)});
  EXPECT_EQ(right.counts(), "");
  EXPECT_EQ(numbers_of(right).unanswered, 0u);
  const std::vector<std::vector<Scripted>> wrong{
      {first(1024), last(500)},                                        // Too short.
      {first(1000), last(1024)},                                       // 1000 is no path MTU.
      {{false, O::kRcReadResponseOnly, 1, 1024, aeth(1)}},             // Half of it.
      {first(1024), {false, O::kRcReadResponseMiddle, 2, 1024}},       // Without end.
      {first(512), {false, O::kRcReadResponseLast, 2, 512, aeth(1)}},  // Too early.
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const Retold retold = read_answered(wrong[i]);
    EXPECT_EQ(retold.noted("read_answer"), 1u) << i << ' ' << retold.counts();
    EXPECT_EQ(numbers_of(retold).unanswered, 1u) << i;
    EXPECT_EQ(numbers_of(retold).acked_bytes, 0u) << i;
  }
}

/// FIRST and ONLY stand where a request began, and only there. What begins a capture may be the rest of a READ.
TEST(Script, AnAnswerBeginsWhereAReadBegins) {
  const Scripted middle{false, O::kRcReadResponseMiddle, 1, 1024},
      last{false, O::kRcReadResponseLast, 2, 1024, aeth(2)};
  const Scripted first{false, O::kRcReadResponseFirst, 1, 1024, aeth(2)},
      only{false, O::kRcReadResponseOnly, 2, 1024, aeth(2)};
  const Scripted write{true, O::kRcWriteOnly, 0, 0, reth(0)};
  const Scripted read{true, O::kRcReadRequest, 1, 0, reth(2048)}, rest{true, O::kRcReadRequest, 2, 0, reth(1024, 1024)};
  EXPECT_EQ(retell_bytes(scripted_pcap({write, read, middle, last})).noted("read_answer"), 1u);
  EXPECT_EQ(retell_bytes(scripted_pcap({read, middle, last})).counts(), "");
  EXPECT_EQ(retell_bytes(scripted_pcap({read, first, only})).noted("read_begins"), 1u);
  EXPECT_EQ(retell_bytes(scripted_pcap({read, first, rest, only})).noted("read_begins"), 0u);
}

/// Only differences count: a capture may begin anywhere. What was not captured may be any number of messages.
TEST(Script, MsnsCountMessages) {
  constexpr std::uint32_t kBefore = 0xFFFFFE;
  const Scripted send{true, O::kRcSendOnly, 1, 4}, read{true, O::kRcReadRequest, 2, 0, reth(8)};
  const Scripted answer{false, O::kRcReadResponseOnly, 2, 8, aeth(0)};
  const Scripted first{true, O::kRcSendFirst, 3, 1024}, last{true, O::kRcSendLast, 4, 4};
  const auto ack = [](std::uint32_t psn, std::uint32_t msn) {
    return Scripted{false, O::kRcAcknowledge, psn, 0, aeth(msn & 0xFFFFFF)};
  };
  const auto refused = [](std::uint32_t psn, std::uint32_t msn) {
    return Scripted{false, O::kRcAcknowledge, psn, 0, rnr_nak(msn & 0xFFFFFF)};
  };
  const auto wrong = [](const std::vector<Scripted>& packets) {
    return retell_bytes(scripted_pcap(packets)).noted("msn");
  };
  const Scripted begun = ack(1, kBefore + 1);
  EXPECT_EQ(wrong({send, begun, read, answer, first, last, ack(3, kBefore + 2), ack(4, kBefore + 3)}), 0u);
  EXPECT_EQ(wrong({send, begun, read, answer, first, last, ack(3, kBefore + 3)}), 1u);
  EXPECT_EQ(wrong({send, begun, read, answer, first, last, ack(4, kBefore + 2)}), 1u);
  EXPECT_EQ(wrong({send, begun, read, answer, first, last, ack(4, kBefore + 4)}), 1u);
  EXPECT_EQ(wrong({send, begun, read, answer, first, refused(3, kBefore + 2)}), 0u);
  EXPECT_EQ(wrong({send, begun, read, answer, first, refused(3, kBefore + 3)}), 1u);

  const Scripted behind{true, O::kRcSendOnly, 5, 4}, next{true, O::kRcSendOnly, 6, 4};
  EXPECT_EQ(wrong({send, begun, behind, ack(5, kBefore + 9)}), 0u);
  EXPECT_EQ(wrong({send, begun, behind, ack(5, kBefore + 9), next, ack(6, kBefore + 11)}), 1u);
  // What comes late has a number behind the one that it stands before.
  EXPECT_EQ(
      wrong({send, begun, behind, read, answer, first, last, behind, ack(5, kBefore + 4), next, ack(6, kBefore + 5)}),
      0u);
}

/// Data with a NAK in its AETH completes nothing: no responder may send it, and the NIC takes it for a bad response.
TEST(Script, AnAnswerWithANakInItsAethEndsTheConnection) {
  constexpr std::uint32_t kRemoteAccessError = 2;
  const Octets refusal = nak(1, kRemoteAccessError);
  const Octets eight(8);
  Octets atomic_answer = refusal;
  atomic_answer.insert(atomic_answer.end(), eight.begin(), eight.end());
  const Scripted read{true, O::kRcReadRequest, 1, 0, reth(2048)};
  const Scripted first{false, O::kRcReadResponseFirst, 1, 1024, aeth(1)};
  struct Bad {
    std::vector<Scripted> before;
    Scripted answer;
    std::string said, fails;
  };
  const std::vector<Bad> bads{
      {{read, first},
       {false, O::kRcReadResponseLast, 2, 1024, refusal},
       "RC READ RESPONSE LAST for PSN 0x2",
       "RDMA READ"},
      {{{true, O::kRcReadRequest, 1, 0, reth(100)}},
       {false, O::kRcReadResponseOnly, 1, 100, refusal},
       "RC READ RESPONSE ONLY for PSN 0x1",
       "RDMA READ"},
      {{{true, O::kRcFetchAdd, 1, 0, Octets(28)}},
       {false, O::kRcAtomicAcknowledge, 1, 0, atomic_answer},
       "RC ATOMIC ACK for PSN 0x1",
       "FETCH ADD"},
      {{{true, O::kRcAtomicWrite, 1, 8, reth(8)}},
       {false, O::kRcReadResponseOnly, 1, 0, refusal},
       "RC READ RESPONSE ONLY for PSN 0x1",
       "ATOMIC WRITE"},
  };
  for (const Bad& bad : bads) {
    std::vector<Scripted> packets = bad.before;
    packets.push_back(bad.answer);
    const Retold retold = retell_bytes(scripted_pcap(packets));
    EXPECT_EQ(retold.noted("data_with_nak"), 1u) << bad.said << ' ' << retold.counts();
    EXPECT_EQ(numbers_of(retold).unanswered, 1u) << bad.said;
    EXPECT_EQ(numbers_of(retold).acked_bytes, 0u) << bad.said;
    EXPECT_EQ(retold.story->connections().at(0)->to_right.failure(),
              bad.said + " has NAK remote access error in its AETH: " + bad.fails +
                  " (message 1) has probably failed (BAD_RESP_ERR) (#" + std::to_string(packets.size()) + ")");
  }
}

/// The path MTU is not known yet, and this can't be it.
TEST(Script, APacketThatGoesOnIsAsLongAsSomePathMtu) {
  const auto told = [](std::size_t bytes) {
    return retell_bytes(scripted_pcap(
        {{true, O::kRcSendFirst, 1, bytes}, {true, O::kRcSendLast, 2, 4}, {false, O::kRcAcknowledge, 2, 0, aeth(1)}}));
  };
  EXPECT_EQ(told(1024).counts(), "");
  const Retold odd = told(1000);
  EXPECT_EQ(odd.counts(), "rule:1");
  EXPECT_THAT(odd.lines.at(0).told.notes.at(0).text,
              testing::EndsWith("RC SEND FIRST with 1000 bytes, which is no path MTU"));
}

/// Whatever the path MTU is.
TEST(Script, NoPacketIsLongerThanTheLargestPathMtu) {
  const auto told = [](O op, std::size_t bytes, const Octets& headers = {}) {
    return retell_bytes(scripted_pcap({{true, op, 1, bytes, headers}, {true, op, 2, bytes, headers}}));
  };
  EXPECT_EQ(told(O::kRcSendOnly, 4096).counts(), "");
  for (const auto& [op, headers] : std::vector<std::pair<O, Octets>>{{O::kRcSendOnly, {}},
                                                                     {O::kUcSendOnly, {}},
                                                                     {O::kUdSendOnly, Octets(8)},
                                                                     {O::kRcReadResponseOnly, aeth(1)}}) {
    const Retold retold = told(op, 60000, headers);
    EXPECT_EQ(retold.noted("header"), 2u) << retold.counts();
    const auto& habits = retold.story->connections().at(0)->left_habits.all();
    ASSERT_EQ(habits.size(), 1u);
    EXPECT_EQ(habits[0].note.text, "more payload than any path MTU: 4096 bytes at most");
    EXPECT_EQ(habits[0].note.severity, Severity::kBreach);
    EXPECT_EQ(habits[0].packets, 2u);
  }
}

/// A message of the connection manager, sent so long after the one before.
struct Managed {
  std::uint32_t qkey = proto::cm::kManagementQkey;
  std::uint64_t service_id = 0x1061234;
  std::uint32_t psn = 7;
  std::int64_t wait_us = 10;
  std::uint16_t ip_id = 0;
};

Octets managed_pcap(const std::vector<Managed>& requests) {
  std::vector<std::pair<std::int64_t, Octets>> frames;
  const Ends ends;
  const proto::Path path{.source = ends.a, .destination = ends.b};
  std::int64_t time_ns = 1'000'000'000;
  for (const Managed& request : requests) {
    Octets mad(proto::cm::kMadSize), bytes(proto::kMaxPacketSize);
    proto::cm::MessageBuilder message(mad, proto::cm::Attribute::kReq, 1);
    message.as<proto::cm::Req>().set<proto::cm::Req::LocalId>(5).set<proto::cm::Req::ServiceId>(request.service_id);
    bytes.resize(proto::cm::build_packet(mad, proto::Psn{request.psn}, path, bytes));
    proto::MutView<proto::Deth>{bytes.data() + proto::Bth::kSize}.set<proto::Deth::QKey>(request.qkey);
    const MutBytes all(bytes);
    const Bytes covered = all.first(all.size() - proto::kIcrcSize);
    proto::store_icrc(all.last(proto::kIcrcSize), proto::icrc(path, covered, request.ip_id));
    const proto::FrameFields fields = proto::frame_fields_for(path, request.ip_id);
    Octets frame(proto::frame_size(fields, bytes.size()));
    proto::build_frame(fields, bytes, frame);
    frames.emplace_back(time_ns += request.wait_us * 1'000, std::move(frame));
  }
  return pcap_of(std::move(frames));
}

TEST(Script, AMessageOfTheManagerHasItsQkey) {
  const Retold retold = retell_bytes(managed_pcap({{}, {.qkey = 5}, {}}));
  EXPECT_EQ(retold.lines.at(0).told.reason, Reason::kManagement);
  EXPECT_EQ(retold.lines.at(1).told.reason, Reason::kManagement);
  EXPECT_EQ(retold.lines.at(1).told.notes.back().severity, Severity::kBreach);
  EXPECT_EQ(retold.lines.at(1).told.notes.back().text,
            "Q_Key 0x5: every receiver drops it; the connection manager's is 0x80010000");
  EXPECT_EQ(retold.lines.at(2).told.reason, Reason::kNetworkCopy);
  EXPECT_EQ(retold.story->manager().counts().requests, 1u);
  // One that is sent first is not what the others are copies of.
  const Retold before = retell_bytes(managed_pcap({{.qkey = 5}, {}}));
  EXPECT_EQ(before.lines.at(1).told.reason, Reason::kManagement);
  EXPECT_EQ(before.story->manager().counts().requests, 1u);
}

TEST(Script, ACopyOfAMessageOfTheManagerSaysTheSame) {
  const auto second = [](const Managed& message) {
    return retell_bytes(managed_pcap({{}, message})).lines.at(1).told.reason;
  };
  EXPECT_EQ(second({}), Reason::kNetworkCopy);
  EXPECT_EQ(second({.service_id = 0x1065678}), Reason::kManagementAgain);
  EXPECT_EQ(second({.psn = 8}), Reason::kManagementAgain);
}

/// A sender may have one PSN and no Identification for all messages, and no network keeps a copy for seconds.
TEST(Script, AMessageOfTheManagerThatComesLateIsNoCopy) {
  const auto second = [](std::int64_t wait_us, std::uint16_t ip_id) {
    const Managed first{.ip_id = ip_id}, again{.wait_us = wait_us, .ip_id = ip_id};
    const Told told = retell_bytes(managed_pcap({first, again})).lines.at(1).told;
    return std::pair(told.reason, told.sure);
  };
  EXPECT_EQ(second(10, 0), std::pair(Reason::kNetworkCopy, false));
  EXPECT_EQ(second(10, 77), std::pair(Reason::kNetworkCopy, true));
  EXPECT_EQ(second(4'000'000, 0), std::pair(Reason::kManagementAgain, true));
}

/// WRITEs without IPv4 Identifications, each twice, and their ACKs twice: `again_us` behind the first ACK, or at once.
std::size_t told_of_twelve(bool answered_between, int again_us) {
  std::vector<Scripted> packets;
  for (std::uint32_t i = 0; i < 12; ++i) {
    const Scripted write{.op = O::kRcWriteOnly, .psn = i, .payload = 4, .headers = reth(4), .wait_us = 2'000};
    Scripted again = write;
    again.wait_us = again_us;
    const Scripted answer{false, O::kRcAcknowledge, i, 0, aeth(i + 1)};
    if (answered_between) {
      packets.insert(packets.end(), {write, answer, again, answer});
    } else {
      packets.insert(packets.end(), {write, again, answer, answer});
    }
  }
  return retell_bytes(scripted_pcap(packets)).lines.size();
}

/// What its receiver has answered has arrived: when it comes after that, it was sent again, and is not the other end's
/// sighting.
TEST(Script, RequestsThatAreSentAgainAreNotBothEnds) {
  EXPECT_EQ(told_of_twelve(true, 5'000), 48u);
  EXPECT_EQ(told_of_twelve(false, 15), 24u);
  // The clocks of two ends differ a little.
  EXPECT_EQ(told_of_twelve(true, 50), 24u);
}

/// Damage would not meet all that a host sends: it computes another ICRC.
TEST(Script, AnIcrcThatIsNeverRightIsNoDamage) {
  const auto told = [](const std::vector<bool>& damaged) {
    std::vector<Scripted> packets;
    for (const bool each : damaged) {
      packets.push_back({.op = O::kRcWriteOnly, .psn = 1, .payload = 4, .headers = reth(4), .wait_us = 100'000});
      packets.push_back({false, O::kRcAcknowledge, 1, 0, aeth(1), each});
    }
    return retell_bytes(scripted_pcap(packets));
  };
  const Retold never = told({true, true, true, true});
  const auto senders = never.story->icrcs().never_right();
  ASSERT_EQ(senders.size(), 1u);
  EXPECT_THAT(
      never_right_text(senders[0]),
      testing::StartsWith("10.0.0.2: the ICRC of all its 4 packets is wrong, so that 4 belong to no connection. "));
  EXPECT_EQ(never.lines.at(1).told.notes.at(0).text, "ICRC wrong: damaged on the way, its receiver drops it");
  EXPECT_EQ(never.lines.at(7).told.notes.at(0).text,
            "ICRC wrong: as in all packets of its sender so far, its receiver drops it");
  EXPECT_TRUE(told({true, true}).story->icrcs().never_right().empty());
  EXPECT_TRUE(told({true, true, true, false}).story->icrcs().never_right().empty());
}

/// Two packets behind the READ are missing, so that it seems to take four PSNs, of 512 bytes.
TEST(Script, APathMtuThatWasGuessedIsCorrected) {
  const Retold retold = retell_bytes(scripted_pcap({{true, O::kRcReadRequest, 1, 0, reth(2048)},
                                                    {true, O::kRcSendOnly, 5, 4},
                                                    {false, O::kRcReadResponseFirst, 1, 1024, aeth(1)},
                                                    {false, O::kRcReadResponseLast, 2, 1024, aeth(1)},
                                                    {false, O::kRcAcknowledge, 5, 0, aeth(4)}}));
  EXPECT_EQ(retold.noted("read_answer"), 0u) << retold.counts();
  EXPECT_EQ(retold.story->connections().at(0)->to_right.mtu(), 1024u);
  EXPECT_EQ(numbers_of(retold).acked_bytes, 2048u + 4);
}

/// What is missing when the responder asks for it may come yet: it is not told that it was lost.
TEST(Script, WhatIsMissingMayBeHeldBack) {
  const Retold retold = retell_bytes(scripted_pcap({{true, O::kRcSendOnly, 1, 4},
                                                    {true, O::kRcSendOnly, 3, 4},
                                                    {false, O::kRcAcknowledge, 2, 0, nak(1)},
                                                    {true, O::kRcSendOnly, 2, 4}}));
  const auto& notes = retold.lines.at(1).told.notes;
  EXPECT_EQ(notes.at(0).text,
            "PSN 0x2 is missing in front of this packet: lost or held back before this capture, or not captured");
  EXPECT_EQ(retold.lines.at(2).told.notes.at(0).text,
            "the responder waits for PSN 0x2: lost or held back before this capture");
}

/// So soon, the second one may be the first, held back by the network.
TEST(Script, WhatMayNotHaveBeenSentAgainMayNotHaveBeenLost) {
  const Retold retold = retell_bytes(scripted_pcap({{true, O::kRcSendOnly, 1, 4},
                                                    {true, O::kRcSendOnly, 2, 4},
                                                    {true, O::kRcSendOnly, 2, 4, {}, false, 5'000},
                                                    {false, O::kRcAcknowledge, 1, 0, aeth(1)}}));
  const Round& round = numbers_of(retold).rounds.at(0);
  EXPECT_EQ(round.reason, Reason::kTimeout);
  EXPECT_FALSE(round.sure);
  EXPECT_EQ(round.finding, "probably PSN 0x2 was lost, or a NAK for it");
}

/// A READ whose length fits several path MTUs says nothing about the path MTU.
TEST(Script, AShortReadDoesNotTellThePathMtu) {
  const Retold retold = retell_bytes(scripted_pcap({{true, O::kRcReadRequest, 1, 0, reth(100)},
                                                    {true, O::kRcReadRequest, 2, 0, reth(2048)},
                                                    {false, O::kRcReadResponseOnly, 1, 100, aeth(1)},
                                                    {false, O::kRcReadResponseFirst, 2, 1024, aeth(2)},
                                                    {false, O::kRcReadResponseLast, 3, 1024, aeth(2)}}));
  EXPECT_EQ(retold.counts(), "");
  EXPECT_EQ(numbers_of(retold).unanswered, 0u);
}

/// Some packets of UC messages of 4096 bytes each, from PSN 0 on, in this order: how many messages there are, and what
/// is told of those that are whole: "3: 3 of 4096..4096 bytes, 12288 in all".
std::string uc_messages(Operation operation, const std::vector<std::uint32_t>& psns) {
  constexpr std::array kSend{O::kUcSendFirst, O::kUcSendMiddle, O::kUcSendMiddle, O::kUcSendLast};
  constexpr std::array kWrite{O::kUcWriteFirst, O::kUcWriteMiddle, O::kUcWriteMiddle, O::kUcWriteLast};
  const bool is_write = operation == Operation::kWrite;
  std::vector<Scripted> packets;
  for (const std::uint32_t psn : psns) {
    const bool has_length = is_write && psn % 4 == 0;
    packets.push_back({true, (is_write ? kWrite : kSend)[psn % 4], psn, 1024, has_length ? reth(4096) : Octets{}});
  }
  const Retold retold = retell_bytes(scripted_pcap(packets));
  const auto& row = numbers_of(retold).operations[static_cast<std::size_t>(operation)];
  return std::to_string(row.count) + ": " + std::to_string(row.whole) + " of " + std::to_string(row.least) + ".." +
         std::to_string(row.most) + " bytes, " + std::to_string(row.bytes) + " in all";
}

/// The end of one message is missing, and the beginning of the next one: they are two. Nothing but the header of a
/// WRITE tells the length of a message that is not whole.
TEST(Script, OfUcAMessageWithoutEndAndOneWithoutBeginningAreTwo) {
  const auto uc_sends = [](const std::vector<std::uint32_t>& psns) { return uc_messages(Operation::kSend, psns); };
  EXPECT_EQ(uc_sends({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), "3: 3 of 4096..4096 bytes, 12288 in all");
  EXPECT_EQ(uc_sends({0, 1, 2, 3, 4, 5, 6, 9, 10, 11}), "3: 1 of 4096..4096 bytes, 10240 in all");
  EXPECT_EQ(uc_sends({0, 1, 2, 3, 4, 11}), "3: 1 of 4096..4096 bytes, 6144 in all");
  EXPECT_EQ(uc_sends({0, 2, 3, 4, 5, 6, 7}), "2: 2 of 4096..4096 bytes, 8192 in all") << "one packet is none's end";
  EXPECT_EQ(uc_sends({0, 3, 2, 4, 5, 6, 7}), "2: 2 of 4096..4096 bytes, 8192 in all") << "also when one comes late";
  EXPECT_EQ(uc_sends({0, 3, 1, 4, 5, 6, 7}), "2: 2 of 4096..4096 bytes, 8192 in all");
}

/// The same when what is missing comes late.
TEST(Script, OfUcLatePacketsGoWhereTheyBelong) {
  const std::vector<std::vector<std::uint32_t>> orders{
      {0, 1, 2, 3, 4, 5, 6, 9, 7, 8, 10, 11}, {0, 1, 2, 3, 4, 5, 6, 9, 8, 7, 10, 11},
      {0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 7, 8}, {0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 8, 7},
      {0, 3, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11}, {0, 3, 2, 1, 4, 5, 6, 7, 8, 9, 10, 11},
      {0, 1, 2, 4, 3, 5, 6, 7, 8, 9, 10, 11}, {0, 1, 2, 3, 5, 4, 6, 7, 8, 9, 10, 11},
      {0, 1, 2, 3, 4, 8, 5, 6, 7, 9, 10, 11}, {0, 1, 2, 3, 4, 8, 7, 6, 5, 9, 10, 11},
  };
  for (const auto& order : orders) {
    for (const Operation operation : {Operation::kSend, Operation::kWrite}) {
      EXPECT_EQ(uc_messages(operation, order), "3: 3 of 4096..4096 bytes, 12288 in all")
          << to_string(operation) << ' ' << testing::PrintToString(order);
    }
  }
}

/// Where more than one packet is missing, the length of the messages before tells.
TEST(Script, OfUcAMessageIsTakenToBeAsLongAsThoseBefore) {
  const auto uc_sends = [](const std::vector<std::uint32_t>& psns) { return uc_messages(Operation::kSend, psns); };
  EXPECT_EQ(uc_sends({0, 1, 2, 3, 4, 7, 8, 9, 10, 11}), "3: 3 of 4096..4096 bytes, 12288 in all");
  EXPECT_EQ(uc_sends({0, 1, 2, 3, 4, 11}), "3: 1 of 4096..4096 bytes, 6144 in all");
  EXPECT_EQ(uc_sends({0, 3, 4, 5, 6, 7}), "3: 1 of 4096..4096 bytes, 6144 in all") << "none is before";
}

/// Three RC messages of 4096 bytes each, from PSN 0 on. The packets of `lost`, a bit for each, are not in the capture
/// when they are sent first; then a NAK makes the requester go back, if `is_resent`.
std::string rc_messages(Operation operation, unsigned lost, bool is_resent) {
  constexpr std::array kSend{O::kRcSendFirst, O::kRcSendMiddle, O::kRcSendMiddle, O::kRcSendLast};
  constexpr std::array kWrite{O::kRcWriteFirst, O::kRcWriteMiddle, O::kRcWriteMiddle, O::kRcWriteLast};
  constexpr std::uint32_t kPackets = 12;
  const bool is_write = operation == Operation::kWrite;
  std::vector<Scripted> packets;
  const auto send = [&](std::uint32_t psn) {
    const bool has_length = is_write && psn % 4 == 0;
    packets.push_back({true, (is_write ? kWrite : kSend)[psn % 4], psn, 1024, has_length ? reth(4096) : Octets{}});
  };
  for (std::uint32_t psn = 0; psn < kPackets; ++psn) {
    if ((lost >> psn & 1) == 0) send(psn);
  }
  if (lost != 0 && is_resent) {
    const auto first = static_cast<std::uint32_t>(std::countr_zero(lost));
    if (packets.back().psn > first) packets.push_back({false, O::kRcAcknowledge, first, 0, nak(first / 4)});
    for (std::uint32_t psn = first; psn < kPackets; ++psn) send(psn);
  }
  packets.push_back({false, O::kRcAcknowledge, kPackets - 1, 0, aeth(3)});
  const Retold retold = retell_bytes(scripted_pcap(packets));
  const Numbers& numbers = numbers_of(retold);
  const auto& row = numbers.operations[static_cast<std::size_t>(operation)];
  return std::to_string(row.count) + ": " + std::to_string(row.whole) + " of " + std::to_string(row.least) + ".." +
         std::to_string(row.most) + " bytes, " + std::to_string(row.bytes) + " in all, " +
         std::to_string(row.completed) + " with " + std::to_string(numbers.acked_bytes) + " completed";
}

/// Whatever is lost is sent again, and belongs to its own message, whatever has come before it.
TEST(Script, OfRcLatePacketsGoWhereTheyBelong) {
  for (const Operation operation : {Operation::kSend, Operation::kWrite}) {
    for (unsigned lost = 0; lost < 1 << 12; lost += 2) {
      EXPECT_EQ(rc_messages(operation, lost, true), "3: 3 of 4096..4096 bytes, 12288 in all, 3 with 12288 completed")
          << to_string(operation) << ", lost: " << std::hex << lost;
    }
  }
}

/// What was acknowledged is not sent again.
TEST(Script, OfRcWhatIsNotCapturedIsPartOfItsMessage) {
  const auto told = [](unsigned lost) { return rc_messages(Operation::kSend, lost, false); };
  EXPECT_EQ(told(0b0000'0110'0000), "3: 3 of 4096..4096 bytes, 12288 in all, 3 with 12288 completed");
  EXPECT_EQ(told(0b0000'1000'0000), "3: 2 of 4096..4096 bytes, 11264 in all, 3 with 11264 completed");
  EXPECT_EQ(told(0b0000'1100'0000), "3: 2 of 4096..4096 bytes, 10240 in all, 3 with 10240 completed");
}

/// An empty capture is of the other end, where nobody answers, or of somebody else.
TEST(Script, WhereSomebodyAnswersNothingIsLost) {
  const Scripted request{true, O::kRcSendOnly, 1, 4};
  const Scripted answer{false, O::kRcAcknowledge, 1, 0, aeth(1)};
  EXPECT_EQ(retell_files({scripted_pcap({request, answer}), scripted_pcap({})}).counts(), "");
  EXPECT_EQ(retell_files({scripted_pcap({}), scripted_pcap({request, answer})}).counts(), "");
  EXPECT_EQ(retell_files({scripted_pcap({request}), scripted_pcap({})}).noted("lost"), 1u);
}

/// An answer is damaged on the way: where it arrived, its ICRC is wrong.
TEST(Script, ADamagedAnswerIsNamedWhereItArrives) {
  const Scripted request{true, O::kRcSendOnly, 1, 4};
  const Scripted answer{false, O::kRcAcknowledge, 1, 0, aeth(1)};
  Scripted damaged = answer;
  damaged.damaged = true;
  const Retold retold = retell_files({scripted_pcap({request, answer}), scripted_pcap({request, damaged})});
  EXPECT_EQ(retold.counts(), "damaged:1");
  EXPECT_EQ(retold.lines.at(1).told.notes.at(0).text, "ACK, PSN 0x1, was damaged on the way: its ICRC is wrong in b#2");
}

/// Request for bytes of a READ from PSN `psn` on, up to PSN 7, of 1024 bytes each.
Scripted read_rest(std::uint32_t psn) { return {true, O::kRcReadRequest, psn, 0, reth((8 - psn) * 1024, psn * 1024)}; }

/// A READ whose first request is not in the capture is asked for the rest twice.
TEST(Script, TheRestOfAReadThatBeganUnseenIsOneRead) {
  const auto answer = [](O op, std::uint32_t psn) {
    return Scripted{false, op, psn, 1024, op == O::kRcReadResponseMiddle ? Octets{} : aeth(2)};
  };
  const Retold retold = retell_bytes(scripted_pcap({{true, O::kRcSendOnly, 0xFFFFFF, 4},
                                                    {false, O::kRcAcknowledge, 0xFFFFFF, 0, aeth(1)},
                                                    {true, O::kRcSendOnly, 8, 4},
                                                    read_rest(2),
                                                    {true, O::kRcSendOnly, 8, 4},
                                                    answer(O::kRcReadResponseFirst, 2),
                                                    answer(O::kRcReadResponseMiddle, 3),
                                                    answer(O::kRcReadResponseMiddle, 5),
                                                    read_rest(4),
                                                    {true, O::kRcSendOnly, 8, 4},
                                                    answer(O::kRcReadResponseFirst, 4),
                                                    answer(O::kRcReadResponseMiddle, 5),
                                                    answer(O::kRcReadResponseMiddle, 6),
                                                    answer(O::kRcReadResponseLast, 7),
                                                    {false, O::kRcAcknowledge, 8, 0, aeth(3)}}));
  const Numbers& numbers = numbers_of(retold);
  EXPECT_EQ(numbers.operations[static_cast<std::size_t>(Operation::kRead)].count, 1u) << retold.counts();
  EXPECT_EQ(numbers.unanswered, 0u);
  EXPECT_EQ(numbers.missing, 2u);
  EXPECT_EQ(numbers.acked_bytes, 6 * 1024 + 4 + 4u);
}

/// What is in the capture, damaged, is not missing; what is missing beside it is.
TEST(Script, ADamagedPacketIsNotMissing) {
  const auto only = [](std::uint32_t psn, bool damaged = false) {
    return Scripted{true, O::kRcSendOnly, psn, 4, {}, damaged};
  };
  const Scripted refused{false, O::kRcAcknowledge, 1, 0, nak(1)};
  const Retold retold = retell_bytes(scripted_pcap({only(0), only(1, true), only(2), refused, only(1), only(2)}));
  EXPECT_EQ(retold.counts(), "icrc_wrong:1 nak:2 nak_sequence:1");
  EXPECT_EQ(retold.lines.at(3).told.notes.at(0).text, "the responder waits for PSN 0x1: #2 was damaged");
  EXPECT_TRUE(retold.lines.at(4).told.notes.empty());
  const Retold two = retell_bytes(scripted_pcap({only(0), only(2, true), only(4)}));
  EXPECT_EQ(two.counts(), "gap:2 icrc_wrong:1");
  EXPECT_EQ(numbers_of(two).missing, 2u);
  const Retold read = retell_bytes(scripted_pcap({{true, O::kRcSendFirst, 0, 1024},
                                                  {true, O::kRcSendLast, 1, 4},
                                                  {true, O::kRcReadRequest, 2, 0, reth(4096), true},
                                                  only(6)}));
  EXPECT_EQ(read.counts(), "icrc_wrong:1");
  EXPECT_EQ(numbers_of(read).missing, 0u);
}

}  // namespace
}  // namespace uroce::explain::test
