// SPDX-License-Identifier: Apache-2.0
#include "proto/crc32.h"

#include <isa-l/crc.h>

#include <array>

#include "proto/base/copy_packet.h"

namespace uroce::proto {

#ifdef __x86_64__

/// For both halves of 16 bytes.
struct Factors {
  std::uint64_t low, high;
};
/// What uroce_copy_and_fold() multiplies by, at its places.
struct alignas(64) FoldConstants {
  std::array<Factors, 4> by_four_lines, by_line;
  std::array<Factors, 2> by_half_line;
  Factors by_quarter, last, barrett;
  std::array<std::uint64_t, 2> low_words;
};

#endif

namespace {

#ifdef __x86_64__

constexpr std::size_t kLine = 64;
static_assert(kOnePassLeast >= 4 * kLine);

/// What moves a remainder over `bits`, in the form that a carry-less multiplication of reflected numbers asks for.
constexpr std::uint64_t power_of_x(unsigned bits) {
  std::uint32_t power = 0x80000000;
  for (; bits > 0; --bits) power = (power >> 1) ^ (kCrcPolynomial & (0 - (power & 1)));
  return std::uint64_t{power} << 1;
}

/// To move 16 bytes `bytes` on.
constexpr Factors move_by(unsigned bytes) { return {power_of_x(8 * bytes + 32), power_of_x(8 * bytes - 32)}; }

/// x^64 divided by the polynomial, for Barrett's reduction; reflected, 33 bits, as kCrcPolynomial is with its x^32.
constexpr std::uint64_t kWholePolynomial = std::uint64_t{kCrcPolynomial} << 1 | 1;
constexpr std::uint64_t inverse_of_polynomial() {
  std::uint64_t quotient = 0;
  std::uint64_t rest = 1;  // Bit i is x^(64 - i) at first.
  for (unsigned bit = 0; bit <= 32; ++bit, rest >>= 1) {
    if ((rest & 1) == 0) continue;
    quotient |= std::uint64_t{1} << bit;
    rest ^= kWholePolynomial;
  }
  return quotient;
}
static_assert(inverse_of_polynomial() == 0x1F7011641, "as everybody has it");

bool has_wide_multiplication() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
}
const bool kHasWideMultiplication = has_wide_multiplication();

bool has_avx() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx") != 0;
}
const bool kHasAvx = has_avx();

#endif

/// ISA-L does not clear the upper halves of the vector registers that it has used. As long as they are in use, the
/// processor pays at each change between AVX and SSE, and all other code is SSE: a stream of 4 KiB packets lost 13 %.
void clear_upper_halves() {
#ifdef __x86_64__
  if (kHasAvx) asm volatile("vzeroupper");
#endif
}

}  // namespace

#ifdef __x86_64__

extern "C" {
extern const FoldConstants uroce_fold __attribute__((visibility("hidden")));
constinit const FoldConstants uroce_fold{
    .by_four_lines = {move_by(4 * kLine), move_by(4 * kLine), move_by(4 * kLine), move_by(4 * kLine)},
    .by_line = {move_by(kLine), move_by(kLine), move_by(kLine), move_by(kLine)},
    .by_half_line = {move_by(kLine / 2), move_by(kLine / 2)},
    .by_quarter = move_by(kLine / 4),
    .last = {power_of_x(64), 0},
    .barrett = {kWholePolynomial, inverse_of_polynomial()},
    .low_words = {0xFFFF'FFFF, 0xFFFF'FFFF}};

/// Copies `lines` lines, 4 at least. Returns in which state a CRC is behind them, which was `state` in front of them,
/// and 2^32. 0: a handler of faults says so.
std::uint64_t uroce_copy_and_fold(std::uint8_t* to, const std::uint8_t* from, std::size_t lines, std::uint32_t state);
}

