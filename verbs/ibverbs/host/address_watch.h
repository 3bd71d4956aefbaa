// SPDX-License-Identifier: Apache-2.0
// Addresses of a NIC that come and go, with their interfaces, and whose MTU changes: rtnetlink(7) tells of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/os/background_thread.h"
#include "engine/os/fd.h"
#include "engine/os/waiter.h"
#include "proto/path.h"

namespace uroce::ibv {

/// What has become of some addresses of this host.
struct AddressState {
  std::vector<bool> assigned;             ///< For each: an interface has it.
  std::vector<std::uint32_t> interfaces;  ///< For each: the index of that interface, or 0.
  bool any_up = false;                    ///< One of them is on an interface that is up and has a carrier.
  std::optional<std::uint8_t> mtu_max;    ///< The largest path MTU (enum 1..5) of all interfaces that have one of them.
  friend bool operator==(const AddressState&, const AddressState&) = default;
};
/// Nothing when the system does not say: there is no free descriptor, or no AF_NETLINK for this process.
std::optional<AddressState> look_at(const std::vector<proto::Gid>& addresses);
/// Whether a NIC with these addresses that is opened now has its port up.
bool is_link_up(const std::vector<proto::Gid>& addresses);
/// The path MTU (enum 1..5) of a NIC with these addresses that is opened now. Where the system does not say, what an
/// Ethernet has room for.
std::uint8_t largest_path_mtu(const std::vector<proto::Gid>& addresses);

/// A thread that sleeps until the kernel says that an interface or an address of this host has changed.
class AddressWatch {
 public:
  /// Called by that thread when the state of the addresses is another one than before.
  using OnChange = std::function<void(const AddressState&)>;

  /// Null where there is nothing to watch: no interface has one of `addresses` (some can be bound all the same), or the
  /// system gives no such socket.
  static std::unique_ptr<AddressWatch> start(const std::vector<proto::Gid>& addresses, OnChange on_change);
  /// Waits for a call of `on_change` that runs.
  ~AddressWatch();
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;

  /// The state at the start.
  const AddressState& first() const { return first_; }
  /// In the child of fork(), where the thread does not exist.
  void abandon_after_fork();

 private:
  AddressWatch(engine::Fd events, std::vector<proto::Gid> addresses, AddressState first, OnChange on_change);
  void run();

  engine::Fd events_;
  engine::Waiter waiter_;
  const std::vector<proto::Gid> addresses_;
  const AddressState first_;
  const OnChange on_change_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<engine::BackgroundThread> thread_;
};

}  // namespace uroce::ibv
