// SPDX-License-Identifier: Apache-2.0
// A program that has taken all the memory that it may have. Events take none when they come: the room for them is made
// with the objects that they are about. Else what raised one would be done by half, and then again.
#include "tests/support/operator_new.h"
#include "tests/unit/transport/rules/script.h"

namespace {

bool is_short = false;

}  // namespace

bool uroce::test::may_allocate() { return !is_short; }

namespace uroce::test::rules {
namespace {

/// From the moment that the NIC says `kind` there is no memory.
struct ShortFrom final : nic::TraceSink {
  explicit ShortFrom(nic::TraceKind from) : kind(from) {}
  ~ShortFrom() override { is_short = false; }
  void on_event(const nic::TraceEvent& event) override { is_short = is_short || event.kind == kind; }
  const nic::TraceKind kind;
};

/// A packet that finds none on its way through the NIC.
void recv_without_memory(Script& s, const Pkt& packet) {
  s.recv_and_keep_answer(packet);
  is_short = false;
  s.recv_together({});  // Nothing more: it is asked for what came of it.
}

/// So many events, one after the other, that a queue which grows comes to grow in any of them.
constexpr std::int64_t kMany = 600;

// IBTA 11.4.2: a completion is there once, and is told of.
TEST(NoMemory, OfAnArmedCqForWhatArrives) {
  ShortFrom sink(nic::TraceKind::kReceived);
  Script s({.credits = false, .trace = &sink});
  for (std::int64_t i = 0; i < kMany; ++i) {
    s.post_recv(7, 100);
    s.cq->arm(false);
    recv_without_memory(s, send_only(i).bytes(4).ack_req());
    s.expect(ack(i).msn(static_cast<std::uint32_t>(i) + 1));
    s.expect_done(7, WcStatus::kSuccess);
    s.expect_event(Event::Kind::kCqNotify);
    ASSERT_FALSE(testing::Test::HasFailure()) << "message " << i;
  }
}

TEST(NoMemory, OfAnArmedCqForWhatIsAcknowledged) {
  ShortFrom sink(nic::TraceKind::kPacketIn);
  Script s({.trace = &sink});
  for (std::int64_t i = 0; i < kMany; ++i) {
    s.post_send(1, SendOp::kWrite, 4);
    s.expect(write_only(i, 4));
    s.cq->arm(false);
    recv_without_memory(s, ack(i));
    s.expect_done(1, WcStatus::kSuccess);
    s.expect_not_done();
    s.expect_event(Event::Kind::kCqNotify);
    ASSERT_FALSE(testing::Test::HasFailure()) << "message " << i;
  }
}

// IBTA 10.3.1.6: who is in ERR has flushed.
TEST(NoMemory, OfAQpThatBreaks) {
  for (std::int64_t before = 0; before < 64; ++before) {
    ShortFrom sink(nic::TraceKind::kNak);
    Script s({.trace = &sink});
    for (std::int64_t i = 0; i < before; ++i) {  // Events, before it.
      s.post_recv(7, 100);
      s.cq->arm(false);
      s.recv(send_only(i).bytes(4));
      s.expect_done(7, WcStatus::kSuccess);
    }
    s.ignore_rest();
    s.post_recv(8, 100);
    recv_without_memory(s, write_only(before, 8).rkey(5));
    s.expect(nak(before, proto::NakCode::kRemoteAccessError));
    s.expect_event(Event::Kind::kQpAccessErr);
    s.expect_done(8, WcStatus::kWrFlushErr);
    ASSERT_FALSE(testing::Test::HasFailure()) << "after " << before;
  }
}

}  // namespace
}  // namespace uroce::test::rules
