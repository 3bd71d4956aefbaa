// SPDX-License-Identifier: Apache-2.0
// Attributes that change under way (IBTA Vol 1, 11.2.5.2, in RTS and SQD): what is accepted takes effect.
#include "tests/unit/transport/rules/script.h"
#include "verbs/nic/transport/rc/replay_ring.h"

namespace uroce::test::rules {
namespace {

/// Changes one attribute in SQD, and goes back to RTS.
void change_in_sqd(Script& s, std::uint32_t mask, const std::function<void(nic::QpAttr&)>& change) {
  s.move_to(QpState::kSqd);
  s.move_to(QpState::kSqd, mask, change);
  s.move_to(QpState::kRts);
}

void set_max_dest(Script& s, std::uint8_t depth) {
  change_in_sqd(s, nic::kAttrMaxDestRdAtomic, [depth](nic::QpAttr& a) { a.max_dest_rd_atomic = depth; });
}

std::vector<Pkt> fetch_adds(int from, int to) {
  std::vector<Pkt> list;
  for (int psn = from; psn < to; ++psn) list.push_back(fetch_add(psn, 1));
  return list;
}

TEST(MaxDestRdAtomic, RaisedFromZero) {
  Script s({.max_dest_rd_atomic = 0});
  set_max_dest(s, 4);
  s.recv(read_request(0, 8));
  s.expect(read_only(0));
}

// As many as are agreed now: at once, and again as duplicates.
TEST(MaxDestRdAtomic, Raised) {
  Script s({.max_dest_rd_atomic = 1});
  s.recv(fetch_add(0, 1));
  s.expect(atomic_ack(0, 0));
  set_max_dest(s, 16);
  s.recv(fetch_add(0, 1));
  s.expect(atomic_ack(0, 0));
  for (int again = 0; again < 2; ++again) {
    s.recv_together(fetch_adds(1, 17));
    for (int psn = 1; psn < 17; ++psn) s.expect(atomic_ack(psn, static_cast<std::uint64_t>(psn)));
  }
}

// The peer may still ask for what it had under way before.
TEST(MaxDestRdAtomic, LoweredKeepsWhatWasAnswered) {
  Script s({.max_dest_rd_atomic = 4});
  s.recv_together(fetch_adds(0, 4));
  s.ignore_rest();
  set_max_dest(s, 1);
  s.recv(fetch_add(0, 1));
  s.expect(atomic_ack(0, 0));
  s.recv(fetch_add(3, 1));
  s.expect(atomic_ack(3, 3));
  s.recv_together(fetch_adds(4, 6));
  s.expect(atomic_ack(4, 4));
  s.expect(nak(5, NakCode::kInvalidRequest));
  s.expect_event(Event::Kind::kQpReqErr);
}

// Answers that wait to be sent stay, in order, whichever way the depth goes.
TEST(MaxDestRdAtomic, ChangedWhileAnswersWait) {
  for (const std::uint32_t depth : {1u, 2u, 3u, 8u}) {
    nic::ResponseQueue queue;
    queue.resize(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      queue.push({.psn = Psn{i}, .end = Psn{i + 1}});
      queue.push({.is_duplicate = true, .psn = Psn{100 + i}, .end = Psn{101 + i}});
      if (i == 0) queue.pop(), queue.pop();  // So that the ring wraps.
    }
    queue.push({.psn = Psn{3}, .end = Psn{4}});
    queue.resize(depth);
    EXPECT_EQ(queue.full(false), depth <= 3);
    EXPECT_EQ(queue.full(true), depth <= 2);
    while (!queue.full(false)) queue.push({.psn = Psn{50}, .end = Psn{51}});
    while (!queue.full(true)) queue.push({.is_duplicate = true, .psn = Psn{50}, .end = Psn{51}});
    for (const std::uint32_t psn : {1u, 101u, 2u, 102u, 3u}) {
      EXPECT_EQ(queue.front().psn, Psn{psn});
      queue.pop();
    }
  }
}

TEST(MaxRdAtomic, RaisedAndLowered) {
  Script s({.max_rd_atomic = 1});
  const auto two_reads = [&s](std::uint64_t id) {
    s.post_send(id, SendOp::kRead, 8);
    s.post_send(id + 1, SendOp::kRead, 8);
  };
  const auto set = [&s](std::uint8_t n) {
    change_in_sqd(s, nic::kAttrMaxRdAtomic, [n](nic::QpAttr& a) { a.max_rd_atomic = n; });
  };
  set(2);
  two_reads(1);
  s.expect(read_request(0, 8));
  s.expect(read_request(1, 8));
  s.recv(read_only(0).bytes(8));
  s.recv(read_only(1).bytes(8));
  s.expect_done(1, WcStatus::kSuccess);
  s.expect_done(2, WcStatus::kSuccess);
  set(1);
  two_reads(3);
  s.expect(read_request(2, 8));
  s.expect_silence();
  s.recv(read_only(2).bytes(8));
  s.expect(read_request(3, 8));
  s.recv(read_only(3).bytes(8));
  s.expect_done(3, WcStatus::kSuccess);
  s.expect_done(4, WcStatus::kSuccess);
}

// IBTA 10.3.1.5: in SQD nothing begins, so nothing can fail because it could not. Without any, the first one fails when
// its turn has come.
TEST(MaxRdAtomic, NoneInSqd) {
  Script s;
  s.move_to(QpState::kSqd);
  s.post_send(1, SendOp::kRead, 8);
  s.move_to(QpState::kSqd, nic::kAttrMaxRdAtomic, [](nic::QpAttr& a) { a.max_rd_atomic = 0; });
  s.expect_not_done();
  s.expect_state(QpState::kSqd);
  s.move_to(QpState::kRts);
  s.expect_done(1, WcStatus::kLocQpOpErr);
  s.expect_state(QpState::kErr);
}

// Also for what waits for its ACK already: SQD lets it finish, under the timeout that holds now.
TEST(Timeout, ChangedWhileARequestIsOutstanding) {
  for (const std::uint8_t before : {std::uint8_t{0}, std::uint8_t{20}}) {
    Script s({.timeout = before});
    s.post_send(1, SendOp::kWrite, 8);
    s.expect(write_only(0, 8));
    change_in_sqd(s, nic::kAttrTimeout, [](nic::QpAttr& a) { a.timeout = 10; });
    s.advance(4ms);  // 4.194 ms.
    s.expect_silence();
    s.advance(200us);
    s.expect(write_only(0, 8));
    change_in_sqd(s, nic::kAttrTimeout, [](nic::QpAttr& a) { a.timeout = 0; });
    s.advance(100s);
    s.expect_silence();
    s.recv(ack(0));
    s.expect_done(1, WcStatus::kSuccess);
  }
}

TEST(RetryCounts, ChangedInSqd) {
  Script s({.retry_cnt = 7, .rnr_retry = 7});
  change_in_sqd(s, nic::kAttrRetryCnt | nic::kAttrRnrRetry, [](nic::QpAttr& a) { a.retry_cnt = a.rnr_retry = 0; });
  s.post_send(1, SendOp::kSend, 8);
  s.expect(send_only(0));
  s.recv(rnr_nak(0, 1));
  s.expect_done(1, WcStatus::kRnrRetryExcErr);
  s.expect_state(QpState::kErr);
}

TEST(MinRnrTimer, ChangedInRts) {
  Script s({.min_rnr_timer = 5});
  s.move_to(QpState::kRts, nic::kAttrMinRnrTimer, [](nic::QpAttr& a) { a.min_rnr_timer = 9; });
  s.recv(send_only(0).bytes(8));
  s.expect(rnr_nak(0, 9));
}

TEST(Access, TakenAwayInRts) {
  Script s;
  s.move_to(QpState::kRts, nic::kAttrAccess, [](nic::QpAttr& a) { a.access = nic::kRemoteRead; });
  s.recv(read_request(0, 8));
  s.expect(read_only(0));
  s.recv(write_only(1, 8));
  s.expect(nak(1, NakCode::kInvalidRequest));
  s.expect_event(Event::Kind::kQpReqErr);
}

}  // namespace
}  // namespace uroce::test::rules
