// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/cm_steering.h"

#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "engine/os/abstract_name.h"
#include "proto/address.h"
#include "proto/base/number.h"

namespace uroce::engine {
namespace {

// From the UDP payload on: BTH (12 bytes), DETH (8), the MAD header (24), and the message.
constexpr std::uint32_t kSlotOfQpn = 5, kTidHigh = 28, kAttribute = 36, kRequestId = 44, kRemoteId = 48,
                        kServiceLow = 56;
constexpr std::uint32_t kPort = 0xFFFF;  // Of a service ID.
constexpr std::uint32_t kReq = 0x10, kMra = 0x11, kRej = 0x12, kDrep = 0x16, kSidrReq = 0x17, kSidrRep = 0x18;

/// How long others may hold the lock, in steps of a millisecond.
constexpr int kTries = 2000;
/// Listings that are compared with the one before, at most.
constexpr int kListings = 8;

std::string prefix_of(const proto::Gid& local) { return "uroce-cm-" + proto::to_string(local) + '-'; }

/// A Unix socket with this abstract name; EADDRINUSE when somebody has it.
Result<Fd, int> bind_name(const std::string& name) {
  Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const AbstractName address(name);
  if (!fd || ::bind(fd.get(), address.get(), address.size) != 0) return Err{errno};
  return fd;
}

/// One process at a time looks and steers. The lock ends with its process.
Result<Fd, int> lock_steering(const proto::Gid& local) {
  for (int i = 0; i < kTries; ++i) {
    auto lock = bind_name(prefix_of(local) + "lock");
    if (lock.ok() || lock.error() != EADDRINUSE) return lock;
    ::usleep(1000);
  }
  return Err{EAGAIN};
}

/// The error is an errno value: it is not known who listens, and to steer would take their requests from them.
Result<std::vector<CmRoute>, int> listed_routes(const proto::Gid& local) {
  errno = 0;
  std::ifstream file("/proc/net/unix");
  std::string text;
  std::getline(file, text, '\0');                             // Throws nothing, as an iterator would.
  if (text.empty()) return Err{errno != 0 ? errno : ENOENT};  // It has a headline at least.
  return parse_cm_routes(text, local);
}

/// While others open and close sockets, a listing may lack a socket that is there: so until two say the same.
Result<std::vector<CmRoute>, int> current_routes(const proto::Gid& local) {
  auto routes = listed_routes(local);
  for (int i = 0; i < kListings && routes.ok(); ++i) {
    auto again = listed_routes(local);
    const bool is_same = again.ok() && *again == *routes;
    routes = std::move(again);
    if (is_same) break;
  }
  return routes;
}

std::string name_of(const proto::Gid& local, const CmRoute& route) {
  return prefix_of(local) + std::to_string(route.service) + '-' + std::to_string(route.slot);
}

/// What is equal to a route's service in these bits goes to its slot.
void add_routes(std::vector<sock_filter>& steer, const std::vector<CmRoute>& routes, std::uint32_t bits) {
  for (const CmRoute& route : routes) {
    steer.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, route.service & bits, 0, 1));
    steer.push_back(BPF_STMT(BPF_RET | BPF_K, route.slot));
  }
}

int attach(const std::vector<CmRoute>& routes, std::uint8_t otherwise, int socket) {
  std::vector<sock_filter> steer{
      /*  0 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kSlotOfQpn),
      /*  1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      /*  2 */ BPF_STMT(BPF_RET | BPF_A, 0),
      /*  3 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kAttribute),
      /*  4 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kReq, 15, 0),
      /*  5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kSidrReq, 14, 0),
      /*  6 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kSidrRep, 3, 0),
      /*  7 */ BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kMra, 0, 1),
      /*  8 */ BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kDrep, 0, 3),
      /*  9 */ BPF_STMT(BPF_RET | BPF_K, 0),
      /* 10 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kRequestId),
      /* 11 */ BPF_STMT(BPF_RET | BPF_A, 0),
      /* 12 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kRemoteId),
      /* 13 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      /* 14 */ BPF_STMT(BPF_RET | BPF_A, 0),
      // A REJ without remote ID takes back a REQ. Of ours, the transaction ID says for which service that was.
      /* 15 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kAttribute),
      /* 16 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRej, 1, 0),
      /* 17 */ BPF_STMT(BPF_RET | BPF_K, 0),
      /* 18 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kTidHigh),
      /* 19 */ BPF_STMT(BPF_JMP | BPF_JA, 1),
      /* 20 */ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kServiceLow),
  };
  add_routes(steer, routes, ~std::uint32_t{0});
  // Nobody listens. Perhaps a server is about to: that of perftest, for UD, once its listener of the TCP port is gone.
  if (steer.size() + 2 * routes.size() + 2 <= BPF_MAXINSNS) {
    steer.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kPort));
    add_routes(steer, routes, kPort);
  }
  steer.push_back(BPF_STMT(BPF_RET | BPF_K, otherwise));
  if (steer.size() > BPF_MAXINSNS) return ENOBUFS;
  const sock_fprog program{.len = static_cast<unsigned short>(steer.size()), .filter = steer.data()};
  return ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0 ? 0 : errno;
}

}  // namespace

std::vector<CmRoute> parse_cm_routes(std::string_view listing, const proto::Gid& local) {
  const std::string prefix = '@' + prefix_of(local);
  std::vector<CmRoute> routes;
  while (!listing.empty()) {
    const std::string_view line = listing.substr(0, listing.find('\n'));
    listing.remove_prefix(std::min(line.size() + 1, listing.size()));
    const std::size_t at = line.find(prefix);
    if (at == std::string_view::npos) continue;
    const std::string_view name = line.substr(at + prefix.size());
    const std::size_t dash = name.find('-');
    if (dash == std::string_view::npos) continue;
    const auto service = parse_number<std::uint32_t>(name.substr(0, dash));
    const auto slot = parse_number<std::uint8_t>(name.substr(dash + 1));
    if (service && slot) routes.push_back({*service, *slot});
  }
  return routes;
}

Result<Fd, int> claim_service(const proto::Gid& local, std::uint32_t service, std::uint8_t slot, int socket) {
  const auto lock = lock_steering(local);
  if (!lock.ok()) return Err{lock.error()};
  auto routes = current_routes(local);
  if (!routes.ok()) return Err{routes.error()};
  const auto is_it = [service](const CmRoute& route) { return route.service == service; };
  if (std::any_of(routes->begin(), routes->end(), is_it)) return Err{EADDRINUSE};
  const CmRoute own{service, slot};
  auto name = bind_name(name_of(local, own));
  if (!name.ok()) return name;
  routes->push_back(own);
  if (const int error = attach(*routes, slot, socket)) return Err{error};
  return name;
}

int steer_management(const proto::Gid& local, std::uint8_t slot, int socket) {
  const auto lock = lock_steering(local);
  if (!lock.ok()) return lock.error();
  const auto routes = current_routes(local);
  return routes.ok() ? attach(*routes, slot, socket) : routes.error();
}

}  // namespace uroce::engine
