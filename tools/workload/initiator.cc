// SPDX-License-Identifier: Apache-2.0
#include "tools/workload/initiator.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace uroce::tools {
namespace {

Roles initiator_roles(const Workload& workload) { return {true, workload.bidirectional}; }
Roles target_roles(const Workload& workload) { return {workload.bidirectional, true}; }

ibv_wr_opcode wr_opcode(Op op) {
  switch (op) {
    case Op::kSend:
      return IBV_WR_SEND;
    case Op::kSendImm:
      return IBV_WR_SEND_WITH_IMM;
    case Op::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Op::kWriteImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Op::kRead:
      return IBV_WR_RDMA_READ;
    case Op::kCas:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Op::kFaa:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  return IBV_WR_SEND;
}

constexpr bool carries_data(Op op) { return op != Op::kRead && !is_atomic(op); }

}  // namespace

Initiator::Initiator(RdmaResources& resources, const Workload& workload, Direction direction, const PeerMetadata& peer)
    : resources_(resources),
      workload_(workload),
      direction_(direction),
      layout_(make_layout(workload, initiator_roles(workload))),
      remote_layout_(make_layout(workload, target_roles(workload))),
      peer_(peer),
      pieces_(split_message(workload.size, workload.sges)),
      acknowledged_(needs_acknowledgement(workload)),
      total_(workload.iterations * workload.qps),
      sges_(workload.sges),
      qps_(workload.qps) {
  const bool data = any_op(workload.mix, carries_data);
  for (std::uint32_t qp = 0; qp < workload_.qps; ++qp) {
    qps_[qp].post_times.resize(workload_.depth);
    for (std::uint64_t i = 0; data && i < layout_.slots; ++i) prepare_data(qp, i);
  }
}

void Initiator::start() {
  stats_.started = stats_.ended = std::chrono::steady_clock::now();
  // Round by round, so that no QP has to wait until the others are full.
  for (std::uint64_t round = 0; round < workload_.depth; ++round) {
    for (std::uint32_t qp = 0; qp < workload_.qps; ++qp) {
      if (qps_[qp].posted == round && round < workload_.iterations) post(qp);
    }
  }
}

void Initiator::on_completion(const Completion& completion, TimePoint now) {
  const auto index = static_cast<std::uint32_t>(completion.id.qp);
  Qp& qp = qps_[index];
  const std::uint64_t iteration = qp.completed;
  const Op op = op_at(workload_.mix, iteration);
  const auto latency = now - qp.post_times[iteration % workload_.depth];
  stats_.latency.add(static_cast<std::uint64_t>(std::chrono::nanoseconds(latency).count()));
  ++stats_.per_op[static_cast<std::size_t>(op)];
  ++stats_.operations;
  stats_.bytes += op_bytes(workload_, op);
  stats_.ended = now;
  if (workload_.verify) {
    if (completion.id.sequence != (iteration & WorkId::kSequenceMask)) {
      verification_.failed(
          0, fmt::format("QP {}: operation {} completed when {} was due", index, completion.id.sequence, iteration));
    }
    verify(index, iteration, op);
  }
  ++qp.completed;
  if (acknowledged_) {
    // Half a window is enough of a batch: the peer looks at one half while we fill the other.
    const std::uint64_t batch = std::max<std::uint64_t>(1, workload_.depth / 2);
    if (qp.completed - qp.reported >= batch || qp.completed == workload_.iterations) {
      if (std::find(to_report_.begin(), to_report_.end(), index) == to_report_.end()) to_report_.push_back(index);
    }
  }
  post_available(index);
}

void Initiator::on_acknowledged(const Progress& progress) {
  if (progress.qp >= workload_.qps || progress.count > qps_[progress.qp].completed) return;  // nonsense from the wire
  Qp& qp = qps_[progress.qp];
  qp.acknowledged = std::max(qp.acknowledged, progress.count);
  post_available(progress.qp);
}

std::optional<Progress> Initiator::next_progress() {
  if (to_report_.empty()) return std::nullopt;
  const std::uint32_t qp = to_report_.back();
  to_report_.pop_back();
  qps_[qp].reported = qps_[qp].completed;
  return Progress{qp, qps_[qp].completed};
}

TimePoint Initiator::oldest_post(std::size_t qp) const {
  return qps_[qp].post_times[qps_[qp].completed % workload_.depth];
}

std::uint64_t Initiator::atomic_word(Op op, std::uint32_t qp, std::uint64_t iterations) const {
  return atomic_chain(op, direction_, qp, count_ops(workload_.mix, iterations, op));
}

void Initiator::post_available(std::uint32_t index) {
  const Qp& qp = qps_[index];
  const std::uint64_t window_start = acknowledged_ ? qp.acknowledged : qp.completed;
  while (qp.posted < workload_.iterations && qp.posted - window_start < workload_.depth) post(index);
}

void Initiator::post(std::uint32_t index) {
  Qp& qp = qps_[index];
  const std::uint64_t iteration = qp.posted;
  const Op op = op_at(workload_.mix, iteration);
  // Without --verify the slots keep what they were filled with at the start, so that data costs nothing.
  if (workload_.verify && iteration >= workload_.depth && carries_data(op)) prepare_data(index, iteration);
  const QpMetadata& remote = peer_.qps[index];

  SendRequest request;
  request.opcode = wr_opcode(op);
  request.sequence = iteration;
  request.local = local_pieces(index, op, iteration);
  request.rkey = remote.rkey;
  request.immediate = static_cast<std::uint32_t>(iteration);
  request.inline_data = workload_.inline_data && carries_data(op);
  switch (op) {
    case Op::kSend:
    case Op::kSendImm:
      break;
    case Op::kWrite:
    case Op::kWriteImm:
      request.remote_address =
          remote.address + remote_layout_.window + iteration % remote_layout_.slots * remote_layout_.window_stride;
      break;
    case Op::kRead:
      request.remote_address = remote.address + remote_layout_.source + read_offset(iteration);
      break;
    case Op::kCas:
      request.remote_address = remote.address + remote_layout_.counters;
      request.compare_add = atomic_word(op, index, iteration);
      request.swap = atomic_word(op, index, iteration + 1);
      break;
    case Op::kFaa:
      request.remote_address = remote.address + remote_layout_.counters + 8;
      request.compare_add = atomic_word(op, index, iteration + 1) - atomic_word(op, index, iteration);
      break;
  }
  qp.post_times[iteration % workload_.depth] = std::chrono::steady_clock::now();
  post_send(resources_, index, request);
  ++qp.posted;
  ++posted_;
}

std::uint8_t* Initiator::slot(std::uint32_t qp, std::uint64_t iteration) const {
  return resources_.buffer + qp * layout_.per_qp + layout_.out + iteration % layout_.slots * layout_.local_stride;
}

std::span<ibv_sge> Initiator::local_pieces(std::uint32_t qp, Op op, std::uint64_t iteration) {
  const auto base = reinterpret_cast<std::uintptr_t>(slot(qp, iteration));
  if (is_atomic(op)) {
    sges_[0] = {base, 8, resources_.mr->lkey};
    return std::span(sges_).first(1);
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    sges_[i] = {base + pieces_[i].in_slot, static_cast<std::uint32_t>(pieces_[i].length), resources_.mr->lkey};
  }
  return std::span(sges_).first(pieces_.size());
}

void Initiator::prepare_data(std::uint32_t qp, std::uint64_t iteration) {
  const PatternSeed seed = message_seed(direction_, qp, iteration);
  std::uint8_t* base = slot(qp, iteration);
  for (const Piece& piece : pieces_) fill_pattern(seed, piece.in_message, {base + piece.in_slot, piece.length});
}

void Initiator::verify(std::uint32_t qp, std::uint64_t iteration, Op op) {
  const std::uint8_t* base = slot(qp, iteration);
  if (op == Op::kRead) {
    const PatternSeed seed = read_source_seed(opposite(direction_), qp);
    std::uint64_t errors = 0;
    for (const Piece& piece : pieces_) {
      errors +=
          count_pattern_errors(seed, read_offset(iteration) + piece.in_message, {base + piece.in_slot, piece.length});
    }
    if (errors == 0) {
      verification_.passed(workload_.size);
    } else {
      verification_.failed(workload_.size, fmt::format("QP {}: READ {} brought {} wrong bytes of {}", qp, iteration,
                                                       errors, workload_.size));
    }
    return;
  }
  if (!is_atomic(op)) return;
  const std::uint64_t expected = atomic_word(op, qp, iteration);
  std::uint64_t original = 0;
  std::memcpy(&original, base, 8);
  if (original == expected) {
    verification_.passed(8);
  } else {
    verification_.failed(
        8, fmt::format("QP {}: {} {} found {:#x} where {:#x} was due", qp, op_name(op), iteration, original, expected));
  }
}

}  // namespace uroce::tools
