// SPDX-License-Identifier: Apache-2.0
// What programs hear when the addresses of their NIC, or the interface under them, go and come back.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <net/if.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>

#include "engine/os/fd.h"
#include "engine/port/socket_address.h"
#include "proto/address.h"
#include "proto/base/this_host.h"
#include "proto/timing.h"
#include "tests/support/in_child.h"
#include "tests/support/own_network.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/address_watch.h"
#include "verbs/ibverbs/host/bound_ports.h"

namespace uroce::ibv::test {
namespace {

constexpr char kAddress[] = "198.51.100.7";

/// `ip ARGUMENTS` in the network of the test, with the address after them.
bool ip(std::string arguments, const std::string& device = "lo") {
  arguments = "ip " + arguments + " " + kAddress + "/32 dev " + device;
  return std::system(arguments.c_str()) == 0;
}
bool set_lo(const char* state) { return std::system((std::string("ip link set lo ") + state).c_str()) == 0; }

/// Before the first verb, which reads it, and after support.cc has cleared it.
class Address final : public testing::Environment {
 public:
  void SetUp() override { setenv("UROCE_ADDR", (std::string(kAddress) + ";127.0.0.2").c_str(), 1); }
};
[[maybe_unused]] const testing::Environment* const kTheAddress = testing::AddGlobalTestEnvironment(new Address);

class AddressEvents : public testing::Test {
 protected:
  void SetUp() override {
    UROCE_NEEDS_OWN_NETWORK();
    if (!ip("addr add")) GTEST_SKIP() << "there is no ip(8) that can add an address";
    context = open_device(0);
  }
  void TearDown() override {
    context.reset();
    if (::uroce::test::own_network_failure().empty()) ip("addr flush to");
  }
  static struct ibv_port_attr port_attr_of(const ContextPtr& nic) {
    struct ibv_port_attr attr {};
    EXPECT_EQ(verbs_get_ctx(nic.get())->query_port(nic.get(), 1, &attr, sizeof attr), 0);
    return attr;
  }
  static enum ibv_port_state port_of(const ContextPtr& nic) { return port_attr_of(nic).state; }
  struct ibv_port_attr port_attr() {
    return port_attr_of(context);
  }
  enum ibv_port_state port() { return port_of(context); }
  std::optional<enum ibv_event_type> event() { return next_async_event(context.get()); }

