// SPDX-License-Identifier: Apache-2.0
// Every rule of the wire lint for responses, with a packet that breaks it.
#include "tests/judged/sim/lint_fixture.h"

namespace uroce::simulator {
namespace {

using proto::Bth;
using proto::NakCode;
using proto::syndrome::Ack;
using proto::syndrome::Nak;
using proto::syndrome::Rnr;
using O = proto::Opcode;

class LintResponses : public LintTest {
 protected:
  /// A's requests may need any number of receives.
  LintResponses() { lint.receive_posted(0, kA); }
  void no_receives() {
    lint.forget(1, kB);
    connect(1);
  }
};

TEST_F(LintResponses, NoneToWhatHasNotArrived) {
  request(O::kRcWriteOnly, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, ack(1)), "has not arrived");
}

TEST_F(LintResponses, NoneToWhatArrivedBehindAGap) {
  request(O::kRcWriteOnly, 0);
  arrive(O::kRcWriteOnly, 1);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 1, ack(2)), "has not arrived");
}

TEST_F(LintResponses, NoFlagsOfRequests) {
  arrive(O::kRcWriteOnly, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0,
                       [](proto::PacketBuilder& b) {
                         ack(1)(b);
                         b.bth().set<Bth::AckReq>(1);
                       }),
                "AckReq or SE");
}

TEST_F(LintResponses, MsnCountsMessages) {
  arrive(O::kRcWriteOnly, 0);
  arrive(O::kRcWriteOnly, 1);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 1, ack(1)), "2 to 2 messages");
  EXPECT_BREACH(answer(O::kRcAcknowledge, 1, ack(3)), "2 to 2 messages");
}

TEST_F(LintResponses, MsnNeverGoesBack) {
  arrive(O::kRcWriteOnly, 0);
  arrive(O::kRcWriteOnly, 1);
  answer(O::kRcAcknowledge, 0, ack(2));
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, ack(1)), "goes back");
}

TEST_F(LintResponses, OneNakPerGap) {
  request(O::kRcWriteOnly, 0);
  arrive(O::kRcWriteOnly, 1);
  answer(O::kRcAcknowledge, 0, aeth(Nak{NakCode::kPsnSequenceError}, 0));
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(Nak{NakCode::kPsnSequenceError}, 0)), "second NAK");
}

TEST_F(LintResponses, NakOnlyOfTheNextPsn) {
  arrive(O::kRcWriteOnly, 0);
  request(O::kRcWriteOnly, 1);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 2, aeth(Nak{NakCode::kPsnSequenceError}, 1)), "has not arrived");
}

TEST_F(LintResponses, MsnOfANak) {
  arrive(O::kRcWriteOnly, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 1, aeth(Nak{NakCode::kPsnSequenceError}, 2)), "1 to 1 messages");
}

TEST_F(LintResponses, SyndromesAreLegal) {
  arrive(O::kRcWriteOnly, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(proto::syndrome::Reserved{0x40}, 1)), "reserved syndrome");
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(Nak{NakCode::kInvalidRdRequest}, 1)), "reliable datagrams");
}

TEST_F(LintResponses, NothingAfterAFatalNak) {
  arrive(O::kRcWriteOnly, 0);
  answer(O::kRcAcknowledge, 0, aeth(Nak{NakCode::kRemoteAccessError}, 0));
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, ack(1)), "after a fatal NAK");
}
TEST_F(LintResponses, FatalNakOfWhatHasArrived) {
  request(O::kRcWriteOnly, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(Nak{NakCode::kRemoteAccessError}, 0)), "has not arrived");
}

TEST_F(LintResponses, RnrOnlyWithoutAReceive) {
  arrive(O::kRcSendOnly, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(Rnr{1}, 0)), "although a receive is posted");
}
TEST_F(LintResponses, RnrOnlyForWhatTakesAReceive) {
  no_receives();
  arrive(O::kRcWriteOnly, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(Rnr{1}, 0)), "takes no receive");
}
TEST_F(LintResponses, RnrOfWhatHasArrived) {
  no_receives();
  request(O::kRcSendOnly, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(Rnr{1}, 0)), "has not arrived");
}
TEST_F(LintResponses, OneRnrPerArrival) {
  no_receives();
  arrive(O::kRcSendOnly, 0);
  answer(O::kRcAcknowledge, 0, aeth(Rnr{1}, 0));
  EXPECT_EQ(lint.rnr_naks(1, kB), 1u);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(Rnr{1}, 0)), "second NAK");
  arrive(O::kRcSendOnly, 0);
  EXPECT_LEGAL(answer(O::kRcAcknowledge, 0, aeth(Rnr{1}, 0)));
  EXPECT_EQ(lint.rnr_naks(1, kB), 2u);
}

TEST_F(LintResponses, AnswersKeepTheirOrder) {
  arrive(O::kRcReadRequest, 0, 0, length(1));
  arrive(O::kRcWriteOnly, 1);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 1, ack(2)), "overtakes the answer");
}
TEST_F(LintResponses, NaksKeepTheirOrder) {
  arrive(O::kRcFetchAdd, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 1, aeth(Nak{NakCode::kPsnSequenceError}, 1)), "overtakes the answer");
}
TEST_F(LintResponses, ReadsKeepTheirOrder) {
  arrive(O::kRcFetchAdd, 0);
  arrive(O::kRcReadRequest, 1, 0, length(1));
  EXPECT_BREACH(answer(O::kRcReadResponseOnly, 1, ack(2), 1), "overtakes an older answer");
}
TEST_F(LintResponses, AtomicsKeepTheirOrder) {
  arrive(O::kRcReadRequest, 0, 0, length(1));
  arrive(O::kRcFetchAdd, 1);
  EXPECT_BREACH(answer(O::kRcAtomicAcknowledge, 1, ack(2)), "overtakes an older answer");
}

