// SPDX-License-Identifier: Apache-2.0
// Seeded chaos: loss, duplication, reordering and corruption under a mix of operations. Everything must complete once,
// in order, with the right bytes.
#include "tests/support/pair.h"

namespace uroce::test {
namespace {

using nic::SendOp;

class Lossy : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Lossy, EverythingCompletesOnceInOrderWithTheRightBytes) {
  const std::uint64_t seed = GetParam();
  PairOptions options{.mtu_code = static_cast<std::uint32_t>(1 + seed % 5),
                      .psn_a = 0xFFFFC0,
                      .psn_b = 0xFFFFF0,
                      .timeout = 10,
                      .rd_atomic = static_cast<std::uint8_t>(1 + seed % 4)};
  options.world.seed = seed;
  options.world.link.impairments = {.loss = 0.03, .duplicate = 0.02, .reorder = 0.03, .corrupt = 0.01};
  Pair pair(options);
  engine::sim::Random random(seed);
  const auto below = [&random](std::uint64_t n) { return random.below(n); };

  constexpr std::size_t kSlot = 8192, kOps = 60;
  std::uint64_t sum = 0;
  std::memcpy(pair.b.memory.data() + kOps * kSlot, &sum, 8);
  std::vector<SendOp> ops;
  std::vector<std::size_t> sizes;
  std::size_t receives = 0;
  for (std::size_t i = 0; i < kOps; ++i) {
    constexpr SendOp kChoice[] = {SendOp::kSend, SendOp::kWrite, SendOp::kWriteImm, SendOp::kRead, SendOp::kFetchAdd};
    ops.push_back(kChoice[below(5)]);
    sizes.push_back(ops.back() == SendOp::kFetchAdd ? 8 : below(3) == 0 ? below(3) : below(kSlot));
    nic::SendWr w = remote_wr(i, ops[i], pair.b, i * kSlot);
    if (ops[i] == SendOp::kSend || ops[i] == SendOp::kWriteImm) {
      ++receives;
      ASSERT_EQ(pair.receive(pair.b, 1000 + i, {pair.b.sge(i * kSlot, kSlot)}), 0);
    }
    if (ops[i] == SendOp::kFetchAdd) {
      w.remote_addr = pair.b.va() + kOps * kSlot;
      w.compare_add = i + 1;
      sum += i + 1;
    }
    ASSERT_EQ(pair.send(pair.a, w, {pair.a.sge(i * kSlot, sizes[i])}), 0);
  }
  const auto original = pair.a.memory;
  const auto target = pair.b.memory;
  const auto done = pair.run(pair.a);
  ASSERT_EQ(done.size(), kOps) << "status of the last: " << (done.empty() ? -1 : static_cast<int>(done.back().status));
  for (std::size_t i = 0; i < kOps; ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    ASSERT_EQ(done[i].status, WcStatus::kSuccess) << "wr " << i;
    const auto at = static_cast<std::ptrdiff_t>(i * kSlot);
    const auto n = static_cast<std::ptrdiff_t>(sizes[i]);
    if (ops[i] == SendOp::kRead) {
      EXPECT_TRUE(std::equal(target.begin() + at, target.begin() + at + n, pair.a.memory.begin() + at)) << i;
    } else if (ops[i] != SendOp::kFetchAdd) {
      EXPECT_TRUE(std::equal(original.begin() + at, original.begin() + at + n, pair.b.memory.begin() + at)) << i;
    }
  }
  EXPECT_EQ(pair.b.nic.counters().icrc_id_recovered, 0u);
  std::uint64_t got = 0;
  std::memcpy(&got, pair.b.memory.data() + kOps * kSlot, 8);
  EXPECT_EQ(got, sum) << "every atomic exactly once";
  const auto received = pair.b.poll();
  EXPECT_EQ(received.size(), receives);
  for (std::size_t i = 1; i < received.size(); ++i) EXPECT_LT(received[i - 1].wr_id, received[i].wr_id);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Lossy, testing::Range(std::uint64_t{1}, std::uint64_t{301}));

}  // namespace
}  // namespace uroce::test
