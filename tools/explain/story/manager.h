// SPDX-License-Identifier: Apache-2.0
// The connection manager's messages: REQ, REP, RTU and what ends a connection.
#pragma once

#include <map>
#include <optional>

#include "tools/explain/story/connection.h"

namespace uroce::explain {

/// What REQ and REP together tell.
struct Agreed {
  Endpoint active, passive;
  proto::Psn active_psn, passive_psn;
  bool reliable = true;
  std::uint32_t mtu = 0;
  Agreement agreement;
};

class Manager {
 public:
  explicit Manager(const Names& names) : names_(&names) {}

  /// Tells about the message. Returns what is agreed, at the REP.
  std::optional<Agreed> tell(const Packet& packet, Told& told);

  struct Counts {
    std::uint64_t messages = 0, again = 0, requests = 0, replies = 0, rejects = 0, disconnects = 0;
    std::uint64_t more_incidents = 0;  ///< Than are listed.
    std::uint64_t lost = 0;            ///< Between the captures of both ends, or to injected faults ...
    std::uint64_t lost_to_faults = 0;  ///< ... that a comment names.
  };
  const Counts& counts() const { return counts_; }
  const std::vector<Incident>& incidents() const { return incidents_; }

 private:
  static constexpr std::size_t kMost = 10'000;
  struct Key {
    std::array<std::uint8_t, 16> source;
    std::uint16_t attribute;
    std::uint32_t id, other_id;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Sent {
    Place place;
    std::int64_t time_ns = 0;
    std::uint32_t times = 1;
    CmMessage message;
    proto::Psn psn;  ///< The packet's ...
    std::uint16_t ip_id = 0;
    std::uint32_t content = 0;
    proto::Gid source;
  };
  static bool is_copy(const Packet& packet, const Sent& before);
  const Sent* request_of(const proto::Gid& source, std::uint32_t local_id) const;
  std::optional<Agreed> agree(const Packet& packet, Told& told);
  void list(const Packet& packet, const Note& note);
  void words(const Packet& packet, Told& told);

  const Names* names_;
  std::map<Key, Sent> sent_;
  Counts counts_;
  std::vector<Incident> incidents_;
};

/// "REQ", "REP", ...
std::string_view name_of(proto::cm::Attribute attribute);

}  // namespace uroce::explain
