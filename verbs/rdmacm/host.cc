// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/host.h"

#include <linux/capability.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace uroce::rdmacm {

namespace {

/// What capable(CAP_NET_BIND_SERVICE) is in the kernel: of this thread, now.
bool may_bind_service() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return false;
  static_assert(CAP_NET_BIND_SERVICE < 32);
  return (sets[0].effective & (1u << CAP_NET_BIND_SERVICE)) != 0;
}

}  // namespace

PortTable::Config port_config() {
  PortTable::Config config;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> config.first_ephemeral >> config.last_ephemeral;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> config.first_unprivileged;
  if (config.first_ephemeral == 0 || config.first_ephemeral > config.last_ephemeral) {
    const PortTable::Config usual;
    config.first_ephemeral = usual.first_ephemeral;
    config.last_ephemeral = usual.last_ephemeral;
  }
  config.may_have_all = may_bind_service;
  [[maybe_unused]] const ssize_t got = ::getrandom(&config.seed, sizeof config.seed, 0);  // Else always the same ports.
  return config;
}

bool is_v6_only_by_default() {
  int only = 0;
  std::ifstream("/proc/sys/net/ipv6/bindv6only") >> only;
  return only != 0;
}

}  // namespace uroce::rdmacm
