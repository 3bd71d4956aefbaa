// SPDX-License-Identifier: Apache-2.0
#include "tests/support/operator_new.h"

#include <cstdlib>
#include <new>

namespace {

void* allocate(std::size_t size) noexcept {
  if (!uroce::test::may_allocate()) return nullptr;
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

// Inlined, GCC takes free() for a mistake.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const memory = allocate(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
