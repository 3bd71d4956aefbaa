// SPDX-License-Identifier: Apache-2.0
#include "tests/support/own_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"

namespace uroce::test {
namespace {

using engine::Fd;

/// linux/ipv6.h, which clashes with netinet/in.h.
struct Ipv6InterfaceAddress {
  in6_addr address;
  std::uint32_t prefix_length;
  int interface_index;
};

void write_file(const char* path, const std::string& text) {
  const Fd fd(::open(path, O_WRONLY | O_CLOEXEC));
  [[maybe_unused]] const ssize_t n = ::write(fd.get(), text.data(), text.size());
}

bool unshare_network() {
  if (::unshare(CLONE_NEWNET) == 0) return true;
  const uid_t uid = ::getuid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1");
  return true;
}

/// A new address is tentative until the kernel's worker has looked at it, even on lo.
bool wait_until_usable(const in6_addr& address) {
  const Instant limit = engine::os_now() + std::chrono::seconds(5);
  const Fd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 local{};
  local.sin6_family = AF_INET6;
  local.sin6_addr = address;
  while (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local) != 0) {
    if (errno != EADDRNOTAVAIL || engine::os_now() > limit) return false;
    ::sched_yield();
  }
  return true;
}

std::string failed(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

std::string failure;

class OwnNetwork final : public testing::Environment {
 public:
  void SetUp() override { failure = enter_own_network(); }
};
[[maybe_unused]] const testing::Environment* const kOwnNetwork = testing::AddGlobalTestEnvironment(new OwnNetwork);

}  // namespace

std::string enter_own_network() {
  if (!unshare_network()) return failed("no network namespace of our own");
  const Fd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return failed("no IPv6 socket");
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(fd.get(), SIOCSIFFLAGS, &request) != 0) return failed("can't bring lo up");
  Ipv6InterfaceAddress address{};
  address.prefix_length = 128;
  address.interface_index = static_cast<int>(::if_nametoindex("lo"));
  for (const char* text : {"fd77::1", "fd77::2", "fd77::3"}) {
    ::inet_pton(AF_INET6, text, &address.address);
    if (::ioctl(fd.get(), SIOCSIFADDR, &address) != 0) return failed("can't add an IPv6 address to lo");
    if (!wait_until_usable(address.address)) return failed("an IPv6 address on lo does not become usable");
  }
  return {};
}

const std::string& own_network_failure() { return failure; }

}  // namespace uroce::test
