// SPDX-License-Identifier: Apache-2.0
// One end of a UC connection, and what the packets that arrive at it must lead to (IBTA Vol 1, 9.8.2).
#pragma once

#include "tests/judged/sim/unacked_end.h"

namespace uroce::simulator {

class UcEnd final : public UnackedEnd {
 public:
  UcEnd(Stage& stage, UnackedTraffic& traffic, Host& host, const UnackedEndPlan& plan, const UnackedPlan& shared,
        std::uint64_t seed);
  void set_peer(UcEnd& peer) { peer_ = &peer; }
  void build() override;
  void start(proto::Psn sq_psn, proto::Psn peer_psn) override;
  void deregister_target();
  void on_arrival(const proto::PacketView& view, const proto::Path& path) override;

 private:
  void aim(Op& op, Sending& sending, nic::SendWr& wr) override;
  void renew() override;
  void register_target();
  bool take(const proto::PacketView& view);
  bool take_send(const proto::PacketView& view);
  bool take_write(const proto::PacketView& view);
  bool has_right_length(const proto::PacketView& view) const;
  nic::Completion success(const proto::PacketView& view);
  void break_off();

  UcEnd* peer_ = nullptr;
  Extent target_;  ///< Where the peer writes. Several WRITEs may have the same bytes of it.
  nic::Mr* target_mr_ = nullptr;
  std::uint32_t target_key_ = 0;
  bool target_dead_ = false;

  /// A message of which all packets so far have arrived, one after the other.
  struct Message {
    proto::Kind kind{};
    std::uint32_t offset = 0;
    // WRITE.
    std::uint64_t va = 0;
    std::uint32_t rkey = 0, left = 0;
  };
  std::optional<Message> message_;
  proto::Psn next_;
};

}  // namespace uroce::simulator
