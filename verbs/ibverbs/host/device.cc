// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/device.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/os/bounded_lock.h"
#include "engine/os/end_of_exit.h"
#include "engine/os/end_of_main.h"
#include "engine/os/process_mutex.h"
#include "engine/os/setup_error.h"
#include "engine/run/tunables.h"
#include "proto/address.h"
#include "proto/base/never_destroyed.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/address_watch.h"
#include "verbs/ibverbs/host/environment.h"
#include "verbs/ibverbs/host/fork.h"

namespace uroce::ibv {
namespace {

template <std::size_t N>
void set_text(char (&field)[N], std::string_view text) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(field, text.data(), n);
  field[n] = '\0';
}

/// How long fork() waits for another thread that opens the device: longer than that may wait for a broker.
constexpr Duration kOpening = std::chrono::seconds(15);

/// 127.0.0.1 .. 127.0.0.254.
constexpr std::uint8_t kLastLoopback = 254;

proto::Gid loopback(std::uint8_t n) { return proto::Gid::from_v4(127, 0, 0, n); }

/// Programs that exit without closing anything owe their peers the last acknowledgements all the same.
void send_before_exit() {
  DeviceTable& t = device_table();
  if (!engine::try_lock_for(t.mutex, engine::kExitWait)) return;
  const std::scoped_lock lock(std::adopt_lock, t.mutex);
  for (Device* device : t.devices) device->send_before_exit();
}
[[maybe_unused]] const int kSendsBeforeExit = engine::at_end_of_exit<send_before_exit>();

/// Addresses that belong to a device of this process: named by UROCE_ADDR, or chosen by an automatic device.
/// Guarded by engine::process_mutex.
constinit NeverDestroyed<std::vector<proto::Gid>> reserved;

/// As place_automatic() has it. Guarded by engine::process_mutex.
constinit std::optional<proto::Gid> place;

bool is_reserved(const proto::Gid& address) {
  return std::find(reserved.value.begin(), reserved.value.end(), address) != reserved.value.end();
}

constexpr int kSchedDeadline = 6;  ///< SCHED_DEADLINE, which the C library does not name.

std::string no_thread(int error) {
  std::string sentence = engine::call_failed("can't create a thread for the NIC", "clone3 or clone", error).sentence;
  if (error == EAGAIN && ::sched_getscheduler(0) == kSchedDeadline) {
    sentence +=
        "; a thread of SCHED_DEADLINE may make none: open the device before, or set SCHED_FLAG_RESET_ON_FORK "
        "(chrt --reset-on-fork)";
  } else if (error == EAGAIN) {
    sentence +=
        "; raise the limit of processes (ulimit -u, or pids of the container) or of memory (ulimit -v), or lower "
        "that of the stack (ulimit -s), which each thread takes";
  } else if (error == EINVAL) {
    sentence += "; after unshare(CLONE_NEWPID) a process may make none: open the device before, or in its child";
  }
  return sentence;
}

}  // namespace

bool is_inside_device() { return DeviceMutex::is_inside(); }

const char* firmware_version() { return "uroce " UROCE_VERSION; }

DeviceTable& device_table() {
  static constinit NeverDestroyed<DeviceTable> table;
  return table.value;
}

Device::Device(std::uint32_t device_index, std::vector<proto::Gid> device_addresses)
    : ibv_device{}, index(device_index), addresses(std::move(device_addresses)) {
  node_type = IBV_NODE_CA;
  transport_type = IBV_TRANSPORT_IB;
  const std::string number = std::to_string(index);
  set_text(name, "uroce" + number);
  set_text(dev_name, "uverbs" + number);
  set_text(dev_path, "/sys/class/infiniband_verbs/uverbs" + number);
  set_text(ibdev_path, "/sys/class/infiniband/uroce" + number);
}

Result<std::shared_ptr<Adapter>, int> Device::open() {
  engine::notice_end_of_main();
  const std::scoped_lock lock(mutex_);
  if (auto adapter = adapter_.lock()) return adapter;
  const auto named = named_addresses();
  auto made = make_adapter(named);
  if (made.ok()) {
    adapter_ = *made;
    left_behind_.reserve(left_behind_.size() + 2);  // A child of fork() in a signal handler may have no heap.
    guid_ = (*made)->guid();
  } else if (made.error() != EINVAL) {  // Which settings that make no sense have said already.
    refuse_setting(made.error(), last_error());
  }
  return made;
}

Result<std::shared_ptr<Adapter>, int> Device::make_adapter(const std::vector<proto::Gid>& named) {
  const SilentRefusals silent;
  try {
    return named.empty() ? open_automatic() : Adapter::make(index, named, engine::Sharing::kReusePort, guid_);
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    // Of EINVAL, open() says nothing.
    return Err{code == EINVAL ? refuse_setting(code, no_thread(code)) : refuse(code, no_thread(code))};
  } catch (const std::bad_alloc&) {
    return Err{refuse(ENOMEM, "no memory for the NIC; raise the limit of memory (ulimit -v)")};
  }
}

void Device::close(std::shared_ptr<Adapter> adapter) {
  const std::scoped_lock lock(mutex_);
  adapter.reset();
}

bool Device::while_open(const std::function<void(Adapter&)>& use) {
  const std::scoped_lock lock(mutex_);
  const auto adapter = adapter_.lock();
  if (adapter) use(*adapter);
  return adapter != nullptr;
}

std::vector<proto::Gid> Device::named_addresses() const {
  if (!addresses.empty()) return addresses;
  const std::scoped_lock lock(engine::process_mutex);
  return place ? std::vector{*place} : std::vector<proto::Gid>{};
}

