// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "engine/os/fd.h"
#include "engine/port/socket_address.h"
#include "proto/base/spread.h"
#include "proto/timing.h"
#include "verbs/ibverbs/host/address_watch.h"
#include "verbs/ibverbs/host/passing_addresses.h"

namespace uroce::ibv {
namespace {

/// What a packet has at most around its payload: IPv6, UDP, BTH, RETH, immediate data, ICRC.
constexpr std::uint32_t kMaxOverhead = 40 + 8 + 12 + 16 + 4 + 4;

proto::Gid gid_of(const sockaddr& address) {
  proto::Gid gid;
  if (address.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    gid = proto::Gid::from_v4(0, 0, 0, 0);
    std::memcpy(gid.raw.data() + 12, &v4.sin_addr, 4);
  } else if (address.sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof v6);
    std::memcpy(gid.raw.data(), &v6.sin6_addr, 16);
  }
  return gid;
}

int family_of(const proto::Gid& address) { return address.is_v4() ? AF_INET : AF_INET6; }

/// All of 127.0.0.0/8 can be bound, though the loopback interface lists 127.0.0.1 only, and not even that one before it
/// is up for the first time.
bool owns(const ifaddrs& interface, const proto::Gid& address) {
  const bool is_v4_loopback = address.is_v4() && address.is_loopback();
  if (is_v4_loopback && (interface.ifa_flags & (IFF_LOOPBACK | IFF_UP)) == IFF_LOOPBACK) return true;
  if (interface.ifa_addr == nullptr) return false;
  const proto::Gid own = gid_of(*interface.ifa_addr);
  return own == address || (is_v4_loopback && own.is_v4() && own.is_loopback());
}

using InterfaceList = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

/// An entry for each address of each interface.
InterfaceList list_interfaces() {
  ifaddrs* raw = nullptr;
  return {getifaddrs(&raw) == 0 ? raw : nullptr, freeifaddrs};
}

/// Without the label that an IPv4 address may have (eth0:vip).
std::string name_of(const ifaddrs& interface) {
  const std::string name = interface.ifa_name;
  return name.substr(0, name.find(':'));
}

/// Not yet, while IPv6 looks whether somebody else has it.
bool can_be_bound(const proto::Gid& address) {
  const engine::Fd fd(socket(family_of(address), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const engine::SocketAddress local(address, 0);
  return fd && bind(fd.get(), local.get(), local.size) == 0;
}

}  // namespace

std::optional<AddressState> look_at(const std::vector<proto::Gid>& addresses) {
  AddressState state;
  state.assigned.resize(addresses.size());
  state.interfaces.resize(addresses.size());
  const InterfaceList list = list_interfaces();
  if (list == nullptr) return std::nullopt;
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    // Not IFF_RUNNING, which follows the carrier with up to a second's delay, when packets pass already.
    constexpr unsigned int kLowerUp = 1u << 16;  // IFF_LOWER_UP of <linux/if.h>, which <net/if.h> lacks.
    const bool up = (i->ifa_flags & (IFF_UP | kLowerUp)) == (IFF_UP | kLowerUp);
    for (std::size_t n = 0; n < addresses.size(); ++n) {
      if (!owns(*i, addresses[n])) continue;
      state.assigned[n] = true;
      state.interfaces[n] = if_nametoindex(i->ifa_name);
      state.any_up = state.any_up || up;
      const auto mtu = interface_mtu(i->ifa_name);
      if (mtu) state.mtu_max = std::min(state.mtu_max.value_or(proto::kMtuCodeMax), path_mtu_for(*mtu));
    }
  }
  return state;
}

std::vector<std::uint32_t> interfaces_of(std::vector<proto::Gid> gids) {
  const proto::Gid address = main_address(gids);
  std::replace_if(
      gids.begin(), gids.end(), [](const proto::Gid& gid) { return gid.is_link_local(); }, address);
  const auto state = look_at(gids);
  return state ? state->interfaces : std::vector<std::uint32_t>(gids.size());
}

bool is_link_up(const std::vector<proto::Gid>& addresses) {
  const auto state = look_at(addresses);
  if (!state) return true;
  const bool none_assigned = std::ranges::find(state->assigned, true) == state->assigned.end();
  return state->any_up || none_assigned;
}

std::uint8_t largest_path_mtu(const std::vector<proto::Gid>& addresses) {
  if (const auto state = look_at(addresses)) return state->mtu_max.value_or(proto::kMtuCodeMax);
  constexpr std::uint32_t kEthernet = 1500;
  const bool stays_here =
      std::ranges::all_of(addresses, [](const proto::Gid& address) { return address.is_loopback(); });
  return stays_here ? proto::kMtuCodeMax : path_mtu_for(kEthernet);
}

std::optional<std::string> interface_name(const proto::Gid& address) {
  const InterfaceList list = list_interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    if (owns(*i, address)) return name_of(*i);
  }
  return std::nullopt;
}

bool has_interface(const std::string& name) { return !name.empty() && if_nametoindex(name.c_str()) != 0; }

