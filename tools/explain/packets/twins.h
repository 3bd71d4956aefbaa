// SPDX-License-Identifier: Apache-2.0
// Two taps, one packet: finds the two sightings of a packet at both ends, and tells what became of it in between. Holds
// packets back for a second of the capture, and not more than kMost of them.
#pragma once

#include <map>
#include <set>
#include <tuple>
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
    knows_ends_ = true;
    homes_ = std::move(other.homes_);
    paired_ = std::move(other.paired_);
    first_of_flow_ = std::move(other.first_of_flow_);
    first_seen_ = std::move(other.first_seen_);
    last_seen_ = std::move(other.last_seen_);
  }
  /// Packets that one capture has twice; must outlive this.
  void set_doubles(const Doubles& doubles) { doubles_ = &doubles; }
  /// Taps that were there before their first packet; of the others, nobody knows.
  void set_on_time(std::set<std::uint32_t> taps) { on_time_ = std::move(taps); }
  /// For a file that saw nothing at all.
  void set_silent_end(bool silent) { silent_end_ = silent; }

 private:
  static constexpr std::int64_t kDisorder = 250'000'000, kHold = 1'000'000'000;
  static constexpr std::size_t kMost = 200'000;
  static constexpr std::int64_t kWay = 10'000'000;  ///< No packet needs longer, but on purpose.
  struct Held {
    Packet packet;
    bool paired = false;
    std::uint64_t identity = 0;
  };
  using Order = std::multimap<std::int64_t, Held>;
  using Host = std::array<std::uint8_t, 16>;
  /// Between two hosts, both ends of which are seen.
  struct Way {
    std::int64_t first_ns = 0, last_ns = 0;  ///< When the first and the newest packet were sent that both have.
    std::int64_t least_ns = 0;               ///< The shortest time that one needed, by the clocks of both ends.
  };
  /// The first packet of a flow that both ends have.
  struct FirstPair {
    std::int64_t sent_ns = 0, arrived_ns = 0;
  };

  using Raw = std::multimap<std::int64_t, Packet>;

  void pair_oldest();
  void tell_directions(Raw::iterator at);
  void pair(Packet packet);
  Order::iterator find_twin(const Packet& packet, std::uint64_t identity);
  bool can_be_twins(const Packet& packet, const Packet& other) const;
  std::int64_t round_trip(const Packet& packet) const;
  void forget(Order::iterator at);
  Packet merge(const Packet& first, const Packet& second);
  void hold_alone(Packet packet, std::uint64_t identity);
  std::optional<std::uint32_t> surely_nearer(const Host& host, std::uint32_t one, std::uint32_t other) const;
  bool is_at_sender(const Packet& packet) const;
  bool other_end_had_begun(const Packet& packet) const;
  void judge(Packet& packet) const;

  Raw raw_;  ///< Not compared yet: files of several writers are not in order.
  std::unordered_map<std::uint64_t, std::vector<Raw::iterator>> sightings_;  ///< Of those in raw_, the doubles.
  const Doubles* doubles_ = nullptr;
  Order held_;
  std::unordered_multimap<std::uint64_t, Order::iterator> alone_;
  std::map<Host, std::map<std::uint32_t, std::uint64_t>> homes_;              ///< Taps near an address.
  std::map<std::pair<Host, Host>, Way> paired_;                               ///< From, to.
  std::map<std::tuple<Host, Host, std::uint32_t>, FirstPair> first_of_flow_;  ///< From, to, the QP there.
  std::map<std::uint32_t, std::int64_t> first_seen_;                          ///< By tap.
  std::set<std::uint32_t> on_time_;
  std::map<std::uint32_t, std::int64_t> last_seen_;  ///< By tap, read ahead as far as it went.
  std::int64_t latest_ = 0;
  bool silent_end_ = false;
  bool knows_ends_ = false;  ///< By learn_ends().
};

/// The same for both sightings of a packet, and for the copies of it.
std::uint64_t identity_of(const Packet& packet);

}  // namespace uroce::explain
