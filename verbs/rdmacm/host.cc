// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/host.h"

#include <sys/random.h>
#include <unistd.h>

#include <fstream>

namespace uroce::rdmacm {

PortTable::Config port_config() {
  PortTable::Config config;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> config.first_ephemeral >> config.last_ephemeral;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> config.first_unprivileged;
  if (config.first_ephemeral == 0 || config.first_ephemeral > config.last_ephemeral) {
    const PortTable::Config usual;
    config.first_ephemeral = usual.first_ephemeral;
    config.last_ephemeral = usual.last_ephemeral;
  }
  if (::geteuid() == 0) config.first_unprivileged = 0;
  static_cast<void>(::getrandom(&config.seed, sizeof config.seed, 0));
  return config;
}

bool is_v6_only_by_default() {
  int only = 0;
  std::ifstream("/proc/sys/net/ipv6/bindv6only") >> only;
  return only != 0;
}

}  // namespace uroce::rdmacm
