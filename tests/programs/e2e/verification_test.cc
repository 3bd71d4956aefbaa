// SPDX-License-Identifier: Apache-2.0
// --verify must find what is wrong: every kind of damage that a broken NIC could do, done here by hand.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/programs/e2e/fake_verbs.h"
#include "tools/workload/initiator.h"
#include "tools/workload/pattern.h"
#include "tools/workload/target.h"

namespace uroce::tools {
namespace {

constexpr Direction kOut = Direction::kClientToServer;

Workload workload_of(Mix mix) {
  Workload w;
  w.mix = mix;
  w.qps = 2;
  w.size = 100;
  w.iterations = 20;
  w.depth = 4;
  w.receive_depth = 8;
  w.sges = 3;
  w.verify = true;
  return w;
}

std::uint8_t* pointer(const ibv_sge& sge) { return reinterpret_cast<std::uint8_t*>(sge.addr); }

void deliver(std::span<const ibv_sge> sges, PatternSeed seed, std::uint64_t offset) {
  for (const ibv_sge& sge : sges) {
    fill_pattern(seed, offset, {pointer(sge), sge.length});
    offset += sge.length;
  }
}

class TargetTest : public ::testing::Test {
 protected:
  void start(Mix mix, std::uint64_t iterations = 20) {
    workload = workload_of(mix);
    workload.iterations = iterations;
    fake.emplace(workload, Roles{false, true});
    target.emplace(fake->resources, workload, kOut);
    target->prepare();
  }
  /// What the receive side sees of message `iteration` on QP 1, as it should be.
  Completion arrive(std::uint64_t iteration) {
    Completion c;
    c.id = {1, true, next_receive++};
    for (const PostedReceive& receive : fake->receives) {
      if (receive.id.qp == 1 && receive.id.sequence == c.id.sequence) {
        deliver(receive.sges, message_seed(kOut, 1, iteration), 0);
        last = receive.sges;
      }
    }
    c.byte_len = static_cast<std::uint32_t>(workload.size);
    if (op_at(workload.mix, iteration) != Op::kSend) {
      c.has_immediate = true;
      c.immediate = static_cast<std::uint32_t>(iteration);
    }
    return c;
  }
  std::uint64_t wrong_after(const Completion& completion) {
    target->on_receive(completion, {});
    return target->verification().wrong_messages;
  }
  std::uint8_t* window(std::uint64_t iteration) {
    const Layout l = make_layout(workload, {false, true});
    return fake->resources.buffer + l.per_qp + l.window + iteration % workload.depth * l.window_stride;
  }

