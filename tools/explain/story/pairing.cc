// SPDX-License-Identifier: Apache-2.0
// Which connection a packet belongs to. Its headers name the QP that it goes to, and not the one that it comes from.
#include <algorithm>
#include <functional>
#include <iterator>

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
  if (packet.is_response() && packet.icrc != Icrc::kWrong) unguess(packet, found->second);
  const Seat seat = flows_.at({packet.source, packet.destination, packet.dest_qp, 0});
  Connection& half = *seat.connection;
  if (half.is_of_one_qp()) return {&half, !packet.is_response()};
  const bool sender_known = (seat.from_left ? half.left : half.right).qpn.has_value();
  if (!packet.is_response() || packet.icrc == Icrc::kWrong) return seat;
  if (sender_known) return newer_of_qp(packet, seat);
  // A response tells whose requests it answers: those of another half.
  if (half.stream(!seat.from_left).awaits(packet)) return seat;
  // Or its own: a QP may be connected to itself.
  const bool may_be_itself = half.left.gid == half.right.gid && half.to_right.suits(packet);
  const auto others = askers(packet, &half);
  if (!others.empty() && (others.front()->to_right.suits(packet) || !may_be_itself)) {
    Connection& first = *others.front();
    Connection& into = half.number < first.number ? half : first;
    const Pairing pairing = others.size() == 1 && !may_be_itself ? Pairing::kAnswers : Pairing::kGuess;
    join(into, &into == &half ? first : half, pairing);
    if (pairing == Pairing::kGuess) remember_guess(into);
    return flows_.at({packet.source, packet.destination, packet.dest_qp, 0});
  }
  const bool itself = half.left.gid == half.right.gid && half.to_right.awaits(packet);
  if (!itself) return seat;
  half.left.qpn = half.right.qpn;
  half.pairing = Pairing::kAnswers;
  std::erase(one_sided_, &half);
  return {&half, false};
}

/// Those half-known connections, other than `except`, whose requests a response may answer: by its PSN, and where that
/// fits several, by what they asked for.
std::vector<Connection*> Story::askers(const Packet& response, const Connection* except) const {
  std::vector<Connection*> found;
  std::ranges::copy_if(one_sided_, std::back_inserter(found), [&](const Connection* other) {
    return other != except && is_opposite(*other, response) && other->to_right.awaits(response);
  });
  const auto suits = [&](const Connection* other) { return other->to_right.suits(response); };
  if (std::ranges::any_of(found, suits)) std::erase_if(found, std::not_fn(suits));
  return found;
}

/// A response that its own guessed connection does not await, and the requests of another one do: the guess was wrong.
void Story::unguess(const Packet& packet, const Seat& seat) {
  Connection& own = *seat.connection;
  const bool guessed = std::ranges::find(guessed_, &own) != guessed_.end();
  const bool sender_known = (seat.from_left ? own.left : own.right).qpn.has_value();
  const Stream& asked = own.stream(!seat.from_left);
  if ((sender_known && (!guessed || asked.was_answered())) || asked.suits(packet)) return;
  const auto waits = [&](const Connection* other) {
    return other != &own && is_opposite(*other, packet) && other->to_right.suits(packet);
  };
  if (std::ranges::none_of(one_sided_, waits) && !free_awaiting(packet, &own)) return;
  if (guessed) split(own);
}

/// Takes a guessed pair apart, other than `own`, of which one end awaits this response to somebody else. False: none.
bool Story::free_awaiting(const Packet& packet, const Connection* own) {
  const auto waits = [&](const Endpoint& from, const Endpoint& to, const Stream& requests) {
    return from.gid == packet.destination && to.gid == packet.source && !requests.was_answered() &&
           requests.suits(packet);
  };
  for (Connection* const other : guessed_) {
    if (other == own || other->service != packet.op->service) continue;
    if (!waits(other->left, other->right, other->to_right) && !waits(other->right, other->left, other->to_left)) {
      continue;
    }
    return split(*other);
  }
  return false;
}

/// The reverse of join(): what was told of the other end stays where it was told.
bool Story::split(Connection& pair) {
  if (connections_.size() >= kMostConnections) return false;
  std::erase(guessed_, &pair);
  Connection& fresh = new_half(pair.service, pair.right.gid, {pair.left.gid, pair.left.qpn});
  fresh.to_right = std::exchange(pair.to_left, Stream(*names_, pair.service == proto::Service::kRc));
  pair.left.qpn.reset();
  pair.pairing = Pairing::kOneSided;
  one_sided_.push_back(&pair);
  return true;
}

/// The first packet of a flow: does it go the other way of a connection of which only one side is known?
Story::Seat Story::pair_with_opposite(const Packet& packet) {
  // On one address every request goes the other way of every other one. Answers will tell, or the end.
  if (!packet.is_response() && packet.source == packet.destination) return new_connection(packet);
  // A response answers requests; a request may belong to anybody.
  std::vector<Connection*> candidates = packet.is_response() ? askers(packet, nullptr) : one_sided_;
  std::erase_if(candidates, [&](const Connection* other) {
    return !is_opposite(*other, packet) || other->left.qpn || (!packet.is_response() && other->to_right.was_answered());
  });
  if (candidates.empty() && packet.is_response() && free_awaiting(packet, nullptr)) return pair_with_opposite(packet);
  Connection* const unheard = candidates.empty() ? only_unheard(packet) : nullptr;
  if (unheard != nullptr) candidates.push_back(unheard);
  if (candidates.empty() || (candidates.size() > 1 && !packet.is_response())) return new_connection(packet);
  Connection& best = *candidates.back();
  if (best.left.gid == best.right.gid && best.right.qpn == packet.dest_qp) return new_connection(packet);
  const bool fits = candidates.size() == 1 && packet.is_response() && unheard == nullptr;
  return seat_at(best, packet, fits ? Pairing::kAnswers : Pairing::kGuess);
}

