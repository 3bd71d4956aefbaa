// SPDX-License-Identifier: Apache-2.0
// What a NIC and a QP are made with.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "proto/base/clock.h"
#include "verbs/nic/model/limits.h"
#include "verbs/nic/model/trace.h"
#include "verbs/nic/model/tunables.h"
#include "verbs/nic/model/types.h"
#include "verbs/nic/model/user_memory.h"

namespace uroce::nic {

class Cq;
struct Pd;
class Srq;

/// Misbehaviour on request (engine/faults); empty functions: none.
struct InjectedFaults {
  /// Whether a request that consumes a receive is refused with RNR NAK although there is one.
  std::function<bool(std::uint32_t qpn, Psn psn)> refuse_receive;
  /// With which status the `nth` send WR of a QP fails instead of being sent; counted from 1 since the QP was created.
  std::function<std::optional<WcStatus>(std::uint32_t qpn, std::uint64_t nth)> fail_send;
};

struct NicConfig {
  std::vector<Gid> gids;                      ///< GID table from index 0 on.
  std::uint8_t qpn_slot = 0;                  ///< Top byte of every QPN: which of several NICs that share an address.
  std::uint16_t first_local_qpn = kFirstQpn;  ///< Where local numbers begin (not below kFirstQpn).
  std::uint64_t key_seed = 0;  ///< lkeys and rkeys follow from it; 0: they count from 0x1f8 on, readable.
  std::uint8_t mtu_max = 5;    ///< Path MTU enum, 1..5.
  std::uint64_t window_bytes =
      kWindowBytes;                     ///< Receive-buffer bytes our unacknowledged packets may take at a peer ...
  std::uint64_t host_window_bytes = 0;  ///< ... at one on this host, if that is more, ...
  std::uint64_t crowded_bytes = 0;      ///< ... so many more there while processors have other work, ...
  std::uint64_t most_window_bytes = kMostWindowBytes;  ///< ... and with what a long path holds.
  bool advertise_credits = true;  ///< Tell peers how many receives are posted; false: "unlimited", as rxe says.
  bool strict = false;  ///< Take no more READs and atomics than max_dest_rd_atomic; false: than the next power of two.
  /// What room there is for packets of UC and UD along `path` to QP `qpn`. Empty: it is not known.
  std::function<proto::Room(const Path& path, std::uint32_t qpn)> room{};
  InjectedFaults faults{};
  UserMemory* memory = &steady_memory();  ///< How the memory of programs is touched; outlives the NIC.
  TraceSink* trace = nullptr;             ///< Hears what happens in the NIC, which it outlives.
  Duration peer_packet_time = kPeerPacketTime;
  Duration ack_timeout_floor{};  ///< Local ACK timeouts shorter than this are raised to it (hardware does so too).
};

struct QpInit {
  QpType type = QpType::kRc;
  Pd* pd = nullptr;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;  ///< Where receives come from instead of a queue of the QP's own.
  std::uint32_t max_send_wr = 0, max_recv_wr = 0;
  std::uint32_t max_send_sge = 0, max_recv_sge = 0;
  std::uint32_t max_inline = 0;
  bool sq_sig_all = false;
  void* user = nullptr;
};

}  // namespace uroce::nic
