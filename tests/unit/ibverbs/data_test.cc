// SPDX-License-Identifier: Apache-2.0
// Every RC operation between two NICs, through the verbs.
#include <arpa/inet.h>

#include <numeric>

#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {
namespace {

constexpr std::size_t kHere = 4096;   ///< Where the tests' source data lies in A's memory.
constexpr std::size_t kThere = 8192;  ///< Where it goes in B's.

class Data : public testing::Test {
 protected:
  Data() { std::iota(p.a.memory.begin(), p.a.memory.end(), std::uint8_t{1}); }

  /// The completion of a send WR, which must be a success.
  struct ibv_wc sent(std::uint64_t wr_id, enum ibv_wc_opcode opcode) {
    const struct ibv_wc wc = wait_completion(p.a.send_cq);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << v().ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.wr_id, wr_id);
    EXPECT_EQ(wc.opcode, opcode);
    EXPECT_EQ(wc.qp_num, p.qa->qp_num);
    return wc;
  }
  struct ibv_wc received(std::uint64_t wr_id, enum ibv_wc_opcode opcode, std::uint32_t byte_len) {
    const struct ibv_wc wc = wait_completion(p.b.recv_cq);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << v().ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.wr_id, wr_id);
    EXPECT_EQ(wc.opcode, opcode);
    EXPECT_EQ(wc.byte_len, byte_len);
    EXPECT_EQ(wc.qp_num, p.qb->qp_num);
    return wc;
  }
  void expect_arrived(std::size_t from, std::size_t to, std::size_t length) {
    p.b.sync();
    EXPECT_TRUE(std::equal(p.a.memory.begin() + static_cast<long>(from),
                           p.a.memory.begin() + static_cast<long>(from + length),
                           p.b.memory.begin() + static_cast<long>(to)));
    EXPECT_EQ(p.b.memory[to - 1], 0) << "the byte before";
    EXPECT_EQ(p.b.memory[to + length], 0) << "the byte behind";
  }
  struct ibv_send_wr remote_wr(std::uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge* sge,
                               unsigned int flags = IBV_SEND_SIGNALED) {
    struct ibv_send_wr wr = send_wr(wr_id, opcode, sge, flags);
    wr.wr.rdma.remote_addr = p.b.address(kThere);
    wr.wr.rdma.rkey = p.b.mr->rkey;
    return wr;
  }

  Pair p;
};

