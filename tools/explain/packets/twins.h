// SPDX-License-Identifier: Apache-2.0
// Two taps, one packet: finds the two sightings of a packet at both ends, and tells what became of it in between. Holds
// packets back for a second of the capture, and not more than kMost of them.
#pragma once

#include <map>
#include <set>
#include <unordered_map>

#include "tools/explain/packets/doubles.h"
#include "tools/explain/packets/packet.h"

namespace uroce::explain {

class Twins {
 public:
  /// In the order of the captures.
  void add(Packet packet);
  /// The next packet in the order in which the requesters' ends saw them; nothing: not yet, or at the end no more.
  std::optional<Packet> take(bool at_end);
  /// Takes over which tap is at which end, from packets that were tried before.
  void learn_ends(Twins& other) {
    while (other.take(true)) {
    }
    homes_ = std::move(other.homes_);
    paired_ = std::move(other.paired_);
  }
  /// Packets that one capture has twice; must outlive this.
  void set_doubles(const Doubles& doubles) { doubles_ = &doubles; }
  /// For a file that saw nothing at all.
  void set_silent_end(bool silent) { silent_end_ = silent; }

 private:
  static constexpr std::int64_t kDisorder = 250'000'000, kHold = 1'000'000'000;
  static constexpr std::size_t kMost = 200'000;
  struct Held {
    Packet packet;
    bool paired = false;
    std::uint64_t identity = 0;
  };
  using Order = std::multimap<std::int64_t, Held>;

  using Raw = std::multimap<std::int64_t, Packet>;

  void pair_oldest();
  void tell_directions(Raw::iterator at);
  void pair(Packet packet);
  Order::iterator find_twin(const Packet& packet, std::uint64_t identity);
  void forget(Order::iterator at);
  Packet merge(const Packet& first, const Packet& second);
  void judge(Packet& packet) const;

  Raw raw_;  ///< Not compared yet: files of several writers are not in order.
  std::unordered_map<std::uint64_t, std::vector<Raw::iterator>> sightings_;  ///< Of those in raw_, the doubles.
  const Doubles* doubles_ = nullptr;
  Order held_;
  std::unordered_multimap<std::uint64_t, Order::iterator> alone_;
  std::map<std::array<std::uint8_t, 16>, std::map<std::uint32_t, std::uint64_t>> homes_;    ///< Taps near an address.
  std::set<std::pair<std::array<std::uint8_t, 16>, std::array<std::uint8_t, 16>>> paired_;  ///< Both ends are seen.
  std::int64_t latest_ = 0;
  bool silent_end_ = false;
};

/// The same for both sightings of a packet, and for the copies of it.
std::uint64_t identity_of(const Packet& packet);

}  // namespace uroce::explain
