// SPDX-License-Identifier: Apache-2.0
// What `uroce doctor` finds: printed at once, each with its remedy.
#pragma once

#include <cstdint>
#include <string>

namespace uroce::tools {

/// Prints findings and remembers whether any is bad.
class Findings {
 public:
  void good(const std::string& what) { add(Level::kGood, what, ""); }
  /// Works, but not as well as it could.
  void note(const std::string& what, const std::string& remedy) { add(Level::kNote, what, remedy); }
  /// Nothing works until this is put right.
  void bad(const std::string& what, const std::string& remedy) { add(Level::kBad, what, remedy); }
  bool any_bad() const { return any_bad_; }

 private:
  enum class Level : std::uint8_t { kGood, kNote, kBad };
  void add(Level level, const std::string& what, const std::string& remedy);
  bool any_bad_ = false;
};

/// Every setting that the environment has: whether its value makes sense, and whether this machine can give it.
void check_environment(Findings& findings);

/// Whether other hosts reach NICs of this one, if it has an interface that leads to any.
void check_reach(Findings& findings);

/// Whether the network interface of this name is up.
bool is_up(const std::string& interface);

}  // namespace uroce::tools
