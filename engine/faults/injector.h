// SPDX-License-Identifier: Apache-2.0
// Decides what happens to a packet. Chance depends on the seed, on the packet (whose it is: which QP of the
// NIC; how far from the QP's first PSN; request, response, ACK, NAK) and on how often it has been lost before, and on
// nothing else: neither numbers that were drawn, nor other QPs, nor the timing of threads change it. A packet that has
// got through is not struck again when it is sent again: how often that happens, timing decides.
#pragma once

#include <array>

#include "engine/faults/spec.h"
#include "engine/faults/streams.h"
#include "proto/path.h"
#include "proto/psn.h"

namespace uroce::engine::faults {

/// What was injected, by kind; the rest of a NIC's faults besides.
struct FaultCounters {
  std::array<std::uint64_t, static_cast<std::size_t>(Kind::kCount)> packets{};
  std::uint64_t blackout = 0;  ///< Packets that met a blackout, or a port that was down.
  std::uint64_t overfull = 0;  ///< Packets for which there was no room among those that are held back.
  std::uint64_t rnr = 0;
  std::uint64_t wrs = 0;
  std::uint64_t calls = 0;
  std::uint64_t connections = 0;
  std::uint64_t events = 0;  ///< Port, QP, CQ and device.

  /// Packets that did not get through unharmed and in time.
  std::uint64_t kept_back() const {
    return of(Kind::kDrop) + of(Kind::kReorder) + of(Kind::kDelay) + of(Kind::kCorrupt) + blackout + overfull;
  }
  std::uint64_t of(Kind kind) const { return packets.at(static_cast<std::size_t>(kind)); }
  std::uint64_t& of(Kind kind) { return packets.at(static_cast<std::size_t>(kind)); }
};

struct Fate {
  bool drop = false, duplicate = false, corrupt = false, ecn = false;
  Duration delay{};
  std::uint32_t distance = 0;  ///< Held back until so many packets of its stream have overtaken it.
  std::uint64_t bits = 0;      ///< For corrupt(): which ones flip.
  StreamId stream = 0;
  /// The rule that did it: "dropped" by "loss=1%". Views into the injector's specification.
  struct Cause {
    std::string_view what, fault;
  };
  std::vector<Cause> causes{};

  bool is_held() const { return distance != 0 || delay.count() != 0; }
};

/// "uroce: corrupted by corrupt=1%, delayed by delay=2ms"; empty when nothing happens.
std::string to_comment(const Fate& fate);

/// The sender of a packet.
struct Sender {
  std::uint32_t qpn = 0;  ///< One of ours; 0: its destination is enough.
  proto::Gid address{};   ///< A peer.
};

class Injector {
 public:
  explicit Injector(const FaultSpec& spec, Identify identify = {});

  /// From now on `spec`, in the place of what was asked for before. Numbers of packets count from now; what has been
  /// counted and which packets have got through stays.
  void replace(const FaultSpec& spec);
  /// The faults of `more` besides; its seed does not count.
  void add(const FaultSpec& more);

  /// What happens to `packet` (BTH .. ICRC), the next one in this direction; counts it. Faults that a loss makes
  /// pointless are not injected.
  Fate decide(Direction direction, Bytes packet, const Sender& sender = {});
  /// Whether a request that consumes a receive WQE is refused as if there were none.
  bool refuses_receive(std::uint32_t qpn, proto::Psn psn);

  /// The status (of ibv_wc_status) with which the `nth` send WR of a QP is to fail, if it is.
  std::optional<int> fails_send(std::uint32_t qpn, std::uint64_t nth);

  /// A sentence for each packet fault that has met too few packets to happen at all.
  std::vector<std::string> without_effect() const;

  FaultCounters& counters() { return counters_; }
  const FaultCounters& counters() const { return counters_; }

  /// How many struck packets it remembers: bounded, whatever arrives.
  std::size_t remembered() const { return streams_.remembered(); }

 private:
  std::uint64_t random(std::uint64_t concern, std::uint64_t stream, std::int64_t place, std::uint64_t losses) const;
  void strike(const PacketFault& fault, std::uint64_t bits, Fate& fate);
  void add_packet_fault(const PacketFault& fault);
  void forget_spent();

  FaultSpec spec_;
  struct State {
    std::uint64_t concern = 0;  ///< Tells it from the other faults, in the hash.
    std::uint64_t seen = 0;     ///< Packets that met its conditions.
  };
  std::vector<State> states_;  ///< By packet fault.
  Streams streams_;
  FaultCounters counters_;
};

/// Damages one byte, such that a right ICRC becomes a wrong one.
void corrupt(MutBytes packet, std::uint64_t bits);

}  // namespace uroce::engine::faults
