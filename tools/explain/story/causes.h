// SPDX-License-Identifier: Apache-2.0
// Why a requester sends a packet again: the evidence that its peer's answers leave, and the decision. Without state of
// its own, so that each case can be tried alone.
#pragma once

#include <deque>
#include <optional>

#include "tools/explain/story/told.h"

namespace uroce::explain {

/// Position in a requester's PSN space, counted on over the wraps of the 24 bits.
using PsnIndex = std::int64_t;

/// An answer that can make a requester go back.
struct Hint {
  PsnIndex index = 0;  ///< Where to go back to.
  Place place;
  std::int64_t time_ns = 0;
  std::int64_t delay_ns = 0;  ///< RNR: how long to wait at least.
  bool used = false;          ///< The requester has gone back since.
};

/// What the answers so far ask for.
struct Evidence {
  static constexpr std::size_t kMost = 16;

  std::deque<Hint> naks;  ///< PSN sequence errors, oldest first.
  std::optional<Hint> rnr;
  std::optional<Hint> implied;
  bool reordered = false;          ///< Packets have been overtaken.
  std::int64_t progress_ns = 0;    ///< When the peer last acknowledged something new.
  std::int64_t round_trip_ns = 0;  ///< Shortest time from a request to its answer; 0: not known.

  void add_nak(const Hint& nak);
  /// Whether an answer since `since_ns` asks for this very packet, and the requester has not gone back for it.
  bool asks_for(PsnIndex index, std::int64_t since_ns) const;
  /// The requester has gone back to `index`.
  void used(PsnIndex index);
};

/// A packet that goes back, and what is known about its PSN.
struct Repetition {
  PsnIndex index = 0;
  std::int64_t time_ns = 0;
  std::uint16_t ip_id = 0;
  // When it was sent before, if the capture shows that.
  bool seen = false;
  std::int64_t last_time_ns = 0;
  std::uint16_t last_ip_id = 0;
  bool same_bytes = false;   ///< As before, ICRC included.
  bool resent = false;       ///< It was sent again already ...
  bool acked = false;        ///< ... and acknowledged.
  bool newest = false;       ///< Or among the last few that were sent.
  bool answered = false;     ///< The capture has the answer to it already.
  std::int64_t hole_ns = 0;  ///< Not seen: when a later PSN passed.
};

/// Local ACK timeouts of real adapters are longer.
inline constexpr std::int64_t kShortestTimeout = 250'000;
/// Longer than this no network keeps a packet.
inline constexpr std::int64_t kLongDelay = 100'000'000;

struct Cause {
  Reason reason = Reason::kUnknown;
  bool sure = true;
  Place place;
  std::int64_t wait_ns = 0;
};

Cause find_cause(const Repetition& repetition, const Evidence& evidence);

/// What the NIC that sent the packet says itself, in the comment that it gave it (verbs/record/reasons.h).
std::optional<Reason> stated_reason(std::string_view comment);
/// What the faults of the NIC that sent the packet have done to it, as its comment says.
struct Played {
  bool copied = false;
  bool held_back = false;
};
Played played_faults(std::string_view comment);
/// The cause when the NIC has stated the reason: nothing is left to guess but which packet of the peer it was.
Cause stated_cause(Reason reason, const Repetition& repetition, const Evidence& evidence);

}  // namespace uroce::explain
