// SPDX-License-Identifier: Apache-2.0
// What to inject, as text (docs/faults.md): "seed=7,loss=1%,dup=0.1%,drop=psn:0x101@qp:0x11#1,port=down@2s..3s".
#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/result.h"

namespace uroce::engine::faults {

enum class Kind : std::uint8_t { kDrop, kDuplicate, kReorder, kDelay, kCorrupt, kEcn, kCount };
enum class Direction : std::uint8_t { kSent, kReceived };

/// The n-th to m-th of something, counted from 1.
struct Which {
  static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t first = 1, last = kNoEnd;
  bool includes(std::uint64_t n) const { return n >= first && n <= last; }
};

/// A QP, by its number or by its place among the QPs of the NIC as they were created: "0x11", "1st".
struct QpName {
  bool by_order = false;
  std::uint32_t value = 0;  ///< The QPN, or the place from 1 on.
};

/// PSNs `first` to `last`, which may wrap around; or those that are so far from the QP's first PSN: "0x101", "+0..15".
struct PsnRange {
  bool from_first = false;
  std::uint32_t first = 0, last = 0;  ///< 24 bits.
};

/// One kind of fault, and the packets that it happens to: those that meet all conditions.
struct PacketFault {
  Kind kind = Kind::kDrop;
  Direction direction = Direction::kSent;
  double probability = 1;  ///< In [0, 1].
  std::optional<PsnRange> psn;
  std::optional<QpName> qp;                    ///< By number: the packet's destination. By order: the QP here.
  std::uint32_t size_min = 0, size_max = ~0u;  ///< Payload bytes.
  enum class Answer : std::uint8_t { kAny, kAck, kNak, kRnr };
  std::bitset<256> opcodes = std::bitset<256>().set();
  Answer answer = Answer::kAny;  ///< For acknowledgements: which.
  std::bitset<16> messages;      ///< For connection management, counted from REQ; none: any packet.
  Which which;                   ///< Counts the packets that meet the other conditions.
  Duration delay_min{}, delay_max{};
  std::uint32_t distance = 0;  ///< kReorder: held back until so many packets have overtaken it.
  std::string text{};          ///< The item as written: "loss=1%".
};

/// From `from` to `to` after the NIC's start; again after every `period`, if that is not 0.
struct Interval {
  Duration from{}, to{}, period{};
  std::string text{};  ///< The item as written.
  bool contains(Duration since_start) const;
  /// The first begin or end after `since_start`.
  std::optional<Duration> next_edge(Duration since_start) const;
};

struct QpFault {
  QpName qp;
  Duration at{};
  std::string text{};  ///< The item as written.
};
/// The n-th call of a verb fails with an errno.
struct CallFault {
  std::string verb;
  Which which;
  int error = 0;
};
/// The n-th send WR of a QP completes with a status (the value of ibv_wc_status).
struct WrFault {
  QpName qp;
  Which which;
  int status = 0;
};

/// Something goes wrong with a connection of RDMA CM (docs/faults.md). The first four are events that come in place of
/// what a call of the program should lead to; the last two happen as if the program had asked for them.
struct CmFault {
  enum class Kind : std::uint8_t { kAddressError, kRouteError, kUnreachable, kRejected, kReject, kDisconnect };
  Kind kind = Kind::kReject;
  int value = 0;           ///< An errno value; kRejected, kReject: IBTA's reason.
  Duration after{};        ///< kDisconnect: how long the connection has lived.
  double probability = 1;  ///< In [0, 1].
  Which which;
  std::string text{};  ///< The item as written.
};

struct FaultSpec {
  std::uint64_t seed = 1;
  std::vector<PacketFault> packets;
  std::vector<Interval> blackouts;  ///< Nothing passes, in either direction.
  double rnr = 0;                   ///< Requests that consume a receive and are refused with RNR NAK all the same.
  std::vector<Interval> port_down;
  std::vector<QpFault> qp_fatal, cq_overflow;  ///< cq_overflow: of the QP's send CQ.
  std::optional<Duration> device_fatal;
  std::vector<CallFault> calls;
  std::vector<WrFault> wrs;
  std::vector<CmFault> connections;

  /// Whether anything concerns packets or time (not only verbs).
  bool touches_wire() const { return !packets.empty() || !blackouts.empty() || !port_down.empty(); }
};

/// The error is a sentence: which item is wrong, and what it could be.
Result<FaultSpec, std::string> parse_faults(std::string_view text);

const char* to_string(Kind kind);

}  // namespace uroce::engine::faults
