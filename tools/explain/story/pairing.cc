// SPDX-License-Identifier: Apache-2.0
// Which connection a packet belongs to. Its headers name the QP that it goes to, and not the one that it comes from.
#include <algorithm>

#include "tools/explain/story/story.h"

namespace uroce::explain {
namespace {

/// Whether the requests of this connection go where the packet comes from.
bool is_opposite(const Connection& other, const Packet& packet) {
  return other.left.gid == packet.destination && other.right.gid == packet.source &&
         other.service == packet.op->service;
}

}  // namespace

Story::Seat Story::find_seat(const Packet& packet) {
  const auto found = flows_.find({packet.source, packet.destination, packet.dest_qp, 0});
  if (found == flows_.end()) return packet.icrc == Icrc::kWrong ? Seat{} : pair_with_opposite(packet);
  const Seat seat = found->second;
  Connection& half = *seat.connection;
  if (half.is_of_one_qp()) return {&half, !packet.is_response()};
  const bool sender_known = (seat.from_left ? half.left : half.right).qpn.has_value();
  if (sender_known || !packet.is_response() || packet.icrc == Icrc::kWrong) return seat;
  // A response tells whose requests it answers: those of another half.
  if (half.stream(!seat.from_left).awaits(packet)) return seat;
  for (Connection* const other : one_sided_) {
    if (other == &half || !is_opposite(*other, packet) || !other->to_right.awaits(packet)) continue;
    join(*other, half);
    return flows_.at({packet.source, packet.destination, packet.dest_qp, 0});
  }
  const bool itself = half.left.gid == half.right.gid && half.to_right.awaits(packet);
  if (!itself) return seat;
  half.left.qpn = half.right.qpn;
  half.pairing = Pairing::kAnswers;
  std::erase(one_sided_, &half);
  return {&half, false};
}

/// The first packet of a flow: does it go the other way of a connection of which only one side is known?
Story::Seat Story::pair_with_opposite(const Packet& packet) {
  Connection* best = nullptr;
  std::size_t candidates = 0;
  for (Connection* const other : one_sided_) {
    // A response answers requests; a request may belong to anybody.
    if (!is_opposite(*other, packet) || other->left.qpn || (packet.is_response() && !other->to_right.awaits(packet)))
      continue;
    if (!packet.is_response() && other->to_right.was_answered()) continue;
    best = other;
    ++candidates;
  }
  if (candidates == 0 && (best = only_unheard(packet)) != nullptr) candidates = 1;
  const bool itself = best != nullptr && best->left.gid == best->right.gid && best->right.qpn == packet.dest_qp;
  if (candidates == 0 || itself || (candidates > 1 && !packet.is_response())) return new_connection(packet);
  best->left.qpn = packet.dest_qp;
  const bool fits = candidates == 1 && packet.is_response() && best->to_right.awaits(packet);
  best->pairing = fits ? Pairing::kAnswers : Pairing::kGuess;
  std::erase(one_sided_, best);
  const Seat seat{best, false};
  flows_[{packet.source, packet.destination, packet.dest_qp, 0}] = seat;
  return seat;
}

/// An ACK or a NAK that fits no requests: where those of only one connection have just gone the other way, and nothing
/// has answered them, both ends began with other PSNs.
Connection* Story::only_unheard(const Packet& packet) const {
  if (packet.op->kind != proto::Kind::kAcknowledge) return nullptr;
  Connection* only = nullptr;
  for (Connection* const other : one_sided_) {
    if (!is_opposite(*other, packet) || other->left.qpn || !other->to_right.is_unheard(packet.time_ns)) continue;
    if (only != nullptr) return nullptr;
    only = other;
  }
  return only;
}

Story::Seat Story::new_connection(const Packet& packet) {
  if (connections_.size() >= kMostConnections) return {};
  connections_.push_back(
      std::make_unique<Connection>(static_cast<std::uint32_t>(connections_.size() + 1), packet.op->service, *names_));
  Connection& fresh = *connections_.back();
  fresh.left = {packet.source, std::nullopt};
  fresh.right = {packet.destination, packet.dest_qp};
  if (one_sided_.size() >= 1000) one_sided_.erase(one_sided_.begin());  // So that a search stays short.
  one_sided_.push_back(&fresh);
  const Seat seat{&fresh, true};
  flows_[{packet.source, packet.destination, packet.dest_qp, 0}] = seat;
  return seat;
}

/// Two halves turn out to be one connection. What was told about the second one stays there.
void Story::join(Connection& into, Connection& half) {
  into.left.qpn = half.right.qpn;
  into.pairing = Pairing::kAnswers;
  into.to_left = std::move(half.to_right);
  into.packets += half.packets;
  into.icrc_right += half.icrc_right;
  into.icrc_wrong += half.icrc_wrong;
  into.cnps += half.cnps;
  into.marked += half.marked;
  half.part_of = into.number;
  flows_[{half.left.gid, half.right.gid, *half.right.qpn, 0}] = {&into, false};
  std::erase(one_sided_, &into);
  std::erase(one_sided_, &half);
}

Story::Seat Story::renew(const Seat& seat, const Packet& packet) {
  if (connections_.size() >= kMostConnections) return seat;
  const Connection& old = *seat.connection;
  connections_.push_back(
      std::make_unique<Connection>(static_cast<std::uint32_t>(connections_.size() + 1), old.service, *names_));
  Connection& fresh = *connections_.back();
  fresh.left = seat.from_left ? old.left : old.right;
  fresh.right = seat.from_left ? old.right : old.left;
  fresh.pairing = fresh.left.qpn && fresh.right.qpn ? Pairing::kGuess : Pairing::kOneSided;
  const Seat now{&fresh, true};
  flows_[{packet.source, packet.destination, packet.dest_qp, 0}] = now;
  if (fresh.left.qpn) {
    flows_[{packet.destination, packet.source, *fresh.left.qpn, 0}] = {&fresh, false};
  } else {
    one_sided_.push_back(&fresh);
  }
  return now;
}

}  // namespace uroce::explain
