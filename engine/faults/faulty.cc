// SPDX-License-Identifier: Apache-2.0
#include "engine/faults/faulty.h"

#include <algorithm>
#include <utility>

namespace uroce::engine::faults {

std::string late_by(Duration time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return us > 0 ? ", " + std::to_string(us) + " us late" : "";
}

namespace {

/// An interval that repeats: after a long time without a turn, a NIC catches up with this many of them.
constexpr int kCatchUp = 8;

}  // namespace

Schedule::Schedule(const FaultSpec& spec, Instant start) : spec_(spec), start_(start) { find_next(done_); }

void Schedule::add(const FaultSpec& more, Instant now) {
  // Later than what has been carried out, also when that was at this very moment.
  const Duration age = std::max(now - start_, done_ + Duration{1});
  const auto is_over = [this](const auto& fault) { return fault.at <= done_; };
  std::erase_if(spec_.qp_fatal, is_over);
  std::erase_if(spec_.cq_overflow, is_over);
  // Its edges have been carried out; programs that add one a second would have thousands to look through.
  std::erase_if(spec_.port_down, [this](const Interval& down) { return down.period.count() == 0 && down.to <= done_; });
  std::erase_if(spec_.blackouts, [age](const Interval& dark) { return dark.period.count() == 0 && dark.to <= age; });
  const auto add_intervals = [age](const std::vector<Interval>& from, std::vector<Interval>& to) {
    for (Interval interval : from) {
      interval.from += age;
      interval.to += age;
      to.push_back(std::move(interval));
    }
  };
  const auto add_events = [age](const std::vector<QpFault>& from, std::vector<QpFault>& to) {
    for (QpFault fault : from) {
      fault.at += age;
      to.push_back(std::move(fault));
    }
  };
  add_intervals(more.blackouts, spec_.blackouts);
  add_intervals(more.port_down, spec_.port_down);
  add_events(more.qp_fatal, spec_.qp_fatal);
  add_events(more.cq_overflow, spec_.cq_overflow);
  if (more.device_fatal) {
    const Duration at = age + *more.device_fatal;
    spec_.device_fatal = std::min(spec_.device_fatal.value_or(at), at);
  }
  find_next(done_);
}

void Schedule::find_next(Duration now) {
  std::optional<Duration> best;
  const auto consider = [&best, this](std::optional<Duration> at) {
    if (at && *at > done_ && (!best || *at < *best)) best = at;
  };
  for (const Interval& interval : spec_.port_down) {
    const bool again = interval.period.count() != 0;
    consider(interval.next_edge(again ? std::max(done_, now - kCatchUp * interval.period) : done_));
  }
  for (const QpFault& fault : spec_.qp_fatal) consider(fault.at);
  for (const QpFault& fault : spec_.cq_overflow) consider(fault.at);
  consider(spec_.device_fatal);
  next_ = best ? std::optional(start_ + *best) : std::nullopt;
}

void Schedule::run(Instant now, const std::function<void(const TimedFault&)>& act) {
  using What = TimedFault::Kind;
  find_next(now - start_);
  while (next_ && *next_ <= now) {
    const Duration at = *next_ - start_;
    if (is_port_down_at(at) != port_down_) {
      port_down_ = !port_down_;
      act({port_down_ ? What::kPortDown : What::kPortUp});
    }
    for (const QpFault& fault : spec_.qp_fatal) {
      if (fault.at == at) act({What::kQpFatal, fault.qp, fault.text});
    }
    for (const QpFault& fault : spec_.cq_overflow) {
      if (fault.at == at) act({What::kCqOverflow, fault.qp, fault.text});
    }
    if (spec_.device_fatal == at) act({What::kDeviceFatal});
    done_ = at;
    find_next(now - start_);
  }
}

bool Schedule::is_port_down_at(Duration age) const {
  return std::any_of(spec_.port_down.begin(), spec_.port_down.end(),
                     [age](const Interval& interval) { return interval.contains(age); });
}

bool Schedule::is_port_down(Instant now) const { return is_port_down_at(now - start_); }

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
