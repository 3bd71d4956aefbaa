// SPDX-License-Identifier: Apache-2.0
// Misuse, case by case: what a kernel (Linux 6.12) says to each was measured, and stands behind each of these.
#include <infiniband/verbs.h>

#include <cerrno>

#include "engine/port/udp_socket.h"
#include "proto/address.h"
#include "tests/support/own_network.h"
#include "tests/unit/rdmacm/device.h"

namespace uroce::rdmacm {
namespace {

class ErrnoTest : public ::testing::Test {
 protected:
  void SetUp() override { UROCE_NEEDS_OWN_NETWORK(); }

  /// Bound to the first NIC.
  std::uint32_t bound(std::uint16_t port, std::uint16_t space = RDMA_PS_TCP) {
    const std::uint32_t id = device_.made(space);
    EXPECT_EQ(device_.bind(id, kFirst, port), 0);
    return id;
  }

  Device device_;
  rdma_ucm_query_route_resp route_{};
  ib_uverbs_qp_attr attr_{};
  rdma_ucm_event_resp event_{};
};

TEST_F(ErrnoTest, CommandsThatAreNone) {
  struct {
    rdma_ucm_cmd_hdr header;
    std::uint8_t body[64];
  } bytes{};
  bytes.header.cmd = 99;
  EXPECT_EQ(device_.write(&bytes, sizeof bytes), EINVAL);
  bytes.header.cmd = RDMA_USER_CM_CMD_GET_OPTION;
  EXPECT_EQ(device_.write(&bytes, sizeof bytes), ENOSYS);
  bytes.header.cmd = RDMA_USER_CM_CMD_CREATE_ID;
  EXPECT_EQ(device_.write(&bytes, 4), EINVAL);
  bytes.header.in = 200;
  EXPECT_EQ(device_.write(&bytes, sizeof bytes), EINVAL);
  bytes.header = {.cmd = 23, .in = 0, .out = 0};  // Since Linux 6.17, and only for InfiniBand.
  EXPECT_EQ(device_.write(&bytes, sizeof bytes), ENOSYS);
  bytes.header = {.cmd = 25, .in = 0, .out = 0};
  EXPECT_EQ(device_.write(&bytes, sizeof bytes), EINVAL);
}

TEST_F(ErrnoTest, PointersThatLeadNowhere) {
  constexpr std::uint64_t kNowhere = 16;
  EXPECT_EQ(device_.write(reinterpret_cast<const void*>(std::uintptr_t{kNowhere}), 32), EFAULT);
  const std::uint32_t before = device_.made();
  rdma_ucm_create_id create{};
  create.response = kNowhere;
  create.ps = RDMA_PS_TCP;
  EXPECT_EQ(device_.command(RDMA_USER_CM_CMD_CREATE_ID, create, sizeof(rdma_ucm_create_id_resp)), EFAULT);
  EXPECT_EQ(device_.made(), before + 1) << "no id is left behind";
  rdma_ucm_set_option option{};
  option.optval = kNowhere;
  option.id = before;
  option.level = RDMA_OPTION_ID;
  option.optname = RDMA_OPTION_ID_TOS;
  option.optlen = 1;
  EXPECT_EQ(device_.command(RDMA_USER_CM_CMD_SET_OPTION, option), EFAULT);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, "239.1.2.3", &address.sin_addr);
  rdma_ucm_join_mcast group{};
  group.response = kNowhere;
  group.id = bound(7103, RDMA_PS_UDP);
  std::memcpy(&group.addr, &address, sizeof address);
  group.addr_size = sizeof address;
  EXPECT_EQ(device_.command(RDMA_USER_CM_CMD_JOIN_MCAST, group, sizeof(rdma_ucm_create_id_resp)), EFAULT);
  EXPECT_FALSE(device_.is_readable()) << "it has not joined";
}

TEST_F(ErrnoTest, AnEventThatFindsNoMemoryIsNotLost) {
  EXPECT_EQ(device_.raise(device_.made()), 0);
  EXPECT_EQ(device_.command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{.response = 16}, sizeof event_), EFAULT);
  EXPECT_TRUE(device_.is_readable());
  EXPECT_EQ(device_.event(event_), 0);
}

