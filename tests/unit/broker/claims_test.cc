// SPDX-License-Identifier: Apache-2.0
// A claim is seen by all who have the file, and ends with its holder.
#include "engine/broker/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace uroce::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr CmRoute kLowRoute{0, 0}, kRoute{0x01061C16, 5}, kHighRoute{0xFFFF'FFFF, 127};

class ClaimsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = make_claims();
    ASSERT_TRUE(file);
    file_ = std::move(*file);
  }
  std::vector<CmRoute> routes() const {
    auto routes = claimed_routes(file_.get());
    EXPECT_TRUE(routes);
    return *routes;
  }

  Fd file_;
};

TEST_F(ClaimsTest, AreSeenUntilTheyAreClosed) {
  EXPECT_THAT(routes(), IsEmpty());
  const auto last = claim_route(file_.get(), kHighRoute);
  const auto first = claim_route(file_.get(), kLowRoute);
  auto middle = claim_route(file_.get(), kRoute);
  ASSERT_TRUE(first && middle && last);
  EXPECT_THAT(routes(), ElementsAre(kLowRoute, kRoute, kHighRoute));
  *middle = Fd();
  EXPECT_THAT(routes(), ElementsAre(kLowRoute, kHighRoute));
}

TEST_F(ClaimsTest, NobodyClaimsTheSameTwice) {
  const auto claim = claim_route(file_.get(), kRoute);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim_route(file_.get(), kRoute).error(), EADDRINUSE);
}

TEST_F(ClaimsTest, AreNoLock) {
  const auto lock = lock_steering(file_.get());
  const auto claim = claim_route(file_.get(), kLowRoute);
  ASSERT_TRUE(lock && claim);
  EXPECT_THAT(routes(), ElementsAre(kLowRoute));
}

TEST_F(ClaimsTest, EndWithTheirProcess) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto claim = claim_route(file_.get(), kRoute);
    const auto lock = lock_steering(file_.get());
    if (::write(ready[1], "", 1) == 1) ::pause();
    ::_exit(claim && lock ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(routes(), ElementsAre(kRoute));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(routes(), IsEmpty());
  EXPECT_TRUE(lock_steering(file_.get()));
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace uroce::engine