class DataOfSize : public Data, public testing::WithParamInterface<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, DataOfSize, testing::Values(0, 1, 3, 1023, 1024, 1025, 100'000));

TEST_P(DataOfSize, Send) {
  const std::uint32_t size = GetParam();
  ASSERT_EQ(post_recv(p.qb.get(), 7, p.b.sge(kThere, 200'000)), 0);
  struct ibv_sge sge = p.a.sge(kHere, size);
  ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  const struct ibv_wc wc = received(7, IBV_WC_RECV, size);
  EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_IMM, 0u);
  sent(1, IBV_WC_SEND);
  expect_arrived(kHere, kThere, size);
}

TEST_P(DataOfSize, WriteCompletesNothingAtThePeer) {
  const std::uint32_t size = GetParam();
  struct ibv_sge sge = p.a.sge(kHere, size);
  ASSERT_EQ(post(p.qa.get(), remote_wr(1, IBV_WR_RDMA_WRITE, &sge)), 0);
  sent(1, IBV_WC_RDMA_WRITE);
  expect_arrived(kHere, kThere, size);
  expect_no_completion(p.b.recv_cq);
}

TEST_P(DataOfSize, Read) {
  const std::uint32_t size = GetParam();
  std::iota(p.b.memory.begin() + kThere, p.b.memory.begin() + kThere + 200'000, std::uint8_t{5});
  p.b.sync();
  std::fill(p.a.memory.begin(), p.a.memory.end(), std::uint8_t{0});
  struct ibv_sge sge = p.a.sge(kHere, size);
  ASSERT_EQ(post(p.qa.get(), remote_wr(1, IBV_WR_RDMA_READ, &sge)), 0);
  const struct ibv_wc wc = sent(1, IBV_WC_RDMA_READ);
  EXPECT_EQ(wc.byte_len, size);
  EXPECT_TRUE(std::equal(p.a.memory.begin() + kHere, p.a.memory.begin() + kHere + size, p.b.memory.begin() + kThere));
  EXPECT_EQ(p.a.memory[kHere + size], 0);
}

TEST_F(Data, ImmediateDataKeepsItsByteOrder) {
  ASSERT_EQ(post_recv(p.qb.get(), 7, p.b.sge(kThere, 64)), 0);
  struct ibv_sge sge = p.a.sge(kHere, 64);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND_WITH_IMM, &sge);
  wr.imm_data = htonl(0x01020304);
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  const struct ibv_wc wc = received(7, IBV_WC_RECV, 64);
  EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_IMM, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(ntohl(wc.imm_data), 0x01020304u);
  sent(1, IBV_WC_SEND);
}

TEST_F(Data, WriteWithImmediateTakesAReceive) {
  ASSERT_EQ(post_recv(p.qb.get(), 7, p.b.sge(0, 0)), 0);
  struct ibv_sge sge = p.a.sge(kHere, 3000);
  struct ibv_send_wr wr = remote_wr(1, IBV_WR_RDMA_WRITE_WITH_IMM, &sge);
  wr.imm_data = htonl(0xA0B0C0D0);
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  const struct ibv_wc wc = received(7, IBV_WC_RECV_RDMA_WITH_IMM, 3000);
  EXPECT_EQ(ntohl(wc.imm_data), 0xA0B0C0D0u);
  sent(1, IBV_WC_RDMA_WRITE);
  expect_arrived(kHere, kThere, 3000);
}

TEST_F(Data, CompareAndSwapSwapsOnlyOnEquality) {
  const auto remote = [&] {
    p.b.sync();
    std::uint64_t value;
    std::memcpy(&value, p.b.memory.data() + kThere, 8);
    p.b.sync();
    return value;
  };
  const auto original = [&] {
    std::uint64_t value;
    std::memcpy(&value, p.a.memory.data() + kHere, 8);
    return value;
  };
  struct ibv_sge sge = p.a.sge(kHere, 8);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_ATOMIC_CMP_AND_SWP, &sge);
  wr.wr.atomic.remote_addr = p.b.address(kThere);
  wr.wr.atomic.rkey = p.b.mr->rkey;
  wr.wr.atomic.compare_add = 0;
  wr.wr.atomic.swap = 0x1122334455667788;
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  EXPECT_EQ(sent(1, IBV_WC_COMP_SWAP).byte_len, 8u);
  EXPECT_EQ(original(), 0u);
  EXPECT_EQ(remote(), 0x1122334455667788u);
  wr.wr_id = 2;
  wr.wr.atomic.swap = 1;  // Compares with 0 again: must fail now.
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  sent(2, IBV_WC_COMP_SWAP);
  EXPECT_EQ(original(), 0x1122334455667788u);
  EXPECT_EQ(remote(), 0x1122334455667788u);
}

TEST_F(Data, FetchAndAddAdds) {
  struct ibv_sge sge = p.a.sge(kHere, 8);
  struct ibv_send_wr wr = send_wr(0, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
  wr.wr.atomic.remote_addr = p.b.address(kThere);
  wr.wr.atomic.rkey = p.b.mr->rkey;
  wr.wr.atomic.compare_add = 5;
  for (std::uint64_t i = 0; i < 10; ++i) {
    wr.wr_id = i;
    ASSERT_EQ(post(p.qa.get(), wr), 0);
    sent(i, IBV_WC_FETCH_ADD);
    std::uint64_t original;
    std::memcpy(&original, p.a.memory.data() + kHere, 8);
    EXPECT_EQ(original, 5 * i);
  }
}

TEST_F(Data, InlineDataIsTakenAtOnceAndNeedsNoKey) {
  ASSERT_EQ(post_recv(p.qb.get(), 7, p.b.sge(kThere, 256)), 0);
  std::vector<std::uint8_t> unregistered(256, 0x5A);
  struct ibv_sge sge {
    reinterpret_cast<std::uintptr_t>(unregistered.data()), 256, 0
  };
  ASSERT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge, IBV_SEND_SIGNALED | IBV_SEND_INLINE)), 0);
  std::fill(unregistered.begin(), unregistered.end(), std::uint8_t{0xEE});
  received(7, IBV_WC_RECV, 256);
  sent(1, IBV_WC_SEND);
  EXPECT_TRUE(std::all_of(p.b.memory.begin() + kThere, p.b.memory.begin() + kThere + 256,
                          [](std::uint8_t byte) { return byte == 0x5A; }));
}

TEST_F(Data, GathersAndScattersSixteenPieces) {
  constexpr std::uint32_t kPiece = 333;
  std::vector<struct ibv_sge> gather, scatter;
  for (std::size_t i = 0; i < 16; ++i) {
    gather.push_back(p.a.sge(kHere + i * 1000, kPiece));
    scatter.push_back(p.b.sge(kThere + i * 2000, kPiece));
  }
  struct ibv_recv_wr recv {};
  recv.wr_id = 7;
  recv.sg_list = scatter.data();
  recv.num_sge = 16;
  ASSERT_EQ(post(p.qb.get(), recv), 0);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND, nullptr);
  wr.sg_list = gather.data();
  wr.num_sge = 16;
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  received(7, IBV_WC_RECV, 16 * kPiece);
  sent(1, IBV_WC_SEND);
  for (std::size_t i = 0; i < 16; ++i) expect_arrived(kHere + i * 1000, kThere + i * 2000, kPiece);
}

