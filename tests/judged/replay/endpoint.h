// SPDX-License-Identifier: Apache-2.0
// Our NIC in the place of one endpoint of a capture: it executes the verbs that the capture's script called there, and
// says where their outcome is another.
#pragma once

#include <map>
#include <optional>
#include <stdexcept>

#include "tests/judged/replay/difference.h"
#include "tests/judged/replay/script.h"
#include "verbs/nic/device/nic.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::replay {

/// The script wants what our NIC does not have.
struct NotOffered : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Endpoint {
 public:
  /// Executes the setup part of the script.
  Endpoint(const nlohmann::json& sidecar, Side side);

  /// Executes one command and compares its outcome with the reply that rxe gave.
  Differences execute(const Command& command);

  /// Tells the NIC, with an ACK for the PSN before its first, that the peer does not count credits. rxe takes that for
  /// granted; we would hold back after the first SEND until an ACK has said so.
  void hear_of_no_credits(Instant now);

  nic::Nic& nic() { return nic_; }
  /// QPNs and keys are rxe's in the capture. Our own QPN, and our keys: as far from our MR's (or window's) as the
  /// others from its.
  std::uint32_t qpn_of(std::uint32_t in_capture) const;
  /// Whether both name the QP of this endpoint, in the packets that it sends.
  bool is_own_qpn(std::uint64_t rxe, std::uint64_t ours) const { return rxe == rxe_qpn_ && ours == our_qpn_; }
  std::uint32_t key_of(std::uint32_t in_capture) const;
  /// Request packets that the WR of a `post` command takes.
  std::uint32_t packets_of(const Command& post) const;

 private:
  void create_qp(const Command& command);
  std::uint32_t mask_for(nic::QpState to) const;
  nic::Errno modify(const Command& command);
  nic::Path path(const Command& command, std::uint32_t dest_qpn) const;
  std::vector<nic::Sge> sges(const Command& command) const;
  nic::Errno post_send(const Command& command);
  nic::Errno post_bind(const Command& command);
  nic::Errno post_recv(const Command& command);
  Differences poll(const Command& command);
  Differences take_async_events(const Command& command);
  Differences compare_memory(const Command& command);
  Differences query(const Command& command) const;
  bool take_notification();
  std::uint8_t* memory_at(std::size_t offset, std::size_t length);

  nlohmann::json rxe_;  ///< The endpoint as the capture describes it.
  std::uint32_t mtu_ = 0;
  nic::Nic nic_;
  std::vector<std::uint8_t> memory_;
  nic::Pd* pd_ = nullptr;
  nic::Cq* cq_ = nullptr;
  nic::Mr* mr_ = nullptr;
  nic::Srq* srq_ = nullptr;
  nic::Mw* mw_ = nullptr;
  std::uint32_t rxe_window_key_ = 0, our_window_key_ = 0;  ///< Once it is bound.
  nic::Qp* qp_ = nullptr;
  std::uint32_t our_qpn_ = 0, rxe_qpn_ = 0, rxe_key_ = 0;
  std::vector<nic::Event> events_;
  std::map<std::string, nic::Path> handles_;  ///< Address handles by name.
};

}  // namespace uroce::replay
