// SPDX-License-Identifier: Apache-2.0
// What clocks do while a capture is written: somebody sets one, it is slewed, or it is no good. The story is told as if
// it had not.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tools/explain/packets/packet.h"

namespace uroce::explain {

/// A clock that jumped.
struct ClockStep {
  std::uint64_t frame = 0;  ///< The first one behind it.
  std::int64_t ns = 0;
};

/// Times of one capture whose clock is set back: what comes then goes on where the time was before. (How long it took
/// meanwhile, nobody knows.) Packets of several writers are not in order; they are no step.
class SetBack {
 public:
  /// The time of `packets.front()`, by the packets behind it in the file.
  std::int64_t straight(const std::deque<Packet>& packets);
  const std::vector<ClockStep>& steps() const { return steps_; }

  static constexpr std::size_t kLook =
      300;  ///< Packets behind the first that it wants to see, as far as there are any.

 private:
  std::int64_t latest_ = INT64_MIN, back_ = 0;
  std::vector<ClockStep> steps_;
};

/// When the first capture has its packets: some thousand that were read last.
class Sightings {
 public:
  void add(const Packet& packet);
  /// Nothing: it is not there, or not once.
  std::optional<std::int64_t> time_of(const Packet& packet) const;

 private:
  static constexpr std::size_t kMost = 8000;
  struct Sighting {
    std::int64_t time_ns = 0;
    std::uint32_t count = 0;
  };
  std::unordered_map<std::uint64_t, Sighting> seen_;
  std::deque<std::uint64_t> order_;
};

/// By how much the clock of a capture is ahead of the first one's, all along: clocks drift, and jump.
class ClockDifference {
 public:
  /// From the beginnings of both, if the way there takes as long as the way back; nothing when no packet is in both.
  static std::optional<ClockDifference> find(const std::deque<Packet>& first, const std::deque<Packet>& other);

  /// By how much it was ahead at first.
  std::int64_t at_first() const { return at_first_; }
  /// A time near the beginning, without that.
  std::int64_t at_begin(std::int64_t time) const;
  /// How much to take off the time of `packets.front()`, by those behind it. Once for each packet, in order.
  std::int64_t at_front(const std::deque<Packet>& packets, const Sightings& first);
  const std::vector<ClockStep>& steps() const { return steps_; }

 private:
  using Host = std::array<std::uint8_t, 16>;
  /// Of the packets of one sender: the difference of the times at both ends is that of the clocks, and the way.
  struct Usual {
    std::int64_t difference = 0;
    std::int64_t next = 0;    ///< Of the packets since it was changed, that of the quickest one.
    std::uint32_t count = 0;  ///< So many these are.
  };
  std::int64_t look(const std::deque<Packet>& packets, const Sightings& first);
  void follow(Usual& usual, std::int64_t difference);
  void take_middle();
  std::optional<std::int64_t> step_at(const std::deque<Packet>& packets, const Sightings& first,
                                      std::int64_t deviation) const;

  std::int64_t at_first_ = 0;
  std::int64_t ahead_ = 0;                                     ///< As far as we know ...
  std::int64_t taken_off_ = 0;                                 ///< ... which this follows slowly.
  std::int64_t latest_ = INT64_MIN, latest_told_ = INT64_MIN;  ///< Times of packets, as they were and are told.
  std::map<Host, Usual> usual_;                                ///< By sender.
  std::int64_t last_step_ = 0;
  std::uint32_t since_step_ = 0;  ///< Packets.
  std::uint32_t in_vain_ = 0, pause_ = 0;
  std::vector<ClockStep> steps_;
};

}  // namespace uroce::explain
