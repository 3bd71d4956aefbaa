// SPDX-License-Identifier: Apache-2.0
#include "engine/run/pace.h"

#ifdef __x86_64__
#include <cpuid.h>

#include <array>
#include <cstring>
#include <string_view>
#endif

namespace uroce::engine {

bool Pace::is_emulated() {
#ifdef __x86_64__
  constexpr unsigned kFeatures = 1, kHypervisorBit = 1U << 31U, kHypervisor = 0x40000000;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(kFeatures, &a, &b, &c, &d) == 0 || (c & kHypervisorBit) == 0) return false;
  __cpuid(kHypervisor, a, b, c, d);
  const std::array<unsigned, 3> words{b, c, d};
  std::array<char, sizeof words> name{};
  std::memcpy(name.data(), words.data(), name.size());
  return std::string_view(name.data(), name.size()) == "TCGTCGTCGTCG";
#else
  return false;
#endif
}

constinit std::atomic<int> Pace::factor_ = 1;

namespace {

/// When the library is loaded.
[[maybe_unused]] const bool kAsked = [] {
  Pace::assume_emulated(Pace::is_emulated());
  return true;
}();

}  // namespace
}  // namespace uroce::engine
