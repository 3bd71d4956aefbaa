// SPDX-License-Identifier: Apache-2.0
// Two QPs that talk to each other, as far as the capture tells who they are; and flows of datagrams.
#pragma once

#include "tools/explain/story/habits.h"
#include "tools/explain/story/stream.h"

namespace uroce::explain {

struct Endpoint {
  proto::Gid gid;
  std::optional<std::uint32_t> qpn;  ///< Nothing: no packet has told it.
};

/// How it is known that two QPs belong together.
enum class Pairing : std::uint8_t {
  kOneSided,  ///< It is not.
  kManager,   ///< REQ and REP.
  kAnswers,   ///< Answers fit requests.
  kGuess,     ///< There is only one candidate.
};
std::string_view to_string(Pairing pairing);

/// What REQ and REP have agreed on.
struct Agreement {
  Place req, rep;
  std::uint64_t service_id = 0;
  std::uint8_t retry_count = 0, rnr_retry_count = 0, ack_timeout = 0;
};

/// Datagrams of a UD QP to another one.
struct Datagrams {
  std::uint64_t count = 0, bytes = 0, lost = 0;
};

/// The UDP port that a QP sends from. Most NICs use one for all that a QP sends to another QP.
class SenderPort {
 public:
  void add(std::uint16_t port) {
    varies_ = varies_ || is_another(port);
    port_ = port;
  }
  /// Whether it is not the one from which everything came so far.
  bool is_another(std::uint16_t port) const { return port_ && !varies_ && port != *port_; }

 private:
  std::optional<std::uint16_t> port_;
  bool varies_ = false;
};

struct Connection {
  Connection(std::uint32_t number_, proto::Service service_, const Names& names)
      : number(number_),
        service(service_),
        to_right(names, service_ == proto::Service::kRc),
        to_left(names, service_ == proto::Service::kRc) {}

  std::uint32_t number;
  proto::Service service;
  Endpoint left, right;  ///< The left one was seen first.
  Pairing pairing = Pairing::kOneSided;
  std::optional<Agreement> agreement;
  Stream to_right, to_left;  ///< The requests of the left endpoint, and of the right one.
  Datagrams datagrams;       ///< UD.
  std::uint64_t packets = 0, cnps = 0, marked = 0, icrc_wrong = 0, icrc_right = 0;
  std::int64_t first_ns = 0, last_ns = 0;
  std::optional<std::uint32_t> part_of;  ///< Both were one.

  Habits left_habits, right_habits;
  SenderPort left_port, right_port;

  Stream& stream(bool from_left) { return from_left ? to_right : to_left; }
  /// A QP that is connected to itself: its requests are those of the left endpoint, its answers those of the right one.
  bool is_of_one_qp() const { return left.gid == right.gid && left.qpn == right.qpn; }
  SenderPort& port(bool of_left) { return of_left ? left_port : right_port; }
  Habits& habits(bool of_left) { return of_left ? left_habits : right_habits; }
};

}  // namespace uroce::explain
