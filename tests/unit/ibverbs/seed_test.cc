// SPDX-License-Identifier: Apache-2.0
// QPNs and keys: nobody can guess them, unless they are wanted to be the same.
#include "verbs/ibverbs/host/seed.h"

#include <cstdlib>

#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {
namespace {

struct Numbers {
  std::uint32_t qpn = 0, key = 0;
  friend bool operator==(const Numbers&, const Numbers&) = default;
};

/// What the first QP and the first region have, of a NIC that is opened under this UROCE_SEED; null: without.
Numbers first_numbers(const char* seed) {
  seed == nullptr ? ::unsetenv("UROCE_SEED") : ::setenv("UROCE_SEED", seed, 1);
  Node node(0);
  ::unsetenv("UROCE_SEED");
  return {node.make_qp()->qp_num, node.mr->rkey};
}

TEST(Seed, WithoutOneEveryNicBeginsItsNumbersAnywhere) {
  const Numbers one = first_numbers(nullptr), other = first_numbers(nullptr), third = first_numbers(nullptr);
  EXPECT_FALSE(one.qpn == other.qpn && other.qpn == third.qpn);  // By chance once in 2^32.
  EXPECT_NE(one.key, other.key);
  EXPECT_GE(one.qpn, 0x11u);
  EXPECT_LE(one.qpn, 0xFFFFu);
}

TEST(Seed, WithOneTheNumbersAreTheSameInEveryRun) {
  EXPECT_EQ(first_numbers("7"), first_numbers("7"));
  EXPECT_FALSE(first_numbers("7") == first_numbers("8"));
}

TEST(Seed, NullGivesTheNumbersOfLessons) { EXPECT_EQ(first_numbers("0"), (Numbers{0x11, 0x1f8})); }

TEST(Seed, NicsOfOneProcessHaveOtherNumbers) {
  nic::NicConfig first, second;
  choose_numbers(first, 7, 0);
  choose_numbers(second, 7, 1);
  EXPECT_NE(first.first_local_qpn, second.first_local_qpn);
  EXPECT_NE(first.key_seed, second.key_seed);
}

TEST(Seed, FirstQpnsCoverTheirRange) {
  std::uint16_t least = 0xFFFF, most = 0;
  for (std::uint64_t seed = 1; seed < 20'000; ++seed) {
    nic::NicConfig config;
    choose_numbers(config, seed, 0);
    EXPECT_NE(config.key_seed, 0u);
    least = std::min(least, config.first_local_qpn);
    most = std::max(most, config.first_local_qpn);
  }
  EXPECT_GE(least, nic::kFirstQpn);
  EXPECT_LT(least, 100);
  EXPECT_GT(most, 65'400);
}

TEST(Seed, IsAWholeNumber) {
  EXPECT_EQ(*parse_seed(""), std::nullopt);
  EXPECT_EQ(*parse_seed("18446744073709551615"), ~std::uint64_t{0});
  for (const char* wrong : {"x", "-1", "1x", " 1", "18446744073709551616", "1.5"})
    EXPECT_FALSE(parse_seed(wrong)) << wrong;
}

}  // namespace
}  // namespace uroce::ibv::test
