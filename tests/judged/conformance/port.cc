// SPDX-License-Identifier: Apache-2.0
// The port, and the network interface under it. Runs in a network namespace of its own, on its lo.
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>

#include "engine/os/fd.h"
#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"

namespace uroce::conformance {
namespace {

constexpr Rule kPortEvents{"PORT_ERR and PORT_ACTIVE when the link goes and comes",
                           "IBTA Vol 1, 11.6.3; ibv_get_async_event(3)"};
constexpr Rule kGidChange{"GID_CHANGE when the GID table changes", "ibv_get_async_event(3)"};
constexpr Rule kActiveMtu{"the largest IB MTU that fits the netdev with its headers", "kernel: iboe_get_mtu()"};

constexpr Why kNoLink = no_netdev("an IPv4 address stays while its link is down, and so does the GID made of it");
constexpr Why kFixedGids = no_netdev("the GID table is made of `UROCE_ADDR` when the device is opened");

/// lo, through the ioctls of netdevice(7).
class Loopback {
 public:
  explicit Loopback(const char* name = "lo") { std::strncpy(request_.ifr_name, name, sizeof request_.ifr_name - 1); }
  void set_up(bool up) {
    call(SIOCGIFFLAGS);
    const int flags = request_.ifr_flags;
    request_.ifr_flags = static_cast<short>(up ? flags | IFF_UP : flags & ~IFF_UP);
    call(SIOCSIFFLAGS);
  }
  int mtu() {
    call(SIOCGIFMTU);
    return request_.ifr_mtu;
  }
  void set_mtu(int mtu) {
    request_.ifr_mtu = mtu;
    call(SIOCSIFMTU);
  }
  /// 0.0.0.0 takes it away again.
  void set_address(const char* text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, text, &address.sin_addr);
    std::memcpy(&request_.ifr_addr, &address, sizeof address);
    call(SIOCSIFADDR);
  }

 private:
  void call(unsigned long what) { EXPECT_EQ(ioctl(socket_.get(), what, &request_), 0) << std::strerror(errno); }
  engine::Fd socket_{socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request_{};
};

struct ibv_port_attr query_port(struct ibv_context* context) {
  struct ibv_port_attr attr {};
  EXPECT_EQ(verbs_get_ctx(context)->query_port(context, 1, &attr, sizeof attr), 0);
  return attr;
}

std::string port_state(const Side& side) {
  const struct ibv_port_attr attr = query_port(side.context.get());
  return attr.state == IBV_PORT_ACTIVE ? "4: ACTIVE" : attr.state == IBV_PORT_DOWN ? "1: DOWN" : "?";
}

int gid_count(const Side& side) {
  int count = 0;
  union ibv_gid gid {};
  while (v().ibv_query_gid(side.context.get(), 1, count, &gid) == 0) ++count;
  return count;
}

std::string down_and_up() {
  Side side(0);
  Loopback lo;
  lo.set_up(false);
  EXPECT_TRUE(readable(side.context->async_fd, kPatienceMs));
  const std::string state = port_state(side), down = events(side);
  lo.set_up(true);
  EXPECT_TRUE(readable(side.context->async_fd, kPatienceMs));
  quiesce();
  return say({state, "down: " + down, "up: " + events(side)});
}

std::string second_address() {
  Side side(0);
  const int before = gid_count(side);
  Loopback alias("lo:1");
  alias.set_address("198.51.100.7");
  quiesce();
  const std::string added = "added: " + events(side) + ", " + std::to_string(gid_count(side) - before) + " new GIDs";
  alias.set_address("0.0.0.0");
  quiesce();
  return say({added, "removed: " + events(side)});
}

std::function<std::string()> with_mtu(int mtu) {
  return [mtu] {
    Loopback lo;
    const int before = lo.mtu();
    lo.set_mtu(mtu);
    const struct ibv_port_attr attr = query_port(open_device(0).get());
    lo.set_mtu(before);
    return "active_mtu " + std::to_string(128 << attr.active_mtu) + " (" + std::to_string(attr.active_mtu) + ")";
  };
}

}  // namespace

Chapter port() {
  return {"port",
          "Port",
          {
              {"ip link set eth0 down, then up", kPortEvents, "1: DOWN; down: PORT_ERR; up: PORT_ACTIVE",
               "1: DOWN; down: GID_CHANGE, PORT_ERR; up: PORT_ACTIVE, PORT_ACTIVE, GID_CHANGE", kNoLink, down_and_up},
              {"second IPv4 address added, then removed", kGidChange, "added: none, 0 new GIDs; removed: none",
               "added: GID_CHANGE, 1 new GIDs; removed: GID_CHANGE", kFixedGids, second_address},
              {"netdev MTU 9000: active_mtu", kActiveMtu, "active_mtu 4096 (5)", "active_mtu 4096 (5)", kSame,
               with_mtu(9000)},
              {"netdev MTU 4200: active_mtu", kActiveMtu, "active_mtu 4096 (5)", "active_mtu 4096 (5)", kSame,
               with_mtu(4200)},
              {"netdev MTU 1500: active_mtu", kActiveMtu, "active_mtu 1024 (3)", "active_mtu 1024 (3)", kSame,
               with_mtu(1500)},
              {"netdev MTU 1280: active_mtu", kActiveMtu, "active_mtu 1024 (3)", "active_mtu 1024 (3)", kSame,
               with_mtu(1280)},
          }};
}

}  // namespace uroce::conformance