  Workload workload;
  std::optional<FakeVerbs> fake;
  std::optional<Target> target;
  std::uint64_t next_receive = 0;
  std::vector<ibv_sge> last;
};

TEST_F(TargetTest, RightMessagesPassAndReceivesAreReposted) {
  start(Mix::kSend);
  EXPECT_EQ(fake->receives.size(), 2 * workload.receive_depth);
  for (std::uint64_t i = 0; i < workload.iterations; ++i) EXPECT_EQ(wrong_after(arrive(i)), 0u);
  EXPECT_EQ(target->verification().checked_messages, workload.iterations);
  EXPECT_EQ(target->verification().checked_bytes, workload.iterations * workload.size);
  EXPECT_EQ(fake->receives.size(), workload.iterations + workload.receive_depth);  // QP 0 got nothing
  EXPECT_FALSE(target->all_received());
  target->verify_end();
  EXPECT_EQ(target->verification().wrong_messages, 1u);
  EXPECT_NE(target->verification().first_error.find("20 of 40 messages arrived"), std::string::npos);
}

TEST_F(TargetTest, OneWrongByteInAnyPieceIsFound) {
  start(Mix::kSend);
  for (std::size_t piece = 0; piece < 3; ++piece) {
    const Completion c = arrive(piece);
    pointer(last[piece])[last[piece].length - 1] ^= 0x80;
    EXPECT_EQ(wrong_after(c), piece + 1);
  }
  EXPECT_EQ(target->verification().first_error, "QP 1: send 0 arrived with 1 wrong bytes of 100");
}

TEST_F(TargetTest, MessageOfAnotherIterationOrQpIsFound) {
  start(Mix::kSend);
  Completion c = arrive(0);
  deliver(last, message_seed(kOut, 1, 1), 0);
  EXPECT_EQ(wrong_after(c), 1u);
  c = arrive(1);
  deliver(last, message_seed(kOut, 0, 1), 0);
  EXPECT_EQ(wrong_after(c), 2u);
}

TEST_F(TargetTest, WrongLengthOrderOrImmediateIsFound) {
  start(Mix::kSendImm);
  Completion c = arrive(0);
  c.byte_len = 99;
  EXPECT_EQ(wrong_after(c), 1u);
  c = arrive(1);
  c.immediate ^= 1;
  EXPECT_EQ(wrong_after(c), 2u);
  c = arrive(2);
  c.has_immediate = false;
  EXPECT_EQ(wrong_after(c), 3u);
  c = arrive(3);
  c.id.sequence = 4;
  EXPECT_EQ(wrong_after(c), 4u);
}

TEST_F(TargetTest, MixedReceivesFindTheirIteration) {
  start(Mix::kMixed);
  for (std::uint64_t i = 0; i < workload.iterations; ++i) {
    if (uses_receive(op_at(Mix::kMixed, i))) {
      EXPECT_EQ(wrong_after(arrive(i)), 0u) << i;
    }
  }
  EXPECT_EQ(next_receive, count_ops(Mix::kMixed, workload.iterations, uses_receive));
}

TEST_F(TargetTest, WritesAreVerifiedWhenThePeerReportsThem) {
  start(Mix::kWrite);
  for (std::uint64_t i = 0; i < 4; ++i) fill_pattern(message_seed(kOut, 1, i), 0, {window(i), 100});
  window(3)[50] ^= 1;
  ASSERT_TRUE(target->on_peer_progress({1, 3}));
  EXPECT_EQ(target->verification().checked_messages, 3u);
  EXPECT_TRUE(target->verification().ok());
  ASSERT_TRUE(target->on_peer_progress({1, 4}));
  EXPECT_EQ(target->verification().wrong_messages, 1u);
}

TEST_F(TargetTest, ProgressThatMakesNoSenseIsRefused) {
  start(Mix::kWrite);
  EXPECT_FALSE(target->on_peer_progress({2, 1}));   // no such QP
  EXPECT_FALSE(target->on_peer_progress({0, 21}));  // more than there are
  EXPECT_FALSE(target->on_peer_progress({0, 5}));   // more than the window holds
  EXPECT_TRUE(target->on_peer_progress({0, 4}));
  EXPECT_FALSE(target->on_peer_progress({0, 3}));  // backwards
  EXPECT_EQ(target->verification().checked_messages, 4u);
}

TEST_F(TargetTest, WordsThatAtomicsLeftAreChecked) {
  start(Mix::kFaa);
  const Layout l = make_layout(workload, {false, true});
  const auto adds_since = [](std::uint32_t qp, std::uint64_t from, std::uint64_t to) {
    return atomic_chain(Op::kFaa, kOut, qp, to) - atomic_chain(Op::kFaa, kOut, qp, from);
  };
  for (std::uint32_t qp = 0; qp < 2; ++qp) {
    std::uint64_t word = 0;
    std::memcpy(&word, fake->resources.buffer + qp * l.per_qp + l.counters + 8, 8);
    word += adds_since(qp, 0, workload.iterations);
    std::memcpy(fake->resources.buffer + qp * l.per_qp + l.counters + 8, &word, 8);
  }
  target->verify_end();
  EXPECT_TRUE(target->verification().ok());
  std::uint64_t word = 0;
  std::memcpy(&word, fake->resources.buffer + l.per_qp + l.counters + 8, 8);
  word -= adds_since(1, 7, 8);  // one of them was lost
  std::memcpy(fake->resources.buffer + l.per_qp + l.counters + 8, &word, 8);
  target->verify_end();
  EXPECT_EQ(target->verification().wrong_messages, 1u);
}

TEST_F(TargetTest, HowManyAtomicsThePeerClaimsCostsNothing) {
  start(Mix::kMixed, kMaxIterations);
  target->verify_end();  // One by one, it would take half an hour.
  EXPECT_FALSE(target->verification().ok());
}

class InitiatorTest : public ::testing::Test {
 protected:
  void start(Mix mix, bool verify = true) {
    workload = workload_of(mix);
    workload.verify = verify;
    fake.emplace(workload, Roles{true, false});
    initiator.emplace(fake->resources, workload, kOut, fake->peer);
    initiator->start();
  }
  void complete(std::size_t qp, std::uint64_t sequence) {
    Completion c;
    c.id = {qp, false, sequence};
    initiator->on_completion(c, std::chrono::steady_clock::now());
  }
  const PostedSend& posted(std::size_t qp, std::uint64_t sequence) const {
    for (const PostedSend& send : fake->sends) {
      if (send.id.qp == qp && send.id.sequence == sequence) return send;
    }
    throw std::out_of_range("was not posted");
  }

