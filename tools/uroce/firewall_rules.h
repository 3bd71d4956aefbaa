// SPDX-License-Identifier: Apache-2.0
// What the rules of a firewall say, as nft and iptables-save print them.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace uroce::tools {

/// Whether `text` has `word`, and not only as a part of a longer one, as the names of tables and counters are.
inline bool has_word(std::string_view text, std::string_view word) {
  const auto is_inside = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_' ||
                                text[at] == '-' || text[at] == '.');
  };
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) {
    if (!(at > 0 && is_inside(at - 1)) && !is_inside(at + word.size())) return true;
  }
  return false;
}

/// `rules` without comments and the prefixes of logs: a word, or several in quotes.
inline std::string without_texts(std::string_view rules) {
  std::string rest;
  while (!rules.empty()) {
    rest += rules.front();
    rules.remove_prefix(1);
    const bool is_text = rest.ends_with("comment ") || rest.ends_with("prefix ");
    if (!is_text || rules.starts_with('-')) continue;  // "-m comment --comment", of iptables.
    const bool is_quoted = rules.starts_with('"');
    std::size_t end = is_quoted ? 1 : 0;
    while (end < rules.size() && rules[end] != '\n' && rules[end] != (is_quoted ? '"' : ' ')) {
      end += rules[end] == '\\' ? 2 : 1;
    }
    rules.remove_prefix(std::min(end + (is_quoted ? 1 : 0), rules.size()));
  }
  return rest;
}

/// Whether a rule or a policy keeps packets from going on: `drop` of nft, alone in a line behind tabs or not, `DROP` of
/// iptables.
inline bool has_rule_that_drops(std::string_view rules) {
  const std::string rest = without_texts(rules);
  const auto words = {"drop", "DROP", "reject", "REJECT"};
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return has_word(rest, word); });
}

}  // namespace uroce::tools