TEST_F(ErrnoTest, AnswersForWhichThereIsNoRoom) {
  std::uint32_t id = 77;
  EXPECT_EQ(device_.event(event_, 100), ENOSPC);
  EXPECT_EQ(device_.event(event_, 312), ENOSPC);
  EXPECT_EQ(device_.create(id, RDMA_PS_TCP, 1111, 2), ENOSPC);
  id = bound(7102);
  EXPECT_EQ(device_.query(id, route_, 199), ENOSPC);
  EXPECT_EQ(device_.query(id, route_, 200), 0);
  EXPECT_EQ(device_.attributes(id, 1, attr_, 143), ENOSPC);
}

TEST_F(ErrnoTest, NobodyWaitsForAnEventOnANonBlockingChannel) {
  Device other(O_NONBLOCK);
  EXPECT_EQ(other.event(event_), EAGAIN);
}

TEST_F(ErrnoTest, AnIdWithoutAnAddress) {
  std::uint32_t id = 77;
  EXPECT_EQ(device_.create(id, 0x999), EINVAL);
  EXPECT_EQ(device_.create(id), 0);
  EXPECT_EQ(id, 0u);
  EXPECT_EQ(device_.query(id, route_), 0);
  EXPECT_EQ(route_.node_guid, 0u);
  EXPECT_EQ(route_.src_addr.sin6_family, 0);
  EXPECT_EQ(device_.attributes(id, 1, attr_), EINVAL);
  EXPECT_EQ(device_.accept(id, 1), EINVAL);
  EXPECT_EQ(device_.accept(id, 1, 0, false), EINVAL);
  EXPECT_EQ(device_.reject(id), EINVAL);
  EXPECT_EQ(device_.reject(id, 9), EINVAL);
  EXPECT_EQ(device_.disconnect(id), EINVAL);
  EXPECT_EQ(device_.route(id), EINVAL);
  EXPECT_EQ(device_.connect(id), EINVAL);
  EXPECT_EQ(device_.connect(id, 0, false), EINVAL);
  EXPECT_EQ(device_.notify(id, 4), EINVAL);
}

