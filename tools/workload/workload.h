// SPDX-License-Identifier: Apache-2.0
// What the client asks for: which operations, how many, how big. The client chooses, tells the server over TCP, and
// both sides compute from it the same schedule and the same memory layout.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace uroce::tools {

/// One RDMA operation.
enum class Op : std::uint8_t { kSend, kSendImm, kWrite, kWriteImm, kRead, kCas, kFaa };
inline constexpr std::size_t kOpCount = 7;
std::string_view op_name(Op op);

constexpr bool uses_receive(Op op) { return op == Op::kSend || op == Op::kSendImm || op == Op::kWriteImm; }
constexpr bool lands_in_receive(Op op) { return op == Op::kSend || op == Op::kSendImm; }
constexpr bool is_write(Op op) { return op == Op::kWrite || op == Op::kWriteImm; }
constexpr bool is_atomic(Op op) { return op == Op::kCas || op == Op::kFaa; }

/// What --op names: one operation, or all of them in rotation. Values go over the wire.
enum class Mix : std::uint8_t { kSend, kSendImm, kWrite, kWriteImm, kRead, kCas, kFaa, kMixed };
std::string_view mix_name(Mix mix);
std::optional<Mix> parse_mix(std::string_view name);

/// Iteration i of a QP performs op_at(mix, i).
constexpr Op op_at(Mix mix, std::uint64_t iteration) {
  return mix == Mix::kMixed ? static_cast<Op>(iteration % kOpCount) : static_cast<Op>(mix);
}
/// Whether a run of `iterations` operations contains one for which `predicate` holds.
template <class Predicate>
constexpr bool any_op(Mix mix, Predicate predicate) {
  for (std::uint64_t i = 0; i < kOpCount; ++i) {
    if (predicate(op_at(mix, i))) return true;
  }
  return false;
}
/// How many of the first `iterations` operations satisfy `predicate`.
template <class Predicate>
constexpr std::uint64_t count_ops(Mix mix, std::uint64_t iterations, Predicate predicate) {
  std::uint64_t per_cycle = 0, in_rest = 0;
  for (std::uint64_t i = 0; i < kOpCount; ++i) {
    if (!predicate(op_at(mix, i))) continue;
    ++per_cycle;
    if (i < iterations % kOpCount) ++in_rest;
  }
  return iterations / kOpCount * per_cycle + in_rest;
}
constexpr std::uint64_t count_ops(Mix mix, std::uint64_t iterations, Op op) {
  return count_ops(mix, iterations, [op](Op other) { return other == op; });
}

inline constexpr std::uint32_t kMaxQps = 1024;
inline constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 31;  ///< IBTA Vol 1, 9.7.1: 2 GiB.
inline constexpr std::uint64_t kMaxIterations = std::uint64_t{1} << 40;
inline constexpr std::uint32_t kMaxDepth = 32768;
inline constexpr std::uint32_t kMaxSges = 32;

struct Workload {
  Mix mix = Mix::kSend;
  std::uint32_t qps = 4;
  std::uint64_t size = 65536;        ///< Bytes of a message; atomics have 8.
  std::uint64_t iterations = 1000;   ///< Operations per QP and direction.
  std::uint32_t mtu = 1024;          ///< Path MTU in bytes.
  std::uint32_t depth = 32;          ///< Outstanding operations per QP.
  std::uint32_t receive_depth = 64;  ///< Receives posted per QP.
  std::uint32_t sges = 1;            ///< Pieces that a message lies in, on both sides.
  bool bidirectional = false;
  bool verify = false;
  bool inline_data = false;
  bool events = false;  ///< Sleep on a completion channel instead of polling.

  friend bool operator==(const Workload&, const Workload&) = default;
};

/// Bytes that one operation moves.
constexpr std::uint64_t op_bytes(const Workload& workload, Op op) { return is_atomic(op) ? 8 : workload.size; }
/// Bytes that `iterations` operations of one QP move.
std::uint64_t total_bytes(const Workload& workload, std::uint64_t iterations);

/// Writes with --verify need the target's word before a slot is written again (see target.h).
constexpr bool needs_acknowledgement(const Workload& workload) {
  return workload.verify && any_op(workload.mix, is_write);
}

/// What is wrong with `workload`, as one sentence; nothing when all its values are in range. For options and for what
/// comes from the peer.
std::optional<std::string> check(const Workload& workload);

/// "64K", "1M", "2G" (powers of 1024) or plain digits; nothing when `text` is anything else.
std::optional<std::uint64_t> parse_size(std::string_view text);
/// The shortest of "64 KiB", "1 MiB", "1000 B" that is exact.
std::string size_text(std::uint64_t bytes);

}  // namespace uroce::tools
