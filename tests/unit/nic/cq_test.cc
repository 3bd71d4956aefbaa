// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/resources/cq.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace uroce::nic {
namespace {

using PushResult = Cq::PushResult;

Completion completion(std::uint64_t wr_id) { return {.wr_id = wr_id}; }

std::vector<std::uint64_t> drain(Cq& cq, std::size_t at_most = 64) {
  std::vector<Completion> out(at_most);
  out.resize(cq.poll(out));
  std::vector<std::uint64_t> ids;
  for (const Completion& c : out) ids.push_back(c.wr_id);
  return ids;
}

using Ids = std::vector<std::uint64_t>;

TEST(Cq, IsFirstInFirstOutAcrossTheEndOfTheRing) {
  Cq cq(3, nullptr);
  std::uint64_t next_in = 0;
  std::uint64_t next_out = 0;
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(cq.push(completion(next_in++)), PushResult::kQueued);
    EXPECT_EQ(cq.push(completion(next_in++)), PushResult::kQueued);
    EXPECT_EQ(cq.size(), 2u);
    EXPECT_EQ(drain(cq, 1), Ids{next_out});
    EXPECT_EQ(drain(cq), Ids{next_out + 1});
    next_out += 2;
  }
  EXPECT_EQ(cq.size(), 0u);
  EXPECT_TRUE(drain(cq).empty());
}

TEST(Cq, ForgetsTheCompletionsOfOneQueuePair) {
  Cq cq(5, nullptr);
  cq.push(completion(0));
  cq.push(completion(0));
  EXPECT_EQ(drain(cq).size(), 2u);  // From here on the ring's end lies among them.
  std::uint32_t unpolled[2] = {};
  for (std::uint64_t i = 0; i < 5; ++i) {
    cq.push({.wr_id = i, .qpn = i % 2 == 0 ? 0x11u : 0x12u, .unpolled = &unpolled[i % 2]});
  }
  EXPECT_EQ(unpolled[0], 3u);
  cq.drop(0x11);
  EXPECT_EQ(cq.size(), 2u);
  EXPECT_EQ(unpolled[0], 0u);
  EXPECT_EQ(unpolled[1], 2u);
  cq.push({.wr_id = 9, .qpn = 0x11});
  EXPECT_EQ(drain(cq), (Ids{1, 3, 9}));
  cq.drop(0x11);
  EXPECT_EQ(cq.size(), 0u);
}

TEST(Cq, LosesWhatDoesNotFitAndSaysSo) {
  Cq cq(2, nullptr);
  cq.push(completion(1));
  cq.push(completion(2));
  EXPECT_FALSE(cq.overflowed());
  EXPECT_EQ(cq.push(completion(3)), PushResult::kOverflow);
  EXPECT_TRUE(cq.overflowed());
  EXPECT_EQ(drain(cq), (Ids{1, 2}));
}

TEST(Cq, OverflowDoesNotNotify) {
  Cq cq(1, nullptr);
  cq.push(completion(1));
  cq.arm(false);
  EXPECT_EQ(cq.push(completion(2)), PushResult::kOverflow);
}

TEST(Cq, NotifiesOncePerArming) {
  Cq cq(8, nullptr);
  EXPECT_EQ(cq.push(completion(1)), PushResult::kQueued);
  cq.arm(false);  // What is there already does not count.
  EXPECT_EQ(cq.push(completion(2)), PushResult::kNotify);
  EXPECT_EQ(cq.push(completion(3)), PushResult::kQueued);
  cq.arm(false);
  cq.arm(false);
  EXPECT_EQ(cq.push(completion(4)), PushResult::kNotify);
  EXPECT_EQ(cq.push(completion(5)), PushResult::kQueued);
}

TEST(Cq, ArmedForSolicitedWaitsForSolicitedOrFailed) {
  Completion solicited = completion(2);
  solicited.solicited = true;
  Completion failed = completion(3);
  failed.status = WcStatus::kWrFlushErr;

  Cq cq(8, nullptr);
  cq.arm(true);
  EXPECT_EQ(cq.push(completion(1)), PushResult::kQueued);
  EXPECT_EQ(cq.push(solicited), PushResult::kNotify);
  EXPECT_EQ(cq.push(solicited), PushResult::kQueued);
  cq.arm(true);
  EXPECT_EQ(cq.push(failed), PushResult::kNotify);
}