TEST_F(LintResponses, AtomicWriteAndFlushHaveAnAnswerOfTheirOwn) {
  arrive(O::kRcAtomicWrite, 0, 8, length(8));
  arrive(O::kRcFlush, 1);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, ack(1)), "overtakes the answer");
  EXPECT_BREACH(answer(O::kRcReadResponseOnly, 1, ack(2)), "overtakes an older answer");
  EXPECT_BREACH(answer(O::kRcReadResponseFirst, 0, ack(1)), "is empty");
  EXPECT_BREACH(answer(O::kRcReadResponseOnly, 0, ack(1), 4), "is empty");
  EXPECT_BREACH(answer(O::kRcAtomicAcknowledge, 0, ack(1)), "PSN of no atomic");
  EXPECT_LEGAL(answer(O::kRcReadResponseOnly, 0, ack(1)));
  EXPECT_LEGAL(answer(O::kRcReadResponseOnly, 1, ack(2)));
}

TEST_F(LintResponses, ReadResponsesHaveTheirPlace) {
  arrive(O::kRcWriteOnly, 0);
  EXPECT_BREACH(answer(O::kRcReadResponseOnly, 0, ack(1)), "PSN of no READ");
}
TEST_F(LintResponses, ReadResponsesBeginAtTheBeginning) {
  arrive(O::kRcReadRequest, 0, 0, length(3 * kMtu));
  EXPECT_BREACH(answer(O::kRcReadResponseMiddle, 1, {}, kMtu), "neither begins nor continues");
}
TEST_F(LintResponses, ReadResponsesBeginOnce) {
  arrive(O::kRcReadRequest, 0, 0, length(3 * kMtu));
  answer(O::kRcReadResponseFirst, 0, ack(1), kMtu);
  EXPECT_BREACH(answer(O::kRcReadResponseFirst, 1, ack(1), kMtu), "in the middle of an answer");
}
TEST_F(LintResponses, ReadResponsesEndAtTheEnd) {
  arrive(O::kRcReadRequest, 0, 0, length(2 * kMtu));
  EXPECT_BREACH(answer(O::kRcReadResponseOnly, 0, ack(1), kMtu), "wrong end");
}
TEST_F(LintResponses, ReadResponsesCarryWhatIsDue) {
  arrive(O::kRcReadRequest, 0, 0, length(5));
  EXPECT_BREACH(answer(O::kRcReadResponseOnly, 0, ack(1), 4), "5 are due");
}
TEST_F(LintResponses, ReadResponsesCarryWhatIsInMemory) {
  lint.set_memory([](engine::sim::NodeId, std::uint64_t va, std::size_t size) {
    static const std::vector<std::uint8_t> ones(4096, 1);
    return va == kVa ? Bytes(ones).first(size) : Bytes{};
  });
  arrive(O::kRcReadRequest, 0, 0, length(5));
  EXPECT_BREACH(answer(O::kRcReadResponseOnly, 0, ack(1), 5), "what is in memory");
}
TEST_F(LintResponses, ReadResponsesAreNoNaks) {
  arrive(O::kRcReadRequest, 0, 0, length(1));
  EXPECT_BREACH(answer(O::kRcReadResponseOnly, 0, aeth(Nak{NakCode::kRemoteAccessError}, 1), 1), "syndrome of a NAK");
}
TEST_F(LintResponses, NothingBetweenReadResponses) {
  arrive(O::kRcWriteOnly, 0);
  arrive(O::kRcReadRequest, 1, 0, length(2 * kMtu));
  answer(O::kRcReadResponseFirst, 1, ack(2), kMtu);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, ack(2)), "between the responses");
}
TEST_F(LintResponses, NoAtomicBetweenReadResponses) {
  arrive(O::kRcReadRequest, 0, 0, length(2 * kMtu));
  arrive(O::kRcFetchAdd, 2);
  answer(O::kRcReadResponseFirst, 0, ack(2), kMtu);
  EXPECT_BREACH(answer(O::kRcAtomicAcknowledge, 2, ack(2)), "between the responses");
}

TEST_F(LintResponses, AtomicsAnswerAtomics) {
  arrive(O::kRcWriteOnly, 0);
  EXPECT_BREACH(answer(O::kRcAtomicAcknowledge, 0, ack(1)), "PSN of no atomic");
}
TEST_F(LintResponses, AtomicsAnswerTheSameAgain) {
  const auto original = [](std::uint64_t value) -> Edit {
    return [=](proto::PacketBuilder& b) {
      ack(1)(b);
      b.header<proto::AtomicAckEth>().set<proto::AtomicAckEth::Original>(value);
    };
  };
  arrive(O::kRcFetchAdd, 0);
  answer(O::kRcAtomicAcknowledge, 0, original(7));
  EXPECT_LEGAL(answer(O::kRcAtomicAcknowledge, 0, original(7)));
  EXPECT_BREACH(answer(O::kRcAtomicAcknowledge, 0, original(8)), "and again with 0x8");
}

TEST_F(LintResponses, CreditsAreTheReceivesPosted) {
  no_receives();
  for (int i = 0; i < 4; ++i) lint.receive_posted(1, kB);
  arrive(O::kRcSendOnly, 0);
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(Ack{4}, 1)), "4 credits, 3 receives");
  EXPECT_BREACH(answer(O::kRcAcknowledge, 0, aeth(Ack{2}, 1)), "2 credits, 3 receives");
  EXPECT_LEGAL(answer(O::kRcAcknowledge, 0, aeth(Ack{3}, 1)));
}

}  // namespace
}  // namespace uroce::simulator
