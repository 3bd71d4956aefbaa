// SPDX-License-Identifier: Apache-2.0
// The device list. Devices live as long as the process: programs keep pointers to them over ibv_free_device_list().
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/os/aware_mutex.h"
#include "engine/os/process_mutex.h"
#include "proto/base/result.h"
#include "proto/path.h"
#include "verbs/ibverbs/host/environment.h"
#include "verbs/ibverbs/host/fork.h"
#include "verbs/ibverbs/host/published_counters.h"

namespace uroce::ibv {

class Adapter;
struct Device;
using DeviceMutex = engine::AwareMutex<Device>;

/// What all devices say of themselves, in the verbs and in sysfs.
const char* firmware_version();
inline constexpr std::uint32_t kPortCapabilities = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;

struct PortView {
  bool up = true;
  CounterSet counters;
};

struct Device : ibv_device {
  Device(std::uint32_t index, std::vector<proto::Gid> addresses);

  // Providers that a program links beside us (libmlx5, libefa) look behind the public structure for what would be
  // their own operations; they have to find zeros.
  std::array<std::byte, 1024> zeros{};

  std::uint32_t index;
  std::vector<proto::Gid> addresses;  ///< As configured; empty = automatic.

  /// The NIC behind this device, made at the first call and shared as long as anybody holds it. The error is an errno
  /// value; last_error() tells more.
  Result<std::shared_ptr<Adapter>, int> open();
  /// Gives `adapter` back. When nobody else holds it, its address is free again on return.
  void close(std::shared_ptr<Adapter> adapter);
  /// Calls `use` if the NIC is open in this process, which can't close it meanwhile. False: it is not open.
  bool while_open(const std::function<void(Adapter&)>& use);
  /// The GID table, as ibv_query_gid() has it or would have it if the device were opened now.
  std::vector<proto::Gid> gids();
  /// What its port says and what has been counted. When the device is not open in this process: the sum over others of
  /// this user that run a NIC of this name with the same addresses.
  PortView port_view();
  /// EUI-64 in network order, of its address when it was asked for or opened first. In this process it remains that:
  /// librdmacm knows a device by it, and an automatic one may be opened on another address than was free before.
  std::array<std::uint8_t, 8> guid();

  /// See Adapter. Not if somebody opens or closes the NIC, or uses it by while_open(), and takes long (kExitWait).
  void send_before_exit();

  // Around fork(), for fork.h. The child's next open() makes another NIC.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();
  /// In the child of a fork() inside a call on a NIC: from now on the NIC refuses to work.
  void abandon_inside_call();

 private:
  /// On these addresses, or on an address of 127.0.0.0/24 that is free.
  Result<std::shared_ptr<Adapter>, int> make_adapter(const std::vector<proto::Gid>& named);
  Result<std::shared_ptr<Adapter>, int> open_automatic();
  /// As configured, or where place_automatic() wants it; empty = on a free loopback address.
  std::vector<proto::Gid> named_addresses() const;
  std::optional<proto::Gid> preferred_loopback();
  /// gids(), with mutex_ held.
  std::vector<proto::Gid> gids_now();

  DeviceMutex mutex_;
  std::weak_ptr<Adapter> adapter_;
  MutexHeldAcrossFork<DeviceMutex> held_across_fork_;
  std::shared_ptr<Adapter> forking_;
  std::vector<std::shared_ptr<Adapter>> left_behind_;  ///< In children of fork(): never destroyed.
  std::optional<proto::Gid> preferred_;                ///< Automatic address that gids() has answered with.
  std::optional<std::array<std::uint8_t, 8>> guid_;    ///< As it has been told.
};

struct DeviceTable {
  engine::ProcessMutex mutex;
  std::vector<Device*> devices;  ///< Never destroyed.
  VendorId vendor;
  bool lids = false;  ///< Ports have LIDs.
  FirstGid first_gid = FirstGid::kLinkLocal;
};
DeviceTable& device_table();

/// Where UROCE_ADDR says nothing: has devices be on `address` of this host when they are opened next, which processes
/// of this user share; if it is "", on a loopback address, as at first. Returns whether that is elsewhere than until
/// now.
bool place_automatic(const std::string& address);

/// All devices; made from the environment at the first call. The error is a sentence for people.
Result<const std::vector<Device*>*, std::string> devices();

}  // namespace uroce::ibv
