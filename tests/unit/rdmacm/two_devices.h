// SPDX-License-Identifier: Apache-2.0
// A test with two programs that use RDMA CM, and the ways to a connection between them.
#pragma once

#include <utility>

#include "tests/support/own_network.h"
#include "tests/unit/rdmacm/device.h"

namespace uroce::rdmacm {

/// A server and a client, each with /dev/infiniband/rdma_cm open.
class TwoDevices : public ::testing::Test {
 protected:
  static constexpr std::uint16_t kPort = 7174;

  void SetUp() override { UROCE_NEEDS_OWN_NETWORK(); }

  std::uint32_t listening(std::uint16_t space = RDMA_PS_TCP, const char* address = kFirst) {
    const std::uint32_t id = server_.made(space, 10);
    EXPECT_EQ(server_.bind(id, address, kPort), 0);
    EXPECT_EQ(server_.listen(id), 0);
    return id;
  }
  std::uint32_t connecting(std::uint16_t space = RDMA_PS_TCP, const char* to = kFirst) {
    const std::uint32_t id = client_.made(space, 20);
    EXPECT_EQ(client_.resolve(id, kSecond, to, kPort), 0);
    EXPECT_EQ(client_.next().event, kResolved);
    EXPECT_EQ(client_.route(id), 0);
    EXPECT_EQ(client_.next().event, kRouted);
    EXPECT_EQ(client_.connect(id, 5), 0);
    return id;
  }
  /// (active, passive), with all events fetched.
  std::pair<std::uint32_t, std::uint32_t> connected() {
    const std::uint32_t active = connecting();
    const auto request = server_.next();
    EXPECT_EQ(request.event, kRequest);
    EXPECT_EQ(server_.accept(request.id, 11), 0);
    EXPECT_EQ(client_.next().event, kResponse);
    EXPECT_EQ(client_.accept(active, 0, 0, false), 0);
    EXPECT_EQ(server_.next().event, kEstablished);
    return {active, request.id};
  }

  Device server_, client_;
};

}  // namespace uroce::rdmacm
