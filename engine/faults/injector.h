// Decides what happens to a packet. The decision depends on the seed, on the packet (who it is for, its PSN, whether it
// is a request or a response) and on how often the QP has seen it, and on nothing else: neither other QPs nor the
// timing of threads change it, and a packet that was lost is not lost for ever.
#pragma once

#include <array>
#include <unordered_map>

#include "engine/faults/spec.h"
#include "proto/path.h"

namespace uroce::engine::faults {

/// What was injected, by kind; the rest of a NIC's faults besides.
struct FaultCounters {
  std::array<std::uint64_t, static_cast<std::size_t>(Kind::kCount)> packets{};
  std::uint64_t blackout = 0;  ///< Packets that met a blackout, or a port that was down.
  std::uint64_t rnr = 0;
  std::uint64_t wrs = 0;
  std::uint64_t calls = 0;
  std::uint64_t events = 0;  ///< Port, QP, CQ and device.

  std::uint64_t of(Kind kind) const { return packets.at(static_cast<std::size_t>(kind)); }
  std::uint64_t& of(Kind kind) { return packets.at(static_cast<std::size_t>(kind)); }
};

struct Fate {
  bool drop = false, duplicate = false, corrupt = false, ecn = false;
  Duration delay{};
  std::uint32_t distance = 0;  ///< Held back until so many packets have overtaken it.
  std::uint64_t bits = 0;      ///< For corrupt(): which ones flip.
};

class Injector {
 public:
  explicit Injector(const FaultSpec& spec) : spec_(spec), seen_(spec.packets.size()) {}

  /// What happens to `packet` (BTH .. ICRC), the next one in this direction; counts it. Faults that a loss makes
  /// pointless are not injected.
  Fate decide(Direction direction, Bytes packet);
  /// Whether a request that consumes a receive WQE is refused as if there were none.
  bool refuses_receive(std::uint32_t qpn, std::uint32_t psn);

  /// The status (of ibv_wc_status) with which the `nth` send WR of a QP is to fail, if it is.
  std::optional<int> fails_send(std::uint32_t qpn, std::uint64_t nth);

  FaultCounters& counters() { return counters_; }
  const FaultCounters& counters() const { return counters_; }

 private:
  /// How often each of the last packets of a stream was seen. A stream: one QP's requests or responses, in one
  /// direction.
  struct Stream {
    static constexpr std::size_t kRemembered = 1024;
    struct Slot {
      std::uint32_t psn = ~0u, times = 0;
    };
    std::array<Slot, kRemembered> slots;
  };
  std::uint32_t times_seen(std::uint64_t stream, std::uint32_t psn);
  std::uint64_t random(std::size_t fault, std::uint64_t stream, std::uint32_t psn, std::uint32_t times) const;

  FaultSpec spec_;
  std::vector<std::uint64_t> seen_;  ///< By fault: packets that met its conditions.
  std::unordered_map<std::uint64_t, Stream> streams_;
  FaultCounters counters_;
};

/// Flips one to three bits.
void corrupt(MutBytes packet, std::uint64_t bits);

}  // namespace uroce::engine::faults
