// SPDX-License-Identifier: Apache-2.0
// What is said when the process itself dies (a failed assertion, a signal, a sanitizer's finding): the seed, the
// command that replays it, and a capture from a second run in a process of its own. Exit status 127.
#pragma once

#include <cstdint>
#include <string>

namespace uroce::simulator {

/// Installs the handlers. One at a time.
class CrashReport {
 public:
  /// `capture`: run the seed again with a capture in `folder` (not when this run is the one with the capture).
  CrashReport(const std::string& program, const std::string& folder, bool capture);
  void running(std::uint64_t seed);
};

}  // namespace uroce::simulator
