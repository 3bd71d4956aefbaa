// SPDX-License-Identifier: Apache-2.0
#include "tools/workload/target.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "tools/rdma/trace.h"

namespace uroce::tools {

Target::Target(RdmaResources& resources, const Workload& workload, Direction direction)
    : resources_(resources),
      workload_(workload),
      direction_(direction),
      layout_(make_layout(workload, {workload.bidirectional, true})),
      pieces_(split_message(workload.size, workload.sges)),
      receives_hold_data_(any_op(workload.mix, lands_in_receive)),
      expected_receives_(count_ops(workload.mix, workload.iterations, uses_receive)),
      sges_(workload.sges),
      qps_(workload.qps) {}

void Target::prepare() {
  for (std::uint32_t qp = 0; qp < workload_.qps; ++qp) {
    if (any_op(workload_.mix, [](Op op) { return op == Op::kRead; })) {
      // READs are answered from here: the stream is ours, so it goes in our direction.
      fill_pattern(read_source_seed(opposite(direction_), qp), 0,
                   {part(qp) + layout_.source, workload_.size + kReadSpread});
    }
    if (any_op(workload_.mix, is_atomic)) {
      const std::uint64_t words[2] = {atomic_chain(Op::kCas, direction_, qp, 0),
                                      atomic_chain(Op::kFaa, direction_, qp, 0)};
      std::memcpy(part(qp) + layout_.counters, words, sizeof words);
    }
  }
  const std::uint64_t first = std::min<std::uint64_t>(workload_.receive_depth, expected_receives_);
  if (first == 0) return;
  post_receive_on_all_qps(resources_, first, [this](std::size_t qp, std::uint64_t sequence) {
    return receive_pieces(static_cast<std::uint32_t>(qp), sequence);
  });
  for (Qp& qp : qps_) qp.posted = first;
}

void Target::on_receive(const Completion& completion, TimePoint now) {
  const auto index = static_cast<std::uint32_t>(completion.id.qp);
  Qp& qp = qps_[index];
  if (workload_.verify) verify_receive(index, completion, qp.received);
  ++qp.received;
  if (stats_.receives++ == 0) stats_.first = now;
  stats_.bytes += completion.byte_len;
  stats_.last = now;
  if (qp.posted < expected_receives_) {
    post_receive(resources_, index, qp.posted, receive_pieces(index, qp.posted));
    ++qp.posted;
  }
}

std::optional<Progress> Target::on_peer_progress(const Progress& progress) {
  if (progress.qp >= workload_.qps || progress.count > workload_.iterations) return std::nullopt;
  Qp& qp = qps_[progress.qp];
  if (progress.count < qp.verified || progress.count - qp.verified > workload_.depth) return std::nullopt;
  for (; qp.verified < progress.count; ++qp.verified) {
    if (is_write(op_at(workload_.mix, qp.verified))) verify_write(progress.qp, qp.verified);
  }
  return progress;
}

void Target::verify_end() {
  if (!all_received()) {
    verification_.failed(0,
                         fmt::format("{} of {} messages arrived", stats_.receives, expected_receives_ * workload_.qps));
  }
  if (!workload_.verify || count_ops(workload_.mix, workload_.iterations, is_atomic) == 0) return;
  // Not one by one: how many there are to be is the peer's claim.
  const std::uint64_t swaps = count_ops(workload_.mix, workload_.iterations, Op::kCas);
  const std::uint64_t adds = count_ops(workload_.mix, workload_.iterations, Op::kFaa);
  for (std::uint32_t qp = 0; qp < workload_.qps; ++qp) {
    const std::uint64_t due[2] = {atomic_chain(Op::kCas, direction_, qp, swaps),
                                  atomic_chain(Op::kFaa, direction_, qp, adds)};
    std::uint64_t words[2];
    std::memcpy(words, part(qp) + layout_.counters, sizeof words);
    if (words[0] == due[0] && words[1] == due[1]) {
      verification_.passed(sizeof words);
    } else {
      verification_.failed(sizeof words, fmt::format("QP {}: the atomics left {:#x} and {:#x}, not {:#x} and {:#x}", qp,
                                                     words[0], words[1], due[0], due[1]));
    }
  }
}

std::uint8_t* Target::receive_slot(std::uint32_t qp, std::uint64_t sequence) const {
  return part(qp) + layout_.in + sequence % layout_.receive_slots * layout_.local_stride;
}

std::span<ibv_sge> Target::receive_pieces(std::uint32_t qp, std::uint64_t sequence) {
  if (!receives_hold_data_) return {};  // a WRITE with immediate puts its data elsewhere
  const auto base = reinterpret_cast<std::uintptr_t>(receive_slot(qp, sequence));
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    sges_[i] = {base + pieces_[i].in_slot, static_cast<std::uint32_t>(pieces_[i].length), resources_.mr->lkey};
  }
  return std::span(sges_).first(pieces_.size());
}

std::uint64_t Target::iteration_of_receive(std::uint64_t receive) const {
  const std::uint64_t per_cycle = count_ops(workload_.mix, kOpCount, uses_receive);
  std::uint64_t iteration = receive / per_cycle * kOpCount;
  for (std::uint64_t left = receive % per_cycle;; ++iteration) {
    if (uses_receive(op_at(workload_.mix, iteration)) && left-- == 0) return iteration;
  }
}

void Target::verify_receive(std::uint32_t qp, const Completion& completion, std::uint64_t receive) {
  const std::uint64_t iteration = iteration_of_receive(receive);
  const Op op = op_at(workload_.mix, iteration);
  const bool immediate_due = op != Op::kSend;
  if (completion.id.sequence != receive || completion.byte_len != workload_.size ||
      completion.has_immediate != immediate_due ||
      (immediate_due && completion.immediate != static_cast<std::uint32_t>(iteration))) {
    verification_.failed(
        workload_.size,
        fmt::format("QP {}: receive {} completed as number {} with {} bytes and immediate {}, where {} {} "
                    "of {} bytes was due",
                    qp, completion.id.sequence, receive, completion.byte_len,
                    completion.has_immediate ? fmt::format("{}", completion.immediate) : "none", op_name(op), iteration,
                    workload_.size));
    return;
  }
  if (!lands_in_receive(op)) return;  // verified with the other WRITEs
  const std::uint8_t* base = receive_slot(qp, receive);
  const PatternSeed seed = message_seed(direction_, qp, iteration);
  std::uint64_t errors = 0;
  for (const Piece& piece : pieces_) {
    errors += count_pattern_errors(seed, piece.in_message, {base + piece.in_slot, piece.length});
  }
  judge(workload_.size, errors, qp, op, iteration);
}

void Target::verify_write(std::uint32_t qp, std::uint64_t iteration) {
  const std::uint8_t* base = part(qp) + layout_.window + iteration % layout_.slots * layout_.window_stride;
  const std::uint64_t errors = count_pattern_errors(message_seed(direction_, qp, iteration), 0, {base, workload_.size});
  judge(workload_.size, errors, qp, op_at(workload_.mix, iteration), iteration);
}

void Target::judge(std::uint64_t bytes, std::uint64_t errors, std::uint32_t qp, Op op, std::uint64_t iteration) {
  if (errors == 0) {
    verification_.passed(bytes);
  } else {
    verification_.failed(bytes, fmt::format("QP {}: {} {} arrived with {} wrong bytes of {}", qp, op_name(op),
                                            iteration, errors, bytes));
  }
}

}  // namespace uroce::tools
