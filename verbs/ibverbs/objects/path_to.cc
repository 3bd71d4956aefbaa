// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/objects/path_to.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/os/fd.h"
#include "engine/port/socket_address.h"
#include "proto/address.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/device.h"

namespace uroce::ibv {
namespace {

constexpr std::uint8_t kDefaultHopLimit = 64;

/// The same address vector with the GID instead of the LID. Where there are no LIDs, it stays as it is.
struct ibv_ah_attr with_gid(const Adapter& adapter, struct ibv_ah_attr ah) {
  const proto::Gid& own = main_address(adapter.gids());
  if (!device_table().lids || lid_of(own) == 0 || ah.dlid == 0) return ah;
  const proto::Gid destination = address_of_lid(ah.dlid, own);
  ah.is_global = 1;
  ah.grh = {};
  std::copy(destination.raw.begin(), destination.raw.end(), ah.grh.dgid.raw);
  ah.grh.sgid_index = static_cast<std::uint8_t>(device_table().first_gid == FirstGid::kLinkLocal);
  return ah;
}

/// What our GIDs stand for. A link-local one is that of a NIC, and of no interface: packets go to and come from the
/// NIC's address.
Result<proto::Gid, int> destination_of(const Adapter& adapter, const proto::Gid& dgid) {
  if (!dgid.is_link_local()) return dgid;
  const auto& own = adapter.gids();
  if (std::find(own.begin(), own.end(), dgid) != own.end()) return main_address(own);
  if (const auto address = address_of_link_local(dgid)) return *address;
  // As the kernel says, after a second, of a neighbour that does not answer.
  return Err{refuse(ETIMEDOUT, proto::to_string(dgid) +
                                   " is not the link-local GID of a uroce NIC with an IPv4 address; " +
                                   "use the GID of the peer's IPv4 or global IPv6 address")};
}

/// Our address for packets to `destination`.
Result<proto::Gid, int> source_of(const Adapter& adapter, std::uint8_t sgid_index, const proto::Gid& destination) {
  const auto& own = adapter.gids();
  // Other devices have longer GID tables, with empty entries.
  if (sgid_index >= own.size()) {
    return Err{refuse(ENODATA, "sgid_index " + std::to_string(sgid_index) + ": the GID table has " +
                                   std::to_string(own.size()) + " entries")};
  }
  if (!own[sgid_index].is_link_local()) return own[sgid_index];
  const auto fits = [&destination](const proto::Gid& gid) {
    return !gid.is_link_local() && gid.is_v4() == destination.is_v4();
  };
  const auto found = std::find_if(own.begin(), own.end(), fits);
  return found == own.end() ? main_address(own) : *found;
}

}  // namespace

Result<proto::Path, int> path_to(const Adapter& adapter, const struct ibv_ah_attr& asked, Reach reach) {
  const struct ibv_ah_attr ah = asked.is_global == 0 ? with_gid(adapter, asked) : asked;
  if (ah.is_global == 0)
    return Err{refuse(EINVAL, "ah_attr.is_global must be 1: RoCE has no other addresses than GIDs")};
  if (ah.port_num != 1) return Err{refuse(EINVAL, "ah_attr.port_num must be 1")};
  proto::Gid dgid;
  std::copy(std::begin(ah.grh.dgid.raw), std::end(ah.grh.dgid.raw), dgid.raw.begin());
  const auto destination = destination_of(adapter, dgid);
  if (!destination.ok()) return Err{destination.error()};
  const auto source = source_of(adapter, ah.grh.sgid_index, *destination);
  if (!source.ok()) return Err{source.error()};
  proto::Path path;
  path.source = *source;
  path.destination = *destination;
  const bool multicast = path.destination.is_multicast();
  if (path.destination.is_zero() || (multicast && reach == Reach::kUnicast)) {
    return Err{refuse(EINVAL, "a connected QP needs a unicast destination GID")};
  }
  if (path.source.is_v4() != path.destination.is_v4()) {
    return Err{refuse(EINVAL, "source " + proto::to_string(path.source) + " and destination " +
                                  proto::to_string(path.destination) + " are of different IP versions")};
  }
  // What the kernel says too, after a second: it looks for unknown peers beside the NIC's netdev.
  if (const int error = multicast ? 0 : find_route(path.source, path.destination)) {
    const char* const hint =
        path.source.is_loopback()
            ? "; a NIC on a loopback address reaches this host only: name another one in UROCE_ADDR"
            : "";
    return Err{refuse(ETIMEDOUT, "no route from " + proto::to_string(path.source) + " to " +
                                     proto::to_string(path.destination) + ": " + std::strerror(error) + hint)};
  }
  path.tclass = ah.grh.traffic_class;
  // 0 and 1 are what programs written for InfiniBand pass. The kernel replaces them by the route's value.
  path.hop_limit = ah.grh.hop_limit <= 1 ? kDefaultHopLimit : ah.grh.hop_limit;
  if (multicast) path.hop_limit = std::max<std::uint8_t>(ah.grh.hop_limit, 1);  // Not further than was asked for.
  path.flow_label = 0;  // What the sockets send, whatever was asked for. (It chooses the source port.)
  return path;
}

Result<HeldSourcePort, int> hold(const NicLock& lock, proto::Path& path, std::uint16_t wanted) {
  path.source_port = lock.port().acquire_source_port(path.source, wanted);
  if (path.source_port != 0) return HeldSourcePort{path.source, path.source_port};
  const engine::Fd any(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int error = errno;
  if (!any) {
    return Err{refuse(
        error, std::string("no socket to send from: ") + std::strerror(error) + "; raise RLIMIT_NOFILE (ulimit -n)")};
  }
  const engine::SocketAddress local(path.source, 0);
  const engine::Fd udp(::socket(local.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (udp && ::bind(udp.get(), local.get(), local.size) != 0 && errno == EADDRINUSE) {
    return Err{refuse(EADDRINUSE, "no UDP port to send from: other programs have all those of " +
                                      proto::to_string(path.source) + " (ss -uanp)")};
  }
  path.source_port = wanted;  // The address has gone, perhaps for a moment. Packets will try, and be counted as lost.
  return HeldSourcePort{path.source, 0};
}

void release(const NicLock& lock, std::optional<HeldSourcePort>& held) {
  if (held) lock.port().release_source_port(held->local, held->port);
  held.reset();
}

}  // namespace uroce::ibv
