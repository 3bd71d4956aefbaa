// Decides what happens to a packet. The decision depends on the seed, on the packet (who it is for, its PSN, whether it
// is a request or a response) and on how often the QP has seen it, and on nothing else: neither other QPs nor the
// timing of threads change it, and a packet that was lost is not lost for ever.
#pragma once

#include <array>
#include <unordered_map>

#include "engine/faults/spec.h"
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
  std::uint64_t events = 0;  ///< Port, QP, CQ and device.

  std::uint64_t of(Kind kind) const { return packets.at(static_cast<std::size_t>(kind)); }
  std::uint64_t& of(Kind kind) { return packets.at(static_cast<std::size_t>(kind)); }
};

/// A stream: the requests, or the responses, to one QP in one direction. A healthy network keeps its order.
using StreamId = std::uint64_t;

struct Fate {
  bool drop = false, duplicate = false, corrupt = false, ecn = false;
  Duration delay{};
  std::uint32_t distance = 0;  ///< Held back until so many packets of its stream have overtaken it.
  std::uint64_t bits = 0;      ///< For corrupt(): which ones flip.
  StreamId stream = 0;
  /// Who did it: "dropped" by "loss=1%". Views into the injector's specification.
  struct Cause {
    std::string_view what, fault;
  };
  std::vector<Cause> causes{};

  bool is_held() const { return distance != 0 || delay.count() != 0; }
};

/// "uroce: corrupted by corrupt=1%, delayed by delay=2ms"; empty when nothing happens.
std::string to_comment(const Fate& fate);

class Injector {
 public:
  explicit Injector(const FaultSpec& spec);

  /// What happens to `packet` (BTH .. ICRC), the next one in this direction; counts it. Faults that a loss makes
  /// pointless are not injected.
  Fate decide(Direction direction, Bytes packet);
  /// Whether a request that consumes a receive WQE is refused as if there were none.
  bool refuses_receive(std::uint32_t qpn, proto::Psn psn);

  /// The status (of ibv_wc_status) with which the `nth` send WR of a QP is to fail, if it is.
  std::optional<int> fails_send(std::uint32_t qpn, std::uint64_t nth);

  /// A sentence for each packet fault that has met too few packets to happen at all.
  std::vector<std::string> without_effect() const;

  FaultCounters& counters() { return counters_; }
  const FaultCounters& counters() const { return counters_; }

 private:
  /// What has been seen of a stream. PSNs ahead of all others are new; only those that come again are remembered.
  struct History {
    std::optional<proto::Psn> newest;
    std::unordered_map<std::uint32_t, std::uint32_t> repeats;  ///< By PSN.
    std::uint64_t epoch = 0;                                   ///< So that forgetting does not repeat old decisions.
  };
  std::uint64_t times_seen(StreamId stream, proto::Psn psn);
  std::uint64_t random(std::uint64_t concern, StreamId stream, proto::Psn psn, std::uint64_t times) const;
  void strike(const PacketFault& fault, std::uint64_t bits, Fate& fate);

  const FaultSpec spec_;
  struct State {
    std::uint64_t concern = 0;  ///< Tells it from the other faults, in the hash.
    std::uint64_t seen = 0;     ///< Packets that met its conditions.
  };
  std::vector<State> states_;  ///< By packet fault.
  std::unordered_map<StreamId, History> histories_;
  std::uint64_t epoch_ = 0;  ///< Of streams that are new.
  FaultCounters counters_;
};

/// Damages one byte, such that a right ICRC becomes a wrong one.
void corrupt(MutBytes packet, std::uint64_t bits);

}  // namespace uroce::engine::faults