TEST_F(ErrnoTest, Options) {
  const std::uint32_t id = device_.made();
  EXPECT_EQ(device_.option(id, 0, RDMA_OPTION_ID_TOS, 1), 0);
  EXPECT_EQ(device_.option(id, 0, RDMA_OPTION_ID_TOS, 4), EINVAL);
  EXPECT_EQ(device_.option(id, 0, RDMA_OPTION_ID_REUSEADDR, 4), 0);
  EXPECT_EQ(device_.option(id, 0, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
  EXPECT_EQ(device_.option(id, 0, RDMA_OPTION_ID_AFONLY, 4), 0);
  EXPECT_EQ(device_.option(id, 0, RDMA_OPTION_ID_ACK_TIMEOUT, 1), 0);
  EXPECT_EQ(device_.option(id, 0, 9, 1), ENOSYS);
  EXPECT_EQ(device_.option(id, 1, RDMA_OPTION_IB_PATH, 4), EINVAL);
  EXPECT_EQ(device_.option(id, 1, RDMA_OPTION_IB_PATH, 72), EINVAL);
  EXPECT_EQ(device_.option(id, 5, 0, 1), ENOSYS);
  EXPECT_EQ(device_.option(device_.made(RDMA_PS_UDP), 0, RDMA_OPTION_ID_ACK_TIMEOUT, 1), EINVAL);
  std::uint32_t unreliable = 0;
  ASSERT_EQ(device_.create(unreliable, RDMA_PS_IB, 1, sizeof unreliable, IBV_QPT_UC), 0);
  EXPECT_EQ(device_.option(unreliable, 0, RDMA_OPTION_ID_ACK_TIMEOUT, 1), EINVAL);
}

TEST_F(ErrnoTest, AddressesToBind) {
  const std::uint32_t id = device_.made();
  EXPECT_EQ(device_.bind(id, "192.0.2.1", 7100), EADDRNOTAVAIL);
  // No NIC of ours has it. A kernel takes loopback for a wildcard, too.
  EXPECT_EQ(device_.bind(id, "127.0.0.1", 7100), 0);
  EXPECT_EQ(device_.query(id, route_), 0);
  EXPECT_EQ(route_.node_guid, 0u);
  EXPECT_EQ(route_.port_num, 0);
  EXPECT_EQ(device_.bind(id, kFirst, 7101), EINVAL) << "twice";
  std::uint32_t reported = 77;
  EXPECT_EQ(device_.destroy(id, &reported), 0);
  EXPECT_EQ(reported, 0u);
  EXPECT_EQ(device_.destroy(id, &reported), ENOENT);
  EXPECT_EQ(device_.destroy(12345), ENOENT);
  Device other;
  EXPECT_EQ(other.destroy(device_.made()), EINVAL) << "of another channel";
  EXPECT_EQ(device_.bind(device_.made(RDMA_PS_IPOIB), kFirst, 7102), EINVAL);
}

TEST_F(ErrnoTest, AnAddressThatAnotherProcessHasHearsNothing) {
  const std::uint32_t id = device_.made();
  ASSERT_EQ(device_.bind(id, "127.0.0.33", 7100), 0);
  {
    const auto another = engine::open_receive_socket(*proto::parse_gid("127.0.0.33"), engine::Sharing::kNone);
    ASSERT_TRUE(another.ok());
    EXPECT_EQ(device_.listen(id), EADDRINUSE);
  }
  EXPECT_EQ(device_.listen(id), 0);
}

TEST_F(ErrnoTest, WhatABoundIdSays) {
  const std::uint32_t id = bound(7102);
  EXPECT_EQ(device_.query(id, route_), 0);
  EXPECT_NE(route_.node_guid, 0u);
  EXPECT_EQ(route_.port_num, 1);
  EXPECT_EQ(route_.num_paths, 0u);
  EXPECT_EQ(route_.dst_addr.sin6_family, AF_INET);
  EXPECT_EQ(route_.ib_route[0].pkey, 0xFFFF);
  EXPECT_EQ(route_.ib_route[0].sgid[15], 31);
  EXPECT_EQ(route_.ib_route[0].dgid[11], 0xFF);
  EXPECT_EQ(route_.ib_route[0].dgid[15], 0);
  EXPECT_EQ(device_.listen(id), 0);
  EXPECT_EQ(device_.listen(id), EINVAL) << "twice";
}

TEST_F(ErrnoTest, PortsThatAreTaken) {
  ASSERT_EQ(device_.listen(bound(7102)), 0);
  EXPECT_EQ(device_.bind(device_.made(), kFirst, 7102), EADDRINUSE);
  EXPECT_EQ(device_.bind(device_.made(), "0.0.0.0", 7102), EADDRNOTAVAIL);
  EXPECT_EQ(device_.bind(device_.made(), "::", 7102), EADDRNOTAVAIL);
  EXPECT_EQ(device_.bind(device_.made(), kSecond, 7102), 0);
  EXPECT_EQ(device_.bind(device_.made(RDMA_PS_UDP), kFirst, 7102), 0);
  EXPECT_EQ(device_.bind(device_.made(RDMA_PS_IB), kFirst, 7102), 0);
  const std::uint32_t any_port = device_.made();
  EXPECT_EQ(device_.bind(any_port, kFirst, 0), 0);
  EXPECT_EQ(device_.query(any_port, route_), 0);
  EXPECT_GE(ntohs(route_.src_addr.sin6_port), 1024);
}

TEST_F(ErrnoTest, PortsThatAreReused) {
  const std::uint32_t x = device_.made(), y = device_.made();
  for (const std::uint32_t id : {x, y}) {
    ASSERT_EQ(device_.option(id, 0, RDMA_OPTION_ID_REUSEADDR, 4), 0);
    ASSERT_EQ(device_.bind(id, kFirst, 7103), 0);
  }
  EXPECT_EQ(device_.listen(x), EADDRINUSE);
  EXPECT_EQ(device_.listen(y), EADDRINUSE);
  EXPECT_EQ(device_.destroy(x), 0);
  EXPECT_EQ(device_.listen(y), 0);
}

TEST_F(ErrnoTest, WildcardsOfBothFamilies) {
  const std::uint32_t v4 = device_.made(), v6 = device_.made(), unbound = device_.made();
  EXPECT_EQ(device_.bind(v4, "0.0.0.0", 7104), 0);
  EXPECT_EQ(device_.bind(v6, "::", 7104), EADDRNOTAVAIL);
  EXPECT_EQ(device_.option(v6, 0, RDMA_OPTION_ID_AFONLY, 4), 0);
  EXPECT_EQ(device_.bind(v6, "::", 7104), 0);
  EXPECT_EQ(device_.listen(unbound), 0);
  EXPECT_EQ(device_.query(unbound, route_), 0);
  EXPECT_EQ(route_.src_addr.sin6_family, AF_INET);
  EXPECT_NE(route_.src_addr.sin6_port, 0);
}

TEST_F(ErrnoTest, AConnectionThatIsRefused) {
  const std::uint32_t id = device_.made();
  EXPECT_EQ(device_.resolve(id, "", "192.0.2.1"), ENETUNREACH);
  EXPECT_FALSE(device_.is_readable());
  EXPECT_EQ(device_.resolve(id, "", kSecond), 0);
  EXPECT_EQ(device_.next().event, 0u);
  EXPECT_EQ(device_.query(id, route_), 0);
  EXPECT_EQ(route_.num_paths, 0u);
  for (const std::uint32_t state : {0u, 1u, 2u}) {
    EXPECT_EQ(device_.attributes(id, state, attr_), 0);
    EXPECT_EQ(attr_.qp_attr_mask, 0x39u);
  }
  EXPECT_EQ(device_.attributes(id, 7, attr_), EINVAL);
  EXPECT_EQ(device_.resolve(id, "", kSecond), EINVAL) << "twice";
  EXPECT_EQ(device_.disconnect(id), EINVAL);
  EXPECT_EQ(device_.route(id, 0), EINVAL);
  EXPECT_EQ(device_.route(id), 0);
  EXPECT_EQ(device_.next().event, 2u);
  EXPECT_EQ(device_.query(id, route_), 0);
  EXPECT_EQ(route_.num_paths, 1u);
  EXPECT_EQ(device_.route(id), EINVAL) << "twice";
  EXPECT_EQ(device_.disconnect(id), EINVAL);
  EXPECT_EQ(device_.accept(id, 1), EINVAL);
  EXPECT_EQ(device_.reject(id), EINVAL);
  EXPECT_EQ(device_.notify(id, 4), EINVAL);
  EXPECT_EQ(device_.connect(id, 57), EINVAL);
  EXPECT_EQ(device_.connect(id, 220), EINVAL);
  EXPECT_EQ(device_.connect(id, 0, false), EINVAL);
  EXPECT_EQ(device_.connect(id, 56), 0);
  EXPECT_EQ(device_.connect(id), EINVAL) << "twice";
  const auto rejected = device_.next();
  EXPECT_EQ(rejected.event, 8u);
  EXPECT_EQ(rejected.status, 8u);
  EXPECT_EQ(rejected.uid, 1111u);
  EXPECT_EQ(rejected.param.conn.private_data_len, 148);
  EXPECT_EQ(device_.connect(id), EINVAL) << "once is all";
  EXPECT_EQ(device_.disconnect(id), 0);
  std::uint32_t reported = 0;
  EXPECT_EQ(device_.destroy(id, &reported), 0);
  EXPECT_EQ(reported, 3u);
}

TEST_F(ErrnoTest, RoutesThatThereAreNot) {
  const std::uint32_t id = device_.made();
  EXPECT_EQ(device_.resolve(id, kFirst, "192.0.2.1"), ENETUNREACH);
  EXPECT_EQ(device_.query(id, route_), 0);
  EXPECT_NE(route_.src_addr.sin6_port, 0);
  EXPECT_EQ(device_.resolve(device_.made(), kFirst, "::1"), EINVAL) << "of two families";
}

TEST_F(ErrnoTest, MulticastGroups) {
  EXPECT_EQ(device_.join(device_.made(RDMA_PS_UDP), "239.1.2.3", 0), EINVAL) << "not bound";
  const std::uint32_t id = bound(0, RDMA_PS_UDP);
  std::uint32_t number = 77, reported = 0;
  for (const std::uint32_t expected : {0u, 1u}) {
    EXPECT_EQ(device_.join(id, "239.1.2.3", 0, &number), 0);
    EXPECT_EQ(number, expected);
    const auto joined = device_.next();
    EXPECT_EQ(joined.event, 12u);
    EXPECT_EQ(joined.uid, 2222u);
    EXPECT_EQ(joined.id, expected);
    EXPECT_EQ(joined.param.ud.qp_num, 0xFFFFFFu);
    EXPECT_EQ(joined.param.ud.qkey, 0x01234567u);
    EXPECT_EQ(joined.param.ud.ah_attr.grh.dgid[12], 239);
    EXPECT_EQ(joined.param.ud.ah_attr.grh.sgid_index, 1);
    EXPECT_EQ(joined.param.ud.ah_attr.is_global, 1);
  }
  EXPECT_EQ(device_.join(id, "239.1.2.4", 1), 0);
  EXPECT_EQ(device_.next().event, 12u);
  EXPECT_EQ(device_.join(id, "239.1.2.4", 2), EINVAL);
  EXPECT_EQ(device_.join(id, "0.0.0.0", 0), EINVAL);
  EXPECT_EQ(device_.join(id, "10.77.0.12", 0), 0);
  EXPECT_EQ(device_.next().event, 12u);
  EXPECT_EQ(device_.leave(0, &reported), 0);
  EXPECT_EQ(reported, 1u);
  EXPECT_EQ(device_.leave(0), ENOENT);
  EXPECT_EQ(device_.leave(99), ENOENT);
  EXPECT_EQ(device_.destroy(id, &reported), 0);
  EXPECT_EQ(reported, 4u);
  EXPECT_EQ(device_.join(bound(0), "239.1.2.3", 0), EINVAL) << "RC";
}

TEST_F(ErrnoTest, AGroupWhoseNumberNobodyWouldLearnIsNotJoined) {
  sockaddr_in group{};
  group.sin_family = AF_INET;
  rdma_ucm_join_mcast in{};
  in.id = bound(0, RDMA_PS_UDP);
  in.addr_size = sizeof group;
  std::memcpy(&in.addr, &group, sizeof group);
  const auto join_without_response = [&] {
    return device_.command(RDMA_USER_CM_CMD_JOIN_MCAST, in, sizeof(rdma_ucm_create_id_resp));
  };
  EXPECT_EQ(join_without_response(), EINVAL) << "no group: as a kernel, which writes the number last";
  group.sin_addr.s_addr = ::inet_addr("239.1.2.3");
  std::memcpy(&in.addr, &group, sizeof group);
  EXPECT_EQ(join_without_response(), EFAULT);
  EXPECT_FALSE(device_.is_readable());
  std::uint32_t number = 77;
  EXPECT_EQ(device_.join(in.id, "239.1.2.3", 0, &number), 0);
  EXPECT_EQ(number, 0u) << "the first one";
}

TEST_F(ErrnoTest, FromOneChannelToAnother) {
  Device other;
  const std::uint32_t id = device_.made();
  std::uint32_t reported = 77;
  EXPECT_EQ(other.migrate(id, device_.fd(), &reported), 0);
  EXPECT_EQ(reported, 0u);
  EXPECT_EQ(other.migrate(id, device_.fd()), EINVAL) << "again";
  EXPECT_EQ(other.migrate(id, 0), EINVAL) << "no channel";
  EXPECT_EQ(other.migrate(id, 900), ENOENT) << "not open";
  EXPECT_EQ(device_.destroy(id), EINVAL);
  EXPECT_EQ(other.destroy(id), 0);
}

TEST_F(ErrnoTest, NoAddressesOfInfiniband) {
  rdma_ucm_bind in{};
  in.id = device_.made(RDMA_PS_IB);
  in.addr.ss_family = 27;
  in.addr_size = 48;
  EXPECT_EQ(device_.command(RDMA_USER_CM_CMD_BIND, in), EINVAL);
}

}  // namespace
}  // namespace uroce::rdmacm
