// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/seed.h"

#include <sys/auxv.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "engine/os/os_clock.h"
#include "proto/base/number.h"

namespace uroce::ibv {
namespace {

/// From the kernel; where a filter of system calls forbids that, from the 16 random bytes that each process starts with
/// (AT_RANDOM in getauxval(3)) and the time.
std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  ssize_t size = 0;
  do size = ::getrandom(&seed, sizeof seed, 0);
  while (size < 0 && errno == EINTR);
  if (size == sizeof seed) return seed;
  if (const void* const start = reinterpret_cast<const void*>(::getauxval(AT_RANDOM))) {
    std::memcpy(&seed, start, sizeof seed);
  }
  return seed ^ static_cast<std::uint64_t>(engine::os_now().time_since_epoch().count());
}

}  // namespace

Result<std::optional<std::uint64_t>, std::string> parse_seed(const std::string& value) {
  if (value.empty()) return std::optional<std::uint64_t>();
  const auto seed = parse_number<std::uint64_t>(value);
  if (!seed) return Err{"UROCE_SEED must be a whole number, not '" + value + "'"};
  return seed;
}

void choose_numbers(nic::NicConfig& config, std::optional<std::uint64_t> seed, std::uint32_t index) {
  if (seed == 0) return;
  const std::uint64_t base = (seed ? *seed + std::uint64_t{index} : random_seed()) * 0x9E3779B97F4A7C15u;
  config.first_local_qpn = static_cast<std::uint16_t>(nic::kFirstQpn + (base >> 32) % nic::kMaxQp);
  // Not the number that the first QPN tells about.
  config.key_seed = seed ? base | 1 : random_seed() | 1;
}

}  // namespace uroce::ibv