  ContextPtr context;
};

TEST_F(AddressEvents, TheAddressGoesAndComesBack) {
  EXPECT_EQ(port(), IBV_PORT_ACTIVE);
  ASSERT_TRUE(ip("addr del"));
  EXPECT_EQ(event(), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(port(), IBV_PORT_DOWN);
  ASSERT_TRUE(ip("addr add"));
  EXPECT_EQ(event(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(event(), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(port(), IBV_PORT_ACTIVE);
}

// As of a service that may have no AF_NETLINK (RestrictAddressFamilies= of systemd).
TEST(LookAt, SaysNothingWhereTheSystemDoesNot) {
  EXPECT_EQ(::uroce::test::in_child([] {
              ::uroce::test::forbid({SYS_socket}, EAFNOSUPPORT);
              const proto::Gid elsewhere = proto::Gid::from_v4(198, 51, 100, 7);
              std::string said = look_at({elsewhere}) ? "that it has gone" : "nothing";
              said += is_link_up({elsewhere}) ? ", up" : ", down";
              for (const proto::Gid& address : {elsewhere, proto::Gid::from_v4(127, 0, 0, 1)})
                said += ", " + std::to_string(proto::mtu_bytes(largest_path_mtu({address})));
              return said;
            }),
            "nothing, up, 1024, 4096");
}

TEST_F(AddressEvents, GidsTellTheirInterface) {
  struct ibv_gid_entry gids[2]{};
  ASSERT_EQ(impl::_ibv_query_gid_table(context.get(), gids, 2, 0, sizeof gids[0]), 2);
  for (const auto& gid : gids) EXPECT_EQ(gid.ndev_ifindex, if_nametoindex("lo")) << gid.gid_index;
}

TEST(Interface, HasAlsoTheAddressesThatHaveLabels) {
  UROCE_NEEDS_OWN_NETWORK();
  if (!ip("addr add", "lo label lo:vip")) GTEST_SKIP() << "there is no ip(8) that can add an address";
  const proto::Gid address = *proto::parse_gid(kAddress);
  EXPECT_EQ(interface_name(address), "lo");
  EXPECT_THAT(addresses_of_interface("lo"), testing::Contains(address));
  EXPECT_THAT(addresses_of_interface("lo:vip"), testing::ElementsAre(address));
  ASSERT_TRUE(ip("addr del"));
}

// A host with privacy extensions gives up its temporary address tomorrow, and the kernel lists it first.
TEST(Interface, NamesItsPassingAddressesLast) {
  UROCE_NEEDS_OWN_NETWORK();
  const auto add = [](const std::string& address) {
    return std::system(("ip addr add " + address + " dev lo").c_str()) == 0;
  };
  if (!add("fd79::1/128") || !add("fd79::2/128 preferred_lft 0") || !add("fd79::3/128")) {
    GTEST_SKIP() << "there is no ip(8) that can add an address";
  }
  std::vector<std::string> names;
  for (const proto::Gid& address : addresses_of_interface("lo")) names.push_back(proto::to_string(address));
  const auto at = [&names](const std::string& name) { return std::find(names.begin(), names.end(), name); };
  EXPECT_EQ(names.front(), "127.0.0.1");
  EXPECT_EQ(names.back(), "fd79::2") << "deprecated";
  EXPECT_NE(at("fd79::1"), names.end());
  EXPECT_NE(at("fd79::3"), names.end());
  ASSERT_EQ(std::system("for a in 1 2 3; do ip addr del fd79::$a/128 dev lo; done"), 0);
}

/// As hosts of keepalived and HAProxy have it. False: it can't be changed here.
bool let_all_addresses_be_bound(bool on) {
  for (const char* const version : {"4", "6"}) {
    std::ofstream setting("/proc/sys/net/ipv" + std::string(version) + "/ip_nonlocal_bind");
    if (!(setting << on << std::flush)) return false;
  }
  return true;
}

TEST(ThisHost, HasTheAddressesThatItHas) {
  UROCE_NEEDS_OWN_NETWORK();
  if (!ip("addr add") || !let_all_addresses_be_bound(true)) GTEST_SKIP() << "addresses or settings can't be changed";
  ASSERT_EQ(std::system("ip addr add fd79::1/128 dev lo; ip route add default dev lo"), 0);
  std::string here;
  for (const char* const text :
       {"127.0.0.1", "127.0.0.9", kAddress, "198.51.100.10", "192.0.2.1", "::1", "fd79::1", "fd79::2"}) {
    const engine::SocketAddress address(*proto::parse_gid(text), 9);
    if (is_of_this_host(*address.get(), address.size) == true) here += std::string(text) + ' ';
  }
  EXPECT_EQ(here, "127.0.0.1 127.0.0.9 198.51.100.7 ::1 fd79::1 ");
  EXPECT_EQ(std::system("ip route del default; ip addr del fd79::1/128 dev lo"), 0);
  EXPECT_TRUE(let_all_addresses_be_bound(false));
  ASSERT_TRUE(ip("addr del"));
}

/// While it lives, there is no free descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{.rlim_cur = 256, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = 0; (fd = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) >= 0;) taken_.emplace_back(fd);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<engine::Fd> taken_;
};

TEST(AddressWatch, TakesNothingForGoneThatItCanNotLookAt) {
  UROCE_NEEDS_OWN_NETWORK();
  if (!ip("addr add")) GTEST_SKIP() << "there is no ip(8) that can add an address";
  std::mutex mutex;
  std::condition_variable told;
  std::string story;
  const auto watch = AddressWatch::start({proto::Gid::from_v4(198, 51, 100, 7)}, [&](const AddressState& state) {
    const std::scoped_lock lock(mutex);
    story += state.assigned[0] ? "back " : "gone ";
    told.notify_one();
  });
  ASSERT_NE(watch, nullptr);
  constexpr char kOther[] = "ip addr add 198.51.100.8/32 dev lo; ip addr del 198.51.100.8/32 dev lo";
  {
    const NoDescriptors none;
    ASSERT_EQ(std::system(kOther), 0);
  }
  ASSERT_EQ(std::system(kOther), 0);
  ASSERT_TRUE(ip("addr del"));
  std::unique_lock lock(mutex);
  EXPECT_TRUE(told.wait_for(lock, std::chrono::milliseconds(kPatienceMs), [&] { return story.ends_with("gone "); }));
  EXPECT_EQ(story, "gone ");
}

/// Two ends of a cable.
class Cable {
 public:
  Cable() : exists_(std::system("ip link add cable0 type veth peer name cable1") == 0) {
    exists_ = exists_ && std::system("ip link set cable0 up && ip link set cable1 up") == 0;
  }
  ~Cable() { EXPECT_TRUE(!exists_ || std::system("ip link del cable0") == 0); }
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;

  explicit operator bool() const { return exists_; }

 private:
  bool exists_;
};

// The kernel takes such groups only with an interface: that of the address.
TEST(FindRoute, KnowsGroupsThatEachLinkHas) {
  UROCE_NEEDS_OWN_NETWORK();
  const Cable cable;
  if (!cable || std::system("ip addr add fd78::1/64 dev cable0 nodad") != 0) {
    GTEST_SKIP() << "there is no ip(8) that can make a link";
  }
  proto::Gid own{{0xFD, 0x78}}, group{{0xFF, 0x02}};
  own.raw[15] = group.raw[15] = 1;
  EXPECT_EQ(find_route(own, group), 0);
}

// What was on its way is sent again when the address is back.
TEST_F(AddressEvents, ConnectionsGoOn) {
  Pair p;
  ASSERT_TRUE(ip("addr del"));
  EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_PORT_ERR);
  struct ibv_sge sge = p.a.sge(0, 5000);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma = {p.b.address(), p.b.mr->rkey};
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  ASSERT_TRUE(ip("addr add"));
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
}

// Groups are joined on interfaces: on the one that has the address now.
TEST_F(AddressEvents, GroupsFollowTheAddressToAnotherInterface) {
  const Cable cable;
  if (!cable) GTEST_SKIP() << "there is no ip(8) that can make a link";
  const proto::Gid address_of_group = proto::Gid::from_v4(239, 255, 0, 7);
  union ibv_gid group {};
  std::copy(address_of_group.raw.begin(), address_of_group.raw.end(), std::begin(group.raw));

  Node node(0);
  const QpPtr qp = node.make_qp({64, 64, 16, 16, 256}, false, IBV_QPT_UD);
  bring_to(qp.get(), IBV_QPS_RTS, {}, 0);
  ASSERT_EQ(impl::ibv_attach_mcast(qp.get(), &group, 0), 0);
  struct ibv_ah_attr attr = rtr_attr(group, 0).ah_attr;
  struct ibv_ah* const ah = impl::ibv_create_ah(node.pd, &attr);
  ASSERT_NE(ah, nullptr);

  const auto is_heard = [&] {
    EXPECT_EQ(post_recv(qp.get(), 1, node.sge(0, 200)), 0);
    struct ibv_sge sge = node.sge(500, 100);
    struct ibv_send_wr wr = send_wr(2, IBV_WR_SEND, &sge);
    wr.wr.ud = {ah, 0xFFFFFF, kQkey};
    EXPECT_EQ(post(qp.get(), wr), 0);
    EXPECT_EQ(wait_completion(node.send_cq).status, IBV_WC_SUCCESS);
    return wait_completion(node.recv_cq).status == IBV_WC_SUCCESS;
  };
  const auto next = [&] { return next_async_event(node.context.get()); };
  EXPECT_TRUE(is_heard());
  ASSERT_TRUE(ip("addr del"));
  EXPECT_EQ(next(), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(next(), IBV_EVENT_PORT_ERR);
  ASSERT_TRUE(ip("addr add", "cable0"));
  EXPECT_EQ(next(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(next(), IBV_EVENT_GID_CHANGE);
  EXPECT_TRUE(is_heard());

  EXPECT_EQ(impl::ibv_destroy_ah(ah), 0);
  EXPECT_EQ(impl::ibv_detach_mcast(qp.get(), &group, 0), 0);
}

TEST_F(AddressEvents, TheInterfaceGoesDownAndUp) {
  ASSERT_TRUE(set_lo("down"));
  EXPECT_EQ(event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(port(), IBV_PORT_DOWN);
  ASSERT_TRUE(set_lo("up"));
  EXPECT_EQ(event(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(port(), IBV_PORT_ACTIVE);
}

// Without an event, as in Soft-RoCE (rxe_notify(), NETDEV_CHANGEMTU).
TEST_F(AddressEvents, TheMtuFollowsTheInterface) {
  const auto set_mtu = [](int bytes) {
    return std::system(("ip link set lo mtu " + std::to_string(bytes)).c_str()) == 0;
  };
  // What comes behind the change, and is heard.
  const auto go_and_come_back = [&] {
    ASSERT_TRUE(ip("addr del"));
    EXPECT_EQ(event(), IBV_EVENT_GID_CHANGE);
    EXPECT_EQ(event(), IBV_EVENT_PORT_ERR);
    ASSERT_TRUE(ip("addr add"));
    EXPECT_EQ(event(), IBV_EVENT_PORT_ACTIVE);
    EXPECT_EQ(event(), IBV_EVENT_GID_CHANGE);
  };
  Node node(0);
  const QpPtr qp = node.make_qp();
  bring_to(qp.get(), IBV_QPS_INIT, {}, 0);
  struct ibv_qp_attr rtr = rtr_attr(node.gid(), 0x11, {.mtu = IBV_MTU_2048});

  EXPECT_EQ(port_attr().active_mtu, IBV_MTU_4096);
  ASSERT_TRUE(set_mtu(1500));
  go_and_come_back();
  EXPECT_EQ(port_attr().active_mtu, IBV_MTU_1024);
  EXPECT_EQ(port_attr().max_mtu, IBV_MTU_4096);
  EXPECT_EQ(v().ibv_modify_qp(qp.get(), &rtr, kRtrMask), EINVAL);

  ASSERT_TRUE(set_mtu(65536));
  go_and_come_back();
  EXPECT_EQ(port_attr().active_mtu, IBV_MTU_4096);
  EXPECT_EQ(v().ibv_modify_qp(qp.get(), &rtr, kRtrMask), 0);
}

TEST(BoundPorts, AreThoseOfTheThreadsNetwork) {
  UROCE_NEEDS_OWN_NETWORK();
  constexpr std::uint16_t kPort = 4790;
  std::size_t in_new_network = 0;
  std::thread([&] {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    const engine::SocketAddress any(proto::Gid::from_v4(0, 0, 0, 0), kPort);
    const engine::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(socket.get(), any.get(), any.size), 0);
    in_new_network = bound_udp_ports(kPort).size();
  }).join();
  EXPECT_EQ(in_new_network, 1u);
  EXPECT_TRUE(bound_udp_ports(kPort).empty());
}

// In a new network namespace it has no address yet.
TEST_F(AddressEvents, LoopbackThatWasNeverUpIsDown) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  const auto story = [] {
    if (::unshare(CLONE_NEWNET) != 0) return std::string("no network");
    const ContextPtr on_loopback = open_device(1);
    if (port_of(on_loopback) != IBV_PORT_DOWN) return std::string("up at first");
    set_lo("up");
    std::optional<enum ibv_event_type> event;
    do event = next_async_event(on_loopback.get());
    while (event == IBV_EVENT_GID_CHANGE);  // It gets 127.0.0.1.
    if (event != IBV_EVENT_PORT_ACTIVE) return std::string("no event");
    return std::string(port_of(on_loopback) == IBV_PORT_ACTIVE ? "down, then up" : "down for ever");
  };
  EXPECT_EQ(::uroce::test::in_child(story), "down, then up");
}

TEST_F(AddressEvents, WhatHappensToOthersIsNoEvent) {
  ASSERT_EQ(std::system("ip addr add 198.51.100.8/32 dev lo; ip addr del 198.51.100.8/32 dev lo"), 0);
  ASSERT_TRUE(ip("addr del"));  // That is heard behind what came before.
  EXPECT_EQ(event(), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(event(), IBV_EVENT_PORT_ERR);
}

// Addresses of which no interface knows can be bound all the same, where the system is told so. Nothing is said of
// them.
TEST_F(AddressEvents, AddressesThatNoInterfaceHasAreNotWatched) {
  EXPECT_EQ(AddressWatch::start({proto::Gid::from_v4(198, 51, 100, 9)}, [](const AddressState&) {}), nullptr);
}

}  // namespace
}  // namespace uroce::ibv::test
