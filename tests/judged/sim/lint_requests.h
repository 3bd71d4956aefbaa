// SPDX-License-Identifier: Apache-2.0
// What a QP sends as requester, in one connection: the history of its PSNs, and the rules for adding to it and for
// sending parts of it again.
#pragma once

#include <optional>
#include <vector>

#include "engine/sim/link.h"
#include "proto/packet.h"
#include "proto/rules/rules.h"
#include "tests/judged/sim/psn_history.h"

namespace uroce::simulator {

class SharedQueue;

/// A QP as its owner made it.
struct QpFacts {
  engine::sim::NodeId node{}, peer_node{};
  std::uint32_t qpn = 0, peer_qpn = 0;
  proto::Path path;
  std::uint32_t mtu = 0;
  proto::Psn sq_psn;
  std::uint32_t max_rd_atomic = 0;
  const SharedQueue* srq = nullptr;  ///< Where its receives come from, if not from a queue of its own.
};

class RequestLint {
 public:
  void start(const QpFacts& facts);
  /// A WR was posted that takes so many PSNs.
  void posted(std::uint32_t psns, bool fenced);
  /// A request packet is sent; its ICRC is right.
  void sent(const proto::PacketView& view, const proto::Path& path, Instant now);
  /// An undamaged response reaches the QP.
  void response(const proto::PacketView& view, Instant now);

  void set_max_rd_atomic(std::uint32_t most) { facts_.max_rd_atomic = most; }
  void set_draining(bool draining) { draining_ = draining; }
  bool drained() const { return !order_.in_message() && una_ == history_.size() && begins_work(una_); }
  void check_drained() const;
  void stop() { stopped_ = true; }

  const PsnHistory& history() const { return history_; }
  /// Position of a PSN in the history, the one nearest to its end: >= its size when it was not sent, kBeforeFirst for
  /// the one before the first.
  std::uint32_t index(proto::Psn psn) const {
    const std::int32_t ahead = psn - (facts_.sq_psn + history_.size());
    return history_.size() + static_cast<std::uint32_t>(ahead);
  }
  static constexpr std::uint32_t kBeforeFirst = ~std::uint32_t{0};
  /// How many receives the first `messages` messages take.
  std::uint32_t receives_of(std::uint32_t messages) const { return messages == 0 ? 0 : receives_after_[messages - 1]; }

 private:
  struct Outstanding {  ///< A READ or atomic without its (whole) answer.
    std::uint32_t next, end;
  };
  void check_order(std::uint32_t index, Instant now) const;
  void add(const proto::PacketView& view, const proto::Path& path, std::uint32_t index);
  void add_read(const proto::PacketView& view, std::uint32_t index);
  bool begins_work(std::uint32_t index) const;
  void check_begin(std::uint32_t index) const;
  void check_message(const proto::PacketView& view);
  void end_message();
  void take_credits(const proto::PacketView& view);
  void count_outstanding(std::uint32_t begin, std::uint32_t end);

  QpFacts facts_;
  PsnHistory history_;
  struct Posted {
    std::uint32_t begin, end;
    bool fenced;
  };
  std::vector<Posted> posted_;
  std::vector<Outstanding> outstanding_;  ///< Oldest first.
  std::uint32_t cursor_ = 0;              ///< One past the packet sent last.
  std::uint32_t una_ = 0;                 ///< Oldest unacknowledged, by the answers that have reached the QP.
  proto::rules::MessageOrder order_;
  std::uint32_t messages_ = 0, receives_ = 0;
  std::vector<std::uint32_t> receives_after_;      ///< By message: receives that it and those before it take.
  std::optional<std::uint32_t> credit_limit_ = 0;  ///< Receives that the peer is known to have had; nothing: unlimited.
  std::uint32_t rnr_index_ = 0;                    ///< Refused with RNR until ...
  Instant rnr_until_{};                            ///< ... and 0 once it has been sent again.
  bool draining_ = false;
  bool stopped_ = false;
};

}  // namespace uroce::simulator
