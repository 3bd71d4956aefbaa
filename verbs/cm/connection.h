// SPDX-License-Identifier: Apache-2.0
// One connection, request or SIDR exchange: what is known of it, whether its program still has it or not.
#pragma once

#include "proto/cm/message.h"
#include "verbs/cm/values.h"

namespace uroce::cm {

namespace wire = proto::cm;
using Mad = std::array<std::uint8_t, wire::kMadSize>;

struct Connection {
  Id id = 0;
  ConnectionInfo info{};  ///< info.state is the state.
  ListenerId listener = 0;
  bool fetched = false;           ///< Passive: no longer in the backlog.
  bool half_open = false;         ///< Passive: counts against the limits.
  bool told_end = false;          ///< kDisconnected has been raised.
  bool has_answered_end = false;  ///< With a DREP.
  bool orphan = false;            ///< Its program has destroyed it.
  std::uint32_t remote_id = 0;
  std::uint64_t remote_guid = 0;
  std::uint64_t request_tid = 0;     ///< Answers to the REQ bear it.
  std::uint64_t disconnect_tid = 0;  ///< From the peer's DREQ.
  std::uint8_t remote_retries = 15;  ///< Passive: how often the REP may be sent again.

  // What is sent again until it is answered.
  Mad message{};
  std::uint8_t sends_left = 0;
  Duration response_time{};  ///< How long an answer may take.
  Duration wait{};           ///< The same, or as long as an MRA has asked for.
  bool has_mra = false;      ///< One has come for `message`.
  std::optional<Instant> deadline{};

  Gid peer() const { return info.remote.address; }
};

}  // namespace uroce::cm
