// SPDX-License-Identifier: Apache-2.0
// Queues are mostly much larger than what is ever in them: they have memory for what came into them only.
#include <gtest/gtest.h>

#include <fstream>

#include "verbs/nic/model/limits.h"
#include "verbs/nic/resources/cq.h"
#include "verbs/nic/resources/work_queues.h"

namespace uroce::nic {
namespace {

/// Whether what `make()` returns, a queue of `bytes`, has brought much less than that into memory. (Sanitizers have
/// notes on each page.)
template <class Make>
bool is_mostly_elsewhere(std::size_t bytes, const Make& make) {
  const auto pages_in_memory = [] {
    std::ifstream statm("/proc/self/statm");
    std::size_t size = 0, resident = 0;
    statm >> size >> resident;
    return resident;
  };
  const std::size_t before = pages_in_memory();
  const auto queue = make();
  return (pages_in_memory() - before) * 4096 < bytes / 2;
}

TEST(QueueMemory, OfACq) {
  EXPECT_TRUE(is_mostly_elsewhere(kMaxCqe * sizeof(Completion), [] {
    Cq cq(kMaxCqe, nullptr);
    EXPECT_EQ(cq.resize(kMaxCqe), 0);
    EXPECT_EQ(cq.push({.wr_id = 1}), Cq::PushResult::kQueued);
    EXPECT_EQ(cq.poll(64, [](const Completion& completion) { EXPECT_EQ(completion.wr_id, 1u); }), 1u);
    return cq;
  }));
}

TEST(QueueMemory, OfASendQueue) {
  EXPECT_TRUE(is_mostly_elsewhere(kMaxQpWr * (sizeof(SendWqe) + kMaxSge * sizeof(Sge) + kMaxInline), [] {
    SendQueue queue(kMaxQpWr, kMaxSge, kMaxInline);
    SendWr wr;
    wr.wr_id = 1;
    queue.push(wr, 0, false);
    EXPECT_EQ(queue.at(queue.head()).wr_id, 1u);
    return queue;
  }));
}

TEST(QueueMemory, OfAReceiveQueue) {
  EXPECT_TRUE(is_mostly_elsewhere(kMaxQpWr * (sizeof(RecvWqe) + kMaxSge * sizeof(Sge)), [] {
    RecvQueue queue(kMaxQpWr, kMaxSge);
    queue.push({1, {}}, 0);
    EXPECT_EQ(queue.front().wr_id, 1u);
    return queue;
  }));
}

}  // namespace
}  // namespace uroce::nic
