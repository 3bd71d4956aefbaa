// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/nics.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "engine/os/fd.h"
#include "engine/port/socket_address.h"
#include "verbs/ibverbs/host/address.h"

namespace uroce::rdmacm {
namespace {

/// The link-local GID of a table is no address that could be bound.
std::optional<std::uint8_t> index_in(const std::vector<proto::Gid>& gids, const proto::Gid& address) {
  const auto found = std::find(gids.begin(), gids.end(), address);
  if (found == gids.end() || address.is_link_local()) return std::nullopt;
  return static_cast<std::uint8_t>(found - gids.begin());
}

/// The address that the host would send from; or why it would not.
Result<proto::Gid, int> source_towards(const proto::Gid& destination) {
  const engine::SocketAddress peer(destination, proto::kRocePort);
  const engine::Fd fd(::socket(peer.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), peer.get(), peer.size) != 0) return Err{errno};  // For UDP this sends nothing.
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) return Err{errno};
  const auto source = read_address(&name, sizeof name);
  if (!source) return Err{EAFNOSUPPORT};
  return source->address;
}

/// How many bits two addresses have in common from the front.
int common_prefix(const proto::Gid& a, const proto::Gid& b) {
  const auto differ = std::mismatch(a.raw.begin(), a.raw.end(), b.raw.begin());
  if (differ.first == a.raw.end()) return 128;
  const auto bits = static_cast<std::uint8_t>(*differ.first ^ *differ.second);
  return static_cast<int>(differ.first - a.raw.begin()) * 8 + std::countl_zero(bits);
}

}  // namespace

std::uint8_t gid_index_of(const ibv::Adapter& adapter, const proto::Gid& address) {
  return index_in(adapter.gids(), address).value_or(0);
}

Result<std::shared_ptr<ibv::Adapter>, int> Nics::open(ibv::Device& device) {
  const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.device == &device; });
  if (held != held_.end()) {
    if (held->adapter->works()) {
      held->adapter->arrange_last_words();
      return held->adapter;
    }
    device.close(std::move(held->adapter));  // It had a fatal error.
    held_.erase(held);
  }
  auto opened = device.open();
  if (!opened.ok()) return opened;
  if (!(*opened)->works()) return Err{ENODEV};
  if (const int error = (*opened)->steer_management()) return Err{error};
  (*opened)->arrange_last_words();
  (*opened)->set_cm_sink(&sink_);
  held_.push_back({&device, *opened});
  return opened;
}

Result<Nic, int> Nics::find(const proto::Gid& address) {
  const auto devices = ibv::devices();
  if (!devices.ok()) return Err{ENODEV};
  for (ibv::Device* device : **devices) {
    if (!index_in(device->gids(), address)) continue;
    auto adapter = open(*device);
    if (!adapter.ok()) return Err{adapter.error()};
    // One with automatic addresses may have got another one, now that it is open.
    if (const auto index = index_in((*adapter)->gids(), address)) return Nic{*adapter, *index};
  }
  return Nic{};
}

Result<Nic, int> Nics::with_address(const proto::Gid& address) {
  auto nic = find(address);
  if (!nic.ok() || *nic) return nic;
  return Err{ibv::interface_name(address) ? ENODEV : EADDRNOTAVAIL};
}

Result<Nic, int> Nics::first_of_family(sa_family_t family) {
  const auto adapters = all();
  if (!adapters.ok()) return Err{adapters.error()};
  for (const auto& adapter : *adapters) {
    const auto& gids = adapter->gids();
    for (std::size_t i = 0; i < gids.size(); ++i) {
      if (gids[i].is_link_local()) continue;
      if (gids[i].is_v4() == (family == AF_INET)) return Nic{adapter, static_cast<std::uint8_t>(i)};
    }
  }
  return Err{ENODEV};
}

Result<Nic, int> Nics::beside(const proto::Gid& source, const SocketAddress& destination) {
  const auto interface = ibv::interface_name(source);
  const auto devices = ibv::devices();
  if (!interface || !devices.ok()) return Err{ENODEV};
  std::optional<proto::Gid> closest;
  for (ibv::Device* device : **devices) {
    for (const proto::Gid& gid : device->gids()) {
      if (gid.is_v4() != destination.address.is_v4() || ibv::interface_name(gid) != interface) continue;
      if (!closest || common_prefix(gid, destination.address) > common_prefix(*closest, destination.address))
        closest = gid;
    }
  }
  return closest ? with_address(*closest) : Err{ENODEV};
}

Result<Nic, int> Nics::towards(const SocketAddress& destination) {
  const auto source = source_towards(destination.address);
  if (!source.ok()) return Err{source.error()};
  auto nic = find(*source);
  if (nic.ok() && *nic) return nic;
  // Within this machine any address of ours will do: of those on the loopback interface the host names 127.0.0.1 only.
  const bool stays_here = source->is_loopback() || *source == destination.address;
  if (stays_here || destination.address.is_multicast()) return first_of_family(destination.family);
  // The host may prefer another address of that interface: the first one, or the temporary IPv6 address of the day.
  return beside(*source, destination);
}

Result<std::vector<std::shared_ptr<ibv::Adapter>>, int> Nics::all() {
  std::vector<std::shared_ptr<ibv::Adapter>> adapters;
  const auto devices = ibv::devices();
  if (!devices.ok()) return Err{ENODEV};
  for (ibv::Device* device : **devices) {
    auto adapter = open(*device);
    if (!adapter.ok()) return Err{adapter.error()};
    adapters.push_back(*adapter);
  }
  return adapters;
}

void Nics::send_before_exit() {
  for (const Held& held : held_) held.adapter->send_before_exit();
}

}  // namespace uroce::rdmacm