TEST_F(Data, UnsignalledWorkCompletesSilently) {
  struct ibv_sge sge = p.a.sge(kHere, 100);
  // Far more than the send queue holds: slots come back without completions.
  for (std::uint64_t i = 0; i < 500; ++i) {
    int error = ENOMEM;
    while (error == ENOMEM) {
      error = post(p.qa.get(), remote_wr(i, IBV_WR_RDMA_WRITE, &sge, 0));
      if (error == ENOMEM) expect_no_completion(p.a.send_cq);  // Polling makes progress.
    }
    ASSERT_EQ(error, 0);
  }
  int error = ENOMEM;
  while (error == ENOMEM) {
    error = post(p.qa.get(), remote_wr(999, IBV_WR_RDMA_WRITE, &sge));
    struct ibv_wc wc;
    if (error == ENOMEM) ibv_poll_cq(p.a.send_cq, 0, &wc), expect_no_completion(p.a.send_cq);
  }
  sent(999, IBV_WC_RDMA_WRITE);
  expect_no_completion(p.a.send_cq);
}

TEST_F(Data, FencedSendCarriesWhatTheReadBrought) {
  std::fill(p.b.memory.begin() + kThere, p.b.memory.begin() + kThere + 50'000, std::uint8_t{0x77});
  p.b.sync();
  ASSERT_EQ(post_recv(p.qb.get(), 7, p.b.sge(500'000, 50'000)), 0);
  struct ibv_sge sge = p.a.sge(kHere, 50'000);
  struct ibv_send_wr read = remote_wr(1, IBV_WR_RDMA_READ, &sge);
  struct ibv_send_wr send = send_wr(2, IBV_WR_SEND, &sge, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
  read.next = &send;
  ASSERT_EQ(post(p.qa.get(), read), 0);
  sent(1, IBV_WC_RDMA_READ);
  sent(2, IBV_WC_SEND);
  received(7, IBV_WC_RECV, 50'000);
  EXPECT_TRUE(std::all_of(p.b.memory.begin() + 500'000, p.b.memory.begin() + 550'000,
                          [](std::uint8_t byte) { return byte == 0x77; }));
}

TEST_F(Data, BothDirectionsAtOnce) {
  constexpr std::uint64_t kMessages = 200;
  std::uint64_t posted = 0, sent_a = 0, sent_b = 0, received_a = 0, received_b = 0;
  struct ibv_sge from_a = p.a.sge(0, 4000);
  struct ibv_sge from_b = p.b.sge(0, 4000);
  const auto refill = [&] {
    while (posted < kMessages && posted < std::min({sent_a, sent_b, received_a, received_b}) + 32) {
      ASSERT_EQ(post_recv(p.qa.get(), posted, p.a.sge(500'000, 4000)), 0);
      ASSERT_EQ(post_recv(p.qb.get(), posted, p.b.sge(500'000, 4000)), 0);
      ASSERT_EQ(post(p.qa.get(), send_wr(posted, IBV_WR_SEND, &from_a)), 0);
      ASSERT_EQ(post(p.qb.get(), send_wr(posted, IBV_WR_SEND, &from_b)), 0);
      ++posted;
    }
  };
  while (std::min({sent_a, sent_b, received_a, received_b}) < kMessages) {
    refill();
    for (const auto& [cq, count] : {std::pair{p.a.send_cq, &sent_a}, std::pair{p.b.send_cq, &sent_b},
                                    std::pair{p.a.recv_cq, &received_a}, std::pair{p.b.recv_cq, &received_b}}) {
      if (*count == posted) continue;
      const struct ibv_wc wc = wait_completion(cq);
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << v().ibv_wc_status_str(wc.status);
      ASSERT_EQ(wc.wr_id, (*count)++);
    }
  }
}

TEST_F(Data, SendWithInvalidateOfAnOrdinaryRegionIsRefusedByTheReceiver) {
  // An ordinary region can't be invalidated remotely: the receiver's work fails, its QP too (IBTA C9-191.4).
  ASSERT_EQ(post_recv(p.qb.get(), 7, p.b.sge(kThere, 64)), 0);
  struct ibv_sge sge = p.a.sge(kHere, 64);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND_WITH_INV, &sge);
  wr.invalidate_rkey = p.b.mr->rkey;
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(p.b.recv_cq).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(state_of(p.qb.get()), IBV_QPS_ERR);
}

TEST_F(Data, PollTakesManyAtOnceInOrder) {
  struct ibv_sge sge = p.a.sge(kHere, 8);
  for (std::uint64_t i = 0; i < 60; ++i) ASSERT_EQ(post(p.qa.get(), remote_wr(i, IBV_WR_RDMA_WRITE, &sge)), 0);
  std::uint64_t next = 0;
  while (next < 60) {
    struct ibv_wc wc[60];
    const int n = ibv_poll_cq(p.a.send_cq, 60, wc);
    ASSERT_GE(n, 0);
    for (int i = 0; i < n; ++i) EXPECT_EQ(wc[i].wr_id, next++);
  }
}

}  // namespace
}  // namespace uroce::ibv::test
