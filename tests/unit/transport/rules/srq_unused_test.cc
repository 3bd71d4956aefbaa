// SPDX-License-Identifier: Apache-2.0
// Shared receives that a QP held when it ended go back to the SRQ (IBTA Vol 1, 10.2.9 and 9.9.3).
#include "tests/unit/transport/rules/script.h"

namespace uroce::test::rules {
namespace {

constexpr std::uint32_t kGrhBytes = 40;

// 9.9.3 (class D): a datagram that is longer than the receive is dropped, and the receive stays for the next QP.
TEST(SharedReceive, IsNotTakenByADatagramThatIsTooLong) {
  Script s({.type = nic::QpType::kUd, .mtu_code = 5, .srq_wr = 8});
  s.post_srq(7, kGrhBytes + 60);
  ASSERT_EQ(s.srq->arm(1), 0);
  for (int i = 0; i < 3; ++i) s.recv(packet(Opcode::kUdSendOnly, 0).bytes(61));
  s.expect_not_done();
  EXPECT_EQ(s.srq->size(), 1u);
  EXPECT_EQ(s.srq->limit(), 1u) << "nothing was taken";
  s.recv(packet(Opcode::kUdSendOnly, 0).bytes(60));
  s.expect_done(7, WcStatus::kSuccess);
  s.expect_event(Event::Kind::kSrqLimitReached);
}

TEST(SharedReceive, IsNotTakenByAUcPacketThatIsTooLong) {
  Script s({.type = nic::QpType::kUc, .srq_wr = 8});
  s.post_srq(7, kMtu - 1);
  s.recv(packet(Opcode::kUcSendFirst, 0).bytes(kMtu));
  s.recv(packet(Opcode::kUcSendLast, 1).bytes(1));
  s.expect_not_done();
  EXPECT_EQ(s.srq->size(), 1u);
  s.recv(packet(Opcode::kUcSendOnly, 2).bytes(kMtu - 1));
  s.expect_done(7, WcStatus::kSuccess);
}

/// Ways in which a UC message comes to nothing after its first packet.
struct Broken {
  const char* name;
  std::vector<Pkt> rest;
};
class BrokenUcMessage : public testing::TestWithParam<Broken> {};

// 9.9.3 (class E): what a UC message took of an SRQ tells of its end, and the QP goes on.
TEST_P(BrokenUcMessage, TellsOfItsSharedReceive) {
  Script s({.type = nic::QpType::kUc, .srq_wr = 8});
  s.post_srq(7, 2 * kMtu);
  s.recv(packet(Opcode::kUcSendFirst, 0).bytes(kMtu));
  EXPECT_EQ(s.srq->size(), 0u);
  for (const Pkt& p : GetParam().rest) s.recv(p);
  s.expect_done(7, WcStatus::kRemInvReqErr);
  s.expect_state(QpState::kRts);
  s.post_srq(8, 100);
  s.recv(packet(Opcode::kUcSendOnly, 50).bytes(100));
  s.expect_done(8, WcStatus::kSuccess);
}
INSTANTIATE_TEST_SUITE_P(All, BrokenUcMessage,
                         testing::Values(Broken{"Gap", {packet(Opcode::kUcSendLast, 2).bytes(1)}},
                                         Broken{"AnotherMessage", {packet(Opcode::kUcWriteOnly, 1).length(8).bytes(8)}},
                                         Broken{"TooLong",
                                                {packet(Opcode::kUcSendMiddle, 1).bytes(kMtu),
                                                 packet(Opcode::kUcSendLast, 2).bytes(1)}}),
                         [](const auto& test) { return std::string(test.param.name); });

class HeldReceive : public testing::TestWithParam<nic::QpType> {
 protected:
  /// The QP is in the middle of a message into receive 7; 8 and, in the place of 7, 9 are in the queue.
  HeldReceive() {
    s.post_srq(7, 4096);
    s.post_srq(8, 4096);
    s.recv(packet(GetParam() == nic::QpType::kRc ? Opcode::kRcSendFirst : Opcode::kUcSendFirst, 0).bytes(kMtu));
    s.post_srq(9, 4096);
  }
  /// All are there, the oldest first; and more than was asked for is never taken.
  void expect_all() {
    ASSERT_EQ(s.srq->size(), 3u);
    const nic::Sge sges[] = {s.sge(0, 1)};
    EXPECT_EQ(s.srq->post({10, sges}), ENOMEM);
    for (const std::uint64_t id : {7u, 8u, 9u}) {
      nic::RecvWqe wqe;
      std::vector<nic::Sge> list(2);
      s.srq->take(wqe, list);
      EXPECT_EQ(wqe.wr_id, id);
      EXPECT_EQ(wqe.length, 4096u);
      EXPECT_EQ(list[0].length, 4096u);
    }
  }
  Script s{{.type = GetParam(), .srq_wr = 2}};
};
INSTANTIATE_TEST_SUITE_P(Services, HeldReceive, testing::Values(nic::QpType::kRc, nic::QpType::kUc));

// 10.2.9: the receive of a message that never ends is not lost with its QP.
TEST_P(HeldReceive, GoesBackWhenTheQpIsDestroyed) {
  s.nic.destroy_qp(s.qp);
  expect_all();
}

TEST_P(HeldReceive, GoesBackAtReset) {
  s.move_to(QpState::kReset);
  expect_all();
}

TEST_P(HeldReceive, GoesBackIntoAQueueThatWasResized) {
  ASSERT_EQ(s.srq->resize(3, 0), 0);
  s.move_to(QpState::kReset);
  expect_all();
}

}  // namespace
}  // namespace uroce::test::rules
