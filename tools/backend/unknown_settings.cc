// SPDX-License-Identifier: Apache-2.0
#include "tools/backend/unknown_settings.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "tools/output/print.h"
#include "verbs/ibverbs/catalogue/settings.h"

extern char** environ;

namespace uroce::tools {
namespace {

constexpr std::string_view kPrefix = "UROCE_";

/// How many letters have to be put in, left out or replaced, or neighbours exchanged, to make `a` of `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> of(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        of[i][j] = i + j;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      of[i][j] = std::min({of[i - 1][j] + 1, of[i][j - 1] + 1, of[i - 1][j - 1] + (same ? 0 : 1)});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) of[i][j] = std::min(of[i][j], of[i - 2][j - 2] + 1);
    }
  }
  return of[a.size()][b.size()];
}

/// The setting that `name` may stand for: one begins like the other, or a letter in four differs, and one more.
std::string meant_by(std::string_view name) {
  std::pair<std::size_t, std::string> best{name.size(), ""};
  name.remove_prefix(kPrefix.size());
  for (const ibv::SettingFacts& facts : ibv::settings()) {
    const std::string_view known = std::string_view(facts.name).substr(kPrefix.size());
    const std::size_t far = distance(name, known);
    const bool begins_alike = name.size() > 2 && (name.starts_with(known) || known.starts_with(name));
    if (begins_alike || far <= 1 + known.size() / 4) best = std::min(best, {far, facts.name});
  }
  return best.second;
}

}  // namespace

std::vector<UnknownSetting> unknown_settings() {
  std::vector<UnknownSetting> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::string name(variable.substr(0, variable.find('=')));
    const auto is_it = [&name](const ibv::SettingFacts& facts) { return name == facts.name; };
    if (name.starts_with(kPrefix) && !std::ranges::any_of(ibv::settings(), is_it))
      found.push_back({name, meant_by(name)});
  }
  return found;
}

void warn_of_misspelt_settings(const std::string& program) {
  for (const UnknownSetting& unknown : unknown_settings()) {
    if (unknown.meant.empty()) continue;
    print_to(stderr, "{}: {} has no effect: no setting has that name; is {} meant?\n", program, unknown.name,
             unknown.meant);
  }
}

}  // namespace uroce::tools
