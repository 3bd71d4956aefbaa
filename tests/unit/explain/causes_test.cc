// SPDX-License-Identifier: Apache-2.0
// Why a packet was sent again: each kind of evidence alone, and against the others.
#include "tools/explain/story/causes.h"

#include <gtest/gtest.h>

#include <limits>

namespace uroce::explain {
namespace {

constexpr std::int64_t kMs = 1'000'000;

Repetition packet(PsnIndex index, std::int64_t time_ns) {
  Repetition again;
  again.index = index;
  again.time_ns = time_ns;
  again.seen = true;
  again.last_time_ns = 0;
  return again;
}
Hint hint(PsnIndex index, std::int64_t time_ns, std::uint64_t frame) { return {index, {0, frame}, time_ns, 0, false}; }

TEST(Causes, TheNakForThisVeryPacket) {
  Evidence evidence;
  evidence.add_nak(hint(5, kMs, 10));
  evidence.add_nak(hint(6, kMs, 11));
  const Cause cause = find_cause(packet(5, 2 * kMs), evidence);
  EXPECT_EQ(cause.reason, Reason::kNak);
  EXPECT_EQ(cause.place.frame, 10u);
  EXPECT_EQ(cause.wait_ns, kMs);
}

TEST(Causes, WhatTheNicSaysIsNoGuess) {
  EXPECT_EQ(stated_reason("NIC: sent again because of ack_timeout qpn=0x11 psn=0x5 retries_left=6"), Reason::kTimeout);
  EXPECT_EQ(stated_reason("uroce: 3 ms late; NIC: sent again because of rnr_nak_in qpn=0x11"), Reason::kRnr);
  EXPECT_EQ(stated_reason("NIC: sent again because of sequence_nak_in qpn=0x11 psn=0x5"), Reason::kNak);
  EXPECT_EQ(stated_reason("NIC: sent again because of implied_nak qpn=0x11 psn=0x5"), Reason::kImpliedNak);
  EXPECT_EQ(stated_reason("sent again because of ack_timeout "), std::nullopt);
  EXPECT_EQ(stated_reason("NIC: sent again"), std::nullopt);
  Evidence evidence;
  evidence.add_nak(hint(5, kMs, 10));
  EXPECT_EQ(stated_cause(Reason::kTimeout, packet(5, 2 * kMs), evidence).reason, Reason::kTimeout);
  EXPECT_EQ(stated_cause(Reason::kNak, packet(6, 90 * kMs), evidence).place.frame, 10u);
  EXPECT_TRUE(stated_cause(Reason::kTimeout, packet(6, kMs / 2), {}).sure);
}

TEST(Causes, WhatTheFaultsOfTheNicHaveDone) {
  const auto played = [](std::string_view comment) {
    const Played faults = played_faults(comment);
    return std::pair(faults.copied, faults.held_back);
  };
  EXPECT_EQ(played("uroce: duplicated by dup=3%; NIC: sent again because of ack_timeout"), std::pair(true, false));
  EXPECT_EQ(played("uroce: marked CE by ecn=1%, held back by reorder=1%:5, 113 us late"), std::pair(false, true));
  EXPECT_EQ(played("uroce: delayed by delay=1ms@1%"), std::pair(false, true));
  EXPECT_EQ(played("uroce: duplicated by dup=1%, delayed by delay=2ms@1%, 1900 us late"), std::pair(true, true));
  EXPECT_EQ(played("uroce: dropped by loss=1%"), std::pair(false, false));
  EXPECT_EQ(played("uroce: duplicated by rx.dup=1%"), std::pair(false, false));  // Behind the capture.
  EXPECT_EQ(played("somebody: duplicated by dup=3%"), std::pair(false, false));
}

/// A NAK in front of which an answer was missing, and then the answer, late: the requester has gone back already.
TEST(Causes, TheNakThatWasAnImpliedOneUntilTheAnswerCame) {
  Evidence evidence;
  evidence.add_nak(hint(9, kMs, 10));
  const Cause cause = stated_cause(Reason::kImpliedNak, packet(7, 2 * kMs), evidence);
  EXPECT_EQ(cause.reason, Reason::kImpliedNak);
  EXPECT_EQ(cause.place.frame, 10u);
  EXPECT_EQ(cause.wait_ns, kMs);
  EXPECT_EQ(stated_cause(Reason::kImpliedNak, packet(10, 2 * kMs), evidence).place.frame, 0u)
      << "it asks for none later";
}

/// The answer to an atomic is missing in front of a NAK: the requester goes back to the atomic.
TEST(Causes, TheImpliedNakForThisVeryPacketGoesBeforeANakForALaterOne) {
  Evidence evidence;
  evidence.implied = hint(5, kMs, 10);
  evidence.add_nak(hint(9, kMs, 10));
  EXPECT_EQ(find_cause(packet(5, 2 * kMs), evidence).reason, Reason::kImpliedNak);
  EXPECT_EQ(find_cause(packet(4, 2 * kMs), evidence).reason, Reason::kNak);
  EXPECT_FALSE(find_cause(packet(4, 2 * kMs), evidence).sure);
  EXPECT_EQ(find_cause(packet(9, 2 * kMs), evidence).reason, Reason::kNak);
  EXPECT_TRUE(evidence.asks_for(5, 0));
  EXPECT_TRUE(evidence.asks_for(9, 0));
  EXPECT_FALSE(evidence.asks_for(9, kMs));  // The round began later.
  EXPECT_FALSE(evidence.asks_for(7, 0));
  evidence.used(9);
  EXPECT_FALSE(evidence.asks_for(9, 0));
}

TEST(Causes, WhatNobodyAsksForAThirdTimeIsTheFirstOneLate) {
  Repetition again = packet(5, 100'000);
  again.resent = true;
  EXPECT_EQ(find_cause(again, {}).reason, Reason::kReordered);
  EXPECT_FALSE(find_cause(again, {}).sure);
  again.time_ns = 15 * kMs;
  EXPECT_EQ(find_cause(again, {}).reason, Reason::kTimeout);
  again.acked = true;
  EXPECT_EQ(find_cause(again, {}).reason, Reason::kReordered);
  again.time_ns = 150 * kMs;
  EXPECT_EQ(find_cause(again, {}).reason, Reason::kTimeout);
  again.time_ns = 15 * kMs;
  again.ip_id = 3;  // Numbered anew: sent anew.
  EXPECT_EQ(find_cause(again, {}).reason, Reason::kTimeout);
}

TEST(Causes, WhatWasMissingMayBeLateOrSentAgain) {
  Repetition missing;
  missing.index = 5;
  missing.time_ns = 4 * kMs;
  missing.hole_ns = 4 * kMs - 300'000;
  Evidence evidence;
  evidence.add_nak(hint(5, 4 * kMs - 20'000, 9));
  EXPECT_TRUE(find_cause(missing, evidence).sure);
  evidence.reordered = true;
  EXPECT_EQ(find_cause(missing, evidence).reason, Reason::kNak);
  EXPECT_FALSE(find_cause(missing, evidence).sure);
  evidence.reordered = false;
  missing.hole_ns = kMs;  // A responder asks for it sooner, usually.
  EXPECT_FALSE(find_cause(missing, evidence).sure);
  evidence.round_trip_ns = kMs / 2;
  EXPECT_TRUE(find_cause(missing, evidence).sure);
  evidence.round_trip_ns = std::numeric_limits<std::int64_t>::max() / 16 * 3;  // By the clocks of the captures.
  EXPECT_TRUE(find_cause(missing, evidence).sure);
  evidence.round_trip_ns = kMs / 2;
  evidence.naks[0].time_ns = 2 * kMs;  // It answers a NAK at once, usually.
  EXPECT_FALSE(find_cause(missing, evidence).sure);
  missing.ip_id = 7;
  EXPECT_TRUE(find_cause(missing, evidence).sure);
}

TEST(Causes, WhereATimerOrAnotherAnswerMayHaveBeenItNothingIsSure) {
  Evidence evidence;
  evidence.add_nak(hint(5, 4 * kMs - 20'000, 9));
  Repetition again = packet(5, 4 * kMs);
  again.last_time_ns = 4 * kMs - 100'000;
  EXPECT_TRUE(find_cause(again, evidence).sure);
  again.last_time_ns = kMs;
  EXPECT_EQ(find_cause(again, evidence).reason, Reason::kNak);
  EXPECT_FALSE(find_cause(again, evidence).sure) << "it had been silent for 3 ms";
  again.last_time_ns = 4 * kMs - 10'000;
  EXPECT_EQ(find_cause(again, evidence).reason, Reason::kNak);
  EXPECT_FALSE(find_cause(again, evidence).sure) << "it has been sent since the NAK";
  again.last_time_ns = kMs;
  evidence.used(5);
  again.time_ns = 70 * kMs;
  EXPECT_EQ(find_cause(again, evidence).reason, Reason::kTimeout);
  EXPECT_FALSE(find_cause(again, evidence).sure) << "a NAK has come since";
  again.last_time_ns = 5 * kMs;
  EXPECT_TRUE(find_cause(again, evidence).sure);
  again.time_ns = 40 * kMs;
  EXPECT_FALSE(find_cause(again, evidence).sure) << "the network may have held back the first one";
}

TEST(Causes, ANakIsAnsweredOnce) {
  Evidence evidence;
  evidence.add_nak(hint(5, kMs, 10));
  evidence.used(5);
  EXPECT_EQ(find_cause(packet(5, 70 * kMs), evidence).reason, Reason::kTimeout);
}

TEST(Causes, AnOldNakIsNotBlamedForATimeout) {
  Evidence evidence;
  evidence.add_nak(hint(5, kMs, 10));
  EXPECT_EQ(find_cause(packet(5, 300 * kMs), evidence).reason, Reason::kTimeout);
}

TEST(Causes, ANakOfAnEarlierPacketAsksForNothingBehindIt) {
  Evidence evidence;
  evidence.add_nak(hint(5, kMs, 10));
  EXPECT_EQ(find_cause(packet(6, 2 * kMs), evidence).reason, Reason::kTimeout);
}

TEST(Causes, RnrGoesBeforeTheNakOfWhatFollows) {
  Evidence evidence;
  evidence.rnr = hint(5, kMs, 9);
  evidence.add_nak(hint(5, kMs, 10));
  EXPECT_EQ(find_cause(packet(5, 90 * kMs), evidence).reason, Reason::kRnr);
  EXPECT_FALSE(find_cause(packet(5, 90 * kMs), evidence).sure) << "the network may have held back the first one";
  EXPECT_TRUE(find_cause(packet(5, 3 * kMs / 2), evidence).sure);
  evidence.used(5);
  EXPECT_EQ(find_cause(packet(5, 91 * kMs), evidence).reason, Reason::kTimeout);
}

TEST(Causes, AnImpliedNakIsPromptOrATimeout) {
  Evidence evidence;
  evidence.implied = hint(5, kMs, 9);
  EXPECT_EQ(find_cause(packet(5, 2 * kMs), evidence).reason, Reason::kImpliedNak);
  EXPECT_FALSE(find_cause(packet(5, 30 * kMs), evidence).sure);
  EXPECT_EQ(find_cause(packet(5, 290 * kMs), evidence).reason, Reason::kTimeout);
}

TEST(Causes, TheIpv4NumberTellsCopiesFromRetransmissions) {
  Repetition again = packet(5, 10'000);
  again.same_bytes = again.newest = true;
  again.ip_id = 7;
  again.last_ip_id = 7;
  EXPECT_EQ(find_cause(again, {}).reason, Reason::kNetworkCopy);
  EXPECT_TRUE(find_cause(again, {}).sure);
  again.last_ip_id = 6;
  EXPECT_NE(find_cause(again, {}).reason, Reason::kNetworkCopy);
  again.ip_id = again.last_ip_id = 0;  // Not numbered: the time tells.
  EXPECT_EQ(find_cause(again, {}).reason, Reason::kNetworkCopy);
  EXPECT_FALSE(find_cause(again, {}).sure);
  again.time_ns = 70 * kMs;
  EXPECT_EQ(find_cause(again, {}).reason, Reason::kTimeout);
}

/// What a NAK asks for was lost again, in front of the capture; the packets behind it were not.
TEST(Causes, ANakForAnEarlierPacketIsNoCopy) {
  Repetition again = packet(5, 10'000);
  again.same_bytes = again.newest = true;
  Evidence evidence;
  evidence.naks.push_back(hint(4, again.time_ns - 1000, 9));
  EXPECT_EQ(find_cause(again, evidence).reason, Reason::kNak);
  EXPECT_FALSE(find_cause(again, evidence).sure);
  evidence.naks[0].used = true;
  EXPECT_EQ(find_cause(again, evidence).reason, Reason::kNetworkCopy);
}

TEST(Causes, ALatePacketWasOvertaken) {
  Repetition late;
  late.index = 5;
  late.time_ns = 2 * kMs;
  late.hole_ns = 2 * kMs - 3000;
  EXPECT_EQ(find_cause(late, {}).reason, Reason::kReordered);
  late.time_ns = 300 * kMs;
  EXPECT_EQ(find_cause(late, {}).reason, Reason::kTimeout);
}

TEST(Causes, WithoutEvidenceAndTimeThereIsNoGuess) {
  const Cause cause = find_cause(packet(5, 100'000), {});
  EXPECT_EQ(cause.reason, Reason::kUnknown);
  EXPECT_FALSE(cause.sure);
}

}  // namespace
}  // namespace uroce::explain
