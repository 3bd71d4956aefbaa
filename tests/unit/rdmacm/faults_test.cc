// SPDX-License-Identifier: Apache-2.0
// Faults of connections on request, as a program sees them.
#include <cerrno>
#include <cstdlib>

#include "tests/unit/rdmacm/two_devices.h"
#include "verbs/ibverbs/hooks/cm_faults.h"
#include "verbs/ibverbs/hooks/faults_wanted.h"

namespace uroce::rdmacm {
namespace {

class FaultsTest : public TwoDevices {
 protected:
  void TearDown() override { ask_for(""); }
  /// From now on these, which count from now, and no others.
  static void ask_for(const char* faults) {
    const auto spec = engine::faults::parse_faults(faults);
    ASSERT_TRUE(spec.ok()) << spec.error();
    ibv::want_faults(faults, *spec);
  }

  static void expect(const rdma_ucm_event_resp& event, std::uint32_t kind, int status) {
    EXPECT_EQ(event.event, kind);
    EXPECT_EQ(static_cast<int>(event.status), status);
  }

  void lose_the_device();
};

TEST_F(FaultsTest, AnAddressOrARouteIsNotFoundAndTheProgramMayAskAgain) {
  ask_for("cm.addr_error=EHOSTUNREACH#1,cm.route_error=ETIMEDOUT#1");
  const std::uint64_t injected_before = ibv::cm_faults().injected();
  const std::uint32_t id = client_.made(RDMA_PS_TCP, 20);
  ASSERT_EQ(client_.resolve(id, kSecond, kFirst, kPort), 0);
  expect(client_.next(), kAddressError, -EHOSTUNREACH);
  EXPECT_EQ(client_.route(id), EINVAL);
  ASSERT_EQ(client_.resolve(id, kSecond, kFirst, kPort), 0);
  expect(client_.next(), kResolved, 0);
  ASSERT_EQ(client_.route(id), 0);
  expect(client_.next(), kRouteError, -ETIMEDOUT);
  ASSERT_EQ(client_.route(id), 0);
  expect(client_.next(), kRouted, 0);
  EXPECT_EQ(ibv::cm_faults().injected(), injected_before + 2);
}

TEST_F(FaultsTest, ConnectingEndsUnreachableOrRejectedAndTheListenerHearsNothing) {
  ask_for("cm.unreachable=ETIMEDOUT#1,cm.rejected=no_listener#2");
  listening();
  const std::uint32_t first = connecting();
  const auto unreachable = client_.next();
  expect(unreachable, kUnreachable, -ETIMEDOUT);
  EXPECT_EQ(unreachable.uid, 20u);
  EXPECT_EQ(client_.connect(first), EINVAL) << "as after any end";
  EXPECT_EQ(client_.disconnect(first), 0);
  connecting();
  expect(client_.next(), kRejected, 8);
  connected();
  EXPECT_FALSE(server_.is_readable()) << "one request and one connection have come, and been fetched";
}

TEST_F(FaultsTest, ARequestIsRejectedAndTheProgramDoesNotHearOfIt) {
  ask_for("cm.reject=29#2");
  listening();
  connected();
  connecting();
  const auto rejected = client_.next();
  expect(rejected, kRejected, 29);
  EXPECT_EQ(rejected.param.conn.private_data_len, 148);
  EXPECT_FALSE(server_.is_readable());
  connected();
}

TEST_F(FaultsTest, SoIsARequestForADatagramService) {
  ask_for("cm.reject=consumer");
  listening(RDMA_PS_UDP);
  connecting(RDMA_PS_UDP);
  expect(client_.next(), kUnreachable, 2);  // SIDR's "rejected".
  EXPECT_FALSE(server_.is_readable());
}

TEST_F(FaultsTest, AConnectionBreaks) {
  ask_for("cm.disconnect=50ms#2");
  listening();
  // Both ends are here: the second one to be established is the passive one.
  const auto [active, passive] = connected();
  expect(server_.next(), kDisconnected, 0);
  expect(client_.next(), kDisconnected, 0);
  EXPECT_EQ(server_.disconnect(passive), 0);
  EXPECT_EQ(client_.disconnect(active), 0);
  EXPECT_EQ(client_.next().event, 15u);
  EXPECT_EQ(server_.next().event, 15u);
}

void FaultsTest::lose_the_device() {
  ask_for("device_fatal=300ms");
  const std::uint32_t listener = listening();
  const auto [active, passive] = connected();
  std::vector<std::uint32_t> ids;
  for (int i = 0; i < 2; ++i) {
    const auto event = server_.next();
    expect(event, kRemoval, 0);
    ids.push_back(event.id);
  }
  EXPECT_EQ(ids, (std::vector{listener, passive}));
  const auto event = client_.next();
  expect(event, kRemoval, 0);
  EXPECT_EQ(event.id, active);
  EXPECT_EQ(client_.disconnect(active), ENODEV);
  std::uint32_t reported = 0;
  EXPECT_EQ(client_.destroy(active, &reported), 0);
  EXPECT_EQ(reported, 4u);
  EXPECT_EQ(server_.destroy(passive), 0);
  EXPECT_EQ(server_.destroy(listener), 0);
}

/// In a process of its own: a device that had a fatal error stays dead for the other cases.
TEST_F(FaultsTest, ADeviceIsRemoved) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        lose_the_device();
        std::_Exit(HasFailure() ? EXIT_FAILURE : EXIT_SUCCESS);
      },
      testing::ExitedWithCode(EXIT_SUCCESS), "");
}

}  // namespace
}  // namespace uroce::rdmacm
