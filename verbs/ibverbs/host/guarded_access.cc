// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/guarded_access.h"

#include <ucontext.h>

#include <cstring>

namespace uroce::ibv {

#ifdef __x86_64__

// In assembly, because a fault may come at any instruction between the labels: none of them moves the stack, so that
// returning from there is all that it takes. `rep movsb` is what today's processors do best, but begins slowly on older
// ones: short copies go by hand. So do those with which AMD Zen 4 takes 25 times as long: to a place that is a little
// farther in its page than where they come from. And so do the last bytes of each: the stores of one string operation
// may become visible in any order (Intel SDM 3A, 8.2.4), and programs watch the last byte of a message for its arrival.
asm(R"(
  .pushsection uroce_guarded, "ax", @progbits
  .p2align 6
  .hidden uroce_guarded_copy
  .globl uroce_guarded_copy
  .type uroce_guarded_copy, @function
uroce_guarded_copy:
  .cfi_startproc
  mov %rdx, %rcx
  cmp $512, %rdx
  jb 1f
  mov %edi, %eax
  sub %esi, %eax
  and $4095, %eax
  cmp $64, %eax
  jae 4f
1:
  cmp $32, %rcx
  jb 2f
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  add $32, %rsi
  add $32, %rdi
  sub $32, %rcx
  jmp 1b
2:
  cmp $8, %rcx
  jb 3f
  mov (%rsi), %rax
  mov %rax, (%rdi)
  add $8, %rsi
  add $8, %rdi
  sub $8, %rcx
  jmp 2b
3:
  test %rcx, %rcx
  jz 5f
  mov (%rsi), %al
  mov %al, (%rdi)
  inc %rsi
  inc %rdi
  dec %rcx
  jmp 3b
4:
  sub $64, %rcx
  rep movsb
  mov $64, %ecx
  jmp 1b
5:
  mov $1, %eax
  ret
  .cfi_endproc
  .size uroce_guarded_copy, . - uroce_guarded_copy

  .hidden uroce_guarded_fetch_add
  .globl uroce_guarded_fetch_add
  .type uroce_guarded_fetch_add, @function
uroce_guarded_fetch_add:
  .cfi_startproc
  lock xadd %rsi, (%rdi)
  mov %rsi, (%rdx)
  mov $1, %eax
  ret
  .cfi_endproc
  .size uroce_guarded_fetch_add, . - uroce_guarded_fetch_add

  .hidden uroce_guarded_compare_swap
  .globl uroce_guarded_compare_swap
  .type uroce_guarded_compare_swap, @function
uroce_guarded_compare_swap:
  .cfi_startproc
  mov %rsi, %rax
  lock cmpxchg %rdx, (%rdi)
  mov %rax, (%rcx)
  mov $1, %eax
  ret
  .cfi_endproc
  .size uroce_guarded_compare_swap, . - uroce_guarded_compare_swap

  .hidden uroce_guarded_store
  .globl uroce_guarded_store
  .type uroce_guarded_store, @function
uroce_guarded_store:
  .cfi_startproc
  mov %rsi, (%rdi)
  mov $1, %eax
  ret
  .cfi_endproc
  .size uroce_guarded_store, . - uroce_guarded_store

  .popsection
  .text
  .hidden uroce_guarded_failed
  .globl uroce_guarded_failed
  .type uroce_guarded_failed, @function
uroce_guarded_failed:
  .cfi_startproc
  xor %eax, %eax
  ret
  .cfi_endproc
  .size uroce_guarded_failed, . - uroce_guarded_failed
)");

extern "C" {
// The linker makes the first two of the section's name. It has proto/crc32.cc's copy, too.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern const char __start_uroce_guarded[] __attribute__((visibility("hidden")));
extern const char __stop_uroce_guarded[] __attribute__((visibility("hidden")));
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern const char uroce_guarded_failed[];
}

bool fail_guarded_access(void* ucontext) {
  greg_t& at = static_cast<ucontext_t*>(ucontext)->uc_mcontext.gregs[REG_RIP];
  if (at < reinterpret_cast<greg_t>(__start_uroce_guarded) || at >= reinterpret_cast<greg_t>(__stop_uroce_guarded)) {
    return false;
  }
  at = reinterpret_cast<greg_t>(uroce_guarded_failed);
  return true;
}

#else

extern "C" {
bool uroce_guarded_copy(void* to, const void* from, std::size_t size) {
  std::memcpy(to, from, size);
  return true;
}
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
