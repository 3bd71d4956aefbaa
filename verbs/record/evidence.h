// SPDX-License-Identifier: Apache-2.0
// What a recording knows about one error: the events and packets that led to it. cause.cc makes a sentence of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/opcodes.h"
#include "proto/syndrome.h"
#include "verbs/nic/model/checks.h"
#include "verbs/record/ring.h"

namespace uroce::record {

/// Packets that were dropped on arrival, and why.
struct Drops {
  std::uint64_t count = 0;
  std::vector<std::pair<std::string, std::uint64_t>> reasons;  ///< In the order of the first ones.

  void add(const std::string& reason);
};

/// What came for a QP while its peer did not acknowledge.
struct Arrivals {
  Drops dropped;                    ///< Packets of the peer.
  std::set<std::uint32_t> numbers;  ///< Theirs.
  std::uint64_t strangers = 0;      ///< Packets of others.
  std::string stranger;             ///< Where the last one of them came from; empty: not known.
};

// Of a packet, whose head may be cut off. Null or nothing: it has none, or that part is not there.
const proto::OpcodeInfo* op_of(const Recording::Packet* packet);
std::optional<proto::Syndrome> syndrome_of(const Recording::Packet& packet, const proto::OpcodeInfo& op);
std::optional<std::size_t> payload_of(const Recording::Packet& packet, const proto::OpcodeInfo& op);

class Evidence {
 public:
  /// For the error that is event `at` of `recording`, which must outlive this.
  Evidence(const Recording& recording, std::size_t at)
      : recording_(recording), at_(at), error_(recording.events[at].event) {}

  const nic::TraceEvent& error() const { return error_; }
  /// Of the message that failed, or was refused.
  std::uint32_t psn() const { return static_cast<std::uint32_t>(error_.b); }
  bool keeps_packets() const { return recording_.keeps_packets; }
  /// Whether nothing that the peer sent can be missing here.
  bool knows_all_packets() const;
  /// What is known of the QP besides; null: nothing.
  const Recording::Qp* qp() const;
  const Recording::Refusals& refusals() const { return recording_.refusals; }
  /// Packets that faults have kept from getting through unharmed and in time. The ring has none of them.
  std::uint64_t on_purpose() const { return recording_.on_purpose; }

  /// Whether a fault asked for the error: nothing was sent then.
  bool is_injected() const;
  /// How often the message was sent, and what came of it.
  struct Attempts {
    std::uint64_t transmissions = 1, naks = 0;
    std::optional<Instant> silent_since;
  };
  Attempts attempts() const;
  /// How often the peer had no receive for it, and when that was so first.
  std::pair<std::uint64_t, Instant> rnr_naks() const;
  /// The PSN for which the peer waits, where it only answers to others than psn(), though that is the oldest.
  std::optional<std::uint32_t> awaited_by_peer() const;
  /// The check of ours that refused the peer's request; nothing: another reason.
  std::optional<nic::RcCheck> refusing_check() const;

  /// The key that was refused before the error, as an event of this kind says; nothing: none was.
  std::optional<nic::RefusedKey> refused_key(nic::TraceKind kind) const;

  /// The packet that the NIC had received when the error came; null: none, or it is not kept.
  const Recording::Packet* answer() const { return packet_about(recording_.events[at_]); }
  /// The newest request with psn() before the error: of ours, or one for the QP.
  const Recording::Packet* last_sent() const { return last_packet(true); }
  const Recording::Packet* last_received() const { return last_packet(false); }

  /// Since the message was sent first, or, where that is not kept, since `silent_since`.
  Arrivals arrivals(std::optional<Instant> silent_since) const;
  /// When a packet of the peer for the QP arrived last, which was not dropped.
  std::optional<Instant> last_heard(const Arrivals& arrivals) const;
  /// Whether the peer has acknowledged a READ or an atomic without the answer that bears its data.
  bool lacks_data(const Arrivals& arrivals) const;

 private:
  std::optional<Instant> first_sent(std::uint32_t psn) const;
  const Recording::Packet* last_packet(bool sent) const;
  const Recording::Packet* packet_about(const Recording::Event& event) const;
  bool is_for_qp(const nic::TraceEvent& event, const Recording::Packet* packet) const;
  std::optional<proto::Gid> peer_address() const;

  const Recording& recording_;
  std::size_t at_;
  const nic::TraceEvent& error_;
};

}  // namespace uroce::record
