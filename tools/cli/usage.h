// SPDX-License-Identifier: Apache-2.0
// What the programs have in common where a person uses them: errors of a command line, and output that is lost.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <map>
#include <regex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "proto/base/number.h"

namespace uroce::tools {

/// The first word that looks like an option and is none, or "".
inline std::string unknown_option(const CLI::App& app) {
  for (const std::string& word : app.remaining(true)) {
    if (word.size() > 1 && word[0] == '-' && word != "--") return word;
  }
  return "";
}

/// What is wrong with a command line, in words that need no knowledge of the library that parses it. The patterns are
/// its sentences (CLI/Error.hpp, CLI/Validators.hpp).
inline std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  // First, because the argument that seems to be missing may be in the place of its value.
  if (const std::string unknown = unknown_option(app); !unknown.empty()) return "unknown option " + unknown;
  const std::string number = "([0-9]+(?:[.][0-9]*[1-9])?)[.]?0*";  // Without the zeros of std::to_string().
  static const std::vector<std::pair<std::regex, const char*>> kSentences = {
      {std::regex("The following arguments? (?:was|were) not expected: (\\S+).*"), "unexpected argument '$1'"},
      {std::regex("(\\S+) is required"), "the argument '$1' is missing"},
      {std::regex("(\\S+): 1 required .*"), "$1 needs a value"},
      {std::regex("(\\S+): At Most 1 required but received .*"), "$1 is given more than once"},
      {std::regex("(\\S+) excludes (\\S+)"), "$1 and $2 exclude each other: use one of them"},
      {std::regex("Could not convert: (\\S+) = (.*)"), "$1: '$2' is not a number that is allowed here"},
      {std::regex("(\\S+): Value (.*) not in range " + number + " to " + number),
       "$1: '$2' is not a number from $3 to $4"},
      {std::regex("(\\S+): (.*) not in \\{(.*)\\}"), "$1: '$2' is not one of $3"},
      {std::regex(": (.*) not in \\{(.*)\\}"), "'$1' is not one of $2"},  // An option that --help hides has no name.
      {std::regex("(\\S+): Directory does not exist: (.*)"), "$1: there is no directory '$2'"},
      {std::regex("(.*) was not readable \\(missing\\?\\)"), "can't read '$1'"},
  };
  std::string text = error.what();
  if (text.size() > 1000) return text;  // std::regex recurses, by the character.
  for (const auto& [pattern, sentence] : kSentences) {
    if (std::regex_match(text, pattern)) return std::regex_replace(text, pattern, sentence);
  }
  return text;
}

/// The same for people, with what to do then. `program`: as it was called.
inline std::string usage_error(const CLI::App& app, const CLI::ParseError& error, const std::string& program) {
  return usage_error(app, error) + ". `" + program + " --help` lists all options.";
}

/// For CLI::Option::transform(): a whole number from `low` to `high`, in decimal. CLI11 alone takes 010 for 8, -1 for
/// 2^64 - 1, and 2^64 too.
template <class T>
CLI::Validator whole_number(T low = std::numeric_limits<T>::min(), T high = std::numeric_limits<T>::max()) {
  const auto read = [low, high](std::string& text) -> std::string {
    const auto value = parse_number<T>(text);
    if (!value || *value < low || *value > high) {
      return fmt::format("'{}' is not a number from {} to {}", text, low, high);
    }
    text = std::to_string(*value);
    return "";
  };
  return {read, fmt::format("{}..{}", low, high)};
}

/// For options whose values never begin with '-'. Where the value is missing, CLI11 takes the next word for it: an
/// option, or the "--" before a command.
inline CLI::Validator not_an_option() {
  const auto check = [](const std::string& value) {
    if (value.size() < 2 || value[0] != '-') return std::string();
    return fmt::format("a value is missing before '{}' (a file of that name is ./{})", value, value);
  };
  return {check, ""};
}

/// For options whose value "" would be as none: it comes from a variable of a script that is not set.
inline CLI::Validator not_empty() {
  const auto check = [](const std::string& value) { return value.empty() ? "the value is empty" : ""; };
  return {check, ""};
}

/// An option whose value is one of the words of `choices`. (CLI11's own transformer tells its insides in errors.)
template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& name, T& value, const std::map<std::string, T>& choices,
                        const std::string& help) {
  std::vector<std::string> words;
  words.reserve(choices.size());
  for (const auto& [word, meaning] : choices) words.push_back(word);
  return app
      .add_option_function<std::string>(
          name, [&value, choices](const std::string& word) { value = choices.at(word); }, help)
      ->check(CLI::IsMember(words).description(""));
}

/// For numbers from `low` to `high`. CLI::Range takes "nan", too, which is neither smaller nor larger.
inline CLI::Validator real_range(double low, double high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return "";
    return "Value " + text + " not in range " + std::to_string(low) + " to " + std::to_string(high);
  };
  return {check, fmt::format("{}..{}", low, high)};
}

/// Whether everything that was printed on stdout has got there; also what failed to be written earlier counts.
inline bool stdout_is_whole() {
  const bool flushed = std::fflush(stdout) == 0;
  return flushed && std::ferror(stdout) == 0;
}

}  // namespace uroce::tools
