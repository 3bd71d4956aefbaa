// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/guarded_access.h"

#ifdef __x86_64__

// In assembly, because a fault may come at any instruction of the section: none of them moves the stack, so that
// returning from there is all that it takes.
//
// The copies. `rep movsb` is what today's processors do best, but its stores may become visible in any order (Intel SDM
// 3A, 8.2.4): the last words go by hand. It begins slowly on older processors: so do short copies. And so do those with
// which AMD Zen 4 takes 25 times as long: to a place that is a little farther in its page than where they come from.
asm(R"(
  .pushsection uroce_guarded, "ax", @progbits

  .macro guarded_begin name
  .hidden \name
  .globl \name
  .type \name, @function
\name:
  .cfi_startproc
  .endm
  .macro guarded_end name
  .cfi_endproc
  .size \name, . - \name
  .endm

  .macro guarded_move register, size
  mov (%rsi), \register
  mov \register, (%rdi)
  add $\size, %rsi
  add $\size, %rdi
  sub $\size, %rcx
  .endm

  # guarded_copy NAME, PLACE, LOW: words that lie at multiples of their size in PLACE are accessed at once.
  .macro guarded_copy name, place, low
  .p2align 6
  guarded_begin \name
  mov %rdx, %rcx
  cmp $512, %rdx
  jb 1f
  mov %edi, %eax
  sub %esi, %eax
  and $4095, %eax
  cmp $64, %eax
  jae 9f
  # To a multiple of 8.
1:
  test $7, \low
  jz 4f
  test %rcx, %rcx
  jz 10f
  test $1, \low
  jz 2f
  guarded_move %al, 1
2:
  test $2, \low
  jz 3f
  cmp $2, %rcx
  jb 6f
  guarded_move %ax, 2
3:
  test $4, \low
  jz 4f
  cmp $4, %rcx
  jb 6f
  guarded_move %eax, 4
4:
  cmp $32, %rcx
  jb 5f
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  add $32, %rsi
  add $32, %rdi
  sub $32, %rcx
  jmp 4b
5:
  cmp $8, %rcx
  jb 6f
  guarded_move %rax, 8
  jmp 5b
  # Fewer than 8.
6:
  test $4, %cl
  jz 7f
  guarded_move %eax, 4
7:
  test $2, %cl
  jz 8f
  guarded_move %ax, 2
8:
  test $1, %cl
  jz 10f
  guarded_move %al, 1
  jmp 10f
  # All but the last 64 to 71 bytes, so that those begin at a multiple of 8.
9:
  lea -64(\place, %rcx), %rax
  and $-8, %rax
  sub \place, %rax
  mov %rcx, %rdx
  sub %rax, %rdx
  mov %rax, %rcx
  rep movsb
  mov %rdx, %rcx
  jmp 4b
10:
  mov $1, %eax
  ret
  guarded_end \name
  .endm

  guarded_copy uroce_guarded_write, %rdi, %edi
  guarded_copy uroce_guarded_read, %rsi, %esi

  guarded_begin uroce_guarded_fetch_add
  lock xadd %rsi, (%rdi)
  mov %rsi, (%rdx)
  mov $1, %eax
  ret
  guarded_end uroce_guarded_fetch_add

  guarded_begin uroce_guarded_compare_swap
  mov %rsi, %rax
  lock cmpxchg %rdx, (%rdi)
  mov %rax, (%rcx)
  mov $1, %eax
  ret
  guarded_end uroce_guarded_compare_swap

  guarded_begin uroce_guarded_store
  mov %rsi, (%rdi)
  mov $1, %eax
  ret
  guarded_end uroce_guarded_store

  .popsection
  .text
  guarded_begin uroce_guarded_failed
  xor %eax, %eax
  ret
  guarded_end uroce_guarded_failed
)");

#endif