std::vector<proto::Gid> addresses_of_interface(const std::string& name) {
  std::vector<proto::Gid> found;
  const InterfaceList list = list_interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    if ((i->ifa_name != name && name_of(*i) != name) || i->ifa_addr == nullptr) continue;
    const proto::Gid address = gid_of(*i->ifa_addr);
    if (!address.is_zero() && !address.is_link_local() && can_be_bound(address)) found.push_back(address);
  }
  // The first one is what peers are told, and the NIC would lose it.
  std::stable_partition(found.begin(), found.end(), [passing = passing_addresses()](const proto::Gid& address) {
    return std::find(passing.begin(), passing.end(), address) == passing.end();
  });
  std::stable_partition(found.begin(), found.end(), [](const proto::Gid& address) { return address.is_v4(); });
  return found;
}

std::vector<std::string> interfaces_to_others() {
  std::vector<std::string> names;
  const InterfaceList list = list_interfaces();
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    const bool leads_out = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0;
    const std::string name = name_of(*i);
    const bool is_new = std::find(names.begin(), names.end(), name) == names.end();
    if (leads_out && is_new && !addresses_of_interface(name).empty()) names.push_back(name);
  }
  return names;
}

std::optional<std::uint32_t> interface_mtu(const std::string& name) {
  const engine::Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (!fd || ioctl(fd.get(), SIOCGIFMTU, &request) != 0) return std::nullopt;
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

std::uint8_t path_mtu_for(std::uint32_t bytes) {
  std::uint8_t code = proto::kMtuCodeMax;
  while (code > proto::kMtuCodeMin && proto::mtu_bytes(code) + kMaxOverhead > bytes) --code;
  return code;
}

std::array<std::uint8_t, 8> guid_of(const proto::Gid& address) {
  std::array<std::uint8_t, 5> tail{};  // What follows the first byte of a 48-bit MAC address.
  if (address.is_v4()) {
    std::copy(address.v4(), address.v4() + 4, tail.begin() + 1);
  } else {
    std::uint64_t hash = spread(address.raw);
    for (std::uint8_t& byte : tail) {
      byte = static_cast<std::uint8_t>(hash >> 24);
      hash >>= 8;
    }
    tail[0] |= 0x80;  // Never as in that of an IPv4 address.
  }
  return {0x02, tail[0], tail[1], 0xFF, 0xFE, tail[2], tail[3], tail[4]};
}

proto::Gid link_local_gid(const std::array<std::uint8_t, 8>& guid) {
  proto::Gid gid;
  gid.raw[0] = 0xFE;
  gid.raw[1] = 0x80;
  std::copy(guid.begin(), guid.end(), gid.raw.begin() + 8);
  return gid;
}

std::optional<proto::Gid> address_of_link_local(const proto::Gid& gid) {
  const std::uint8_t* const id = gid.raw.data() + 8;
  const proto::Gid address = proto::Gid::from_v4(id[2], id[5], id[6], id[7]);
  return gid == link_local_gid(guid_of(address)) ? std::optional(address) : std::nullopt;
}

std::vector<proto::Gid> gid_table(const std::vector<proto::Gid>& addresses, FirstGid first) {
  std::vector<proto::Gid> gids = addresses;
  gids.insert(first == FirstGid::kLinkLocal ? gids.begin() : gids.end(), link_local_gid(guid_of(addresses.front())));
  return gids;
}

const proto::Gid& main_address(const std::vector<proto::Gid>& gids) {
  return gids.at(gids.at(0).is_link_local() ? 1 : 0);
}

std::uint16_t lid_of(const proto::Gid& address) {
  return address.is_v4() ? lid_of_end(static_cast<std::uint16_t>(address.raw[14] << 8 | address.raw[15]))
                         : std::uint16_t{0};
}

std::uint16_t lid_of_end(std::uint16_t end) {
  constexpr std::uint16_t kLastUnicast = 0xBFFF;
  return end <= kLastUnicast ? end : std::uint16_t{0};
}

proto::Gid address_of_lid(std::uint16_t lid, const proto::Gid& own) {
  proto::Gid address = own;
  address.raw[14] = static_cast<std::uint8_t>(lid >> 8);
  address.raw[15] = static_cast<std::uint8_t>(lid);
  return address;
}

bool is_port_free(const proto::Gid& address) {
  const engine::Fd fd(socket(family_of(address), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const engine::SocketAddress local(address, proto::kRocePort);
  return fd && bind(fd.get(), local.get(), local.size) == 0;
}

bool is_broadcast(const proto::Gid& address) {
  if (!address.is_v4()) return false;
  if (address == proto::Gid::from_v4(255, 255, 255, 255)) return true;  // Also where there is no route to it.
  const engine::Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const engine::SocketAddress peer(address, proto::kRocePort);
  return fd && connect(fd.get(), peer.get(), peer.size) != 0 && errno == EACCES;  // Without SO_BROADCAST.
}

int find_route(const proto::Gid& from, const proto::Gid& to) {
  const engine::Fd fd(socket(family_of(from), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::uint32_t scope = to.is_multicast() && !to.is_v4() ? engine::interface_of(from) : 0;
  const engine::SocketAddress local(from, 0), peer(to, proto::kRocePort, scope);
  if (!fd || bind(fd.get(), local.get(), local.size) != 0) return 0;
  return connect(fd.get(), peer.get(), peer.size) == 0 ? 0 : errno;  // For UDP this sends nothing.
}

}  // namespace uroce::ibv
