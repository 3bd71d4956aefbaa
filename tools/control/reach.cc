// SPDX-License-Identifier: Apache-2.0
#include "tools/control/reach.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "proto/path.h"
#include "tools/rdma/failure.h"

namespace uroce::tools {
namespace {

bool is_loopback(const PeerMetadata& side) {
  proto::Gid gid;
  std::copy(std::begin(side.gid), std::end(side.gid), gid.raw.begin());
  return gid.is_loopback();
}

/// What helps when a NIC has a loopback address, and `address` is what its end is known by; `there`: which end.
std::string remedy(const std::string& how, const std::string& address, const char* there) {
  if (address.starts_with("fe80:")) return "connect by an IPv4 or a global IPv6 address (NICs have no link-local ones)";
  return how + address + there;
}

}  // namespace

void check_gids_reach(const PeerMetadata& local, const PeerMetadata& peer, const Control& control,
                      const std::string& how) {
  if (control.is_local()) return;
  if (is_loopback(local)) {
    throw Failure(kExitUsage,
                  fmt::format("our NIC has a loopback address, and {} is on another host, {}: {}", control.peer_role(),
                              control.peer_address(), remedy(how, control.local_address(), "")));
  }
  if (is_loopback(peer)) {
    throw Failure(kExitUsage, fmt::format("the NIC of {} has a loopback address, which we can't reach from {}: {}",
                                          control.peer_role(), control.local_address(),
                                          remedy(how, control.peer_address(), " there")));
  }
}

}  // namespace uroce::tools
