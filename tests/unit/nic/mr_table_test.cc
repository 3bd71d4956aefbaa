// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/resources/mr_table.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <limits>
#include <set>

namespace uroce::nic {
namespace {

constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;

class MrTableTest : public testing::Test {
 protected:
  Mr* add(std::uint64_t iova, std::uint64_t length = 64, std::uint32_t access = kAll) {
    auto mr = table_.add(&pd_, memory_.data(), length, iova, access);
    EXPECT_TRUE(mr.ok());
    return *mr;
  }
  AccessError refusal(std::uint32_t key, std::uint64_t va, std::uint64_t length, std::uint32_t rights = 0) {
    auto at = table_.resolve(key, va, length, &pd_, rights);
    EXPECT_FALSE(at.ok());
    return at.error();
  }
  std::uint8_t* find(std::uint32_t key, std::uint64_t va, std::uint64_t length, std::uint32_t rights = 0) {
    auto at = table_.resolve(key, va, length, &pd_, rights);
    return at.ok() ? *at : nullptr;
  }

  std::array<std::uint8_t, 64> memory_{};
  Pd pd_;
  Pd other_;
  MrTable table_{8};
};

TEST_F(MrTableTest, ResolvesEveryByteAndNotOneMore) {
  const Mr* mr = add(0x1000);
  for (std::uint64_t offset = 0; offset <= 64; ++offset) {
    EXPECT_EQ(find(mr->key, 0x1000 + offset, 64 - offset), memory_.data() + offset);
    EXPECT_EQ(refusal(mr->key, 0x1000 + offset, 65 - offset), AccessError::kOutOfBounds);
  }
  EXPECT_EQ(refusal(mr->key, 0xFFF, 1), AccessError::kOutOfBounds);
  EXPECT_EQ(refusal(mr->key, 0x1041, 0), AccessError::kOutOfBounds);
}

TEST_F(MrTableTest, BoundsDoNotWrapAround) {
  const Mr* high = add(kTop - 63);  // Ends with the last address there is.
  EXPECT_EQ(find(high->key, kTop, 1), memory_.data() + 63);
  EXPECT_EQ(refusal(high->key, kTop, 2), AccessError::kOutOfBounds);
  EXPECT_EQ(refusal(high->key, kTop, kTop), AccessError::kOutOfBounds);
  EXPECT_EQ(refusal(high->key, 0, 1), AccessError::kOutOfBounds);
  EXPECT_EQ(refusal(high->key, kTop - 63, kTop), AccessError::kOutOfBounds);
  const Mr* low = add(0);
  EXPECT_EQ(refusal(low->key, kTop, 2), AccessError::kOutOfBounds);
  EXPECT_EQ(refusal(low->key, 32, kTop), AccessError::kOutOfBounds);
}

TEST_F(MrTableTest, RefusesRangesThatWrapAround) {
  EXPECT_EQ(table_.add(&pd_, memory_.data(), 64, kTop - 62, 0).error(), EINVAL);
  EXPECT_EQ(table_.add(&pd_, memory_.data(), kTop, 0, 0).error(), EINVAL);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(pd_.users, 0u);
}

TEST_F(MrTableTest, GrantsExactlyTheRightsGiven) {
  for (std::uint32_t access = 0; access <= kAll; ++access) {
    const bool sane = (access & (kRemoteWrite | kRemoteAtomic)) == 0 || (access & kLocalWrite) != 0;
    auto mr = table_.add(&pd_, memory_.data(), 64, 0, access);
    ASSERT_EQ(mr.ok(), sane) << access;
    if (!sane) {
      EXPECT_EQ(mr.error(), EINVAL);
      continue;
    }
    for (std::uint32_t rights = 0; rights <= kAll; ++rights) {
      const bool granted = (rights & ~access) == 0;
      EXPECT_EQ(find((*mr)->key, 0, 64, rights) != nullptr, granted) << access << " " << rights;
      if (granted) continue;
      EXPECT_EQ(refusal((*mr)->key, 0, 64, rights), AccessError::kNoRight);
    }
    table_.remove(*mr);
  }
}

TEST_F(MrTableTest, RefusesUnknownAccessBitsAndEmptyRegions) {
  EXPECT_EQ(table_.add(&pd_, memory_.data(), 64, 0, kZeroBased).error(), EINVAL) << "a right of windows";
  EXPECT_EQ(table_.add(&pd_, memory_.data(), 64, 0, 1u << 6).error(), EINVAL);
  EXPECT_EQ(table_.add(&pd_, memory_.data(), 0, 0, 0).error(), EINVAL);
}

TEST_F(MrTableTest, KeysNameNothingElse) {
  const Mr* mr = add(0);
  for (std::uint32_t tag = 0; tag < 256; ++tag) {
    const std::uint32_t key = (mr->key & ~0xFFu) | tag;
    if (key == mr->key) continue;
    EXPECT_EQ(refusal(key, 0, 1), AccessError::kBadKey);
  }
  for (std::uint32_t key : {0u, 1u, 0xFFu, mr->key + 0x100, 0xFFFFFFFFu}) {
    EXPECT_EQ(refusal(key, 0, 1), AccessError::kBadKey);
  }
}

TEST_F(MrTableTest, NeighboursHaveDifferentTags) {
  const Mr* first = add(0);
  const Mr* second = add(0);
  EXPECT_EQ(second->key >> 8, (first->key >> 8) + 1);
  EXPECT_EQ(refusal(first->key + 0x100, 0, 1), AccessError::kBadKey);
}

TEST_F(MrTableTest, BelongsToOnePd) {
  const Mr* mr = add(0);
  EXPECT_EQ(table_.resolve(mr->key, 0, 1, &other_, 0).error(), AccessError::kWrongPd);
}

TEST_F(MrTableTest, CountsUsersOfThePd) {
  Mr* a = add(0);
  Mr* b = add(0);
  EXPECT_EQ(pd_.users, 2u);
  table_.remove(a);
  EXPECT_EQ(pd_.users, 1u);
  EXPECT_EQ(table_.change(b, {.pd = &other_}), 0);
  EXPECT_EQ(pd_.users, 0u);
  EXPECT_EQ(other_.users, 1u);
  table_.remove(b);
  EXPECT_EQ(other_.users, 0u);
}

TEST_F(MrTableTest, FreedKeysNeverResolve) {
  // Far more registrations than there are indices, always with a neighbour alive: no key comes back while a stale
  // holder could plausibly still have it.
  add(0);
  std::set<std::uint32_t> freed;
  for (int i = 0; i < 500; ++i) {
    Mr* mr = add(0);
    const std::uint32_t key = mr->key;
    EXPECT_FALSE(freed.contains(key)) << "registration " << i;
    EXPECT_NE(find(key, 0, 64), nullptr);
    table_.remove(mr);
    EXPECT_EQ(refusal(key, 0, 1), AccessError::kBadKey);
    freed.insert(key);
  }
}

TEST(MrTableNames, KeysThatFollowFromASeedNameTheSameThingsAndTellNothingAboutTheirNeighbours) {
  std::array<std::uint8_t, 64> memory{};
  Pd pd;
  std::set<std::uint32_t> first_keys, steps;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    MrTable table(1000, steady_memory(), seed), again(1000, steady_memory(), seed);
    std::set<std::uint32_t> keys;
    std::uint32_t last = 0;
    for (std::uint64_t i = 0; i < 700; ++i) {  // Some come again: indices rest, and are used once more.
      Mr* const mr = *table.add(&pd, memory.data(), 64, i << 16, kAll);
      Mr* const same = *again.add(&pd, memory.data(), 64, i << 16, kAll);
      EXPECT_EQ(mr->key, same->key);
      EXPECT_GE(mr->key, 256u);
      EXPECT_TRUE(keys.insert(mr->key).second);
      EXPECT_TRUE(table.resolve(mr->key, i << 16, 64, &pd, kAll).ok());
      EXPECT_FALSE(table.resolve(mr->key + 1, i << 16, 64, &pd, kAll).ok());
      EXPECT_FALSE(table.resolve(mr->key ^ 0x80000000u, i << 16, 64, &pd, kAll).ok());
      if (i == 0) first_keys.insert(mr->key);
      if (i == 1) steps.insert(mr->key - last);
      last = mr->key;
      if (i % 2 == 0) continue;
      EXPECT_EQ(table.remove(mr), 0);
      EXPECT_FALSE(table.resolve(last, i << 16, 64, &pd, kAll).ok());
      EXPECT_EQ(again.remove(same), 0);
    }
  }
  EXPECT_GE(first_keys.size(), 199u);
  EXPECT_GE(steps.size(), 199u) << "who knows one key does not know the next";
}

TEST_F(MrTableTest, IsFullAtItsMaximumAndUsableAgainAfterwards) {
  std::vector<Mr*> mrs;
  for (int i = 0; i < 8; ++i) mrs.push_back(add(0));
  EXPECT_EQ(table_.add(&pd_, memory_.data(), 64, 0, 0).error(), ENOMEM);
  const std::uint32_t old_key = mrs[3]->key;
  table_.remove(mrs[3]);
  const Mr* again = add(0);
  EXPECT_NE(again->key, old_key);
  EXPECT_EQ(refusal(old_key, 0, 1), AccessError::kBadKey);
  EXPECT_EQ(table_.size(), 8u);
  EXPECT_EQ(table_.add(&pd_, memory_.data(), 64, 0, 0).error(), ENOMEM);
}

TEST_F(MrTableTest, ChangeTakesEffectUnderANewKey) {
  Mr* mr = add(0x1000, 64, kLocalWrite);
  const std::uint32_t old_key = mr->key;
  MrTable::Change change;
  change.change_memory = true;
  change.memory = memory_.data() + 16;
  change.length = 8;
  change.iova = 0x2000;
  change.change_access = true;
  change.access = kRemoteRead;
  EXPECT_EQ(table_.change(mr, change), 0);
  EXPECT_EQ(refusal(old_key, 0x1000, 1), AccessError::kBadKey);
  EXPECT_EQ(find(mr->key, 0x2000, 8, kRemoteRead), memory_.data() + 16);
  EXPECT_EQ(refusal(mr->key, 0x2000, 8, kLocalWrite), AccessError::kNoRight);
  EXPECT_EQ(refusal(mr->key, 0x1000, 1), AccessError::kOutOfBounds);
}

TEST_F(MrTableTest, NewRightsAloneKeepTheKey) {
  Mr* mr = add(0x1000, 64, kLocalWrite);
  const std::uint32_t key = mr->key;
  MrTable::Change change;
  change.change_access = true;
  change.access = kLocalWrite | kRemoteWrite;
  EXPECT_EQ(table_.change(mr, change), 0);
  EXPECT_EQ(mr->key, key);
  EXPECT_EQ(find(key, 0x1000, 64, kRemoteWrite), memory_.data());
  EXPECT_EQ(table_.change(mr, {.pd = &other_}), 0);
  EXPECT_NE(mr->key, key);
  EXPECT_EQ(refusal(key, 0x1000, 1), AccessError::kBadKey);
}

TEST_F(MrTableTest, RefusedChangeLeavesEverythingAsItWas) {
  Mr* mr = add(0x1000, 64, kLocalWrite);
  const Mr before = *mr;
  MrTable::Change no_length;
  no_length.pd = &other_;
  no_length.change_memory = true;
  no_length.memory = memory_.data();
  EXPECT_EQ(table_.change(mr, no_length), EINVAL);
  MrTable::Change no_right;
  no_right.pd = &other_;
  no_right.change_access = true;
  no_right.access = kRemoteWrite;
  EXPECT_EQ(table_.change(mr, no_right), EINVAL);
  EXPECT_EQ(mr->key, before.key);
  EXPECT_EQ(mr->pd, &pd_);
  EXPECT_EQ(other_.users, 0u);
  EXPECT_NE(find(before.key, 0x1000, 64, kLocalWrite), nullptr);
}

TEST_F(MrTableTest, AQpThatGoesTakesItsWindowsAndNobodyElses) {
  constexpr std::uint32_t kQpn = 17, kOfTheSameList = 17 + 256;
  Mr* const mr = add(0x1000, 64, kAll | kMwBind);
  std::array<Mw*, 9> windows{};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    windows[i] = *table_.add_window(&pd_, MwType::k2);
    const MwBind bind{.window = windows[i]->key, .lkey = mr->key, .addr = 0x1000, .length = 1, .access = kRemoteRead};
    ASSERT_TRUE(table_.bind(bind, &pd_, i % 3 == 0 ? kQpn : kOfTheSameList));
  }
  // Some go before: the list's ends and its middle.
  table_.remove_window(windows[0]);
  ASSERT_TRUE(table_.invalidate(windows[4]->key, &pd_, kOfTheSameList));
  table_.remove_window(windows[8]);
  table_.unbind_windows_of(kQpn);
  for (const std::size_t i : {3u, 6u}) EXPECT_EQ(windows[i]->mr, nullptr) << i;
  for (const std::size_t i : {1u, 2u, 5u, 7u}) EXPECT_EQ(windows[i]->mr, mr) << i;
  EXPECT_EQ(mr->windows, 4u);
  table_.unbind_windows_of(kOfTheSameList);
  EXPECT_EQ(mr->windows, 0u);
}

}  // namespace
}  // namespace uroce::nic
