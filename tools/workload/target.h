// SPDX-License-Identifier: Apache-2.0
// The side that operations arrive at. It posts receives before the peer may send, reposts each after it has looked at
// the data, and with --verify checks every byte.
//
// A plain WRITE leaves no trace at its target but the bytes themselves, and its slot is written again `depth`
// operations later. So with --verify the two sides keep step over TCP: the initiator tells how many operations of a QP
// are complete (on_peer_progress), the target checks their slots and answers how many it has checked; the initiator
// stays within `depth` of that. Reports come in halves of a window, so that one half is checked while the other is on
// its way. Without
// --verify nobody looks, and nothing is acknowledged.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/rdma/rdma.h"
#include "tools/workload/initiator.h"
#include "tools/workload/layout.h"
#include "tools/workload/pattern.h"
#include "tools/workload/verification.h"
#include "tools/workload/workload.h"

namespace uroce::tools {

struct TargetStats {
  std::uint64_t receives = 0;  ///< Completed receives.
  std::uint64_t bytes = 0;     ///< That they, or WRITEs with immediate, brought.
  TimePoint first{}, last{};
};

class Target {
 public:
  /// `direction` is the one in which the peer's operations go.
  Target(RdmaResources& resources, const Workload& workload, Direction direction);

  /// Fills what the peer will READ and sets up the words for its atomics; posts the first receives on every QP.
  void prepare();
  /// Takes a successful receive completion, verifies it and posts the receive again if more are to come.
  void on_receive(const Completion& completion, TimePoint now);
  /// The peer says that the first progress.count operations of a QP are complete. Returns what to answer; nothing when
  /// the claim makes no sense.
  std::optional<Progress> on_peer_progress(const Progress& progress);

  /// Every receive that the workload uses has completed.
  bool all_received() const { return stats_.receives == expected_receives_ * workload_.qps; }
  /// After the last operation: what can only be judged then. Did every message arrive, and (with --verify) what did the
  /// atomics leave behind?
  void verify_end();

  const TargetStats& stats() const { return stats_; }
  const Verification& verification() const { return verification_; }

 private:
  struct Qp {
    std::uint64_t posted = 0;
    std::uint64_t received = 0;
    std::uint64_t verified = 0;  ///< Operations whose window slots were looked at.
  };

  std::uint8_t* part(std::uint32_t qp) const { return resources_.buffer + qp * layout_.per_qp; }
  std::uint8_t* receive_slot(std::uint32_t qp, std::uint64_t sequence) const;
  std::span<ibv_sge> receive_pieces(std::uint32_t qp, std::uint64_t sequence);
  std::uint64_t iteration_of_receive(std::uint64_t receive) const;
  void verify_receive(std::uint32_t qp, const Completion& completion, std::uint64_t receive);
  void verify_write(std::uint32_t qp, std::uint64_t iteration);
  void judge(std::uint64_t bytes, std::uint64_t errors, std::uint32_t qp, Op op, std::uint64_t iteration);

  RdmaResources& resources_;
  const Workload workload_;
  const Direction direction_;
  const Layout layout_;
  const std::vector<Piece> pieces_;
  const bool receives_hold_data_;
  const std::uint64_t expected_receives_;  ///< Per QP.
  std::vector<ibv_sge> sges_;
  std::vector<Qp> qps_;
  TargetStats stats_;
  Verification verification_;
};

}  // namespace uroce::tools