Result<std::shared_ptr<Adapter>, int> Device::open_automatic() {
  if (const auto first = preferred_loopback()) {
    auto made = Adapter::make(index, {*first}, engine::Sharing::kNone, guid_);
    if (made.ok() || made.error() != EADDRINUSE) return made;
  }
  for (std::uint8_t n = 1; n <= kLastLoopback; ++n) {
    if (const std::scoped_lock lock(engine::process_mutex); is_reserved(loopback(n))) continue;
    auto made = Adapter::make(index, {loopback(n)}, engine::Sharing::kNone, guid_);
    if (made.ok() || made.error() != EADDRINUSE) return made;
  }
  return Err{refuse(EADDRINUSE, "every address from 127.0.0.1 to 127.0.0.254 has its RoCE port in use")};
}

std::optional<proto::Gid> Device::preferred_loopback() {
  const std::scoped_lock lock(engine::process_mutex);
  if (preferred_ && is_port_free(*preferred_)) return preferred_;
  if (preferred_) std::erase(reserved.value, *preferred_);
  preferred_.reset();
  for (std::uint8_t n = 1; n <= kLastLoopback && !preferred_; ++n) {
    const proto::Gid candidate = loopback(n);
    if (!is_reserved(candidate) && is_port_free(candidate)) preferred_ = candidate;
  }
  if (preferred_) reserved.value.push_back(*preferred_);
  return preferred_;
}

std::array<std::uint8_t, 8> Device::guid() {
  const std::scoped_lock lock(mutex_);
  if (!guid_) guid_ = guid_of(main_address(gids_now()));
  return *guid_;
}

std::vector<proto::Gid> Device::gids() {
  const std::scoped_lock lock(mutex_);
  return gids_now();
}

std::vector<proto::Gid> Device::gids_now() {
  if (const auto adapter = adapter_.lock()) return adapter->gids();
  std::vector<proto::Gid> table = named_addresses();
  if (table.empty()) table.push_back(preferred_loopback().value_or(loopback(1)));
  return gid_table(table, device_table().first_gid);
}

PortView Device::port_view() {
  std::vector<proto::Gid> named;
  std::shared_ptr<Adapter> adapter;
  {
    const std::scoped_lock lock(mutex_);
    adapter = adapter_.lock();
    named = named_addresses();
  }
  if (adapter) {
    // Without the lock: who has the NIC's may be a thread whose signal handler asks for the same.
    const PortView view{.up = adapter->is_port_up(), .counters = adapter->counters()};
    close(std::move(adapter));
    return view;
  }
  const CounterSet counters = sum_of_published(counters_name(index, named));
  const bool link_up = is_link_up(named.empty() ? std::vector{loopback(1)} : named);
  return {.up = link_up && counters.ports_down == 0, .counters = counters};
}

void Device::send_before_exit() {
  if (!engine::try_lock_for(mutex_, engine::kExitWait)) return;
  const std::scoped_lock lock(std::adopt_lock, mutex_);
  if (const auto adapter = adapter_.lock()) adapter->send_before_exit();
}

void Device::before_fork() {
  if (!held_across_fork_.take(mutex_, kOpening)) return;
  forking_ = adapter_.lock();
  if (forking_) forking_->before_fork();
}

void Device::after_fork_in_parent() {
  if (forking_) forking_->after_fork_in_parent();
  forking_.reset();
  held_across_fork_.give_back();
}

void Device::after_fork_in_child() {
  if (forking_) {
    forking_->after_fork_in_child();
    left_behind_.push_back(std::move(forking_));
  }
  adapter_.reset();
  preferred_.reset();
  held_across_fork_.give_back();
}

void Device::abandon_inside_call() {
  auto adapter = adapter_.lock();
  if (!adapter || (!left_behind_.empty() && left_behind_.back() == adapter)) return;  // An ancestor may have left it.
  adapter->abandon_inside_call();
  left_behind_.push_back(std::move(adapter));  // Its end would take what the parent's goes on with.
}

bool place_automatic(const std::string& address) {
  if (!setting(Setting::kAddr).empty()) return false;
  const auto wanted = proto::parse_gid(address);
  const std::scoped_lock lock(engine::process_mutex);
  return std::exchange(place, wanted) != wanted;
}

Result<const std::vector<Device*>*, std::string> devices() {
  DeviceTable& t = device_table();
  const std::scoped_lock lock(t.mutex);
  if (t.devices.empty()) {
    auto plan = plan_addresses(setting(Setting::kDevices), setting(Setting::kAddr));
    if (!plan.ok()) return Err{plan.error()};
    if (const std::string wrong = check_faults(setting(Setting::kFaults)); !wrong.empty()) return Err{wrong};
    const auto vendor = vendor_id(setting(Setting::kVendor));
    if (!vendor.ok()) return Err{vendor.error()};
    const auto lids = lids_wanted(setting(Setting::kLid));
    if (!lids.ok()) return Err{lids.error()};
    const auto first_gid = first_gid_wanted(setting(Setting::kGid0));
    if (!first_gid.ok()) return Err{first_gid.error()};
    t.vendor = *vendor;
    t.first_gid = *first_gid;
    t.lids = *lids;
    for (std::vector<proto::Gid>& addresses : *plan) {
      const auto index = static_cast<std::uint32_t>(t.devices.size());
      {
        const std::scoped_lock reserve(engine::process_mutex);
        reserved.value.insert(reserved.value.end(), addresses.begin(), addresses.end());
      }
      t.devices.push_back(new Device(index, std::move(addresses)));
    }
  }
  return const_cast<const std::vector<Device*>*>(&t.devices);
}

}  // namespace uroce::ibv
