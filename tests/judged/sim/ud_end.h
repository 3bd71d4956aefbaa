// SPDX-License-Identifier: Apache-2.0
// A UD QP, and what the datagrams that arrive at it must lead to (IBTA Vol 1, 9.8.3). The network may double datagrams,
// and so may come what arrives; but never in part, never changed.
#pragma once

#include "tests/judged/sim/unacked_end.h"

namespace uroce::simulator {

class UdEnd final : public UnackedEnd {
 public:
  using UnackedEnd::UnackedEnd;
  /// The ends that it may send to; itself too.
  void set_others(std::vector<UdEnd*> others) { others_ = std::move(others); }
  void start(proto::Psn sq_psn, proto::Psn) override;
  /// In RTS.
  void change_qkey();
  void change_groups();
  void on_arrival(const proto::PacketView& view, const proto::Path& path) override;

 private:
  void aim(Op& op, Sending& sending, nic::SendWr& wr) override;
  bool too_long(const Op& op) const override;
  proto::Gid group(std::uint32_t number) const;
  void set_groups(std::uint32_t groups);

  std::vector<UdEnd*> others_;
  std::uint32_t qkey_ = 0;
  std::uint32_t groups_ = 0;  ///< That the QP is in.
};

/// What a UD receive finds before its message: the IP header, where GRH would be (IBTA Annex A17).
std::array<std::uint8_t, 40> grh_of(const proto::Path& path, std::size_t packet_size, std::uint16_t ip_id = 0);

}  // namespace uroce::simulator
