// SPDX-License-Identifier: Apache-2.0
// Every rule for completions, with a completion that breaks it.
#include "tests/judged/sim/completion_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/judged/sim/lint_fixture.h"

namespace uroce::simulator {
namespace {

using nic::SendOp;
using nic::WcOpcode;
using nic::WcStatus;

constexpr Statuses kAny = ~0u;

Op op(std::uint64_t id, SendOp kind = SendOp::kSend, bool signaled = true, std::uint32_t length = 8) {
  Op o;
  o.id = id;
  o.kind = kind;
  o.signaled = signaled;
  o.length = length;
  return o;
}
nic::Completion completion(std::uint64_t id, WcStatus status = WcStatus::kSuccess, WcOpcode opcode = WcOpcode::kSend) {
  nic::Completion c;
  c.wr_id = id;
  c.status = status;
  c.opcode = opcode;
  c.byte_len = 8;
  return c;
}

class Sends : public testing::Test {
 protected:
  void complete(const nic::Completion& c, Statuses legal = kAny) {
    check.completed(
        c, [=](const Op&) { return legal; }, [this](Op& o, Ending e) { ended.emplace_back(o.id, e); });
  }
  SendCheck check;
  std::vector<std::pair<std::uint64_t, Ending>> ended;
};

TEST_F(Sends, InOrderAndUnsignalledInBetween) {
  check.posted(op(1));
  check.posted(op(2, SendOp::kWrite, false));
  check.posted(op(3));
  complete(completion(1));
  complete(completion(3));
  EXPECT_THAT(ended, testing::ElementsAre(testing::Pair(1, Ending::kSuccess), testing::Pair(2, Ending::kSuccess),
                                          testing::Pair(3, Ending::kSuccess)));
}
TEST_F(Sends, AfterAnErrorEverythingIsFlushed) {
  check.posted(op(1));
  check.posted(op(2, SendOp::kWrite, false));
  complete(completion(1, WcStatus::kRemAccessErr));
  complete(completion(2, WcStatus::kWrFlushErr));
  EXPECT_THAT(ended, testing::ElementsAre(testing::Pair(1, Ending::kFailed), testing::Pair(2, Ending::kFlushed)));
}

TEST_F(Sends, OutOfOrder) {
  check.posted(op(1));
  check.posted(op(2));
  EXPECT_BREACH(complete(completion(2)), "before WR 1");
}
TEST_F(Sends, Twice) {
  check.posted(op(1));
  complete(completion(1));
  EXPECT_BREACH(complete(completion(1)), "not outstanding");
}
TEST_F(Sends, UnsignalledSuccess) {
  check.posted(op(1, SendOp::kSend, false));
  EXPECT_BREACH(complete(completion(1)), "not signalled");
}
TEST_F(Sends, WrongOpcode) {
  check.posted(op(1, SendOp::kWrite));
  EXPECT_BREACH(complete(completion(1, WcStatus::kSuccess, WcOpcode::kRead)), "as opcode");
}
TEST_F(Sends, WrongLength) {
  check.posted(op(1, SendOp::kRead, true, 9));
  EXPECT_BREACH(complete(completion(1, WcStatus::kSuccess, WcOpcode::kRead)), "byte_len");
}
TEST_F(Sends, StatusThatNothingExplains) {
  check.posted(op(1));
  EXPECT_BREACH(complete(completion(1, WcStatus::kRetryExcErr), only(WcStatus::kSuccess)), "nothing that happened");
}
TEST_F(Sends, SuccessAfterAnError) {
  check.posted(op(1));
  check.posted(op(2));
  complete(completion(1, WcStatus::kRemAccessErr));
  EXPECT_BREACH(complete(completion(2)), "after an error");
}
TEST_F(Sends, SecondErrorAfterAnError) {
  check.posted(op(1));
  check.posted(op(2));
  complete(completion(1, WcStatus::kWrFlushErr));
  EXPECT_BREACH(complete(completion(2, WcStatus::kRemAccessErr)), "after an error");
}
TEST_F(Sends, FlushLeavesNoneOut) {
  for (std::uint64_t id : {1u, 2u, 3u}) check.posted(op(id, SendOp::kSend, false));
  complete(completion(1, WcStatus::kWrFlushErr));
  EXPECT_BREACH(complete(completion(3, WcStatus::kWrFlushErr)), "before WR 2 (SEND)");
}
TEST_F(Sends, UnsignalledThatCannotHaveSucceeded) {
  check.posted(op(1, SendOp::kSend, false));
  check.posted(op(2));
  const auto legal = [](const Op& o) { return o.id == 1 ? only(WcStatus::kWrFlushErr) : kAny; };
  EXPECT_BREACH(check.completed(completion(2), legal, [](Op&, Ending) {}), "WR 1 cannot have succeeded");
}
TEST_F(Sends, NothingLeftInErr) {
  check.posted(op(1));
  EXPECT_BREACH(check.finished([](const Op&) { return kAny; }, [](Op&, Ending) {}), "no completion in ERR");
}
TEST_F(Sends, WhatIsLeftInErrMustHaveSucceeded) {
  check.posted(op(1, SendOp::kSend, false));
  EXPECT_BREACH(check.finished([](const Op&) { return Statuses{0}; }, [](Op&, Ending) {}), "cannot have succeeded");
}
TEST_F(Sends, GapsOnlyAfterAnOverflow) {
  check.posted(op(1));
  check.posted(op(2));
  check.expect_gaps();
  EXPECT_LEGAL(complete(completion(2)));
}

class Receives : public testing::Test {
 protected:
  Receives() {
    for (std::uint64_t id : {1u, 2u}) {
      Receive r;
      r.id = id;
      r.local.count = 1;
      r.local.pieces[0] = {0, 100};
      check.posted(r);
    }
    Message m;
    m.length = 8;
    messages.push_back(m);
  }
  void complete(const nic::Completion& c, Statuses legal = kAny) {
    check.completed(c, messages, legal, [](Receive&, const Message*, Ending) {});
  }
  static nic::Completion received(std::uint64_t id, WcStatus status = WcStatus::kSuccess) {
    return completion(id, status, WcOpcode::kRecv);
  }
  ReceiveCheck check;
  std::deque<Message> messages;
};

TEST_F(Receives, OnePerMessage) {
  EXPECT_LEGAL(complete(received(1)));
  EXPECT_BREACH(complete(received(2)), "no message was sent");
}
TEST_F(Receives, OutOfOrder) { EXPECT_BREACH(complete(received(2)), "before receive WR 1"); }
TEST_F(Receives, Unknown) {
  complete(received(1));
  complete(received(2, WcStatus::kWrFlushErr));
  EXPECT_BREACH(complete(received(3, WcStatus::kWrFlushErr)), "not outstanding");
}
TEST_F(Receives, WrongLength) {
  messages[0].length = 9;
  EXPECT_BREACH(complete(received(1)), "byte_len");
}
TEST_F(Receives, TooLong) {
  messages[0].length = 101;
  EXPECT_BREACH(complete(received(1)), "101 bytes into 100");
}
TEST_F(Receives, WrongOpcode) {
  messages[0].is_write = true;
  EXPECT_BREACH(complete(received(1)), "as opcode");
}
TEST_F(Receives, ImmediateFlag) {
  messages[0].has_imm = true;
  EXPECT_BREACH(complete(received(1)), "WITH_IMM");
}
TEST_F(Receives, ImmediateData) {
  messages[0].has_imm = true;
  messages[0].imm = 7;
  nic::Completion c = received(1);
  c.flags = nic::kWcWithImm;
  EXPECT_BREACH(complete(c), "immediate data");
}
TEST_F(Receives, StatusThatNothingExplains) {
  EXPECT_BREACH(complete(received(1, WcStatus::kLocLenErr), only(WcStatus::kSuccess)), "nothing that happened");
}
TEST_F(Receives, SuccessAfterAFlush) {
  messages.push_back(messages[0]);
  complete(received(1, WcStatus::kWrFlushErr));
  EXPECT_BREACH(complete(received(2)), "after an error");
}
TEST_F(Receives, NothingLeftInErr) { EXPECT_BREACH(check.finished(), "no completion in ERR"); }

}  // namespace
}  // namespace uroce::simulator
