// SPDX-License-Identifier: Apache-2.0
// The sentence about an error.
#include "verbs/record/cause.h"

#include <gmock/gmock.h>

#include <cerrno>

#include "tests/unit/record/flights.h"
#include "verbs/nic/model/checks.h"
#include "verbs/nic/model/types.h"

namespace uroce::record::test {
namespace {

using nic::WcStatus;

constexpr std::uint64_t status(WcStatus code) { return static_cast<std::uint64_t>(code); }

std::string sentence(const Flight& flight) {
  const auto cause = last_cause(flight.read(), kQpn);
  return cause ? cause->sentence : "";
}

/// Eight transmissions of PSN 0x105, 68 ms apart. `after_each`: what comes 1 ms after each of them.
template <class Comes>
void send_in_vain(Flight& flight, Comes after_each) {
  flight.sends_write(0ms, 0x105);
  after_each(1ms);
  for (int i = 1; i < 8; ++i) {
    flight.event(68ms * i, TraceKind::kAckTimeout, 0x105, static_cast<std::uint64_t>(8 - i));
    flight.event(68ms * i, TraceKind::kRetransmitted, 0x105, 0, Phase::kSending);
    flight.sends_write(68ms * i, 0x105);
    after_each(68ms * i + 1ms);
  }
  flight.event(540ms, TraceKind::kAckTimeout, 0x105, 0);
  flight.event(540ms, TraceKind::kRetriesExceeded, 0x105);
  flight.event(540ms, TraceKind::kSendFailed, status(WcStatus::kRetryExcErr), 0x105);
}
void send_in_vain(Flight& flight) {
  send_in_vain(flight, [](Duration /*when*/) {});
}

constexpr const char* kInVain = "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: ";
const proto::Gid kStranger = proto::Gid::from_v4(127, 0, 0, 7);

TEST(Cause, AFaultThatWasAskedForIsNotThePeers) {
  Flight flight;
  flight.event(1ms, TraceKind::kInjectedError, status(WcStatus::kRetryExcErr), 0x105);
  flight.event(1ms, TraceKind::kSendFailed, status(WcStatus::kRetryExcErr), 0x105);
  EXPECT_EQ(sentence(flight), "RETRY_EXC_ERR on QP 0x11: a fault (wr=) asks for this status; nothing was sent");
}

TEST(Cause, ANicThatAFaultStops) {
  Flight flight;
  flight.event(1ms, TraceKind::kDeviceFatal, 0, 0);
  const auto cause = last_cause(flight.read());
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->sentence, "DEVICE_FATAL: a fault (device_fatal=) has stopped the NIC; verbs return EIO");
  EXPECT_EQ(cause->qpn, 0u);
}

TEST(Cause, AQpThatIsBrokenOnPurpose) {
  Flight flight;
  flight.event(1ms, TraceKind::kQpBroken);
  flight.event(1ms, TraceKind::kState, 3, 6);
  EXPECT_EQ(sentence(flight), "QP_FATAL on QP 0x11: broken on purpose, by a fault (qp_fatal=) or a command (break QP)");
}

TEST(Cause, ACqThatOverflows) {
  Flight flight;
  flight.event(1ms, TraceKind::kCqOverflow);
  flight.event(1ms, TraceKind::kState, 3, 6);
  EXPECT_EQ(sentence(flight),
            "QP_FATAL on QP 0x11: a completion found its CQ full, or a fault (cq_overflow=) asks for that; make the CQ "
            "larger, or poll it more often");
}

TEST(Cause, AReceiveThatCannotBeWritten) {
  Flight flight;
  flight.event(1ms, TraceKind::kReceiveFailed, 0x105);
  flight.event(1ms, TraceKind::kState, 3, 6);
  EXPECT_EQ(sentence(flight),
            "QP_FATAL on QP 0x11: the receive for PSN 0x105 can't be written: memory is gone (unmapped), or may "
            "not be written");
}

TEST(Cause, APeerThatFallsSilent) {
  Flight flight;
  flight.gets_ack(0ms, 0x104);
  send_in_vain(flight);
  EXPECT_EQ(
      sentence(flight),
      "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: the peer 127.0.0.2 sent nothing for 540 ms");
}

TEST(Cause, APeerThatWasNeverHeard) {
  Flight flight;
  send_in_vain(flight);
  EXPECT_EQ(sentence(flight),
            "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: the peer 127.0.0.2 never sent "
            "anything to this QP; requests go to its QP 0x22");
}

/// The broker's filter takes what is for no process.
TEST(Cause, APeerThatWasNeverHeardAtASharedAddress) {
  constexpr std::uint32_t kQpnWithSlot = 0x3F0011;
  Flight flight;
  send_in_vain(flight);
  Recording recording = flight.read();
  for (auto& each : recording.events) each.event.qpn = kQpnWithSlot;
  for (auto& packet : recording.packets) packet.qpn = kQpnWithSlot;
  const std::string never =
      "RETRY_EXC_ERR on QP 0x3f0011: 8 transmissions of PSN 0x105, no answer: the peer 127.0.0.2 never sent anything "
      "to this QP; "
      "requests go to its QP 0x22; ";
  EXPECT_EQ(last_cause(recording)->sentence, never +
                                                 "answers to a wrong QP number would not be seen, as processes "
                                                 "share the address here (UROCE_BROKER=off shows them)");
  recording.qps[kQpnWithSlot].port_closed = true;
  EXPECT_EQ(last_cause(recording)->sentence, never + "port 4791 there is closed");
}

TEST(Cause, AStrangerIsNotThePeer) {
  Flight flight;
  send_in_vain(flight, [&](Duration when) {
    flight.gets_ack(when, 0x105, kStranger);
    flight.drops(when, TraceKind::kDropSource, 17, 0x105, kQpn);
  });
  EXPECT_EQ(sentence(flight),
            std::string(kInVain) +
                "the peer 127.0.0.2 never sent anything to this QP; requests go to its QP 0x22; this NIC "
                "dropped 8 packets for the QP from "
                "127.0.0.7: only its peer may send to it");
}

TEST(Cause, AStrangerDoesNotEndASilence) {
  Flight flight;
  flight.gets_ack(0ms, 0x104);
  send_in_vain(flight, [&](Duration when) { flight.gets_ack(when, 0x105, kStranger); });
  EXPECT_EQ(sentence(flight), std::string(kInVain) + "the peer 127.0.0.2 sent nothing for 540 ms");
}

TEST(Cause, APeerThatSendsOtherThings) {
  Flight flight;
  send_in_vain(flight, [&](Duration when) { flight.gets_ack(when, 0x101); });
  EXPECT_EQ(sentence(flight), std::string(kInVain) +
                                  "the peer 127.0.0.2 sends, the last packet 63 ms before, but does not acknowledge "
                                  "this one");
}

/// A plain ACK completes no READ.
TEST(Cause, AReadThatIsAcknowledgedWithoutData) {
  const auto read_answered = [](std::uint32_t psn) {
    Flight flight;
    flight.sends_read(0ms, 0x105, 4);
    flight.gets_ack(1ms, psn);
    flight.event(68ms, TraceKind::kAckTimeout, 0x105, 1);
    flight.event(68ms, TraceKind::kRetransmitted, 0x105, 0, Phase::kSending);
    flight.sends_read(68ms, 0x105, 4);
    flight.gets_ack(69ms, psn);
    flight.event(136ms, TraceKind::kAckTimeout, 0x105, 0);
    flight.event(136ms, TraceKind::kRetriesExceeded, 0x105);
    flight.event(136ms, TraceKind::kSendFailed, status(WcStatus::kRetryExcErr), 0x105);
    return sentence(flight);
  };
  EXPECT_THAT(read_answered(0x105),
              testing::EndsWith("the peer 127.0.0.2 acknowledges it, the last time 67 ms before, but sends no data: a "
                                "READ or an atomic is answered with its result (an ACK instead is an implied NAK)"));
  EXPECT_THAT(read_answered(0x104), testing::Not(testing::HasSubstr("no data")));
}

TEST(Cause, APeerThatWaitsForAnotherPsn) {
  const auto answered = [](std::uint32_t psn, std::uint8_t syndrome) {
    Flight flight;
    send_in_vain(flight, [&](Duration when) {
      flight.gets_ack(when, psn, kPeer, kQpn, 0, syndrome);
      flight.drops(when, TraceKind::kGhostAck, 0x11, psn, kQpn);
    });
    return sentence(flight);
  };
  constexpr std::uint8_t kAck = 0x1F, kSequenceNak = 0x60;
  const std::string peer = std::string(kInVain) + "the peer 127.0.0.2 ";
  const std::string same = "Its rq_psn and the sq_psn here must be the same (ibv_modify_qp)";
  EXPECT_EQ(answered(0x77, kSequenceNak), peer + "waits for PSN 0x77. " + same);
  EXPECT_EQ(answered(0x1FF, kAck), peer + "waits for PSN 0x200. " + same) << "For it our requests are old.";
  EXPECT_EQ(answered(0x104, kAck), peer + "sends, the last packet 63 ms before, but does not acknowledge this one")
      << "It waits for ours.";
}

TEST(Cause, ALateAnswerIsNoOtherPsn) {
  Flight flight;
  for (const std::uint32_t psn : {0x101u, 0x102u, 0x103u, 0x104u}) flight.sends_write(0ms, psn);
  send_in_vain(flight, [&](Duration when) {
    flight.gets_ack(when, 0x101);
    flight.drops(when, TraceKind::kGhostAck, 0x11, 0x101, kQpn);
  });
  EXPECT_THAT(sentence(flight), testing::EndsWith("but does not acknowledge this one"));
}

TEST(Cause, AnswersThatThisNicDropped) {
  const auto dropped = [](TraceKind kind, std::uint64_t a, std::uint32_t qpn) {
    Flight flight;
    send_in_vain(flight, [&](Duration when) {
      flight.gets_ack(when, 0x105);
      flight.drops(when, kind, a, 0x105, qpn);
    });
    return sentence(flight);
  };
  const std::string start = std::string(kInVain) + "the peer 127.0.0.2 sent 8 packets, and this NIC dropped them all: ";
  EXPECT_EQ(dropped(TraceKind::kDropIcrc, kQpn, 0), start + "wrong ICRC");
  EXPECT_EQ(dropped(TraceKind::kDropPkey, 0x1234, 0), start + "another P_Key than the default one");
  EXPECT_EQ(dropped(TraceKind::kDropService, 0x31, kQpn), start + "another service than the QP's");
  EXPECT_EQ(dropped(TraceKind::kDropState, 17, kQpn), start + "the state of the QP takes none");
  EXPECT_EQ(dropped(TraceKind::kDropSource, 17, kQpn), start + "not sent to the address of the QP");
  EXPECT_EQ(dropped(TraceKind::kDropSyndrome, 0x41, kQpn), start + "a reserved syndrome");
}

TEST(Cause, AnswersThatAreNoRocePackets) {
  Flight flight;
  send_in_vain(flight, [&](Duration when) {
    flight.gets_ack(when, 0x105, kPeer, kQpn, 1);
    flight.drops(when, TraceKind::kDropMalformed, 20, 0);
  });
  EXPECT_EQ(sentence(flight), std::string(kInVain) +
                                  "the peer 127.0.0.2 sent 8 packets, and this NIC dropped them all: malformed (bad "
                                  "transport version)");
}

TEST(Cause, AnswersToAQpThatIsNotThere) {
  Flight flight;
  send_in_vain(flight, [&](Duration when) {
    flight.gets_ack(when, 0x105, kPeer, kQpn + 1);
    flight.drops(when, TraceKind::kDropUnknownQp, kQpn + 1, 0x105);
  });
  EXPECT_EQ(sentence(flight), std::string(kInVain) +
                                  "the peer 127.0.0.2 sent 8 packets, and this NIC dropped them all: no QP here has "
                                  "the number that they go to");
}

TEST(Cause, AnswersOfWhichSomeWereDropped) {
  Flight flight;
  send_in_vain(flight, [&](Duration when) {
    flight.gets_ack(when, 0x101);
    flight.gets_ack(when, 0x105);
    flight.drops(when, when > 400ms ? TraceKind::kDropPkey : TraceKind::kDropIcrc, kQpn, 0x105);
  });
  EXPECT_EQ(sentence(flight), std::string(kInVain) +
                                  "the peer 127.0.0.2 sends, the last packet 63 ms before, but does not acknowledge "
                                  "this one in a packet that this NIC takes; it dropped 8: wrong ICRC (6), another "
                                  "P_Key than the default one (2)");
}

TEST(Cause, WhatWasDroppedBeforeIsNoReason) {
  Flight flight;
  flight.gets_ack(0ms, 0x104);
  flight.drops(0ms, TraceKind::kDropIcrc, kQpn, 0x104);
  flight.gets_ack(0ms, 0x104);
  send_in_vain(flight);
  EXPECT_EQ(sentence(flight), std::string(kInVain) + "the peer 127.0.0.2 sent nothing for 540 ms");
}

TEST(Cause, WithoutPacketsTheDropsRemain) {
  Flight flight;
  send_in_vain(flight, [&](Duration when) { flight.drops(when, TraceKind::kDropIcrc, kQpn, 0x105); });
  flight.ring->keeps_packets = 0;
  flight.ring->packets = 0;
  Recording recording = flight.read();
  recording.qps[kQpn] = {.peer = "127.0.0.2", .last_heard = Instant(477ms)};
  EXPECT_EQ(last_cause(recording)->sentence,
            std::string(kInVain) + "this NIC dropped 7 packets for the QP: wrong ICRC");
}

TEST(Cause, WithoutPacketsTheStrangersRemain) {
  Flight flight;
  send_in_vain(flight, [&](Duration when) { flight.drops(when, TraceKind::kDropSource, 17, 0x105, kQpn); });
  flight.ring->keeps_packets = 0;
  flight.ring->packets = 0;
  Recording recording = flight.read();
  recording.qps[kQpn] = {.peer = "127.0.0.2"};
  EXPECT_EQ(last_cause(recording)->sentence,
            std::string(kInVain) +
                "the peer 127.0.0.2 never sent anything to this QP; this NIC dropped 7 packets "
                "for the QP: only its peer may send to it, to its address");
}

TEST(Cause, AnAnswerThatDoesNotFit) {
  Flight flight;
  flight.sends_read(0ms, 0x105, 8);
  flight.gets_read_response(1ms, 0x105, 4);
  flight.event(1ms, TraceKind::kSendFailed, status(WcStatus::kBadRespErr), 0x105, Phase::kReceiving);
  EXPECT_EQ(sentence(flight),
            "BAD_RESP_ERR on QP 0x11: the answer of the peer 127.0.0.2 to PSN 0x105 (RC READ REQUEST of 8 bytes at "
            "0x7f00 with R_Key 0x1234) does not fit it, by its kind, place, length or syndrome: RC READ RESPONSE ONLY "
            "with 4 bytes (path_mtu must be the same at both ends)");
  flight.ring->keeps_packets = 0;
  flight.ring->packets = 0;
  EXPECT_EQ(
      sentence(flight),
      "BAD_RESP_ERR on QP 0x11: the answer of the peer to PSN 0x105 does not fit it, by its kind, place, length or "
      "syndrome");
}

TEST(Cause, ANakThatRcDoesNotHave) {
  Flight flight;
  flight.sends_write(0ms, 0x105);
  flight.gets_ack(1ms, 0x105, kPeer, kQpn, 0, 0x64);
  flight.event(1ms, TraceKind::kSendFailed, status(WcStatus::kBadRespErr), 0x105, Phase::kReceiving);
  EXPECT_THAT(sentence(flight),
              testing::EndsWith("by its kind, place, length or syndrome: RC ACK, NAK \"invalid RD request\""));
}

TEST(Cause, WithoutPacketsTheTimeoutsRemain) {
  Flight flight;
  send_in_vain(flight);
  flight.ring->keeps_packets = 0;
  flight.ring->packets = 0;
  EXPECT_EQ(sentence(flight),
            "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: the peer did not acknowledge it for "
            "more than "
            "472 ms");
}

TEST(Cause, WithoutPacketsTheQpKnowsItsPeer) {
  Flight flight;
  send_in_vain(flight);
  flight.ring->keeps_packets = 0;
  flight.ring->packets = 0;
  Recording recording = flight.read();
  recording.qps[kQpn] = {.peer = "127.0.0.2", .last_heard = Instant(40ms)};
  EXPECT_EQ(
      last_cause(recording)->sentence,
      "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: the peer 127.0.0.2 sent nothing for 500 ms");
  recording.qps[kQpn].last_heard = {};
  EXPECT_EQ(last_cause(recording)->sentence,
            "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: the peer 127.0.0.2 never sent "
            "anything to this QP");
}

TEST(Cause, APeerThatIsHeardAfterTheError) {
  Flight flight;
  send_in_vain(flight);
  flight.ring->keeps_packets = 0;
  flight.ring->packets = 0;
  Recording recording = flight.read();
  recording.qps[kQpn] = {.peer = "127.0.0.2", .last_heard = Instant(576ms)};
  EXPECT_EQ(
      last_cause(recording)->sentence,
      "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: the peer 127.0.0.2 sends, the last packet "
      "36 ms later, but did not acknowledge this one in time");
}

TEST(Cause, APortThatIsClosed) {
  Flight flight;
  flight.gets_ack(0ms, 0x104);
  send_in_vain(flight);
  Recording recording = flight.read();
  recording.qps[kQpn] = {.peer = "127.0.0.2", .last_heard = Instant(0ms), .port_closed = true};
  EXPECT_EQ(last_cause(recording)->sentence,
            "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: the peer 127.0.0.2 sent nothing for "
            "540 ms; port 4791 there is closed");
}

TEST(Cause, PacketsThatWereNotSent) {
  Flight flight;
  flight.gets_ack(0ms, 0x104);
  send_in_vain(flight);
  Recording recording = flight.read();
  recording.refusals = {.count = 8, .last_error = EMSGSIZE};
  EXPECT_EQ(last_cause(recording)->sentence,
            "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: the peer 127.0.0.2 sent nothing for "
            "540 ms; the kernel of this host did not send 8 packets of this NIC: Message too long (see: uroce doctor)");
}

TEST(Cause, FaultsOnPurposeMayHaveEatenTheAnswers) {
  Flight flight;
  send_in_vain(flight);
  Recording recording = flight.read();
  recording.on_purpose = 3;
  EXPECT_EQ(
      last_cause(recording)->sentence,
      "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: the peer 127.0.0.2 was not heard; faults "
      "on purpose (UROCE_FAULTS, uroce ctl) have lost, damaged or held back 3 packets that this NIC sent or "
      "received");
}

TEST(Cause, AnRnrStorm) {
  Flight flight;
  for (int i = 0; i < 4; ++i) flight.event(i * 10ms, TraceKind::kRnrNakIn, 0x105, 12);
  flight.event(30ms, TraceKind::kRnrRetriesExceeded, 0x105);
  flight.event(30ms, TraceKind::kSendFailed, status(WcStatus::kRnrRetryExcErr), 0x105);
  EXPECT_EQ(
      sentence(flight),
      "RNR_RETRY_EXC_ERR on QP 0x11: the peer had no receive for PSN 0x105: 4 RNR NAKs in 30 ms; rnr_retry is used up");
}

TEST(Cause, AWrongRKey) {
  Flight flight;
  flight.sends_write(0ms, 0x105);
  flight.sends_write(0ms, 0x106, 200);
  flight.event(1ms, TraceKind::kNakIn, 2, 0x105);
  flight.event(1ms, TraceKind::kSendFailed, status(WcStatus::kRemAccessErr), 0x105);
  EXPECT_EQ(
      sentence(flight),
      "REM_ACCESS_ERR on QP 0x11: the peer 127.0.0.2 refused PSN 0x105 (RC WRITE ONLY of 100 bytes at 0x7f00 "
      "with R_Key "
      "0x1234): no region or bound window there has this R_Key, in the protection domain of that QP, with this range "
      "and right; the peer's NIC knows which of these it is (uroce record there)");
}

TEST(Cause, TheEndThatRefuses) {
  Flight flight;
  flight.event(1ms, TraceKind::kNak, 2, 0x105, Phase::kReceiving);
  EXPECT_EQ(sentence(flight),
            "QP_ACCESS_ERR on QP 0x11: we refuse PSN 0x105 with a NAK \"remote access error\": no region here has this "
            "R_Key, "
            "range and right");
}

/// The sentence at the end that refuses a key of its peer, for the reason that its NIC tells.
TEST(Cause, TheKeyThatIsRefused) {
  const auto refused_for = [](nic::AccessError why) {
    Flight flight;
    flight.event(1ms, TraceKind::kRkeyRefused, static_cast<std::uint64_t>(why), 0x1f, Phase::kReceiving);
    flight.event(1ms, TraceKind::kRefused, static_cast<std::uint64_t>(nic::RcCheck::kAccess), 0x105, Phase::kReceiving);
    flight.event(1ms, TraceKind::kNak, 2, 0x105, Phase::kReceiving);
    const std::string told = sentence(flight);
    return told.substr(told.find("error\"") + 6);
  };
  EXPECT_EQ(refused_for(nic::AccessError::kBadKey),
            ": no region or bound window here has the R_Key 0x1f: it was never exchanged, or has been taken back");
  EXPECT_EQ(refused_for(nic::AccessError::kWrongPd),
            ": the R_Key 0x1f is of another protection domain than this QP, or a window of another QP");
  EXPECT_EQ(refused_for(nic::AccessError::kOutOfBounds), ": it goes beyond the region or window of the R_Key 0x1f");
  EXPECT_EQ(refused_for(nic::AccessError::kNoRight),
            ": the region or window of the R_Key 0x1f does not allow it (access flags of ibv_reg_mr)");
}

TEST(Cause, MemoryOfAWorkRequestThatIsRefused) {
  const auto failed_for = [](nic::AccessError why) {
    Flight flight;
    flight.event(1ms, TraceKind::kLkeyRefused, static_cast<std::uint64_t>(why), 0x1f);
    flight.event(1ms, TraceKind::kSendFailed, status(WcStatus::kLocProtErr), 0x105);
    return sentence(flight);
  };
  const std::string failed = "LOC_PROT_ERR on QP 0x11: the message at PSN 0x105 was not sent: ";
  EXPECT_EQ(failed_for(nic::AccessError::kBadKey), failed + "no region has the L_Key 0x1f");
  EXPECT_EQ(failed_for(nic::AccessError::kWrongPd),
            failed + "the L_Key 0x1f is of another protection domain than the QP");
  EXPECT_EQ(failed_for(nic::AccessError::kOutOfBounds), failed + "the region of the L_Key 0x1f does not reach so far");
  // What an earlier error was about is no reason.
  Flight flight;
  flight.event(1ms, TraceKind::kLkeyRefused, 0, 0x1f);
  flight.event(1ms, TraceKind::kState, 3, 6);
  flight.sends_write(2ms, 0x105);
  flight.event(3ms, TraceKind::kSendFailed, status(WcStatus::kLocProtErr), 0x105);
  EXPECT_EQ(
      sentence(flight),
      "LOC_PROT_ERR on QP 0x11: the message at PSN 0x105 (RC WRITE ONLY of 100 bytes at 0x7f00 with R_Key 0x1234) "
      "failed: memory is gone (unmapped), or may not be read");
}

TEST(Cause, AReceiveWhoseKeyIsRefused) {
  Flight flight;
  flight.event(1ms, TraceKind::kLkeyRefused, static_cast<std::uint64_t>(nic::AccessError::kNoRight), 0x1f,
               Phase::kReceiving);
  flight.event(1ms, TraceKind::kNak, 3, 0x105, Phase::kReceiving);
  EXPECT_EQ(sentence(flight),
            "QP_FATAL on QP 0x11: we refuse PSN 0x105 with a NAK \"remote operational error\": the receive can't be "
            "written: the region of the L_Key 0x1f has no IBV_ACCESS_LOCAL_WRITE");
}

/// The sentence about a SEND of 1024 bytes that is refused as invalid. `check`: the one that objects, if any.
std::string sentence_of_invalid(std::optional<nic::RcCheck> check, TraceKind before = TraceKind::kEstablished) {
  Flight flight;
  flight.gets_send(1ms, 0x105, 1024);
  flight.drops(1ms, before, static_cast<std::uint64_t>(nic::RcCheck::kResources), 0x105, kQpn);
  if (before == TraceKind::kRefused) flight.drops(1ms, TraceKind::kRnrNak, 0x105, 1, kQpn);
  if (check) flight.drops(2ms, TraceKind::kRefused, static_cast<std::uint64_t>(*check), 0x105, kQpn);
  flight.drops(2ms, TraceKind::kNak, 1, 0x105, kQpn);
  return sentence(flight);
}

TEST(Cause, WhatCouldNotBeSent) {
  const auto failed_with = [](WcStatus code) {
    Flight flight;
    flight.event(1ms, TraceKind::kSendFailed, status(code), 0x105);
    return sentence(flight);
  };
  EXPECT_EQ(failed_with(WcStatus::kLocQpOpErr),
            "LOC_QP_OP_ERR on QP 0x11: the message at PSN 0x105 was not sent: a READ or an atomic needs max_rd_atomic "
            "above 0 (ibv_modify_qp), a datagram an address handle of the QP's protection domain");
  EXPECT_EQ(failed_with(WcStatus::kLocLenErr),
            "LOC_LEN_ERR on QP 0x11: the message at PSN 0x105 was not sent: a datagram must fit into one packet of the "
            "largest path MTU");
  EXPECT_EQ(failed_with(WcStatus::kMwBindErr),
            "MW_BIND_ERR on QP 0x11: the message at PSN 0x105 was not sent: the memory window can't be bound so, or "
            "the key not be invalidated");
}

TEST(Cause, TheCheckThatRefuses) {
  const std::string refused =
      "QP_REQ_ERR on QP 0x11: we refuse PSN 0x105 of 127.0.0.2 (RC SEND FIRST) with a NAK \"invalid request\": ";
  EXPECT_EQ(sentence_of_invalid(nic::RcCheck::kSequence),
            refused + "it does not continue the message before it, or begins inside one");
  EXPECT_EQ(sentence_of_invalid(nic::RcCheck::kOpcode), refused + "this QP does not allow it (qp_access_flags)");
  EXPECT_EQ(sentence_of_invalid(nic::RcCheck::kResources),
            refused + "more READs and atomics at once than this QP takes (max_dest_rd_atomic)");
  EXPECT_EQ(sentence_of_invalid(nic::RcCheck::kLength),
            refused +
                "its length is wrong; it has 1024 bytes, and path_mtu must be the same at both ends "
                "(ibv_modify_qp)");
  EXPECT_EQ(sentence_of_invalid(std::nullopt), refused + "it is longer than the receive");
  EXPECT_EQ(sentence_of_invalid(std::nullopt, TraceKind::kRefused), refused + "it is longer than the receive")
      << "That refusal was an RNR NAK before.";
}

TEST(Cause, WhereNothingBrokeThereIsNone) {
  Flight flight;
  flight.event(1ms, TraceKind::kAckTimeout, 0x105, 6);
  flight.event(2ms, TraceKind::kNak, 0, 0x105, Phase::kReceiving);  // Behind a gap: nothing has broken.
  EXPECT_EQ(sentence(flight), "");
}

}  // namespace
}  // namespace uroce::record::test
