// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/config_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

namespace uroce::tools {
namespace {

/// Options of one tool that have no meaning for the other.
constexpr std::array kClientOnly = {"server", "op",     "size", "iters",          "mtu", "depth", "bidir",
                                    "verify", "inline", "sges", "connect-timeout"};
constexpr std::array kServerOnly = {"loop", "bind"};

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& input) const {
  std::string text, line;
  for (int number = 1; std::getline(input, line); ++number) {
    check_line(trimmed(line), number);
    text += line + '\n';
  }
  std::istringstream checked(text);
  std::vector<CLI::ConfigItem> entries = CLI::ConfigTOML::from_config(checked);
  std::erase_if(entries,
                [this](const CLI::ConfigItem& item) { return for_other_tool(item.name) || set_by_environment(item); });
  return entries;
}

std::string ConfigFile::place_of(const std::string& error) const {
  if (!error.starts_with("--")) return "";
  const auto found = lines_.find(error.substr(2, error.find(':') - 2));
  if (found == lines_.end() || app_.count("--" + found->first) > 1) return "";
  return at(found->second);
}

void ConfigFile::check_line(const std::string& line, int number) const {
  if (line.empty() || line[0] == '#' || line[0] == ';') return;
  const auto wrong = [this, number](const std::string& why) { throw CLI::ConfigError(at(number) + why); };
  if (line[0] == '[') wrong("there are no sections; remove " + line);
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos) wrong("write: OPTION = VALUE");
  const std::string option = trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
  if (!for_other_tool(option) && app_.get_option_no_throw("--" + option) == nullptr) {
    wrong(fmt::format("there is no option '{}'", option));
  }
  const bool quoted = !value.empty() && (value[0] == '"' || value[0] == '\'');
  if (!quoted && value.find(',') != std::string::npos) {
    wrong(fmt::format("put quotes around a value with commas: {} = \"{}\"", option, value));
  }
  lines_[option] = number;
}

std::string ConfigFile::at(int line) const {
  return fmt::format("{}:{}: ", app_.get_config_ptr()->as<std::string>(), line);
}

bool ConfigFile::for_other_tool(const std::string& option) const {
  const auto named = [&option](const char* name) { return option == name; };
  return role_ == Role::kServer ? std::any_of(kClientOnly.begin(), kClientOnly.end(), named)
                                : std::any_of(kServerOnly.begin(), kServerOnly.end(), named);
}

bool ConfigFile::set_by_environment(const CLI::ConfigItem& item) const {
  const CLI::Option* option = app_.get_option_no_throw("--" + item.name);
  if (option == nullptr || option->get_envname().empty()) return false;
  const char* value = secure_getenv(option->get_envname().c_str());
  return value != nullptr && *value != '\0';
}

}  // namespace uroce::tools
