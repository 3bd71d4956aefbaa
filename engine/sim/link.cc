// SPDX-License-Identifier: Apache-2.0
#include "engine/sim/link.h"

#include <algorithm>

#include "proto/icrc.h"

namespace uroce::engine::sim {
namespace {

Duration up_to(Random& random, Duration bound) {
  return Duration{static_cast<Duration::rep>(random.below(static_cast<std::uint64_t>(bound.count()) + 1))};
}

}  // namespace

Link::Link(LinkConfig config, std::uint64_t seed)
    : config_(std::move(config)),
      loss_(Random{seed}.split(0)),
      duplicate_(Random{seed}.split(1)),
      reorder_(Random{seed}.split(2)),
      corrupt_(Random{seed}.split(3)),
      ecn_(Random{seed}.split(4)),
      jitter_(Random{seed}.split(5)),
      burst_(Random{seed}.split(6)) {}

const std::vector<Instant>& Link::transmit(Packet& packet, Instant now) {
  arrivals_.clear();
  const Verdict verdict = filter_ ? filter_(packet, now) : Verdict::pass();
  const Impairments& faults = config_.impairments;
  Direction& way = direction(packet.from, packet.to);
  // Every concern draws for every packet, lost or not: the sequence of one does not depend on another.
  const bool lost = loss_.chance(faults.loss);
  const bool burst = in_burst(way);
  const bool doubled = duplicate_.chance(faults.duplicate);
  const Duration duplicate_delay = up_to(duplicate_, faults.reorder_delay);
  const bool late = reorder_.chance(faults.reorder);
  const Duration late_by = up_to(reorder_, faults.reorder_delay);
  const Duration jitter = up_to(jitter_, faults.jitter);
  if (corrupt_.chance(faults.corrupt)) corrupt(packet);
  if (ecn_.chance(faults.ecn_mark) && (packet.path.tclass & proto::kEcnMask) != 0)
    packet.path.tclass |= proto::kEcnMask;
  if (lost || burst || verdict.copies == 0 || in_outage(packet.from, packet.to, now)) return arrivals_;

  Instant arrival = now + config_.delay + jitter;
  const bool overtaken = late || verdict.extra_delay > Duration{};
  packet.disordered = overtaken || doubled || verdict.copies > 1;
  if (overtaken) {
    arrival += verdict.extra_delay + (late ? late_by : Duration{});
  } else {
    const Instant turn = std::max(arrival, way.last_arrival + config_.spacing);
    if (config_.queue != 0 && turn - arrival > config_.queue * config_.spacing) return arrivals_;
    way.last_arrival = arrival = turn;
  }
  arrivals_.assign(verdict.copies, arrival);
  if (doubled) arrivals_.push_back(arrival + duplicate_delay);
  empty_at_ = std::max(empty_at_, arrivals_.back());
  return arrivals_;
}

Link::Direction& Link::direction(NodeId from, NodeId to) {
  if (from >= directions_.size()) directions_.resize(from + 1);
  if (to >= directions_[from].size()) directions_[from].resize(to + 1);
  return directions_[from][to];
}

bool Link::in_outage(NodeId from, NodeId to, Instant now) const {
  return std::any_of(config_.outages.begin(), config_.outages.end(), [&](const Outage& o) {
    return now >= o.begin && now < o.end && (o.from == kNoNode || o.from == from) && (o.to == kNoNode || o.to == to);
  });
}

bool Link::in_burst(Direction& way) {
  const bool begins = burst_.chance(config_.impairments.burst);
  const auto length = static_cast<std::uint32_t>(1 + burst_.below(config_.impairments.burst_packets));
  if (begins && way.burst_left == 0) way.burst_left = length;
  if (config_.impairments.burst <= 0) way.burst_left = 0;  // It was switched off.
  if (way.burst_left == 0) return false;
  --way.burst_left;
  return true;
}

/// Flips one to three bits, which a CRC-32 always notices. A receiver that has to guess the IPv4 Identification
/// (proto/icrc.h) takes one damage in 65536 for another Identification; that is no fault of the transport, so it gets
/// one more flip.
void Link::corrupt(Packet& packet) {
  if (packet.bytes.empty()) return;
  packet.corrupted = true;
  const auto flip = [&] {
    const std::uint64_t bit = corrupt_.below(packet.bytes.size() * 8);
    packet.bytes[bit / 8] = static_cast<std::uint8_t>(packet.bytes[bit / 8] ^ (1u << (bit % 8)));
  };
  for (std::uint64_t flips = 1 + corrupt_.below(3); flips > 0; --flips) flip();
  for (auto check = proto::check_icrc(packet.path, packet.bytes); check.ok && check.ip_id != 0;
       check = proto::check_icrc(packet.path, packet.bytes)) {
    flip();
  }
}

}  // namespace uroce::engine::sim
