// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/twins.h"

#include <algorithm>
#include <functional>

#include "proto/base/mix.h"

namespace uroce::explain {

std::uint64_t identity_of(const Packet& packet) {
  std::uint64_t hash = 0;
  const auto add = [&hash](std::uint64_t value) { hash = mix(hash ^ value) + value; };
  for (const proto::Gid* gid : {&packet.source, &packet.destination}) {
    add(load_be<8>(gid->raw.data()));
    add(load_be<8>(gid->raw.data() + 8));
  }
  add(std::uint64_t{packet.dest_qp} << 32 | packet.psn.value());
  add(static_cast<std::uint64_t>(packet.op->code) << 32 | std::uint64_t{packet.ip_id} << 8 | packet.syndrome);
  add(std::uint64_t{packet.msn} << 32 | packet.payload);
  if (packet.op->service == proto::Service::kUd) add(std::uint64_t{packet.source_qp} << 32 | packet.content);
  return hash;
}

namespace {

/// A NIC of ours says that the faults which it plays have dropped the packet in front of the wire.
bool was_never_sent(const Packet& packet) {
  return packet.direction == Direction::kSent && !packet.lost_when_sent().empty();
}

}  // namespace

bool Twins::can_be_twins(const Packet& packet, const Packet& other) const {
  const bool other_way = other.direction != packet.direction && other.direction != Direction::kUnknown &&
                         packet.direction != Direction::kUnknown;
  const bool same_way = other.direction == packet.direction && other.direction != Direction::kUnknown;
  // It took longer than doubles do, and the Identification tells that it was sent once.
  const bool late_double =
      doubles_ != nullptr && doubles_->any() && other.tap == packet.tap && same_way && packet.ip_id != 0;
  return late_double || (!same_way && (other.tap != packet.tap || other_way));
}

/// The shortest time to the other end and back, in which the clocks of both cancel out; 0 when it is not known.
std::int64_t Twins::round_trip(const Packet& packet) const {
  const auto there = paired_.find({packet.source.raw, packet.destination.raw});
  const auto back = paired_.find({packet.destination.raw, packet.source.raw});
  return there == paired_.end() || back == paired_.end() ? 0 : there->second.least_ns + back->second.least_ns;
}

Twins::Order::iterator Twins::find_twin(const Packet& packet, std::uint64_t identity) {
  std::vector<Order::iterator> candidates;
  const auto [begin, end] = alone_.equal_range(identity);
  for (auto at = begin; at != end; ++at) {
    if (can_be_twins(packet, at->second->second.packet)) candidates.push_back(at->second);
  }
  if (candidates.empty()) return held_.end();
  // What is damaged in front of its sender's capture arrives damaged; what is sent again in its place does not.
  const bool damaged = packet.icrc == Icrc::kWrong;
  const auto is_alike = [&](Order::iterator at) { return (at->second.packet.icrc == Icrc::kWrong) == damaged; };
  if (std::any_of(candidates.begin(), candidates.end(), is_alike)) std::erase_if(candidates, std::not_fn(is_alike));
  const auto order = [](Order::iterator at) { return std::pair{at->first, at->second.packet.place.frame}; };
  std::sort(candidates.begin(), candidates.end(), [&](auto a, auto b) { return order(a) < order(b); });
  // Only RC sends again. Where a clock is wrong, packets seem to arrive before they are sent.
  const bool before_sent =
      packet.direction == Direction::kSent && candidates.front()->second.packet.direction == Direction::kReceived;
  if (before_sent || packet.op->service != proto::Service::kRc) return candidates.front();
  // The newest one: those before it were lost, and it was sent again. Nobody asks for that within less than a round
  // trip: of copies, the first one arrives first.
  const std::int64_t soon = round_trip(packet);
  auto best = candidates.end() - 1;
  while (best != candidates.begin() && (*best)->first - (*(best - 1))->first < soon) --best;
  return *best;
}

void Twins::forget(Order::iterator at) {
  const auto [begin, end] = alone_.equal_range(at->second.identity);
  for (auto entry = begin; entry != end; ++entry) {
    if (entry->second != at) continue;
    alone_.erase(entry);
    return;
  }
}

Packet Twins::merge(const Packet& first, const Packet& second) {
  bool first_sent = first.time_ns <= second.time_ns;
  if (first.direction == second.direction) {
    // The places of the taps say more than clocks that are not quite right.
    if (const auto near = surely_nearer(first.source.raw, first.tap, second.tap)) first_sent = *near == first.tap;
  } else {
    if (first.direction == Direction::kSent || second.direction == Direction::kReceived) first_sent = true;
    if (first.direction == Direction::kReceived || second.direction == Direction::kSent) first_sent = false;
  }
  const Packet& sent = first_sent ? first : second;
  const Packet& arrived = first_sent ? second : first;
  // If nothing arrives from a host, what it gets tells where it is.
  ++homes_[sent.source.raw][sent.tap];
  ++homes_[sent.destination.raw][arrived.tap];
  if (homes_.size() > kMost) homes_.clear();
  Way& way = paired_
                 .try_emplace({sent.source.raw, sent.destination.raw},
                              Way{sent.time_ns, sent.time_ns, arrived.time_ns - sent.time_ns})
                 .first->second;
  way.first_ns = std::min(way.first_ns, sent.time_ns);
  way.last_ns = std::max(way.last_ns, sent.time_ns);
  way.least_ns = std::min(way.least_ns, arrived.time_ns - sent.time_ns);
  if (paired_.size() > kMost) paired_.clear();
  first_of_flow_.try_emplace({sent.source.raw, sent.destination.raw, sent.dest_qp},
                             FirstPair{sent.time_ns, arrived.time_ns});
  if (first_of_flow_.size() > kMost) first_of_flow_.clear();

  const Fate fate = arrived.icrc == Icrc::kWrong && sent.icrc != Icrc::kWrong ? Fate::kDamaged : Fate::kArrived;
  Packet merged = sent;
  merged.fate = fate;
  merged.other = arrived.place;
  merged.other_time_ns = arrived.time_ns;
  if (merged.comment.empty()) merged.comment = arrived.comment;
  merged.receiver_comment = arrived.receiver_comment;
  if (!merged.is_response()) return merged;
  // An answer matters when the requester gets it.
  std::swap(merged.place, merged.other);
  std::swap(merged.time_ns, merged.other_time_ns);
  return merged;
}

void Twins::add(Packet packet) {
  latest_ = std::max(latest_, packet.time_ns);
  const std::int64_t time = packet.time_ns;
  const auto first = first_seen_.try_emplace(packet.tap, time).first;
  first->second = std::min(first->second, time);
  const auto last = last_seen_.try_emplace(packet.tap, time).first;
  last->second = std::max(last->second, time);
  const bool doubled = doubles_ != nullptr && doubles_->has(packet);
  const auto at = raw_.emplace(time, std::move(packet));
  if (doubled) sightings_[identity_of(at->second)].push_back(at);
  while (!raw_.empty() && (raw_.size() > kMost || raw_.begin()->first < latest_ - kDisorder)) pair_oldest();
}

void Twins::pair_oldest() {
  if (doubles_ != nullptr) tell_directions(raw_.begin());
  Packet oldest = std::move(raw_.begin()->second);
  raw_.erase(raw_.begin());
  pair(std::move(oldest));
}

/// Says what this sighting of a packet that is there twice is, and the next ones of it.
void Twins::tell_directions(Raw::iterator at) {
  const auto found = sightings_.find(identity_of(at->second));
  if (found == sightings_.end()) return;
  std::vector<Raw::iterator>& row = found->second;
  std::erase(row, at);
  if (at->second.direction == Direction::kUnknown && doubles_->has(at->second)) {
    at->second.direction = Direction::kSent;
    std::stable_sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a->first < b->first; });
    std::vector<Raw::iterator> next;
    std::vector<std::int64_t> times{at->first};
    for (const Raw::iterator other : row) {
      if (other->second.direction != Direction::kUnknown) continue;
      next.push_back(other);
      times.push_back(other->first);
    }
    const Doubles::Verdict verdict = doubles_->judge(times, at->second.ip_id != 0);
    if (verdict.arrived) next[0]->second.direction = Direction::kReceived;
    if (verdict.copy_arrived) next[1]->second.direction = Direction::kReceived;
  }
  if (row.empty()) sightings_.erase(found);
}

