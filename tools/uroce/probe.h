// SPDX-License-Identifier: Apache-2.0
// Packets of a NIC to one at another host, to see which of them arrive: UD, as an answer may not find its way back.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "proto/path.h"
#include "tools/rdma/rdma.h"

namespace uroce::tools {

class Probe {
 public:
  static constexpr std::uint32_t kSmallBytes = 64;

  /// Packets that have arrived, each counted once.
  struct Arrivals {
    std::uint64_t small = 0, large = 0;
  };

  /// Opens the first NIC, which must have `address`, or its first address if that is "". Receives are posted. Throws
  /// Failure.
  explicit Probe(const std::string& address);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  /// Payload bytes of the largest packet that fits the NIC's interface.
  std::uint32_t mtu() const { return mtu_; }
  proto::Gid address() const;
  PeerMetadata describe() const;
  /// Has send() send to `peer` from now on. Throws Failure.
  void aim_at(const PeerMetadata& peer);
  /// Sends a packet with that much payload. Throws Failure.
  void send(std::uint32_t bytes);
  /// Takes in what has arrived: `large` are those with more than kSmallBytes.
  void collect(Arrivals& arrivals);
  /// Packets that have arrived with a wrong ICRC, from whomever.
  std::uint64_t damaged() const;

 private:
  void choose_gid(const std::string& address);
  void make_queue_pair();
  void post_receive(std::uint64_t slot);
  std::uint8_t* slot_at(std::uint64_t slot);
  bool is_new(std::uint64_t slot);

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_ah* ah_ = nullptr;
  ibv_gid gid_{};
  std::uint8_t gid_index_ = 0;
  std::uint32_t mtu_ = 0;
  std::uint32_t peer_qpn_ = 0;
  std::uint32_t sent_ = 0;
  std::set<std::uint32_t> seen_;  ///< Numbers of the peer's packets.
  std::vector<std::uint8_t> memory_;
};

}  // namespace uroce::tools