  Workload workload;
  std::optional<FakeVerbs> fake;
  std::optional<Initiator> initiator;
};

TEST_F(InitiatorTest, StaysWithinTheDepthAndDoesEveryOperationOnce) {
  start(Mix::kSend);
  EXPECT_EQ(fake->sends.size(), 2 * workload.depth);
  for (std::uint64_t i = 0; i < workload.iterations; ++i) {
    for (std::size_t qp = 0; qp < 2; ++qp) {
      EXPECT_LE(initiator->outstanding(), 2 * workload.depth);
      complete(qp, i);
    }
  }
  EXPECT_TRUE(initiator->done());
  EXPECT_EQ(initiator->outstanding(), 0u);
  EXPECT_EQ(fake->sends.size(), 2 * workload.iterations);
  EXPECT_EQ(initiator->stats().bytes, 2 * workload.iterations * workload.size);
  EXPECT_EQ(initiator->stats().latency.count(), 2 * workload.iterations);
}

TEST_F(InitiatorTest, EverySlotHoldsItsMessageWhenItIsPosted) {
  start(Mix::kWrite, true);
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::uint64_t offset = 0;
    for (const ibv_sge& sge : posted(1, i).sges) {
      EXPECT_EQ(count_pattern_errors(message_seed(kOut, 1, i), offset, {pointer(sge), sge.length}), 0u);
      offset += sge.length;
    }
    EXPECT_EQ(offset, workload.size);
  }
}

TEST_F(InitiatorTest, WritesWaitForTheTargetsWord) {
  start(Mix::kWrite);
  for (std::uint64_t i = 0; i < 4; ++i) complete(0, i);
  EXPECT_EQ(fake->sends.size(), 8u);  // nothing new without an acknowledgement
  const auto progress = initiator->next_progress();
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->qp, 0u);
  EXPECT_EQ(progress->count, 4u);
  EXPECT_FALSE(initiator->next_progress());
  initiator->on_acknowledged({0, 5});  // more than we did: ignored
  initiator->on_acknowledged({9, 1});
  EXPECT_EQ(fake->sends.size(), 8u);
  initiator->on_acknowledged({0, 2});
  EXPECT_EQ(fake->sends.size(), 10u);
  initiator->on_acknowledged({0, 4});
  EXPECT_EQ(fake->sends.size(), 12u);
}

TEST_F(InitiatorTest, WithoutVerificationWritesWaitForNobody) {
  start(Mix::kWrite, false);
  complete(0, 0);
  EXPECT_EQ(fake->sends.size(), 9u);
  EXPECT_FALSE(initiator->next_progress());
}

TEST_F(InitiatorTest, ReadsAreVerified) {
  start(Mix::kRead);
  const PatternSeed source = read_source_seed(opposite(kOut), 1);
  deliver(posted(1, 0).sges, source, read_offset(0));
  complete(1, 0);
  EXPECT_TRUE(initiator->verification().ok());
  deliver(posted(1, 1).sges, source, read_offset(1));
  pointer(posted(1, 1).sges[1])[0] ^= 1;
  complete(1, 1);
  EXPECT_EQ(initiator->verification().wrong_messages, 1u);
  deliver(posted(1, 2).sges, source, read_offset(1));  // data of another iteration
  complete(1, 2);
  EXPECT_EQ(initiator->verification().wrong_messages, 2u);
  complete(1, 3);  // data that never came
  EXPECT_EQ(initiator->verification().wrong_messages, 3u);
  EXPECT_EQ(initiator->verification().checked_messages, 4u);
}

TEST_F(InitiatorTest, CompareAndSwapWalksItsChain) {
  start(Mix::kCas);
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(posted(0, i).wr.wr.atomic.compare_add, atomic_chain(Op::kCas, kOut, 0, i));
    EXPECT_EQ(posted(0, i).wr.wr.atomic.swap, atomic_chain(Op::kCas, kOut, 0, i + 1));
    // The third one finds what the second one found: it had not been executed.
    const std::uint64_t original = atomic_chain(Op::kCas, kOut, 0, i == 2 ? 1 : i);
    std::memcpy(pointer(posted(0, i).sges[0]), &original, 8);
    complete(0, i);
    EXPECT_EQ(initiator->verification().wrong_messages, i >= 2 ? 1u : 0u);
  }
}

TEST_F(InitiatorTest, FetchAndAddFindsTheSumSoFar) {
  start(Mix::kFaa);
  std::uint64_t sum = atomic_chain(Op::kFaa, kOut, 0, 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::uint64_t original = i == 3 ? sum + 1 : sum;
    std::memcpy(pointer(posted(0, i).sges[0]), &original, 8);
    sum += posted(0, i).wr.wr.atomic.compare_add;
    complete(0, i);
  }
  EXPECT_EQ(initiator->verification().wrong_messages, 1u);
}

TEST_F(InitiatorTest, CompletionOutOfOrderIsFound) {
  start(Mix::kSend);
  complete(0, 1);
  EXPECT_EQ(initiator->verification().wrong_messages, 1u);
}

}  // namespace
}  // namespace uroce::tools