/// In the order of time.
void Twins::pair(Packet packet) {
  const std::uint64_t identity = identity_of(packet);
  if (was_never_sent(packet)) {
    const std::int64_t time = packet.time_ns;
    held_.emplace(time, Held{std::move(packet), false, identity});
    return;
  }
  const auto twin = find_twin(packet, identity);
  if (twin == held_.end()) return hold_alone(std::move(packet), identity);
  forget(twin);
  Packet merged = merge(twin->second.packet, packet);
  held_.erase(twin);
  const std::int64_t time = merged.time_ns;
  held_.emplace(time, Held{std::move(merged), true, identity});
}

void Twins::hold_alone(Packet packet, std::uint64_t identity) {
  std::int64_t time = packet.time_ns;
  // The sender's capture began later: what arrived before the first packet that both have was sent before it.
  const auto first = first_of_flow_.find({packet.source.raw, packet.destination.raw, packet.dest_qp});
  if (first != first_of_flow_.end() && time < first->second.arrived_ns && !packet.is_response() &&
      !is_at_sender(packet)) {
    time = std::min(time, first->second.sent_ns - 1);
  }
  alone_.emplace(identity, held_.emplace(time, Held{std::move(packet), false, identity}));
}

/// Which of two taps is at a host: as most of its packets say, in which the errors of clocks cancel out.
std::optional<std::uint32_t> Twins::surely_nearer(const Host& host, std::uint32_t one, std::uint32_t other) const {
  const auto homes = homes_.find(host);
  if (!knows_ends_ || homes == homes_.end()) return std::nullopt;
  const auto count = [&](std::uint32_t tap) {
    const auto found = homes->second.find(tap);
    return found == homes->second.end() ? 0 : found->second;
  };
  if (count(one) > 4 * count(other) + 4) return one;
  if (count(other) > 4 * count(one) + 4) return other;
  return std::nullopt;
}

