// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/cm_steering.h"

#include <linux/filter.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "engine/broker/claims.h"
#include "proto/address.h"

namespace uroce::engine {
namespace {

// From the UDP payload on: BTH (12 bytes), DETH (8), the MAD header (24), and the message.
constexpr std::uint32_t kSlotOfQpn = 5, kTidHigh = 28, kAttribute = 36, kRequestId = 44, kRemoteId = 48,
                        kServiceLow = 56;
constexpr std::uint32_t kPort = 0xFFFF;  // Of a service ID.
constexpr std::uint32_t kReq = 0x10, kMra = 0x11, kRej = 0x12, kDrep = 0x16, kSidrReq = 0x17, kSidrRep = 0x18;

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
  sock_fprog program;
  std::memset(&program, 0, sizeof program);  // Valgrind looks at what lies between the two as well.
  program.len = static_cast<unsigned short>(steer.size());
  program.filter = steer.data();
  return ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0 ? 0 : errno;
}

const char* remedy_of(int error) {
  switch (error) {
    case EAGAIN:
      return "one of them stands still while it does the same (stopped?): have it go on with kill -CONT, or end it "
             "(`ss -lupn sport = 4791` lists them)";
    case EMFILE:
      return "raise RLIMIT_NOFILE (ulimit -n)";
    case ENOENT:
      return "it opens /proc/thread-self/fd; mount /proc, or give the address to one process (UROCE_BROKER=off)";
    default:
      return "give the address to one process (UROCE_BROKER=off)";
  }
}

}  // namespace

Result<Fd, int> claim_service(int claims, std::uint32_t service, std::uint8_t slot, int socket) {
  const auto lock = lock_steering(claims);
  if (!lock.ok()) return Err{lock.error()};
  auto routes = claimed_routes(claims);
  if (!routes.ok()) return Err{routes.error()};
  const auto is_it = [service](const CmRoute& route) { return route.service == service; };
  if (std::any_of(routes->begin(), routes->end(), is_it)) return Err{EADDRINUSE};
  const CmRoute own{service, slot};
  auto claim = claim_route(claims, own);
  if (!claim.ok()) return claim;
  routes->push_back(own);
  if (const int error = attach(*routes, slot, socket)) return Err{error};
  return claim;
}

int steer_management(int claims, std::uint8_t slot, int socket) {
  const auto lock = lock_steering(claims);
  if (!lock.ok()) return lock.error();
  const auto routes = claimed_routes(claims);
  return routes.ok() ? attach(*routes, slot, socket) : routes.error();
}

SetupError steering_failed(const proto::Gid& local, int error) {
  return {error, "RDMA CM can't have the requests for " + proto::to_string(local) +
                     " reach the right one of the processes that share it: " + std::strerror(error) + "; " +
                     remedy_of(error)};
}

}  // namespace uroce::engine
