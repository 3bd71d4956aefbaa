// SPDX-License-Identifier: Apache-2.0
// Faults that a NIC of ours has injected: what the comments of a capture say, and what the story makes of it.
#include "tools/explain/packets/injected.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/scripted.h"

namespace uroce::explain::test {
namespace {

using O = proto::Opcode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;

TEST(Injected, TheFaultIsInTheComment) {
  EXPECT_EQ(injected("uroce: dropped by rx.drop=op:ack", "dropped"), "dropped by rx.drop=op:ack");
  EXPECT_EQ(injected("uroce: corrupted by corrupt=1%, delayed by delay=2ms, 2003 us late; NIC: dropped", "delayed"),
            "delayed by delay=2ms");
  EXPECT_EQ(injected("uroce: dropped because too many packets are held back; NIC: 1", "dropped"),
            "dropped because too many packets are held back");
  EXPECT_EQ(injected("uroce: corrupted by corrupt=1%; NIC: dropped by nobody", "dropped"), "");
  EXPECT_EQ(injected("somebody: dropped by drop=1%", "dropped"), "");
  EXPECT_EQ(holding_fault("uroce: held back by reorder=1%:5, 113 us late"), "held back by reorder=1%:5");
  EXPECT_EQ(late_ns("uroce: held back by reorder=1%:5, 113 us late"), 113'000);
  EXPECT_EQ(late_ns("uroce: held back by reorder=1%:5"), 0);
  EXPECT_TRUE(is_of_receiver("uroce: dropped by rx.drop=op:ack"));
  EXPECT_FALSE(is_of_receiver("uroce: dropped by blackout=0ms..30ms; NIC: by rx."));
}

TEST(Injected, HowLongAReceiverHoldsAPacketBack) {
  const auto times = [](std::string_view comment) {
    const Holding time = holding(comment);
    return std::pair(time.least_ns, time.most_ns);
  };
  EXPECT_EQ(times("uroce: delayed by rx.delay=2s@op:ack"), std::pair(2'000 * kMs, 2'000 * kMs));
  EXPECT_EQ(times("uroce: delayed by rx.delay=1ms..3ms#1"), std::pair(kMs, 3 * kMs));
  EXPECT_EQ(times("uroce: held back by rx.reorder=op:ack:2"), std::pair(std::int64_t{0}, 20 * kMs));
  EXPECT_EQ(times("uroce: delayed by rx.delay=soon").first, 0);
  EXPECT_EQ(times("uroce: dropped by rx.drop=op:ack"), std::pair(std::int64_t{0}, std::int64_t{0}));
}

constexpr const char* kAgain = "NIC: sent again because of ack_timeout qpn=0x11";

/// The texts of what happened in the only connection, in which A asks.
std::vector<std::string> happened(const Retold& retold) {
  std::vector<std::string> texts;
  const Numbers& numbers = retold.story->connections().at(0)->to_right.numbers();
  for (const Incident& incident : numbers.incidents) texts.push_back(incident.note.text);
  for (const Round& round : numbers.rounds) texts.push_back("again: " + round.finding);
  return texts;
}

const Stream& only_stream(const Retold& retold) { return retold.story->connections().at(0)->to_right; }

/// A asks three times, and its NIC does this to each answer.
Retold asked_in_vain(const Scripted& request, const Scripted& answer, const std::string& comment) {
  std::vector<Sighting> seen;
  for (int i = 0; i < 3; ++i) {
    seen.push_back({request, i == 0 ? "" : kAgain});
    seen.back().packet.wait_us = 8'000;
    seen.push_back({answer, comment});
  }
  return retell_bytes(scripted_pcapng(seen));
}

TEST(Injected, AnAnswerThatTheRequestersNicLosesCompletesNothing) {
  const std::pair<Scripted, Scripted> kinds[] = {
      {{true, O::kRcWriteOnly, 5, 100, reth(100)}, {false, O::kRcAcknowledge, 5, 0, aeth(1)}},
      {{true, O::kRcSendOnly, 5, 100}, {false, O::kRcAcknowledge, 5, 0, aeth(1)}},
      {{true, O::kRcReadRequest, 5, 0, reth(100)}, {false, O::kRcReadResponseOnly, 5, 100, aeth(1)}}};
  for (const auto& [request, answer] : kinds) {
    for (const std::string fault : {"dropped by rx.drop=op:ack", "corrupted by rx.corrupt=op:ack",
                                    "dropped by blackout=0ms..30ms", "delayed by rx.delay=2s@op:ack"}) {
      const Retold retold = asked_in_vain(request, answer, "uroce: " + fault);
      const Numbers& numbers = only_stream(retold).numbers();
      EXPECT_EQ(numbers.unanswered, 1u) << fault;
      EXPECT_EQ(numbers.acked_bytes, 0u) << fault;
      EXPECT_EQ(numbers.latency.count(), 0u) << fault;
      EXPECT_EQ(numbers.lost, fault.starts_with("delayed") ? 0u : 3u) << fault;
      EXPECT_EQ(numbers.lost_to_faults, numbers.lost);
      EXPECT_EQ(retold.noted("already_acknowledged"), 0u) << fault;
      EXPECT_EQ(only_stream(retold).failure(),
                "3 transmissions of PSN 0x5, no answer that the requester got (#6 was " + fault +
                    "): the requester has probably given up (RETRY_EXC_ERR); the capture ends 10.0 us later");
      EXPECT_THAT(happened(retold), Contains("again: #2 was " + fault));
    }
  }
}

TEST(Injected, AnAnswerThatTheRespondersNicDropsCompletesNothing) {
  const Retold retold = retell_bytes(
      scripted_pcapng({{{true, O::kRcSendOnly, 5, 4}, "", false},
                       {{false, O::kRcAcknowledge, 5, 0, aeth(1)}, "uroce: dropped by drop=op:ack#1", false}}));
  EXPECT_EQ(only_stream(retold).numbers().unanswered, 1u);
  EXPECT_THAT(happened(retold), ElementsAre("ACK, PSN 0x5, was dropped by drop=op:ack#1, injected by its NIC"));
}

/// The requester goes on behind it: it has got it.
TEST(Injected, AnAnswerThatIsHeldBackOnReceiptCountsFromThenOn) {
  const Scripted request{true, O::kRcSendOnly, 5, 4};
  const Sighting answer{{false, O::kRcAcknowledge, 5, 0, aeth(1)}, "uroce: delayed by rx.delay=30ms@op:ack#1"};
  Scripted next{true, O::kRcSendOnly, 6, 4};
  next.wait_us = 40'000;
  const Retold in_time = retell_bytes(scripted_pcapng({{request}, answer, {next}}));
  EXPECT_EQ(only_stream(in_time).numbers().unanswered, 1u);  // The second one.
  EXPECT_EQ(only_stream(in_time).numbers().latency.max(), 30 * kMs + 10'000);
  EXPECT_EQ(in_time.noted("taken_late"), 1u);
  // Nothing tells that the requester has not waited.
  EXPECT_EQ(only_stream(retell_bytes(scripted_pcapng({{request}, answer}))).numbers().unanswered, 0u);

  Scripted again = request;
  again.wait_us = 20'000;
  const Retold too_late =
      retell_bytes(scripted_pcapng({{request}, answer, {again, kAgain}, {{false, O::kRcAcknowledge, 5, 0, aeth(1)}}}));
  EXPECT_EQ(only_stream(too_late).numbers().latency.max(), 20 * kMs + 20'000);
  EXPECT_EQ(too_late.noted("already_acknowledged"), 0u);
  EXPECT_THAT(happened(too_late), ElementsAre("again: #2 was delayed by rx.delay=30ms@op:ack#1"));
}

/// Nobody knows when the NIC has let it go.
TEST(Injected, WhatMayBeHeldBackMakesNoRetransmissionUnusual) {
  const auto noted_after = [](int wait_us) {
    Scripted again{true, O::kRcSendOnly, 5, 4};
    again.wait_us = wait_us;
    return retell_bytes(
               scripted_pcapng({{{true, O::kRcSendOnly, 5, 4}},
                                {{false, O::kRcAcknowledge, 5, 0, aeth(1)}, "uroce: held back by rx.reorder=op:ack:2"},
                                {again, kAgain}}))
        .noted("already_acknowledged");
  };
  EXPECT_EQ(noted_after(8'000), 0u);
  EXPECT_EQ(noted_after(25'000), 1u);
}

/// Three packets of a WRITE of which B's host has all, and B's NIC, as one of both NICs says, not the second one.
Retold write_with_nak(const std::string& said_by_a, const std::string& said_by_b, bool arrives) {
  const Scripted first{true, O::kRcWriteFirst, 1, 1024, reth(3072)};
  const Scripted middle{true, O::kRcWriteMiddle, 2, 1024};
  const Scripted last{true, O::kRcWriteLast, 3, 1024};
  const Scripted refusal{false, O::kRcAcknowledge, 2, 0, nak(0)};
  std::vector<Sighting> seen{{first}, {first, "", false}, {middle, said_by_a}};
  if (arrives) seen.push_back({middle, said_by_b, false});
  for (const Sighting& more : {Sighting{last}, {last, "", false}, {refusal, "", false}, {refusal}})
    seen.push_back(more);
  return retell_bytes(scripted_pcapng(seen));
}

TEST(Injected, ANakNamesTheFaultThatLeftTheGap) {
  EXPECT_THAT(happened(write_with_nak("", "uroce: dropped by rx.drop=op:write_middle#1", true)),
              ElementsAre("RC WRITE MIDDLE, PSN 0x2, was dropped by rx.drop=op:write_middle#1, injected by its "
                          "receiver's NIC",
                          "the responder waits for PSN 0x2: #3 was dropped by rx.drop=op:write_middle#1"));
  EXPECT_THAT(happened(write_with_nak("", "uroce: held back by rx.reorder=op:write_middle:2", true)),
              ElementsAre("the responder waits for PSN 0x2: #3 was held back by rx.reorder=op:write_middle:2"));
  EXPECT_THAT(happened(write_with_nak("uroce: dropped by drop=op:write_middle#1", "", false)),
              ElementsAre("RC WRITE MIDDLE, PSN 0x2, was dropped by drop=op:write_middle#1, injected by its NIC",
                          "the responder waits for PSN 0x2: #3 was dropped by drop=op:write_middle#1"));
}

TEST(Injected, WhatBothNicsSayIsTold) {
  const Retold retold = write_with_nak("uroce: marked CE by ecn=#2", "uroce: dropped by rx.drop=#2", true);
  EXPECT_EQ(retold.noted("comment"), 2u);
  EXPECT_EQ(only_stream(retold).numbers().lost, 1u);
}

TEST(Injected, AGapIsWhatTheNicHeldBack) {
  const Retold retold = retell_bytes(
      scripted_pcapng({{{true, O::kRcWriteFirst, 1, 1024, reth(3072)}},
                       {{true, O::kRcWriteLast, 3, 1024}},
                       {{true, O::kRcWriteMiddle, 2, 1024}, "uroce: held back by reorder=op:write_middle:1, 5 us late"},
                       {{false, O::kRcAcknowledge, 3, 0, aeth(1)}}}));
  EXPECT_THAT(happened(retold),
              ElementsAre("PSN 0x2 is missing in front of this packet: #3 was held back by reorder=op:write_middle:1"));
}

/// It comes when it has been sent again already.
TEST(Injected, AGapIsWhatTheNicDelayed) {
  const Scripted middle{true, O::kRcWriteMiddle, 2, 1024};
  Scripted late = middle;
  late.wait_us = 3'000;
  const std::string again = "NIC: sent again because of sequence_nak_in qpn=0x11";
  const Retold retold = retell_bytes(scripted_pcapng({{{true, O::kRcWriteFirst, 1, 1024, reth(3072)}},
                                                      {{true, O::kRcWriteLast, 3, 1024}},
                                                      {{false, O::kRcAcknowledge, 2, 0, nak(0)}},
                                                      {middle, again},
                                                      {{true, O::kRcWriteLast, 3, 1024}, again},
                                                      {{false, O::kRcAcknowledge, 3, 0, aeth(1)}},
                                                      {late, "uroce: delayed by delay=3ms@#2, 3030 us late"}}));
  EXPECT_THAT(happened(retold),
              ElementsAre("PSN 0x2 is missing in front of this packet: #7 was delayed by delay=3ms@#2",
                          "the responder waits for PSN 0x2: #7 was delayed by delay=3ms@#2", "again: "));
}

/// B's NIC takes #2 behind #3, and then misses #3.
TEST(Injected, WhatCameBehindAPacketThatIsHeldBackIsOutOfOrder) {
  const Scripted middle{true, O::kRcWriteMiddle, 3, 1024};
  const Retold retold =
      retell_bytes(scripted_pcapng({{{true, O::kRcWriteFirst, 1, 1024, reth(4096)}, "", false},
                                    {{true, O::kRcWriteMiddle, 2, 1024}, "uroce: held back by rx.reorder=#2:2", false},
                                    {middle, "", false},
                                    {{true, O::kRcWriteLast, 4, 1024}, "", false},
                                    {{false, O::kRcAcknowledge, 3, 0, nak(0)}, "", false}}));
  EXPECT_THAT(happened(retold),
              ElementsAre("the responder waits for PSN 0x3: it has dropped #3, which came out of order"));
}

TEST(Injected, ATimeoutNamesTheFault) {
  const Scripted last{true, O::kRcSendOnly, 5, 4};
  Scripted again = last;
  again.wait_us = 8'000;
  const Scripted ack{false, O::kRcAcknowledge, 5, 0, aeth(1)};
  const auto told = [&](const std::string& of_request) {
    return happened(retell_bytes(scripted_pcapng({{last, of_request}, {again, kAgain}, {ack}})));
  };
  EXPECT_THAT(told("uroce: dropped by drop=op:send#1"),
              ElementsAre("RC SEND ONLY, PSN 0x5, was dropped by drop=op:send#1, injected by its NIC",
                          "again: #1 was dropped by drop=op:send#1"));
  EXPECT_THAT(told(""), ElementsAre("again: a request or its answer was lost"));
  Scripted damaged = last;
  damaged.damaged = true;
  EXPECT_THAT(happened(retell_bytes(scripted_pcapng(
                  {{{true, O::kRcSendOnly, 4, 4}}, {damaged, "uroce: corrupted by corrupt=#2"}, {again, kAgain}}))),
              Contains(HasSubstr("ICRC wrong: corrupted by corrupt=#2, injected by its NIC, its receiver drops it")));
}

/// B's NIC says that it has sent the answer late; by then A had asked again.
TEST(Injected, ATimeoutNamesAnAnswerThatCameLate) {
  Scripted again{true, O::kRcSendOnly, 5, 4};
  again.wait_us = 8'000;
  Scripted late{false, O::kRcAcknowledge, 5, 0, aeth(1)};
  late.wait_us = 22'000;
  const Retold retold =
      retell_bytes(scripted_pcapng({{{true, O::kRcSendOnly, 5, 4}, "", false},
                                    {again, "", false},
                                    {late, "uroce: delayed by delay=30ms@op:ack#1, 30000 us late", false}}));
  EXPECT_THAT(happened(retold), ElementsAre("again: #3 was delayed by delay=30ms@op:ack#1"));
}

/// Of UC, its receiver drops the whole message.
TEST(Injected, AMessageOfUcThatLostAPacketIsNotThere) {
  const Retold retold = retell_bytes(scripted_pcapng({{{true, O::kUcSendFirst, 1, 1024}},
                                                      {{true, O::kUcSendLast, 2, 4}, "uroce: dropped by drop=#2"},
                                                      {{true, O::kUcSendOnly, 3, 8}}}));
  EXPECT_EQ(only_stream(retold).numbers().acked_bytes, 8u);
}

}  // namespace
}  // namespace uroce::explain::test