bool Twins::is_at_sender(const Packet& packet) const {
  if (packet.direction != Direction::kUnknown) return packet.direction == Direction::kSent;
  const auto homes = homes_.find(packet.source.raw);
  if (homes == homes_.end()) return false;
  const auto most = std::max_element(homes->second.begin(), homes->second.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->first == packet.tap;
}

/// Whether the other end's capture would have the packet, had it arrived: it has an earlier one of the same way. Where
/// it has none of that way, the clocks tell, which may be some microseconds apart.
bool Twins::other_end_had_begun(const Packet& packet) const {
  std::set<std::uint32_t> others;
  if (const auto homes = homes_.find(packet.destination.raw); homes != homes_.end()) {
    for (const auto& [tap, count] : homes->second) others.insert(tap);
  }
  others.erase(packet.tap);
  if (others.empty()) {
    for (const auto& [tap, first_ns] : first_seen_) others.insert(tap);
    others.erase(packet.tap);
  }
  const auto way = paired_.find({packet.source.raw, packet.destination.raw});
  const auto had_begun = [&](std::uint32_t tap) {
    if (on_time_.contains(tap)) return true;
    const auto first = first_seen_.find(tap);
    if (first == first_seen_.end()) return false;
    return (way == paired_.end() ? first->second : way->second.first_ns) < packet.time_ns;
  };
  return others.empty() || std::any_of(others.begin(), others.end(), had_begun);
}

/// Only one end has seen it.
void Twins::judge(Packet& packet) const {
  const bool other_end_seen = paired_.contains({packet.source.raw, packet.destination.raw}) ||
                              paired_.contains({packet.destination.raw, packet.source.raw});
  if (!silent_end_ && (!is_at_sender(packet) || !other_end_seen || !other_end_had_begun(packet))) return;
  const Doubles::Single single = doubles_ == nullptr ? Doubles::Single::kLost : doubles_->single(packet);
  if (single == Doubles::Single::kNothing) return;
  packet.fate = Fate::kLost;
  if (single == Doubles::Single::kProbablyLost) {
    packet.doubt = Doubt::kUnheard;
  } else if (doubles_ == nullptr || !doubles_->any()) {
    const auto later = [&](const auto& tap) { return tap.first != packet.tap && tap.second >= packet.time_ns + kWay; };
    const auto way = paired_.find({packet.source.raw, packet.destination.raw});
    const bool went_on = way != paired_.end() && way->second.last_ns > packet.time_ns;
    if (!went_on && std::none_of(last_seen_.begin(), last_seen_.end(), later)) packet.doubt = Doubt::kSilence;
  }
}

std::optional<Packet> Twins::take(bool at_end) {
  while (at_end && !raw_.empty()) pair_oldest();
  if (held_.empty()) return std::nullopt;
  const auto oldest = held_.begin();
  if (!at_end && held_.size() <= kMost && latest_ - oldest->first < kHold + kDisorder) return std::nullopt;
  if (!oldest->second.paired) {
    judge(oldest->second.packet);
    forget(oldest);
  }
  Packet packet = std::move(oldest->second.packet);
  held_.erase(oldest);
  return packet;
}

}  // namespace uroce::explain
