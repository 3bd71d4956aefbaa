// SPDX-License-Identifier: Apache-2.0
// What a run of the simulator can find wrong. Thrown from wherever it is noticed; the run ends there.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>

namespace uroce::simulator {

enum class Breach : std::uint8_t {
  kLiveness,     ///< Something that had to happen did not, within its bound.
  kCorrectness,  ///< Something happened that must not.
};

struct Violation {
  Breach breach;
  std::string what;
};

template <class... Args>
[[noreturn]] void incorrect(fmt::format_string<Args...> format, Args&&... args) {
  throw Violation{Breach::kCorrectness, fmt::format(format, std::forward<Args>(args)...)};
}
template <class... Args>
[[noreturn]] void not_live(fmt::format_string<Args...> format, Args&&... args) {
  throw Violation{Breach::kLiveness, fmt::format(format, std::forward<Args>(args)...)};
}

/// Runs `body`; a violation inside it says "`subject`: ..." then. `subject` is only asked for when there is one.
template <class Subject, class Body>
decltype(auto) about(Subject subject, Body body) {
  try {
    return body();
  } catch (Violation& violation) {
    violation.what = subject() + ": " + violation.what;
    throw;
  }
}

}  // namespace uroce::simulator
