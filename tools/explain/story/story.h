// SPDX-License-Identifier: Apache-2.0
// The story of a capture: packets in, what happened out. Passive, in one pass, with bounded memory.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tools/explain/story/connection.h"
#include "tools/explain/story/icrcs.h"
#include "tools/explain/story/manager.h"

namespace uroce::explain {

/// What a capture comes to, apart from its connections.
struct Totals {
  std::uint64_t packets = 0, icrc_right = 0, icrc_wrong = 0, icrc_unknown = 0;
  std::uint64_t untold = 0;  ///< Packets of connections beyond Story::kMostConnections.
  std::int64_t first_ns = 0, last_ns = 0;
};

class Story {
 public:
  /// Those that come later are counted only.
  static constexpr std::size_t kMostConnections = 10'000;

  explicit Story(const Names& names) : names_(&names), manager_(names) {}

  Told tell(const Packet& packet);
  void finish();

  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }
  /// Null for 0.
  const Connection* connection(std::uint32_t number) const;
  const Totals& totals() const { return totals_; }
  const Manager& manager() const { return manager_; }
  const Icrcs& icrcs() const { return icrcs_; }

 private:
  /// Packets of one direction carry the QPN of their destination only.
  struct Flow {
    proto::Gid source, destination;
    std::uint32_t dest_qp = 0;
    std::uint32_t source_qp = 0;  ///< UD.
    friend bool operator==(const Flow&, const Flow&) = default;
  };
  struct FlowHash {
    std::size_t operator()(const Flow& flow) const;
  };
  struct Seat {
    Connection* connection = nullptr;
    bool from_left = true;
  };

  static void deny_damage(Told& told);
  void tell_management(const Packet& packet, Told& told);
  void tell_datagram(const Packet& packet, Told& told);
  void tell_notification(const Packet& packet, Told& told);
  void tell_connected(const Packet& packet, Told& told);
  Seat find_seat(const Packet& packet);
  Seat new_connection(const Packet& packet);
  Seat pair_with_opposite(const Packet& packet);
  Connection* only_unheard(const Packet& packet) const;
  Connection& new_half(proto::Service service, const proto::Gid& left, const Endpoint& right);
  Seat newer_of_qp(const Packet& packet, const Seat& seat);
  Connection* newer_opposite(const Connection& old, const Packet& packet) const;
  Seat seat_at(Connection& requests, const Packet& packet, Pairing pairing);
  void join(Connection& into, Connection& half, Pairing pairing);
  std::vector<Connection*> askers(const Packet& response, const Connection* except) const;
  void unguess(const Packet& packet, const Seat& seat);
  bool free_awaiting(const Packet& packet, const Connection* own);
  bool split(Connection& pair);
  void remember_guess(Connection& pair);
  void pair_what_is_left();
  Seat renew_if_new(const Seat& seat, const Packet& packet, Told& told);
  Seat renew(const Seat& seat, const Packet& packet);
  void seat_agreed(const Agreed& agreed);

  static constexpr std::size_t kMostSearched = 1000;  ///< So that a search stays short.

  const Names* names_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::unordered_map<Flow, Seat, FlowHash> flows_;
  std::vector<Connection*> one_sided_;  ///< Connections of which one QPN is not known.
  std::vector<Connection*> guessed_;    ///< Pairs that an answer may still take apart.
  Manager manager_;
  Icrcs icrcs_;
  Totals totals_;
};

}  // namespace uroce::explain
