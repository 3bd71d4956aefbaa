// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/claims.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "engine/broker/slots.h"

namespace uroce::engine {
namespace {

/// How long others may hold the lock, in steps of a millisecond.
constexpr int kTries = 2000;

// The file's bytes, of which none is ever written: the lock, then one for each slot of each service.
constexpr off_t kLock = 0;
constexpr off_t kBegin = kSlots;
constexpr off_t kEnd = kBegin + (off_t{1} << 32) * static_cast<off_t>(kSlots);

off_t byte_of(const CmRoute& route) {
  return kBegin + off_t{route.service} * static_cast<off_t>(kSlots) + off_t{route.slot};
}

CmRoute route_at(off_t byte) {
  const auto from_begin = static_cast<std::uint64_t>(byte - kBegin);
  return {static_cast<std::uint32_t>(from_begin / kSlots), static_cast<std::uint8_t>(from_begin % kSlots)};
}

struct flock lock_of(off_t begin, off_t size) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = begin;
  lock.l_len = size;
  return lock;
}

/// By /proc/thread-self: the main thread may have ended. The locks are its own: those of an open file description do
/// not shut out others of the same.
Result<Fd, int> lock_byte(int file, off_t byte) {
  Fd own(::open(("/proc/thread-self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock = lock_of(byte, 1);
  if (!own || ::fcntl(own.get(), F_OFD_SETLK, &lock) != 0) return Err{errno};
  return own;
}

bool is_held(int error) { return error == EAGAIN || error == EACCES; }

}  // namespace

Result<Fd, int> make_claims() {
  Fd file(::memfd_create("uroce-claims", MFD_CLOEXEC));
  if (!file) return Err{errno};
  return file;
}

Result<std::vector<CmRoute>, int> claimed_routes(int file) {
  std::vector<CmRoute> routes;
  std::vector<std::pair<off_t, off_t>> unseen{{kBegin, kEnd}};
  while (!unseen.empty()) {
    const auto [begin, end] = unseen.back();
    unseen.pop_back();
    if (begin == end) continue;
    struct flock lock = lock_of(begin, end - begin);
    if (::fcntl(file, F_OFD_GETLK, &lock) != 0) return Err{errno};
    if (lock.l_type == F_UNLCK) continue;
    routes.push_back(route_at(lock.l_start));  // Any one of those in this range.
    unseen.emplace_back(begin, lock.l_start);
    unseen.emplace_back(lock.l_start + 1, end);
  }
  std::sort(routes.begin(), routes.end(), [](const CmRoute& a, const CmRoute& b) { return byte_of(a) < byte_of(b); });
  return routes;
}

Result<Fd, int> claim_route(int file, const CmRoute& route) {
  auto claim = lock_byte(file, byte_of(route));
  if (!claim.ok() && is_held(claim.error())) return Err{EADDRINUSE};
  return claim;
}

Result<Fd, int> lock_steering(int file) {
  for (int i = 0; i < kTries; ++i) {
    auto lock = lock_byte(file, kLock);
    if (lock.ok() || !is_held(lock.error())) return lock;
    ::usleep(1000);
  }
  return Err{EAGAIN};
}

}  // namespace uroce::engine
