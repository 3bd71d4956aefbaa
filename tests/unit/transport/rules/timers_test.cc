// SPDX-License-Identifier: Apache-2.0
// When a requester sends again, how often, and when it gives up (IBTA Vol 1, 9.7.5.2.8, 9.7.6.1.3, 9.9.2).
#include "proto/timing.h"
#include "tests/unit/transport/rules/script.h"
#include "verbs/nic/model/tunables.h"

namespace uroce::test::rules {
namespace {

Setup with_timeout(std::uint8_t timeout, std::uint8_t retry_cnt = 7) {
  return {.timeout = timeout, .retry_cnt = retry_cnt};
}

class AckTimeout : public testing::TestWithParam<int> {};

// IBTA 9.7.6.1.3: the oldest request is sent again after 4.096 us * 2^n, at the latest after four times that.
TEST_P(AckTimeout, LiesBetweenOneAndFourTimesItsValue) {
  const auto code = static_cast<std::uint8_t>(GetParam());
  const Duration timeout = *proto::local_ack_timeout(code);
  Script s(with_timeout(code));
  s.post_send(1, SendOp::kWrite, 8);
  const Duration sent = s.expect(write_only(0, 8).ack_req());
  s.advance(timeout - 1ns);
  s.expect_silence();
  s.advance(3 * timeout + 1ns);
  EXPECT_LE(s.expect(write_only(0, 8).ack_req()) - sent, 4 * timeout);
  s.ignore_rest();
}

// IBTA 9.9.2.1: a message is sent 1 + retry_cnt times, then fails, and not later than the attributes promise.
TEST_P(AckTimeout, RetryExceededComesInItsTime) {
  const auto code = static_cast<std::uint8_t>(GetParam());
  const Duration timeout = *proto::local_ack_timeout(code);
  for (std::uint8_t retry_cnt = 0; retry_cnt <= 7; ++retry_cnt) {
    Script s(with_timeout(code, retry_cnt));
    s.post_send(1, SendOp::kWrite, 8);
    s.post_send(2, SendOp::kWrite, 8);
    s.advance((retry_cnt + 1) * timeout - 1ns);
    for (int i = 0; i <= retry_cnt; ++i) {
      s.expect(write_only(0, 8));
      s.expect(write_only(1, 8));
    }
    s.expect_silence();
    s.expect_not_done();
    s.advance(3 * (retry_cnt + 1) * timeout + 1ns);
    s.expect_done(1, WcStatus::kRetryExcErr);
    s.expect_done(2, WcStatus::kWrFlushErr);
    s.expect_state(QpState::kErr);
    s.expect_silence();
  }
}
INSTANTIATE_TEST_SUITE_P(Codes, AckTimeout, testing::Range(1, 32));

/// A process that was stopped finds timeouts that are long over. Its peer has perhaps answered meanwhile.
class LateTimeout : public testing::Test {
 protected:
  LateTimeout() {
    s.post_send(1, SendOp::kWrite, 8);
    s.expect(write_only(0, 8));
  }
  const Duration timeout = *proto::local_ack_timeout(14);
  Script s{with_timeout(14, 0)};
};

TEST_F(LateTimeout, AnAnswerThatIsReadOnlyThenCounts) {
  s.hold_up(timeout + 10ms);
  s.recv(ack(0));
  s.expect_done(1, WcStatus::kSuccess);
}

TEST_F(LateTimeout, ThePeerGetsAsLongAsTheProcessWasHeldUp) {
  s.hold_up(timeout + 10ms);
  s.advance(10ms - 1ns);
  s.expect_not_done();
  s.advance(1ns);
  s.expect_done(1, WcStatus::kRetryExcErr);
}

TEST_F(LateTimeout, ButNotLongerThanTheTimeout) {
  s.hold_up(1h);
  s.advance(timeout - 1ns);
  s.expect_not_done();
  s.advance(1ns);
  s.expect_done(1, WcStatus::kRetryExcErr);
}

TEST_F(LateTimeout, SoonEnoughItCounts) {
  s.hold_up(timeout + nic::kHeldUp - 1ns);
  s.expect_done(1, WcStatus::kRetryExcErr);
}

// A host can be busy for ever, and the peer be gone.
TEST_F(LateTimeout, OneOfManyCounts) {
  s.hold_up(timeout - 10ms);
  for (int i = 0; i < nic::kLateTimeouts; ++i) {
    s.hold_up(20ms);
    s.expect_not_done();
  }
  s.hold_up(20ms);
  s.expect_done(1, WcStatus::kRetryExcErr);
}

// What is sent after a pause is not late.
TEST_F(LateTimeout, ProgressStartsTheCountAfresh) {
  for (std::uint32_t psn = 0; psn < 2u * nic::kLateTimeouts; ++psn) {
    s.hold_up(timeout + 10ms);
    s.recv(ack(psn));
    s.expect_done(psn + 1, WcStatus::kSuccess);
    s.post_send(psn + 2, SendOp::kWrite, 8);
    s.expect(write_only(psn + 1, 8));
  }
}

// IBTA 9.7.6.1.3: 0 stands for "never".
TEST(AckTimeoutZero, WaitsForEver) {
  Script s(with_timeout(0));
  s.post_send(1, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  s.advance(24h);
  s.expect_silence();
  s.expect_not_done();
}

// IBTA 9.9.2.1, 9.7.6.1.3: any progress restores the retry count, and the timer starts anew for what is the oldest
// then.
TEST(RetryCount, IsRestoredByProgress) {
  const Duration timeout = *proto::local_ack_timeout(14);
  Script s(with_timeout(14, 1));
  s.post_send(1, SendOp::kWrite, 8);
  s.post_send(2, SendOp::kWrite, 8);
  s.ignore_rest();
  s.advance(timeout);
  s.expect(write_only(0, 8));  // The only retry there is.
  s.expect(write_only(1, 8));
  s.advance(timeout / 2);
  s.recv(ack(0));
  s.expect_done(1, WcStatus::kSuccess);
  s.advance(timeout - 1ns);
  s.expect_silence();
  s.advance(1ns);
  s.expect(write_only(1, 8));
  s.advance(timeout);
  s.expect_done(2, WcStatus::kRetryExcErr);
}

// IBTA 9.9.2.1: sequence NAKs use up the retry count, as time-outs do.
TEST(RetryCount, SequenceNaksCount) {
  Script s(with_timeout(14, 2));
  s.post_send(1, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  s.recv(sequence_nak(0));
  s.expect(write_only(0, 8));
  s.advance(*proto::local_ack_timeout(14) + 1ns);  // Only after a timeout may the same NAK tell of something new.
  s.expect(write_only(0, 8));
  s.recv(sequence_nak(0));
  s.expect_done(1, WcStatus::kRetryExcErr);
  s.expect_state(QpState::kErr);
}

class RnrTimer : public testing::TestWithParam<int> {};

// IBTA 9.9.2.1: one that the network has doubled does not count again before something has been sent again.
TEST(RetryCount, ADoubledNakCountsOnce) {
  Script s({.timeout = 0, .retry_cnt = 1});
  s.post_send(1, SendOp::kWrite, 8);
  s.expect(write_only(0, 8));
  s.recv_together({sequence_nak(0), sequence_nak(0)});
  s.expect(write_only(0, 8));
  s.recv(ack(0));
  s.expect_done(1, WcStatus::kSuccess);
}

// IBTA 9.7.5.2.8, table "RNR NAK Timer Field": not before the time that the code stands for.
TEST_P(RnrTimer, IsWaitedFor) {
  const auto code = static_cast<std::uint8_t>(GetParam());
  Script s(with_timeout(0));
  s.post_send(1, SendOp::kSend, 8);
  s.expect(send_only(0).bytes(8));
  s.recv(rnr_nak(0, code));
  s.advance(proto::rnr_delay(code) - 1ns);
  s.expect_silence();
  s.advance(1ns);
  s.expect(send_only(0).bytes(8));
  s.recv(ack(0));
  s.expect_done(1, WcStatus::kSuccess);
}
INSTANTIATE_TEST_SUITE_P(Codes, RnrTimer, testing::Range(0, 32));

// IBTA 9.9.2.1: rnr_retry counts by itself; 0 .. 6 repetitions, then RNR_RETRY_EXC_ERR.
TEST(RnrRetry, IsExhausted) {
  for (std::uint8_t rnr_retry = 0; rnr_retry < 7; ++rnr_retry) {
    Script s({.timeout = 0, .retry_cnt = 0, .rnr_retry = rnr_retry});
    s.post_send(1, SendOp::kSend, 8);
    for (int i = 0; i < rnr_retry; ++i) {
      s.expect(send_only(0));
      s.recv(rnr_nak(0, 1));
      s.advance(proto::rnr_delay(1));
    }
    s.expect(send_only(0));
    s.expect_not_done();
    s.recv(rnr_nak(0, 1));
    s.expect_done(1, WcStatus::kRnrRetryExcErr);
    s.expect_state(QpState::kErr);
  }
}

// IBTA 9.9.2.1: 7 stands for "for ever".
TEST(RnrRetry, SevenIsForEver) {
  Script s({.timeout = 0, .retry_cnt = 0, .rnr_retry = 7});
  s.post_send(1, SendOp::kSend, 8);
  for (int i = 0; i < 1000; ++i) {
    s.expect(send_only(0));
    s.recv(rnr_nak(0, 1));
    s.advance(proto::rnr_delay(1));
  }
  s.expect(send_only(0));
  s.recv(ack(0));
  s.expect_done(1, WcStatus::kSuccess);
}

// IBTA 9.7.5.2.8: an RNR NAK acknowledges what is before its PSN, and what is behind is sent again with it.
TEST(RnrNak, AcknowledgesWhatIsBefore) {
  Script s({.retry_cnt = 0});
  s.recv(ack(-1).credits(31));
  s.post_send(1, SendOp::kWrite, 8);
  s.post_send(2, SendOp::kSend, 8);
  s.post_send(3, SendOp::kWrite, 8);
  s.ignore_rest();
  s.recv(rnr_nak(1, 1));
  s.recv(sequence_nak(1));  // What the third one drew: no further loss.
  s.advance(proto::rnr_delay(1));
  s.expect(send_only(1));
  s.expect(write_only(2, 8));
  s.ignore_rest();
}

}  // namespace
}  // namespace uroce::test::rules
