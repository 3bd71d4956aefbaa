#include "engine/faults/faulty.h"

#include <algorithm>

namespace uroce::engine::faults {

std::string late_by(Duration time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return us > 0 ? ", " + std::to_string(us) + " us late" : "";
}

void HeldPackets::hold(Instant until, Held packet) {
  overtakable_ += packet.distance != 0;
  held_.emplace(until, std::move(packet));
}

void HeldPackets::overtake(StreamId stream) {
  if (overtakable_ == 0) return;
  for (auto it = held_.begin(); it != held_.end();) {
    const auto current = it++;
    Held& held = current->second;
    if (held.stream != stream || held.distance == 0 || --held.distance != 0) continue;
    --overtakable_;
    auto node = held_.extract(current);
    node.key() = Instant::min();
    held_.insert(std::move(node));
  }
}

std::optional<HeldPackets::Held> HeldPackets::take_due(Instant now) {
  if (held_.empty() || held_.begin()->first > now) return std::nullopt;
  std::optional<Held> taken = std::move(held_.begin()->second);
  overtakable_ -= taken->distance != 0;
  held_.erase(held_.begin());
  return taken;
}

std::optional<Instant> HeldPackets::next() const {
  return held_.empty() ? std::nullopt : std::optional(held_.begin()->first);
}

void HeldPackets::hurry() {
  std::multimap<Instant, Held> all;
  for (auto& [until, held] : held_) all.emplace(Instant::min(), std::move(held));
  held_ = std::move(all);
}

Schedule::Schedule(const FaultSpec& spec, Instant start) : spec_(spec), start_(start) { find_next(done_); }

void Schedule::find_next(Duration after) {
  std::optional<Duration> best;
  const auto consider = [&best, after](std::optional<Duration> at) {
    if (at && *at > after && (!best || *at < *best)) best = at;
  };
  for (const Interval& interval : spec_.port_down) consider(interval.next_edge(after));
  for (const QpFault& fault : spec_.qp_fatal) consider(fault.at);
  for (const QpFault& fault : spec_.cq_overflow) consider(fault.at);
  consider(spec_.device_fatal);
  next_ = best ? std::optional(start_ + *best) : std::nullopt;
}

void Schedule::run(Instant now, const std::function<void(const TimedFault&)>& act) {
  using What = TimedFault::Kind;
  while (next_ && *next_ <= now) {
    const Duration at = *next_ - start_;
    for (const Interval& interval : spec_.port_down) {
      if (interval.next_edge(done_) == at) act({interval.contains(at) ? What::kPortDown : What::kPortUp});
    }
    for (const QpFault& fault : spec_.qp_fatal) {
      if (fault.at == at) act({What::kQpFatal, fault.qpn});
    }
    for (const QpFault& fault : spec_.cq_overflow) {
      if (fault.at == at) act({What::kCqOverflow, fault.qpn});
    }
    if (spec_.device_fatal == at) act({What::kDeviceFatal});
    done_ = at;
    find_next(done_);
  }
}

bool Schedule::is_port_down(Instant now) const {
  const auto covers = [this, now](const Interval& interval) { return interval.contains(now - start_); };
  return std::any_of(spec_.port_down.begin(), spec_.port_down.end(), covers);
}

std::string_view Schedule::darkness(Instant now) const {
  const Duration age = now - start_;
  if (spec_.device_fatal && age >= *spec_.device_fatal) return "device_fatal";
  for (const auto* intervals : {&spec_.port_down, &spec_.blackouts}) {
    for (const Interval& interval : *intervals) {
      if (interval.contains(age)) return interval.text;
    }
  }
  return {};
}

}  // namespace uroce::engine::faults