/// The packet goes the other way of these requests: it tells their sender's QP.
Story::Seat Story::seat_at(Connection& requests, const Packet& packet, Pairing pairing) {
  requests.left.qpn = packet.dest_qp;
  requests.pairing = pairing;
  std::erase(one_sided_, &requests);
  if (pairing == Pairing::kGuess) remember_guess(requests);
  return flows_[{packet.source, packet.destination, packet.dest_qp, 0}] = {&requests, false};
}

/// Some NICs have one QPN for all connections, one after another. Then an answer to it may be one to the requests of a
/// newer connection, with another QP of the peer.
Story::Seat Story::newer_of_qp(const Packet& packet, const Seat& seat) {
  Connection& own = *seat.connection;
  const Stream& asked = own.stream(!seat.from_left);
  const Stream::Fit fit = asked.fit(packet);
  const bool other_port = own.port(seat.from_left).is_another(packet.source_port);
  if (fit == Stream::Fit::kAwaited && !other_port) return seat;
  Connection* newest = nullptr;
  std::size_t candidates = 0;
  for (Connection* const other : one_sided_) {
    const bool may_be = other != &own && is_opposite(*other, packet) && !other->left.qpn;
    if (!may_be || other->to_right.fit(packet) != Stream::Fit::kAwaited) continue;
    newest = other;
    ++candidates;
  }
  if (newest == nullptr) return seat;
  const bool fits_both = fit != Stream::Fit::kNone && !other_port;
  if (fits_both && (newest->first_ns < own.last_ns || asked.explains_again(packet))) return seat;
  return seat_at(*newest, packet, candidates == 1 && !fits_both ? Pairing::kAnswers : Pairing::kGuess);
}

/// The only connection whose requests have gone the other way since `old` was heard last, without an answer.
Connection* Story::newer_opposite(const Connection& old, const Packet& packet) const {
  Connection* only = nullptr;
  for (Connection* const other : one_sided_) {
    const bool may_be = other != &old && is_opposite(*other, packet) && !other->left.qpn;
    if (!may_be || other->to_right.was_answered() || other->first_ns < old.last_ns) continue;
    if (only != nullptr) return nullptr;
    only = other;
  }
  return only;
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
  return {&new_half(packet.op->service, packet.source, {packet.destination, packet.dest_qp}), true};
}

/// A connection of which only the right end is known.
Connection& Story::new_half(proto::Service service, const proto::Gid& left, const Endpoint& right) {
  connections_.push_back(
      std::make_unique<Connection>(static_cast<std::uint32_t>(connections_.size() + 1), service, *names_));
  Connection& fresh = *connections_.back();
  fresh.left = {left, std::nullopt};
  fresh.right = right;
  if (one_sided_.size() >= kMostSearched) one_sided_.erase(one_sided_.begin());
  one_sided_.push_back(&fresh);
  flows_[{left, right.gid, *right.qpn, 0}] = {&fresh, true};
  return fresh;
}

void Story::remember_guess(Connection& pair) {
  if (guessed_.size() >= kMostSearched) guessed_.erase(guessed_.begin());
  guessed_.push_back(&pair);
}

/// Two halves turn out to be one connection, the first one. What was told about the second one stays there.
void Story::join(Connection& into, Connection& half, Pairing pairing) {
  into.left.qpn = half.right.qpn;
  into.pairing = pairing;
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

/// On one address, where nothing was answered (UC has no answers): two halves that are left are probably a pair.
void Story::pair_what_is_left() {
  const std::vector<Connection*> left = one_sided_;
  for (Connection* const first : left) {
    const auto is_like = [&](const Connection* other) {
      return other->left.gid == first->left.gid && other->right.gid == first->left.gid &&
             other->service == first->service && other->to_right.started() && !other->to_right.was_answered();
    };
    if (!is_like(first) || std::ranges::count_if(left, is_like) != 2) continue;
    Connection* const second =
        *std::ranges::find_if(left, [&](const Connection* o) { return o != first && is_like(o); });
    if (second->number > first->number) join(*first, *second, Pairing::kGuess);
  }
}

/// A QP begins anew, with the QP that it had before or with another one: of RC, answers will tell.
Story::Seat Story::renew(const Seat& seat, const Packet& packet) {
  if (connections_.size() >= kMostConnections) return seat;
  const Connection& old = *seat.connection;
  const bool reliable = old.service == proto::Service::kRc;
  Connection* const newer = reliable && old.left.gid != old.right.gid ? newer_opposite(old, packet) : nullptr;
  if (newer != nullptr) return seat_at(*newer, packet, Pairing::kGuess);
  connections_.push_back(
      std::make_unique<Connection>(static_cast<std::uint32_t>(connections_.size() + 1), old.service, *names_));
  Connection& fresh = *connections_.back();
  fresh.left = seat.from_left ? old.left : old.right;
  if (reliable) fresh.left.qpn.reset();
  fresh.right = seat.from_left ? old.right : old.left;
  fresh.pairing = fresh.left.qpn && fresh.right.qpn ? Pairing::kGuess : Pairing::kOneSided;
  const Seat now{&fresh, true};
  flows_[{packet.source, packet.destination, packet.dest_qp, 0}] = now;
  if (fresh.left.qpn) {
    flows_[{packet.destination, packet.source, *fresh.left.qpn, 0}] = {&fresh, false};
  } else {
    if (one_sided_.size() >= kMostSearched) one_sided_.erase(one_sided_.begin());
    one_sided_.push_back(&fresh);
  }
  return now;
}

}  // namespace uroce::explain
