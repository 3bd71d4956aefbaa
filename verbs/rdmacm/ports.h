// SPDX-License-Identifier: Apache-2.0
// The ports of RDMA CM, by Linux's rules (drivers/infiniband/core/cma.c): as those of sockets, one space per protocol,
// with small differences that programs can see. Pure: no system call.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "proto/base/result.h"
#include "verbs/rdmacm/socket_address.h"

namespace uroce::rdmacm {

/// What holds a port. Its owner keeps it, at one place in memory, until PortTable::release().
struct Binding {
  std::uint16_t space = 0;  ///< enum rdma_ucm_port_space.
  SocketAddress address{};  ///< port 0: not bound.
  bool reuse = false;       ///< RDMA_OPTION_ID_REUSEADDR.
  bool only_family = true;  ///< RDMA_OPTION_ID_AFONLY: an IPv6 wildcard is none for IPv4.
};

class PortTable {
 public:
  struct Config {
    std::uint16_t first_ephemeral = 32768, last_ephemeral = 60999;
    std::uint16_t first_unprivileged = 1024;
    /// Whether the caller may have those below. Asked each time: programs give their privileges up.
    std::function<bool()> may_have_all = [] { return false; };
    std::uint64_t seed = 1;  ///< Where the search for a free port begins.
  };
  explicit PortTable(const Config& config) : config_(config), random_(config.seed) {}

  /// Gives `binding` its port, or a free one where that is 0. 0; EACCES: privileged; EADDRINUSE: the same address has
  /// it; EADDRNOTAVAIL: a wildcard is in the way, either way round; or no port is free.
  int bind(Binding& binding);
  /// Whether a bound one may listen: EADDRINUSE, EADDRNOTAVAIL while another one that could reuse the port lives. It
  /// can't be reused from then on.
  int listen(Binding& binding);
  void release(Binding& binding);

  /// Bound ones.
  std::size_t size() const { return size_; }

 private:
  using Owners = std::vector<Binding*>;
  static std::uint32_t key(std::uint16_t space, std::uint16_t port) { return std::uint32_t{space} << 16 | port; }
  int bind_ephemeral(Binding& binding);
  void add(Binding& binding);

  const Config config_;
  std::uint64_t random_;
  std::uint16_t last_used_ = 0;
  std::size_t size_ = 0;
  std::unordered_map<std::uint32_t, Owners> owners_;  ///< By port space and port.
};

}  // namespace uroce::rdmacm