TEST(Cq, AskingForSolicitedDoesNotTakeBackAskingForAll) {
  Cq cq(8, nullptr);
  cq.arm(false);
  cq.arm(true);
  EXPECT_EQ(cq.push(completion(1)), PushResult::kNotify);
  cq.arm(true);
  cq.arm(false);
  EXPECT_EQ(cq.push(completion(2)), PushResult::kNotify);
}

TEST(Cq, WhoWillNotPollAgainIsToldOfWhatCameAfterItsLastPoll) {
  Cq cq(8, nullptr);
  cq.push(completion(1));
  EXPECT_FALSE(cq.notify_or_arm(false)) << "it has not been polled empty since";
  EXPECT_EQ(cq.push(completion(2)), PushResult::kNotify);
  drain(cq);
  cq.push(completion(3));
  EXPECT_TRUE(cq.notify_or_arm(false));
  EXPECT_EQ(cq.push(completion(4)), PushResult::kQueued) << "one notification for one request";
  EXPECT_FALSE(cq.notify_or_arm(false)) << "who was told, and has not polled, will";
  EXPECT_EQ(cq.push(completion(5)), PushResult::kNotify);
  drain(cq);
  cq.push(completion(6));
  drain(cq);
  EXPECT_FALSE(cq.notify_or_arm(false));
  EXPECT_EQ(cq.push(completion(7)), PushResult::kNotify);
}

TEST(Cq, AndOfSolicitedOnesOnlyIfItAsksForThose) {
  Completion solicited = completion(2);
  solicited.solicited = true;

  Cq cq(2, nullptr);
  drain(cq);
  cq.push(completion(1));
  EXPECT_FALSE(cq.notify_or_arm(true));
  EXPECT_EQ(cq.push(solicited), PushResult::kNotify);
  drain(cq);
  cq.push(completion(3));
  cq.push(solicited);
  EXPECT_EQ(cq.resize(4), 0);
  EXPECT_TRUE(cq.notify_or_arm(true));
  drain(cq);
  cq.push({.wr_id = 4, .qpn = 0x11, .solicited = true});
  cq.drop(0x11);
  EXPECT_FALSE(cq.notify_or_arm(true));
}

TEST(Cq, ThoseThatGoWithTheirQpTakeTheNewsAlong) {
  Cq cq(8, nullptr);
  cq.arm(false);
  cq.push({.wr_id = 1, .qpn = 0x11});
  EXPECT_EQ(drain(cq, 2), Ids{1});  // Polled empty: what comes from here on is news ...
  cq.push({.wr_id = 2, .qpn = 0x11});
  EXPECT_TRUE(cq.notify_or_arm(false));  // ... until the owner hears of it.
  cq.push({.wr_id = 3, .qpn = 0x12});
  cq.drop(0x12);
  EXPECT_FALSE(cq.notify_or_arm(false)) << "2 is known";
}

TEST(Cq, AndNotBeforeEnoughHaveCome) {
  Cq cq(8, nullptr);
  cq.moderate(2, std::chrono::milliseconds(1));
  drain(cq);
  cq.arm(false);
  EXPECT_EQ(cq.push(completion(1)), PushResult::kQueued);
  EXPECT_FALSE(cq.notify_or_arm(false));
  EXPECT_EQ(cq.push(completion(2)), PushResult::kNotify);
}

TEST(Cq, ResizeKeepsContentOrderAndArming) {
  Cq cq(4, nullptr);
  for (std::uint64_t id : {0u, 1u, 2u, 3u}) cq.push(completion(id));
  drain(cq, 2);
  cq.push(completion(4));  // Head is in the middle now, content wraps around.
  cq.push(completion(5));
  cq.arm(false);
  EXPECT_EQ(cq.resize(3), EINVAL);
  EXPECT_EQ(cq.capacity(), 4u);
  EXPECT_EQ(cq.resize(0), EINVAL);
  EXPECT_EQ(cq.resize(6), 0);
  EXPECT_EQ(cq.capacity(), 6u);
  EXPECT_EQ(cq.push(completion(6)), PushResult::kNotify);
  EXPECT_EQ(cq.push(completion(7)), PushResult::kQueued);
  EXPECT_EQ(cq.push(completion(8)), PushResult::kOverflow);
  EXPECT_EQ(drain(cq), (Ids{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(cq.resize(1), 0);
  EXPECT_EQ(cq.push(completion(9)), PushResult::kQueued);
  EXPECT_EQ(drain(cq), Ids{9});
}

TEST(Cq, RemembersItsOwner) {
  int owner = 0;
  EXPECT_EQ(Cq(1, &owner).user(), &owner);
}

}  // namespace
}  // namespace uroce::nic
