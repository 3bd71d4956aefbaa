// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/numbers.h"

#include <algorithm>
#include <cmath>

namespace uroce::explain {

std::size_t Latencies::bucket(std::uint64_t value) {
  if (value < kSub) return static_cast<std::size_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
  return (static_cast<std::size_t>(shift) + 1) * kSub + static_cast<std::size_t>((value >> shift) - kSub);
}

void Latencies::add(std::int64_t ns) {
  ns = std::max<std::int64_t>(ns, 0);
  if (!buckets_) buckets_ = std::make_unique<std::array<std::uint32_t, kBuckets>>();
  ++(*buckets_)[bucket(static_cast<std::uint64_t>(ns))];
  min_ = count_ == 0 ? ns : std::min(min_, ns);
  max_ = std::max(max_, ns);
  ++count_;
}

std::int64_t Latencies::percentile(double fraction) const {
  if (count_ == 0) return 0;
  const auto rank =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += (*buckets_)[i];
    if (seen < rank) continue;
    const std::size_t shift = i < kSub ? 0 : i / kSub - 1;
    const auto upper = static_cast<std::int64_t>(i < kSub ? i : ((i % kSub + kSub + 1) << shift) - 1);
    return std::clamp(upper, min_, max_);
  }
  return max_;
}

std::string_view to_string(Operation operation) {
  constexpr std::array<std::string_view, kOperations> kNames{"SEND",      "RDMA WRITE",   "RDMA READ", "COMPARE SWAP",
                                                             "FETCH ADD", "ATOMIC WRITE", "FLUSH",     "other"};
  return kNames[static_cast<std::size_t>(operation)];
}

Operation operation_of(proto::Kind kind) {
  switch (kind) {
    case proto::Kind::kSend:
      return Operation::kSend;
    case proto::Kind::kWrite:
      return Operation::kWrite;
    case proto::Kind::kReadRequest:
      return Operation::kRead;
    case proto::Kind::kCompareSwap:
      return Operation::kCompareSwap;
    case proto::Kind::kFetchAdd:
      return Operation::kFetchAdd;
    case proto::Kind::kAtomicWrite:
      return Operation::kAtomicWrite;
    case proto::Kind::kFlush:
      return Operation::kFlush;
    default:
      return Operation::kOther;
  }
}

void Numbers::add_round(const Round& round) {
  if (rounds.size() < kListed) {
    rounds.push_back(round);
  } else {
    ++more_rounds;
  }
}

void Numbers::add_incident(const Incident& incident) {
  if (incidents.size() < kListed) {
    incidents.push_back(incident);
  } else {
    ++more_incidents;
  }
}

Incident* Numbers::incident(Place place, std::string_view code) {
  const auto found = std::find_if(incidents.begin(), incidents.end(),
                                  [&](const Incident& i) { return i.place == place && i.note.code == code; });
  return found == incidents.end() ? nullptr : &*found;
}

std::uint64_t Numbers::resent() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kReasons; ++i) {
    if (is_resent(static_cast<Reason>(i))) sum += reasons[i];
  }
  return sum;
}

}  // namespace uroce::explain
