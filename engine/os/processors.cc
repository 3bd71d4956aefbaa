// SPDX-License-Identifier: Apache-2.0
#include "engine/os/processors.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace uroce::engine {
namespace {

constexpr std::uint64_t kShortSlice = 100'000;  ///< Nanoseconds; the shortest there is.

/// struct sched_attr of the kernel, whose header some versions of glibc contradict.
struct SchedAttr {
  std::uint32_t size = sizeof(SchedAttr);
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime;  ///< For SCHED_OTHER: the slice.
  std::uint64_t deadline;
  std::uint64_t period;
};
static_assert(sizeof(SchedAttr) == 48);

}  // namespace

void leave_processor(int processor) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) == 0) return;
  if (::sched_setaffinity(0, sizeof others, &others) == 0) ::sched_setaffinity(0, sizeof allowed, &allowed);
}

void ask_for_short_slices() {
  SchedAttr attr{};
  if (::syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0) return;
  if (attr.policy != SCHED_OTHER && attr.policy != SCHED_BATCH) return;
  attr.runtime = kShortSlice;
  ::syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace uroce::engine
