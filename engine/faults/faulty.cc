#include "engine/faults/faulty.h"

#include <algorithm>

namespace uroce::engine::faults {

void HeldPackets::hold(const proto::Path& path, Bytes packet, Instant until, std::uint32_t distance) {
  held_.push_back({path, {packet.begin(), packet.end()}, until, distance});
}

void HeldPackets::overtake() {
  for (Held& held : held_) {
    if (held.distance == 0 || --held.distance != 0) continue;
    held.until = Instant::min();
  }
}

std::optional<HeldPackets::Held> HeldPackets::take_due(Instant now) {
  const auto due = std::find_if(held_.begin(), held_.end(), [now](const Held& held) { return held.until <= now; });
  if (due == held_.end()) return std::nullopt;
  std::optional<Held> taken = std::move(*due);
  held_.erase(due);
  return taken;
}

std::optional<Instant> HeldPackets::next() const {
  std::optional<Instant> earliest;
  for (const Held& held : held_) {
    if (!earliest || held.until < *earliest) earliest = held.until;
  }
  return earliest;
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

bool Schedule::is_dark(Instant now) const {
  if (spec_.device_fatal && now - start_ >= *spec_.device_fatal) return true;
  const auto covers = [this, now](const Interval& interval) { return interval.contains(now - start_); };
  return is_port_down(now) || std::any_of(spec_.blackouts.begin(), spec_.blackouts.end(), covers);
}

}  // namespace uroce::engine::faults
