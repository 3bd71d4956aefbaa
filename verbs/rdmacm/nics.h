// SPDX-License-Identifier: Apache-2.0
// Which NIC of this process has an address, and which one leads to another address. NICs that have been used for
// connections stay open until the process ends: their addresses are known to peers, and disconnects have to be
// answered.
#pragma once

#include <vector>

#include "proto/base/result.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/rdmacm/id.h"

namespace uroce::rdmacm {

class Nics {
 public:
  /// `sink` learns of the events of all NICs that are handed out.
  explicit Nics(ibv::CmSink& sink) : sink_(sink) {}

  /// The NIC that has `address`, opened. ENODEV: another interface of this machine has it; EADDRNOTAVAIL: none has; or
  /// why the NIC can't be opened.
  Result<Nic, int> with_address(const proto::Gid& address);
  /// The NIC and the address of `family` to reach `destination` from. ENETUNREACH ...: the host has no route; ENODEV:
  /// it has one, and no NIC of ours is there.
  Result<Nic, int> towards(const SocketAddress& destination);
  /// All of them, opened; or why one can't be.
  Result<std::vector<std::shared_ptr<ibv::Adapter>>, int> all();
  /// Sends what is ready to be sent. Never blocks.
  void send_before_exit();

 private:
  Result<std::shared_ptr<ibv::Adapter>, int> open(ibv::Device& device);
  /// The NIC that has `address`, opened; none when no NIC has it; or why it can't be opened.
  Result<Nic, int> find(const proto::Gid& address);
  Result<Nic, int> first_of_family(sa_family_t family);
  /// Of the addresses that NICs have on the interface of `source`, the one closest to `destination` (RFC 6724, 5, rule
  /// 8). ENODEV: there is none.
  Result<Nic, int> beside(const proto::Gid& source, const SocketAddress& destination);

  ibv::CmSink& sink_;
  struct Held {
    ibv::Device* device;
    std::shared_ptr<ibv::Adapter> adapter;
  };
  std::vector<Held> held_;
};

/// The place of `address` in the GID table; 0 when it has none.
std::uint8_t gid_index_of(const ibv::Adapter& adapter, const proto::Gid& address);

}  // namespace uroce::rdmacm
