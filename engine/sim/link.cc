#include "engine/sim/link.h"

#include <algorithm>

namespace uroce::engine::sim {
namespace {

Duration up_to(Random& random, Duration bound) {
  return Duration{static_cast<Duration::rep>(random.below(static_cast<std::uint64_t>(bound.count()) + 1))};
}

}  // namespace

Link::Link(LinkConfig config, std::uint64_t seed)
    : config_(config),
      loss_(Random{seed}.split(0)),
      duplicate_(Random{seed}.split(1)),
      reorder_(Random{seed}.split(2)),
      corrupt_(Random{seed}.split(3)),
      ecn_(Random{seed}.split(4)),
      jitter_(Random{seed}.split(5)) {}

const std::vector<Instant>& Link::transmit(Packet& packet, NodeId to, Instant now) {
  arrivals_.clear();
  const Verdict verdict = filter_ ? filter_(packet, now) : Verdict::pass();
  const Impairments& faults = config_.impairments;
  // Every concern draws for every packet, lost or not: the sequence of one does not depend on another.
  const bool lost = loss_.chance(faults.loss);
  const bool doubled = duplicate_.chance(faults.duplicate);
  const Duration duplicate_delay = up_to(duplicate_, faults.reorder_delay);
  const bool late = reorder_.chance(faults.reorder);
  const Duration late_by = up_to(reorder_, faults.reorder_delay);
  const Duration jitter = up_to(jitter_, faults.jitter);
  if (corrupt_.chance(faults.corrupt)) flip_bits(packet.bytes);
  if (ecn_.chance(faults.ecn_mark) && (packet.path.tclass & proto::kEcnMask) != 0)
    packet.path.tclass |= proto::kEcnMask;
  if (lost || verdict.copies == 0) return arrivals_;

  Instant arrival = now + config_.delay + jitter;
  Instant& last = last_arrival_.try_emplace({packet.from, to}, arrival).first->second;
  const bool overtaken = late || verdict.extra_delay > Duration{};
  if (overtaken) {
    arrival += verdict.extra_delay + (late ? late_by : Duration{});
  } else {
    last = arrival = std::max(arrival, last);
  }
  arrivals_.assign(verdict.copies, arrival);
  if (doubled) arrivals_.push_back(arrival + duplicate_delay);
  return arrivals_;
}

void Link::flip_bits(MutBytes bytes) {
  const std::uint64_t flips = 1 + corrupt_.below(3);
  for (std::uint64_t i = 0; i < flips && !bytes.empty(); ++i) {
    const std::uint64_t bit = corrupt_.below(bytes.size() * 8);
    bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ (1u << (bit % 8)));
  }
}

}  // namespace uroce::engine::sim
