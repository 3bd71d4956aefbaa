// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/guarded_access.h"

#ifdef __aarch64__

// As guarded_access_x86_64.cc, which says why. Here other processors may see any two stores in any order, unless there
// is a barrier (dmb) between them: so there is one before each that may write the last byte. 16 bytes from a vector
// register count as two words of 8 (Arm ARM, B2.2.1).
asm(R"(
  .pushsection uroce_guarded, "ax", %progbits

  .macro guarded_begin name
  .hidden \name
  .globl \name
  .type \name, %function
\name:
  .cfi_startproc
  .endm
  .macro guarded_end name
  .cfi_endproc
  .size \name, . - \name
  .endm

  .macro guarded_move load, store, register, size
  \load \register, [x1], #\size
  \store \register, [x0], #\size
  sub x2, x2, #\size
  .endm

  // guarded_copy NAME, PLACE: words that lie at multiples of their size in PLACE are accessed at once.
  .macro guarded_copy name, place
  .p2align 6
  guarded_begin \name
  cbz x2, 9f
  // To a multiple of 8.
  tbz \place, #0, 1f
  dmb ishst
  guarded_move ldrb, strb, w3, 1
1:
  tbz \place, #1, 2f
  cmp x2, #2
  b.lo 6f
  dmb ishst
  guarded_move ldrh, strh, w3, 2
2:
  tbz \place, #2, 3f
  cmp x2, #4
  b.lo 6f
  dmb ishst
  guarded_move ldr, str, w3, 4
3:
  cmp x2, #64
  b.ls 4f
  ldp q0, q1, [x1]
  ldp q2, q3, [x1, #32]
  add x1, x1, #64
  stp q0, q1, [x0]
  stp q2, q3, [x0, #32]
  add x0, x0, #64
  sub x2, x2, #64
  b 3b
4:
  cmp x2, #8
  b.ls 5f
  guarded_move ldr, str, x3, 8
  b 4b
5:
  tbz x2, #3, 6f
  dmb ishst
  guarded_move ldr, str, x3, 8
  // Fewer than 8.
6:
  tbz x2, #2, 7f
  dmb ishst
  guarded_move ldr, str, w3, 4
7:
  tbz x2, #1, 8f
  dmb ishst
  guarded_move ldrh, strh, w3, 2
8:
  tbz x2, #0, 9f
  dmb ishst
  guarded_move ldrb, strb, w3, 1
9:
  mov w0, #1
  ret
  guarded_end \name
  .endm

  guarded_copy uroce_guarded_write, x0
  guarded_copy uroce_guarded_read, x1

  guarded_begin uroce_guarded_fetch_add
1:
  ldaxr x3, [x0]
  add x4, x3, x1
  stlxr w5, x4, [x0]
  cbnz w5, 1b
  dmb ish
  str x3, [x2]
  mov w0, #1
  ret
  guarded_end uroce_guarded_fetch_add

  guarded_begin uroce_guarded_compare_swap
1:
  ldaxr x4, [x0]
  cmp x4, x1
  // Written in any case, as on x86-64, so that memory which is only for reading fails.
  csel x6, x2, x4, eq
  stlxr w5, x6, [x0]
  cbnz w5, 1b
  dmb ish
  str x4, [x3]
  mov w0, #1
  ret
  guarded_end uroce_guarded_compare_swap

  guarded_begin uroce_guarded_store
  stlr x1, [x0]
  mov w0, #1
  ret
  guarded_end uroce_guarded_store

  .popsection
  .text
  guarded_begin uroce_guarded_failed
  mov w0, #0
  ret
  guarded_end uroce_guarded_failed
)");

#endif
