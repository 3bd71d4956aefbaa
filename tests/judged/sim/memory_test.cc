// SPDX-License-Identifier: Apache-2.0
// The model memory and the history of atomic words: what they let pass, and what not.
#include "tests/judged/sim/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/judged/sim/atomic_word.h"
#include "tests/judged/sim/lint_fixture.h"

namespace uroce::simulator {
namespace {

using namespace std::chrono_literals;

class ModelMemory : public testing::Test {
 protected:
  static constexpr Extent kSlot{100, 4};
  static std::vector<std::uint8_t> bytes() { return {1, 2, 3, 4}; }
  void nic_writes(std::uint32_t offset, std::uint8_t byte) { memory.data()[offset] = byte; }
  Memory memory{256, 1};
};

TEST_F(ModelMemory, NothingChangesOutsideOfOpenExtents) {
  memory.open(kSlot);
  for (std::uint32_t i = 0; i < 4; ++i) nic_writes(100 + i, bytes()[i]);
  EXPECT_LEGAL(memory.check());
  nic_writes(104, static_cast<std::uint8_t>(memory.data()[104] + 1));
  EXPECT_BREACH(memory.check(), "no operation may change");
}
TEST_F(ModelMemory, NothingChangesInFront) {
  memory.open(kSlot);
  nic_writes(99, static_cast<std::uint8_t>(memory.data()[99] + 1));
  EXPECT_BREACH(memory.check(), "offset 0x63");
}
TEST_F(ModelMemory, SuccessMeansExactlyTheseBytes) {
  memory.open(kSlot);
  for (std::uint32_t i = 0; i < 3; ++i) nic_writes(100 + i, bytes()[i]);
  nic_writes(103, 9);
  EXPECT_BREACH(memory.settle(kSlot, bytes(), "it"), "byte 3 of 4 is 0x09, should be 0x04");
  nic_writes(103, 4);
  EXPECT_LEGAL(memory.settle(kSlot, bytes(), "it"));
  nic_writes(103, 5);
  EXPECT_BREACH(memory.check(), "no operation may change") << "closed again";
}
TEST_F(ModelMemory, FailureMeansOldOrNewBytes) {
  memory.open(kSlot);
  nic_writes(101, 2);
  EXPECT_LEGAL(memory.settle_partly(kSlot, bytes(), "it"));
  memory.open(kSlot);
  nic_writes(102, static_cast<std::uint8_t>(memory.model(kSlot)[2] + 7));
  EXPECT_BREACH(memory.settle_partly(kSlot, bytes(), "it"), "neither the old");
}
TEST_F(ModelMemory, FailureAtOnceMeansAllOrNothing) {
  memory.open(kSlot);
  EXPECT_LEGAL(memory.settle_partly(kSlot, bytes(), "it", true));
  memory.open(kSlot);
  nic_writes(101, 2);
  EXPECT_BREACH(memory.settle_partly(kSlot, bytes(), "it", true), "go at once");
  for (std::uint32_t i = 0; i < 4; ++i) nic_writes(100 + i, bytes()[i]);
  EXPECT_LEGAL(memory.settle_partly(kSlot, bytes(), "it", true));
}
TEST_F(ModelMemory, TheProgramItselfNotices) {
  nic_writes(100, static_cast<std::uint8_t>(memory.data()[100] + 1));
  EXPECT_BREACH(memory.store(kSlot, bytes()), "no operation may change");
}

TEST(MemoryArea, PiecesNeverOverlap) {
  Area area({100, 50});
  Extent a, b, c, d;
  ASSERT_TRUE(area.take(10, a, 8, 3));
  ASSERT_TRUE(area.take(20, b));
  ASSERT_TRUE(area.take(10, c));
  EXPECT_FALSE(area.take(20, d));
  EXPECT_EQ(a.begin, 103u);
  EXPECT_GE(b.begin, a.end());
  EXPECT_GE(c.begin, b.end());
  area.give_back(b);
  ASSERT_TRUE(area.take(20, d));
  EXPECT_EQ(d.begin, b.begin);
}

class History : public testing::Test {
 protected:
  static AtomicOp add(std::uint64_t id, std::uint64_t operand, std::uint64_t original) {
    AtomicOp op;
    op.id = id;
    op.group = id;
    op.operand = operand;
    op.original = original;
    op.posted = Instant{1us * static_cast<std::int64_t>(id)};
    op.completed = Instant::max();
    return op;
  }
  static AtomicOp swap(std::uint64_t id, std::uint64_t compare, std::uint64_t operand, std::uint64_t original) {
    AtomicOp op = add(id, operand, original);
    op.is_swap = true;
    op.compare = compare;
    return op;
  }
  AtomicWord word{100};
};

TEST_F(History, AChain) {
  word.succeeded(add(1, 10, 105));
  word.succeeded(add(2, 5, 100));
  word.succeeded(swap(3, 115, 7, 115));
  word.succeeded(swap(4, 1, 2, 7));
  EXPECT_LEGAL(word.check(7));
}
TEST_F(History, ExecutedTwice) {
  word.succeeded(add(1, 10, 100));
  EXPECT_BREACH(word.check(120), "should be 0x6e and is 0x78");
}
TEST_F(History, ExecutedTwiceInTheMiddle) {
  word.succeeded(add(1, 10, 100));
  word.succeeded(add(2, 5, 120));
  EXPECT_BREACH(word.check(125), "should be 0x6e");
}
TEST_F(History, NotExecuted) {
  word.succeeded(add(1, 10, 100));
  EXPECT_BREACH(word.check(100), "should be 0x6e");
}
TEST_F(History, TheSameValueForTwo) {
  word.succeeded(add(1, 10, 100));
  word.succeeded(add(2, 5, 100));
  EXPECT_BREACH(word.check(110), "both changed the value");
}
TEST_F(History, AValueThatNeverWas) {
  word.succeeded(swap(1, 1, 2, 55));
  EXPECT_BREACH(word.check(100), "never held");
}
TEST_F(History, AnEffectThatNeverWas) {
  word.succeeded(add(1, 10, 55));
  EXPECT_BREACH(word.check(100), "never held");
}
TEST_F(History, OrderOfTime) {
  AtomicOp early = add(1, 10, 105);
  early.completed = Instant{2us};
  AtomicOp late = add(5, 5, 100);
  late.posted = Instant{3us};
  word.succeeded(early);
  word.succeeded(late);
  EXPECT_BREACH(word.check(115), "completed before one was posted whose effect it saw");
}
TEST_F(History, StaleValue) {
  AtomicOp change = add(1, 10, 100);
  change.completed = Instant{2us};
  AtomicOp look = swap(5, 1, 2, 100);
  look.posted = Instant{3us};
  word.succeeded(change);
  word.succeeded(look);
  EXPECT_BREACH(word.check(110), "when the word did not hold it");
}
TEST_F(History, ValuesDoNotComeBack) {
  word.succeeded(add(1, 10, 100));
  word.succeeded(swap(2, 110, 100, 110));
  EXPECT_BREACH(word.check(100), "brought 0x64 back");
}
TEST_F(History, OfUnknownOutcome) {
  word.unknown(add(1, 10, 0));
  word.unknown(add(2, 3, 0));
  word.succeeded(add(3, 5, 110));
  EXPECT_LEGAL(word.check(115)) << "the first was executed, the second was not";
  EXPECT_LEGAL(word.check(118)) << "both were";
  EXPECT_BREACH(word.check(125), "should be") << "the first was, twice";
}
TEST_F(History, OfUnknownOutcomeInOrder) {
  AtomicOp first = add(1, 10, 0), second = add(2, 3, 0);
  first.group = second.group = 9;
  word.unknown(first);
  word.unknown(second);
  EXPECT_LEGAL(word.check(110));
  EXPECT_BREACH(word.check(103), "should be") << "the second cannot have been without the first";
}

}  // namespace
}  // namespace uroce::simulator
