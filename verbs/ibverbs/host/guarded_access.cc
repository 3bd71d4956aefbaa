// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/guarded_access.h"

#include <ucontext.h>

#include <cstring>
#include <type_traits>

namespace uroce::ibv {

#ifdef UROCE_GUARDED_ACCESS

extern "C" {
// The linker makes the first two of the section's name. It has proto/crc32.cc's copy, too.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern const char __start_uroce_guarded[] __attribute__((visibility("hidden")));
extern const char __stop_uroce_guarded[] __attribute__((visibility("hidden")));
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern const char uroce_guarded_failed[];
}

bool fail_guarded_access(void* ucontext) {
  mcontext_t& stopped = static_cast<ucontext_t*>(ucontext)->uc_mcontext;
#ifdef __x86_64__
  greg_t& at = stopped.gregs[REG_RIP];
#else
  auto& at = stopped.pc;
#endif
  const auto address = static_cast<std::uintptr_t>(at);
  if (address < reinterpret_cast<std::uintptr_t>(__start_uroce_guarded) ||
      address >= reinterpret_cast<std::uintptr_t>(__stop_uroce_guarded)) {
    return false;
  }
  at = reinterpret_cast<std::remove_reference_t<decltype(at)>>(uroce_guarded_failed);
  return true;
}

#else

extern "C" {
bool uroce_guarded_write(void* to, const void* from, std::size_t size) {
  std::memcpy(to, from, size);
  return true;
}
bool uroce_guarded_read(void* to, const void* from, std::size_t size) { return uroce_guarded_write(to, from, size); }
bool uroce_guarded_fetch_add(std::uint64_t* word, std::uint64_t operand, std::uint64_t* original) {
  *original = __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
  return true;
}
bool uroce_guarded_compare_swap(std::uint64_t* word, std::uint64_t expected, std::uint64_t desired,
                                std::uint64_t* original) {
  *original = expected;
  __atomic_compare_exchange_n(word, original, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return true;
}
bool uroce_guarded_store(std::uint64_t* word, std::uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  return true;
}
}

bool fail_guarded_access(void*) { return false; }

#endif

}  // namespace uroce::ibv
