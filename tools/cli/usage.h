// SPDX-License-Identifier: Apache-2.0
// What the programs have in common where a person uses them: errors of a command line, and output that is lost.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::tools {

/// What is wrong with a command line, as a sentence that needs no knowledge of the library that parses it.
inline std::string usage_error(const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string_view missing = " is required", conversion = "Could not convert: ";
  const std::size_t required = text.find(": 1 required ");
  if (error.get_name() == "RequiredError" && text.ends_with(missing)) {
    return "the argument '" + text.substr(0, text.size() - missing.size()) + "' is missing";
  }
  if (error.get_name() == "ArgumentMismatch" && required != std::string::npos) {
    return text.substr(0, required) + " needs a value";
  }
  const std::size_t equals = text.find(" = ");
  if (error.get_name() == "ConversionError" && text.starts_with(conversion) && equals != std::string::npos) {
    const std::string option = text.substr(conversion.size(), equals - conversion.size());
    return option + ": '" + text.substr(equals + 3) + "' is not a number that is allowed here";
  }
  return text;
}

/// An option whose value is one of the words of `choices`. (CLI11's own transformer tells its insides in errors.)
template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& name, T& value, const std::map<std::string, T>& choices,
                        const std::string& help) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : choices) words.push_back(word);
  return app
      .add_option_function<std::string>(
          name, [&value, choices](const std::string& word) { value = choices.at(word); }, help)
      ->check(CLI::IsMember(words).description(""));
}

/// Whether everything that was printed on stdout has got there; also what failed to be written earlier counts.
inline bool stdout_is_whole() {
  const bool flushed = std::fflush(stdout) == 0;
  return flushed && std::ferror(stdout) == 0;
}

}  // namespace uroce::tools
