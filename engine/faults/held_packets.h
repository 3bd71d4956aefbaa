// SPDX-License-Identifier: Apache-2.0
// Packets that a fault keeps for longer than they should be on their way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/faults/streams.h"
#include "proto/base/clock.h"
#include "proto/path.h"

namespace uroce::engine::faults {

/// They go on in the order of their times; those with the same time, and those that have become due before theirs, in
/// the order in which they came.
class HeldPackets {
 public:
  struct Held {
    proto::Path path;
    std::vector<std::uint8_t> bytes;
    Instant since;
    StreamId stream = 0;
    std::uint32_t distance = 0;  ///< Packets of the stream still to pass; 0: only time counts.
    std::string comment{};       ///< For a capture ...
    std::string reason{};        ///< ... and what stands behind it.
  };
  /// More than the window to a peer lets its QPs have on the wire, in packets of 256 bytes. Strangers, UD, and many
  /// tiny messages or many peers at a distance can send more.
  static constexpr std::size_t kMost = 16'384;
  /// False, and the packet is gone: there are kMost already, and as any queue of a network this one has an end.
  [[nodiscard]] bool hold(Instant until, Held packet);
  /// A packet of `stream` passes those that are held back for a number of packets.
  void overtake(StreamId stream);
  /// The next one whose time has come, removed.
  std::optional<Held> take_due(Instant now);
  std::optional<Instant> next() const;
  /// Everything is due at once.
  void hurry();

 private:
  struct Turn {
    Instant until;        ///< By when it goes on.
    std::uint64_t order;  ///< Among those with the same time.
    std::uint32_t place;  ///< In places_.
    friend bool operator>(const Turn& a, const Turn& b) {
      return a.until != b.until ? a.until > b.until : a.order > b.order;
    }
  };

  std::vector<Turn> turns_;            ///< A heap; the next one in front.
  std::vector<Held> places_;           ///< As many as were ever held at once: no memory to ask for.
  std::vector<std::uint32_t> vacant_;  ///< Places of none.
  std::uint64_t orders_ = 0;
  std::size_t overtakable_ = 0;  ///< Those with a distance.
};

/// Memory of packets that were held, to be used again: fresh pages cost more than the copy that is put there.
class Spares {
 public:
  std::vector<std::uint8_t> copy(Bytes bytes);
  void give_back(std::vector<std::uint8_t> bytes);

 private:
  static constexpr std::size_t kMost = 4096;  ///< 16 MiB: 10 Gb/s for 13 ms.
  std::vector<std::vector<std::uint8_t>> spares_;
};

}  // namespace uroce::engine::faults
