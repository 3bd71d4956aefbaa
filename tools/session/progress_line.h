// SPDX-License-Identifier: Apache-2.0
// A line on stderr that shows how far a long run is, when somebody sits in front of it.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

#include "tools/output/print.h"

namespace uroce::tools {

class ProgressLine {
 public:
  ProgressLine(bool wanted, std::uint64_t total) : enabled_(wanted && isatty(STDERR_FILENO) == 1), total_(total) {}
  ~ProgressLine() {
    if (shown_) print_to(stderr, "\r\033[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(std::uint64_t done, std::chrono::steady_clock::time_point now) {
    if (!enabled_ || total_ == 0) return;
    if (next_ == std::chrono::steady_clock::time_point{}) next_ = now + kFirst;
    if (now < next_) return;
    next_ = now + kPeriod;
    shown_ = true;
    print_to(stderr, "\r\033[K  {:.1f} %  {} of {} operations",
             100.0 * static_cast<double>(done) / static_cast<double>(total_), done, total_);
  }

 private:
  static constexpr std::chrono::seconds kFirst{1};  ///< Short runs stay quiet.
  static constexpr std::chrono::milliseconds kPeriod{200};
  const bool enabled_;
  const std::uint64_t total_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace uroce::tools
