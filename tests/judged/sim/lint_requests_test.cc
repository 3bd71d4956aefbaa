// SPDX-License-Identifier: Apache-2.0
// Every rule of the wire lint for requests, with a packet that breaks it.
#include "tests/judged/sim/lint_fixture.h"

namespace uroce::simulator {
namespace {

using namespace std::chrono_literals;
using proto::Bth;
using O = proto::Opcode;

class LintRequests : public LintTest {};
class LintFrames : public LintTest {};

TEST_F(LintRequests, LegalTrafficPasses) {
  EXPECT_LEGAL(arrive(O::kRcSendFirst, 0, kMtu));
  EXPECT_LEGAL(arrive(O::kRcSendMiddle, 1, kMtu));
  EXPECT_LEGAL(arrive(O::kRcSendLast, 2, 1));
  EXPECT_LEGAL(answered(O::kRcAcknowledge, 2, ack(1)));
  EXPECT_LEGAL(arrive(O::kRcReadRequest, 3, 0, length(2 * kMtu + 1)));
  EXPECT_LEGAL(arrive(O::kRcWriteOnlyImm, 6, 5, length(5)));
  EXPECT_LEGAL(answered(O::kRcReadResponseFirst, 3, ack(3), kMtu));
  EXPECT_LEGAL(answered(O::kRcReadResponseMiddle, 4, {}, kMtu));
  EXPECT_LEGAL(answered(O::kRcReadResponseLast, 5, ack(3), 1));
  EXPECT_LEGAL(answered(O::kRcAcknowledge, 6, ack(3)));
  EXPECT_LEGAL(arrive(O::kRcFetchAdd, 7));
  EXPECT_LEGAL(answered(O::kRcAtomicAcknowledge, 7, ack(4)));
}

TEST_F(LintRequests, PsnAdvancesByOne) {
  request(O::kRcSendOnly, 0);
  EXPECT_BREACH(request(O::kRcSendOnly, 2), "PSN skips");
}

TEST_F(LintRequests, SendingAgainSkipsNothing) {
  for (std::uint32_t i = 0; i < 4; ++i) request(O::kRcWriteOnly, i);
  EXPECT_LEGAL(request(O::kRcWriteOnly, 0));
  EXPECT_BREACH(request(O::kRcWriteOnly, 2), "PSN skips while sending again");
}

TEST_F(LintRequests, WhatIsAcknowledgedIsNotSentAgain) {
  arrive(O::kRcSendOnly, 0);
  answered(O::kRcAcknowledge, 0, ack(1));
  EXPECT_BREACH(request(O::kRcSendOnly, 0), "although acknowledged");
}

TEST_F(LintRequests, SameBytesUnderTheSamePsn) {
  request(O::kRcSendOnly, 0, 8);
  EXPECT_BREACH(request(O::kRcSendOnly, 0, 9), "other contents");
  EXPECT_BREACH(request(O::kRcSendOnlyImm, 0, 8), "other contents");
}

TEST_F(LintRequests, OnlyAckReqMayChangeWhenSentAgain) {
  const Edit quiet = [](proto::PacketBuilder& b) { b.bth().set<Bth::AckReq>(0); };
  const Edit asking = [](proto::PacketBuilder& b) { b.bth().set<Bth::AckReq>(1); };
  request(O::kRcSendFirst, 0, kMtu, quiet);
  EXPECT_LEGAL(request(O::kRcSendFirst, 0, kMtu, asking));
}

TEST_F(LintRequests, ReadsAskAgainForTheSameBytes) {
  const auto read = [](std::uint64_t va, std::uint32_t bytes) -> Edit {
    return [=](proto::PacketBuilder& b) {
      b.header<proto::Reth>().set<proto::Reth::Va>(va).set<proto::Reth::DmaLength>(bytes);
    };
  };
  request(O::kRcReadRequest, 0, 0, read(kVa, 3 * kMtu));
  EXPECT_LEGAL(request(O::kRcReadRequest, 1, 0, read(kVa + kMtu, 2 * kMtu)));
  EXPECT_BREACH(request(O::kRcReadRequest, 1, 0, read(kVa, 2 * kMtu)), "other bytes");
  EXPECT_BREACH(request(O::kRcReadRequest, 1, 0, read(kVa + kMtu, kMtu)), "other bytes");
  EXPECT_BREACH(request(O::kRcReadRequest, 1, 0, read(kVa + kMtu, 3 * kMtu)), "other bytes");
}

TEST_F(LintRequests, OpcodesFollowEachOther) {
  EXPECT_BREACH(request(O::kRcSendMiddle, 0, kMtu), "outside a message");
  request(O::kRcSendFirst, 0, kMtu);
  EXPECT_BREACH(request(O::kRcWriteMiddle, 1, kMtu), "inside another message");
}
TEST_F(LintRequests, NothingBeginsInsideAMessage) {
  request(O::kRcSendFirst, 0, kMtu);
  EXPECT_BREACH(request(O::kRcReadRequest, 1, 0, length(1)), "inside another message");
}

TEST_F(LintRequests, LengthsFitTheMtu) { EXPECT_BREACH(request(O::kRcSendOnly, 0, kMtu + 1), "path MTU"); }
TEST_F(LintRequests, FirstAndMiddleAreFull) { EXPECT_BREACH(request(O::kRcSendFirst, 0, kMtu - 1), "path MTU"); }
TEST_F(LintRequests, LastIsNotEmpty) {
  request(O::kRcSendFirst, 0, kMtu);
  EXPECT_BREACH(request(O::kRcSendLast, 1, 0), "without payload");
}

TEST_F(LintRequests, RethIsTheSum) { EXPECT_BREACH(request(O::kRcWriteOnly, 0, 8, length(9)), "not the sum"); }
TEST_F(LintRequests, RethIsTheSumOverAMessage) {
  request(O::kRcWriteFirst, 0, kMtu, length(kMtu + 4));
  EXPECT_BREACH(request(O::kRcWriteLast, 1, 3), "not the sum");
}

TEST_F(LintRequests, TheLastPacketAsksForAnAck) {
  const Edit quiet = [](proto::PacketBuilder& b) { b.bth().set<Bth::AckReq>(0); };
  EXPECT_BREACH(request(O::kRcSendOnly, 0, 1, quiet), "asks for no ACK");
}

TEST_F(LintRequests, SolicitedOnlyWhereThereIsACompletion) {
  const Edit solicited = [](proto::PacketBuilder& b) {
    b.bth().set<Bth::SolicitedEvent>(1);
    b.header<proto::Reth>().set<proto::Reth::DmaLength>(1);
  };
  EXPECT_BREACH(request(O::kRcWriteOnly, 0, 1, solicited), "SE on a packet");
  EXPECT_LEGAL(request(O::kRcWriteOnlyImm, 0, 1, solicited));
}

TEST_F(LintRequests, MaxRdAtomic) {
  request(O::kRcReadRequest, 0, 0, length(1));
  request(O::kRcFetchAdd, 1);
  EXPECT_LEGAL(request(O::kRcReadRequest, 0, 0, length(1))) << "the same one again";
  EXPECT_LEGAL(request(O::kRcFetchAdd, 1));
  EXPECT_BREACH(request(O::kRcCompareSwap, 2), "max_rd_atomic 2");
}

TEST_F(LintRequests, MaxRdAtomicCountsAtomicWriteAndFlush) {
  request(O::kRcAtomicWrite, 0, 8, length(8));
  request(O::kRcFlush, 1);
  EXPECT_BREACH(request(O::kRcFlush, 2), "max_rd_atomic 2");
}
TEST_F(LintRequests, AtomicWriteIsAWord) {
  EXPECT_BREACH(request(O::kRcAtomicWrite, 0, 4, length(4)), "8 bytes");
  EXPECT_BREACH(request(O::kRcAtomicWrite, 0, 8, length(16)), "sum of the payloads");
  EXPECT_BREACH(request(O::kRcAtomicWrite, 0, 8,
                        [](proto::PacketBuilder& b) {
                          length(8)(b);
                          b.header<proto::Reth>().set<proto::Reth::Va>(4);
                        }),
                "multiple of 8");
}

TEST_F(LintRequests, WaitsAfterAnRnrNak) {
  lint.forget(1, kB);  // No receives.
  connect(1);
  arrive(O::kRcSendOnly, 0, 1);
  const Edit in_20_us = aeth(proto::syndrome::Rnr{2}, 0);
  answered(O::kRcAcknowledge, 0, in_20_us);
  now += 19us;
  EXPECT_BREACH(request(O::kRcSendOnly, 0, 1), "before the time that the RNR NAK asked for");
  now += 1us;
  EXPECT_LEGAL(arrive(O::kRcSendOnly, 0, 1));
  answered(O::kRcAcknowledge, 0, in_20_us);  // Another one at the same time, ...
  now += 1us;
  deliver(make(1, O::kRcAcknowledge, 0, 0, in_20_us));  // ... which the network doubles.
  now += 18us;
  EXPECT_BREACH(request(O::kRcSendOnly, 0, 1), "sent 1000 ns before the time that the RNR NAK asked for");
  now += 1us;
  EXPECT_LEGAL(request(O::kRcSendOnly, 0, 1));
}

TEST_F(LintRequests, NothingNewWhileDraining) {
  request(O::kRcSendFirst, 0, kMtu);
  lint.draining(0, kA, true);
  EXPECT_LEGAL(request(O::kRcSendLast, 1, 1));
  EXPECT_BREACH(request(O::kRcSendOnly, 2), "while the send queue drains");
}

TEST_F(LintRequests, TheRestOfALongReadIsNothingNew) {
  lint.send_posted(0, kA, 4, false);
  request(O::kRcReadRequest, 0, 0, length(2 * kMtu));
  lint.draining(0, kA, true);
  EXPECT_BREACH(lint.drained(0, kA), "unacknowledged");
  EXPECT_LEGAL(request(O::kRcReadRequest, 2, 0, length(2 * kMtu)));
  lint.send_posted(0, kA, 1, false);
  EXPECT_BREACH(request(O::kRcWriteOnly, 4), "while the send queue drains");
}

TEST_F(LintRequests, AFenceWaitsForReadsAndAtomics) {
  lint.send_posted(0, kA, 1, false);
  lint.send_posted(0, kA, 1, true);
  arrive(O::kRcFetchAdd, 0);
  EXPECT_BREACH(request(O::kRcWriteOnly, 1), "a fenced WR begins");
  answered(O::kRcAtomicAcknowledge, 0, ack(1));
  EXPECT_LEGAL(request(O::kRcWriteOnly, 1));
}

TEST_F(LintRequests, DrainedMeansDrained) {
  arrive(O::kRcSendOnly, 0);
  EXPECT_BREACH(lint.drained(0, kA), "1 packets unacknowledged");
  answered(O::kRcAcknowledge, 0, ack(1));
  EXPECT_LEGAL(lint.drained(0, kA));
}

TEST_F(LintRequests, NoneFromAQpInError) {
  lint.errored(0, kA);
  EXPECT_BREACH(request(O::kRcSendOnly, 0), "QP in error");
}
TEST_F(LintRequests, NoneFromASilencedQp) {
  lint.silenced(0, kA);
  EXPECT_BREACH(request(O::kRcSendOnly, 0), "may send nothing");
}

TEST_F(LintRequests, CreditsLimitWhatTakesReceives) {
  EXPECT_LEGAL(request(O::kRcSendOnly, 0)) << "one may be tried";
  EXPECT_BREACH(request(O::kRcSendOnly, 1), "2 receives needed, credits for 0");
}
TEST_F(LintRequests, CreditsAreWhatThePeerSays) {
  lint.forget(1, kB);
  connect(1);
  for (int i = 0; i < 3; ++i) lint.receive_posted(1, kB);
  arrive(O::kRcSendOnly, 0);
  answered(O::kRcAcknowledge, 0, aeth(proto::syndrome::Ack{2}, 1));
  for (std::uint32_t i = 1; i < 4; ++i) EXPECT_LEGAL(request(O::kRcSendOnly, i));
  EXPECT_BREACH(request(O::kRcSendOnly, 4), "5 receives needed, credits for 3");
}

TEST_F(LintFrames, IcrcIsRight) {
  Made made = make(0, O::kRcSendOnly, 0, 4, {});
  made.bytes.back() ^= 1;
  EXPECT_BREACH(send(made), "ICRC is wrong");
}

TEST_F(LintFrames, PathIsTheQps) {
  Made made = make(0, O::kRcSendOnly, 0, 4, {});
  made.path.source_port ^= 1;
  EXPECT_BREACH(send(made), "another path");
}

TEST_F(LintFrames, PadIsZero) {
  Made made = make(0, O::kRcSendOnly, 0, 1, {});
  const std::size_t covered = made.bytes.size() - proto::kIcrcSize;
  made.bytes[covered - 1] = 1;
  proto::store_icrc(MutBytes(made.bytes).subspan(covered), proto::icrc(made.path, Bytes(made.bytes).first(covered)));
  EXPECT_BREACH(send(made), "pad is not");
}

TEST_F(LintFrames, FixedFields) {
  EXPECT_BREACH(request(O::kRcSendOnly, 0, 0, [](auto& b) { b.bth().template set<Bth::PKey>(0x7FFF); }), "P_Key");
  EXPECT_BREACH(request(O::kRcSendOnly, 0, 0, [](auto& b) { b.bth().template set<Bth::MigReq>(1); }), "MigReq");
  EXPECT_BREACH(request(O::kRcSendOnly, 0, 0, [](auto& b) { b.bth().template set<Bth::Resv7>(1); }), "reserved bits");
  EXPECT_BREACH(request(O::kUcSendOnly, 0), "another service");
}

TEST_F(LintFrames, OnlyToThePeer) {
  EXPECT_BREACH(request(O::kRcSendOnly, 0, 0, [](auto& b) { b.bth().template set<Bth::DestQp>(0x99); }),
                "never connected");
}

TEST_F(LintFrames, MustParse) {
  Made made = make(0, O::kRcSendOnly, 0, 0, {});
  made.bytes.resize(11);
  EXPECT_BREACH(send(made), "no packet");
}

}  // namespace
}  // namespace uroce::simulator