// Four lines side by side, because a multiplication takes four steps and a new one begins in each. None of this moves
// the stack: see copy_lines_with_crc32(). The result stays in registers: what is stored behind a copy is slow to be
// seen.
asm(R"(
  .pushsection uroce_guarded, "ax", @progbits
  .p2align 6
  .hidden uroce_copy_and_fold
  .globl uroce_copy_and_fold
  .type uroce_copy_and_fold, @function
uroce_copy_and_fold:
  .cfi_startproc
  vmovdqu64 (%rsi), %zmm0
  vmovdqu64 64(%rsi), %zmm1
  vmovdqu64 128(%rsi), %zmm2
  vmovdqu64 192(%rsi), %zmm3
  vmovdqu64 %zmm0, (%rdi)
  vmovdqu64 %zmm1, 64(%rdi)
  vmovdqu64 %zmm2, 128(%rdi)
  vmovdqu64 %zmm3, 192(%rdi)
  vmovd %ecx, %xmm4
  vpxorq %zmm4, %zmm0, %zmm0
  vmovdqa64 uroce_fold(%rip), %zmm8
  jmp 2f
  .p2align 6
1:
  vmovdqu64 (%rsi), %zmm9
  vmovdqu64 64(%rsi), %zmm10
  vmovdqu64 128(%rsi), %zmm11
  vmovdqu64 192(%rsi), %zmm12
  vpclmulqdq $0x00, %zmm8, %zmm0, %zmm4
  vpclmulqdq $0x11, %zmm8, %zmm0, %zmm0
  vpclmulqdq $0x00, %zmm8, %zmm1, %zmm5
  vpclmulqdq $0x11, %zmm8, %zmm1, %zmm1
  vpclmulqdq $0x00, %zmm8, %zmm2, %zmm6
  vpclmulqdq $0x11, %zmm8, %zmm2, %zmm2
  vpclmulqdq $0x00, %zmm8, %zmm3, %zmm7
  vpclmulqdq $0x11, %zmm8, %zmm3, %zmm3
  vmovdqu64 %zmm9, (%rdi)
  vmovdqu64 %zmm10, 64(%rdi)
  vmovdqu64 %zmm11, 128(%rdi)
  vmovdqu64 %zmm12, 192(%rdi)
  vpternlogq $0x96, %zmm9, %zmm4, %zmm0
  vpternlogq $0x96, %zmm10, %zmm5, %zmm1
  vpternlogq $0x96, %zmm11, %zmm6, %zmm2
  vpternlogq $0x96, %zmm12, %zmm7, %zmm3
2:
  add $256, %rsi
  add $256, %rdi
  sub $4, %rdx
  cmp $4, %rdx
  jae 1b
  vmovdqa64 uroce_fold+64(%rip), %zmm8
  vpclmulqdq $0x00, %zmm8, %zmm0, %zmm4
  vpclmulqdq $0x11, %zmm8, %zmm0, %zmm0
  vpternlogq $0x96, %zmm1, %zmm4, %zmm0
  vpclmulqdq $0x00, %zmm8, %zmm0, %zmm4
  vpclmulqdq $0x11, %zmm8, %zmm0, %zmm0
  vpternlogq $0x96, %zmm2, %zmm4, %zmm0
  vpclmulqdq $0x00, %zmm8, %zmm0, %zmm4
  vpclmulqdq $0x11, %zmm8, %zmm0, %zmm0
  vpternlogq $0x96, %zmm3, %zmm4, %zmm0
  jmp 4f
3:
  vmovdqu64 (%rsi), %zmm9
  vpclmulqdq $0x00, %zmm8, %zmm0, %zmm4
  vpclmulqdq $0x11, %zmm8, %zmm0, %zmm0
  vmovdqu64 %zmm9, (%rdi)
  vpternlogq $0x96, %zmm9, %zmm4, %zmm0
  add $64, %rsi
  add $64, %rdi
4:
  sub $1, %rdx
  jae 3b
  vextracti64x4 $1, %zmm0, %ymm1
  vmovdqa uroce_fold+128(%rip), %ymm2
  vpclmulqdq $0x00, %ymm2, %ymm0, %ymm3
  vpclmulqdq $0x11, %ymm2, %ymm0, %ymm0
  vpxor %ymm3, %ymm0, %ymm0
  vpxor %ymm1, %ymm0, %ymm0
  vextracti128 $1, %ymm0, %xmm1
  vmovdqa uroce_fold+160(%rip), %xmm2
  vpclmulqdq $0x00, %xmm2, %xmm0, %xmm3
  vpclmulqdq $0x11, %xmm2, %xmm0, %xmm0
  vpxor %xmm3, %xmm0, %xmm0
  vpxor %xmm1, %xmm0, %xmm0
  vpclmulqdq $0x10, %xmm2, %xmm0, %xmm1
  vpsrldq $8, %xmm0, %xmm0
  vpxor %xmm1, %xmm0, %xmm0
  vmovdqa uroce_fold+208(%rip), %xmm3
  vpsrldq $4, %xmm0, %xmm1
  vpand %xmm3, %xmm0, %xmm0
  vpclmulqdq $0x00, uroce_fold+176(%rip), %xmm0, %xmm0
  vpxor %xmm1, %xmm0, %xmm0
  vmovdqa uroce_fold+192(%rip), %xmm2
  vpand %xmm3, %xmm0, %xmm1
  vpclmulqdq $0x10, %xmm2, %xmm1, %xmm1
  vpand %xmm3, %xmm1, %xmm1
  vpclmulqdq $0x00, %xmm2, %xmm1, %xmm1
  vpxor %xmm1, %xmm0, %xmm0
  vpextrd $1, %xmm0, %eax
  bts $32, %rax
  vzeroupper
  ret
  .cfi_endproc
  .size uroce_copy_and_fold, . - uroce_copy_and_fold
  .popsection
)");

std::optional<std::size_t> copy_lines_with_crc32(std::uint32_t& crc, std::uint8_t* to, const std::uint8_t* from,
                                                 std::size_t size) {
  if (!kHasWideMultiplication || size < kOnePassLeast) return 0;
  const std::uint64_t state = uroce_copy_and_fold(to, from, size / kLine, ~crc);  // A CRC is its state inverted.
  if (state == 0) return std::nullopt;
  crc = ~static_cast<std::uint32_t>(state);
  return size / kLine * kLine;
}

#else

std::optional<std::size_t> copy_lines_with_crc32(std::uint32_t&, std::uint8_t*, const std::uint8_t*, std::size_t) {
  return 0;
}

#endif

std::uint32_t crc32(std::uint32_t seed, Bytes bytes) {
  if (bytes.empty()) return seed;
  // ISA-L's prototype lacks the const.
  const std::uint32_t crc = crc32_gzip_refl(seed, const_cast<std::uint8_t*>(bytes.data()), bytes.size());
  clear_upper_halves();
  return crc;
}

std::uint32_t copy_with_crc32(std::uint32_t seed, std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
  const std::size_t done = copy_lines_with_crc32(seed, to, from, size).value_or(0);
  copy_packet(to + done, from + done, size - done);
  return crc32(seed, {to + done, size - done});
}

}  // namespace uroce::proto
