// SPDX-License-Identifier: Apache-2.0
// Latencies in constant memory: 64 buckets per power of two, so a percentile is off by less than 1.6 %.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace uroce::tools {

class Histogram {
 public:
  void add(std::uint64_t nanoseconds) {
    ++buckets_[index_of(nanoseconds)];
    ++count_;
    sum_ += nanoseconds;
    min_ = std::min(min_, nanoseconds);
    max_ = std::max(max_, nanoseconds);
  }

  std::uint64_t count() const { return count_; }
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }

  /// The value that `fraction` (0..1) of all values do not exceed; 0 when there are none.
  std::uint64_t percentile(double fraction) const {
    const auto rank = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (buckets_[i] != 0 && seen >= std::max<std::uint64_t>(rank, 1)) return std::clamp(upper_end(i), min_, max_);
    }
    return max_;
  }

 private:
  static constexpr int kSubBits = 6;
  static constexpr std::size_t kSub = std::size_t{1} << kSubBits;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) * kSub;

  /// Values below 64 have a bucket each; above, the leading one and the six bits behind it choose.
  static constexpr std::size_t index_of(std::uint64_t value) {
    if (value < kSub) return static_cast<std::size_t>(value);
    const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
    return (static_cast<std::size_t>(shift) + 1) * kSub + static_cast<std::size_t>((value >> shift) - kSub);
  }
  /// The largest value of bucket `index`.
  static constexpr std::uint64_t upper_end(std::size_t index) {
    if (index < kSub) return index;
    const std::size_t shift = index / kSub - 1;
    return ((index % kSub + kSub + 1) << shift) - 1;
  }

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
};

}  // namespace uroce::tools
