// SPDX-License-Identifier: Apache-2.0
#include "proto/timing.h"

#include <gtest/gtest.h>

namespace uroce::proto {
namespace {

// The table of IBTA Vol 1 as printed there, in milliseconds; typed in apart from the one in timing.h.
TEST(Timing, RnrDelaysAreThePrintedTable) {
  constexpr std::array<double, 32> kMilliseconds{655.36, 0.01,  0.02,  0.03,   0.04,   0.06,   0.08,   0.12,
                                                 0.16,   0.24,  0.32,  0.48,   0.64,   0.96,   1.28,   1.92,
                                                 2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
                                                 40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  for (std::uint8_t timer = 0; timer < 32; ++timer) {
    const std::chrono::duration<double, std::milli> delay = rnr_delay(timer);
    EXPECT_DOUBLE_EQ(delay.count(), kMilliseconds[timer]) << int{timer};
  }
}

TEST(Timing, LocalAckTimeoutDoubles) {
  EXPECT_EQ(local_ack_timeout(0), std::nullopt);
  EXPECT_EQ(local_ack_timeout(1), Duration{8'192});
  EXPECT_EQ(local_ack_timeout(14), Duration{67'108'864});
  EXPECT_EQ(local_ack_timeout(31), Duration{8'796'093'022'208});  // 2 h 27 min
}

TEST(Timing, MtuCodes) {
  const std::array<std::uint32_t, 5> bytes{256, 512, 1024, 2048, 4096};
  for (std::uint8_t code = kMtuCodeMin; code <= kMtuCodeMax; ++code) {
    EXPECT_EQ(mtu_bytes(code), bytes[code - 1u]);
    EXPECT_EQ(mtu_code(bytes[code - 1u]), code);
  }
  EXPECT_FALSE(is_mtu_code(0));
  EXPECT_FALSE(is_mtu_code(6));
  EXPECT_EQ(mtu_code(0), std::nullopt);
  EXPECT_EQ(mtu_code(1500), std::nullopt);
}

TEST(TimingDeathTest, CodesOutOfRangeAreBugs) {
  EXPECT_DEATH((void)rnr_delay(32), "broken invariant");
  EXPECT_DEATH((void)mtu_bytes(0), "broken invariant");
  EXPECT_DEATH((void)local_ack_timeout(32), "broken invariant");
}

}  // namespace
}  // namespace uroce::proto
