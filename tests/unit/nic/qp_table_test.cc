// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/device/qp_table.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

TEST(QpTable, HasAsManyNumbersAsTheDeviceAnnounces) {
  QpTable table(0);
  const std::optional<std::uint32_t> first = table.next_qpn();
  std::uint32_t numbers = 1;
  while (table.next_qpn() != first) ++numbers;
  EXPECT_EQ(numbers, kMaxQp);
}

}  // namespace
}  // namespace uroce::nic
