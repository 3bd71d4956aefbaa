// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/packets/clocks.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "tools/explain/packets/twins.h"

namespace uroce::explain {
namespace {

/// Packets of several writers are no more out of order.
constexpr std::int64_t kDisorder = 250'000'000;
// Times of a file that somebody made up may be anything: sums of these fit.
constexpr std::int64_t kLast = (std::int64_t{1} << 62) - 1;       ///< In 2116.
constexpr std::int64_t kMostApart = (std::int64_t{1} << 61) - 1;  ///< Clocks, by 73 years.
constexpr std::int64_t kMostBack = std::int64_t{1} << 58;         ///< Nine years, in all.
constexpr std::int64_t kSameClock = 1'000'000'000;
/// What differs by less is followed, and what differs by more may be a step.
constexpr std::int64_t kStep = 5'000'000;
constexpr std::uint32_t kPacketsToFollow = 32;
/// A step is believed if the packets behind it have it as well, but for those that were on their way, and in both
/// directions: what is late in one only was held back.
constexpr std::size_t kPacketsOfStep = 256, kLeastOfSender = 3;
constexpr std::uint32_t kOnTheWay = 2000, kMostInVain = 64;
constexpr std::int64_t kSlew = 16;  ///< Corrections take as much longer.
constexpr std::size_t kStepsKept = 1000;

std::int64_t middle(std::vector<std::int64_t>& values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

bool is_sane(std::int64_t time) { return time >= 0 && time <= kLast; }

std::int64_t bounded(std::int64_t difference) { return std::clamp(difference, -kMostApart, kMostApart); }

}  // namespace

std::int64_t SetBack::straight(const std::deque<Packet>& packets) {
  if (!is_sane(packets.front().time_ns)) return packets.front().time_ns;
  const auto time = [this](const Packet& packet) { return std::clamp(packet.time_ns, std::int64_t{0}, kLast) + back_; };
  const std::int64_t now = time(packets.front());
  if (latest_ != INT64_MIN && now < latest_ - kDisorder) {
    // A late batch of one writer ends with a leap to where the others are.
    std::int64_t before = now;
    const auto goes_on = std::ranges::find_if(packets, [&](const Packet& packet) {
      if (time(packet) >= latest_ - kDisorder) return true;
      before = std::max(before, time(packet));
      return false;
    });
    const bool is_step = goes_on == packets.end() || time(*goes_on) - before < (latest_ - now) / 2;
    if (is_step && back_ + (latest_ - now) <= kMostBack) {
      if (steps_.size() < kStepsKept) steps_.push_back({packets.front().place.frame, now - latest_});
      back_ += latest_ - now;
    }
  }
  latest_ = std::max(latest_, time(packets.front()));
  return time(packets.front());
}

void Sightings::add(const Packet& packet) {
  const std::uint64_t identity = identity_of(packet);
  const auto [at, fresh] = seen_.try_emplace(identity, Sighting{packet.time_ns, 0});
  ++at->second.count;
  if (fresh) order_.push_back(identity);
  if (order_.size() <= kMost) return;
  seen_.erase(order_.front());
  order_.pop_front();
}

std::optional<std::int64_t> Sightings::time_of(const Packet& packet) const {
  const auto found = seen_.find(identity_of(packet));
  if (found == seen_.end() || found->second.count != 1 || !is_sane(found->second.time_ns)) return std::nullopt;
  return found->second.time_ns;
}

std::optional<ClockDifference> ClockDifference::find(const std::deque<Packet>& first, const std::deque<Packet>& other) {
  const auto differences_of = [&](bool once) {
    std::unordered_map<std::uint64_t, std::pair<std::int64_t, int>> seen;
    std::unordered_map<std::uint64_t, int> others;
    for (const Packet& packet : first) ++seen.try_emplace(identity_of(packet), packet.time_ns, 0).first->second.second;
    for (const Packet& packet : other) ++others[identity_of(packet)];
    std::map<Host, std::vector<std::int64_t>> differences;
    for (const Packet& packet : other) {
      const std::uint64_t identity = identity_of(packet);
      const auto twin = seen.find(identity);
      if (twin == seen.end() || (once && (twin->second.second != 1 || others[identity] != 1))) continue;
      if (!is_sane(packet.time_ns) || !is_sane(twin->second.first)) continue;
      differences[packet.source.raw].push_back(bounded(packet.time_ns - twin->second.first));
    }
    return differences;
  };
  auto differences = differences_of(true);
  // Of what was sent again and again, nobody knows which is which.
  const bool is_sure = !differences.empty();
  if (!is_sure) differences = differences_of(false);
  if (differences.empty()) return std::nullopt;
  ClockDifference found;
  for (auto& [sender, values] : differences) found.usual_[sender].difference = middle(values);
  found.take_middle();
  // With packets of one sender only, the way can't be told from the clock: a good clock is assumed.
  if ((differences.size() == 1 || !is_sure) && std::abs(found.ahead_) < kSameClock) found.ahead_ = 0;
  if (!is_sure) found.usual_.clear();
  found.at_first_ = found.taken_off_ = found.ahead_;
  return found;
}

std::int64_t ClockDifference::at_begin(std::int64_t time) const { return is_sane(time) ? time - at_first_ : time; }

void ClockDifference::take_middle() {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = std::numeric_limits<std::int64_t>::min();
  for (const auto& [sender, usual] : usual_) {
    least = std::min(least, usual.difference);
    most = std::max(most, usual.difference);
  }
  ahead_ = least + (most - least) / 2;
}

std::int64_t ClockDifference::at_front(const std::deque<Packet>& packets, const Sightings& first) {
  const std::int64_t time = packets.front().time_ns;
  if (!is_sane(time)) return 0;
  const std::int64_t passed = latest_ == INT64_MIN ? 0 : std::max<std::int64_t>(time - latest_, 0);
  latest_ = std::max(latest_, time);
  const std::size_t steps = steps_.size();
  const std::int64_t exception = look(packets, first);
  taken_off_ += std::clamp(ahead_ - taken_off_, -passed / kSlew, passed / kSlew);
  // What comes later in the file stays behind: how far the clock jumped is not known to the microsecond.
  if (steps_.size() != steps && latest_told_ != INT64_MIN)
    taken_off_ = bounded(std::min(taken_off_, time - latest_told_));
  latest_told_ = std::max(latest_told_, time - taken_off_);
  return taken_off_ + exception;
}

/// What the packets teach. Returns what the first one, alone, differs by.
std::int64_t ClockDifference::look(const std::deque<Packet>& packets, const Sightings& first) {
  if (usual_.size() < 2) return 0;
  if (since_step_ < kOnTheWay) ++since_step_;
  const Packet& packet = packets.front();
  const auto usual = usual_.find(packet.source.raw);
  const auto seen = first.time_of(packet);
  if (usual == usual_.end() || !seen) return 0;
  const std::int64_t difference = bounded(packet.time_ns - *seen);
  const std::int64_t deviation = difference - usual->second.difference;
  if (std::abs(deviation) < kStep) {
    follow(usual->second, difference);
    return 0;
  }
  // It was on its way when the clock jumped.
  if (since_step_ < kOnTheWay && std::abs(deviation + last_step_) < std::abs(deviation)) return -last_step_;
  if (pause_ > 0) {
    --pause_;
    return 0;
  }
  const auto step = step_at(packets, first, deviation);
  if (!step) {
    in_vain_ = std::min(in_vain_ + 1, kMostInVain);
    pause_ = in_vain_;
    return 0;
  }
  for (auto& [sender, each] : usual_) each = {bounded(each.difference + *step), 0, 0};
  ahead_ = bounded(ahead_ + *step);
  taken_off_ = bounded(taken_off_ + *step);
  last_step_ = *step;
  since_step_ = in_vain_ = 0;
  steps_.push_back({packet.place.frame, *step});
  return 0;
}

void ClockDifference::follow(Usual& usual, std::int64_t difference) {
  if (usual.count == 0 || std::abs(difference - ahead_) < std::abs(usual.next - ahead_)) usual.next = difference;
  if (++usual.count < kPacketsToFollow) return;
  usual = {usual.next, 0, 0};
  take_middle();
}

/// By how much the clock jumps at `packets.front()`, which deviates so much; nothing when it does not.
std::optional<std::int64_t> ClockDifference::step_at(const std::deque<Packet>& packets, const Sightings& first,
                                                     std::int64_t deviation) const {
  struct Deviation {
    Host sender;
    std::int64_t ns = 0;
  };
  std::vector<Deviation> all;
  for (const Packet& packet : packets) {
    const auto usual = usual_.find(packet.source.raw);
    const auto seen = first.time_of(packet);
    if (usual == usual_.end() || !seen || !is_sane(packet.time_ns)) continue;
    all.push_back({packet.source.raw, bounded(packet.time_ns - *seen) - usual->second.difference});
    if (all.size() == kPacketsOfStep) break;
  }
  const std::int64_t tolerance = std::max(kStep, std::abs(deviation) / 4);
  std::map<Host, std::size_t> by_sender;
  std::vector<std::int64_t> alike;
  const std::size_t half = all.size() / 2;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::abs(all[i].ns - deviation) >= tolerance) continue;
    ++by_sender[all[i].sender];
    if (i >= half) alike.push_back(all[i].ns);
  }
  const auto has_enough = [](const auto& sender) { return sender.second >= kLeastOfSender; };
  if (alike.size() < (all.size() - half) * 3 / 4 || alike.empty()) return std::nullopt;
  if (std::ranges::count_if(by_sender, has_enough) < 2) return std::nullopt;
  return bounded(middle(alike));
}

}  // namespace uroce::explain
