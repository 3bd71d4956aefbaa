// SPDX-License-Identifier: Apache-2.0
// The side that posts operations: keeps every QP filled up to the depth, takes their completions, measures each and,
// with
// --verify, checks what READs and atomics brought.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/rdma/rdma.h"
#include "tools/workload/histogram.h"
#include "tools/workload/layout.h"
#include "tools/workload/pattern.h"
#include "tools/workload/verification.h"
#include "tools/workload/workload.h"

namespace uroce::tools {

using TimePoint = std::chrono::steady_clock::time_point;

inline double seconds_between(TimePoint from, TimePoint to) { return std::chrono::duration<double>(to - from).count(); }

/// "The first `count` operations of QP `qp` are ..." done, or verified: how the two sides keep slots apart.
struct Progress {
  std::uint32_t qp = 0;
  std::uint64_t count = 0;
};

struct InitiatorStats {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, kOpCount> per_op{};
  Histogram latency;  ///< From post to completion.
  TimePoint started{}, ended{};
};

class Initiator {
 public:
  Initiator(RdmaResources& resources, const Workload& workload, Direction direction, const PeerMetadata& peer);

  /// Posts the first operations of every QP.
  void start();
  /// Takes a successful completion and posts what there is room for now.
  void on_completion(const Completion& completion, TimePoint now);
  /// The peer has verified, and so released, the slots of `progress`.
  void on_acknowledged(const Progress& progress);

  /// With acknowledgements: QPs of which the peer has to be told how far they are, one after the other.
  std::optional<Progress> next_progress();

  bool done() const { return stats_.operations == total_; }
  std::uint64_t outstanding() const { return posted_ - stats_.operations; }
  std::uint64_t total() const { return total_; }
  /// When the oldest outstanding operation of `qp` was posted.
  TimePoint oldest_post(std::size_t qp) const;
  const InitiatorStats& stats() const { return stats_; }
  const Verification& verification() const { return verification_; }

 private:
  struct Qp {
    std::uint64_t posted = 0;
    std::uint64_t completed = 0;
    std::uint64_t reported = 0;      ///< Completions that the peer was told of.
    std::uint64_t acknowledged = 0;  ///< Completions that the peer has verified.
    std::vector<TimePoint> post_times;
  };

  /// What the word that `op` works on holds when the first `iterations` operations of the QP are done.
  std::uint64_t atomic_word(Op op, std::uint32_t qp, std::uint64_t iterations) const;
  void post_available(std::uint32_t qp);
  void post(std::uint32_t qp);
  std::span<ibv_sge> local_pieces(std::uint32_t qp, Op op, std::uint64_t iteration);
  std::uint8_t* slot(std::uint32_t qp, std::uint64_t iteration) const;
  void prepare_data(std::uint32_t qp, std::uint64_t iteration);
  void verify(std::uint32_t qp, std::uint64_t iteration, Op op);

  RdmaResources& resources_;
  const Workload workload_;
  const Direction direction_;
  const Layout layout_;         ///< In our memory.
  const Layout remote_layout_;  ///< In the peer's.
  const PeerMetadata& peer_;
  const std::vector<Piece> pieces_;
  const bool acknowledged_;
  const std::uint64_t total_;
  std::vector<ibv_sge> sges_;
  std::vector<Qp> qps_;
  std::vector<std::uint32_t> to_report_;
  std::uint64_t posted_ = 0;
  InitiatorStats stats_;
  Verification verification_;
};

}  // namespace uroce::tools
