// SPDX-License-Identifier: Apache-2.0
// IP addresses of this host as GIDs: the interface behind them, and what is derived from them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/path.h"

namespace uroce::ibv {

/// Name of the interface that has `address`; nothing when no interface of this host has it.
std::optional<std::string> interface_name(const proto::Gid& address);

/// Whether this host has an interface of that name.
bool has_interface(const std::string& name);
/// The addresses that NICs can have on an interface: those that can be bound, and are not link-local. IPv4 first, and
/// last what will pass (passing_addresses.h): the first one names the NIC and its GUID.
std::vector<proto::Gid> addresses_of_interface(const std::string& name);
/// The interfaces that are up, loopback excepted, and have such addresses.
std::vector<std::string> interfaces_to_others();

/// In bytes; nothing when this host has no interface of that name.
std::optional<std::uint32_t> interface_mtu(const std::string& name);
/// The smallest interface MTU that any packet of a NIC fits: the smallest path MTU, IPv4, UDP, BTH, RETH, immediate
/// data, ICRC. (The kernel has no IPv6 on an interface with less than 1280.)
inline constexpr std::uint32_t kInterfaceMtuMin = 256 + 20 + 8 + 12 + 16 + 4 + 4;
/// The largest path MTU (enum 1..5) whose packets fit unfragmented into an interface MTU of `bytes`.
std::uint8_t path_mtu_for(std::uint32_t bytes);

/// EUI-64 of a NIC with this address, locally administered. Different IPv4 addresses give different ones.
std::array<std::uint8_t, 8> guid_of(const proto::Gid& address);

/// fe80::/64 with `guid` as interface identifier. No interface has this address: it stands for the NIC.
proto::Gid link_local_gid(const std::array<std::uint8_t, 8>& guid);
/// The IPv4 address of the NIC with this link-local GID, as link_local_gid(guid_of(address)) makes it; nothing for GIDs
/// that are not made like that. An IPv6 address has no place in a GUID: such a NIC cannot be told by it.
std::optional<proto::Gid> address_of_link_local(const proto::Gid& gid);

/// The GID table of a NIC with these addresses (at least one), and its link-local GID: first, as on every RoCE port, or
/// last (UROCE_GID0).
enum class FirstGid : std::uint8_t { kLinkLocal, kAddress };
std::vector<proto::Gid> gid_table(const std::vector<proto::Gid>& addresses, FirstGid first);
/// The NIC's first address in its GID table.
const proto::Gid& main_address(const std::vector<proto::Gid>& gids);
/// Of each of them the index of the network interface that has it, or 0. No interface has the link-local one, which is
/// the NIC's: that of the main address stands there.
std::vector<std::uint32_t> interfaces_of(std::vector<proto::Gid> gids);

/// The LID of a port with this address, where ports have LIDs (UROCE_LID): the last two bytes of an IPv4 address. 0,
/// which is none, for other addresses and where they are no unicast LID (IBTA Vol 1, 4.1.3: 0x0001 to 0xBFFF).
std::uint16_t lid_of(const proto::Gid& address);
/// The same of the last two bytes alone.
std::uint16_t lid_of_end(std::uint16_t end);
/// The address with that LID in the /16 network of `own`, an IPv4 address.
proto::Gid address_of_lid(std::uint16_t lid, const proto::Gid& own);

/// Whether IPv4 packets to it go to all hosts of a network of this one. A socket can be bound to it all the same.
bool is_broadcast(const proto::Gid& address);

/// True when nobody on this host has bound the RoCE port of `address`.
bool is_port_free(const proto::Gid& address);

/// Looks up the route from `from`, an address of this host, to `to`. 0: there is one (whether anybody is there, nobody
/// knows), or the host can't tell. Else why not: ENETUNREACH, EHOSTUNREACH, EACCES (a broadcast address), EINVAL (from
/// loopback to the outside).
int find_route(const proto::Gid& from, const proto::Gid& to);

}  // namespace uroce::ibv
