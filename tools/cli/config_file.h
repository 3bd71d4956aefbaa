// SPDX-License-Identifier: Apache-2.0
// The file of --config: what CLI11 reads, with mistakes told by file and line.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "tools/session/session.h"

namespace uroce::tools {

/// Lines like "num-qp = 16". CLI11 lets a file win over the environment; here an option whose variable is set does not
/// look at the file. And what is meant for the other tool is left out: both may share one file.
class ConfigFile : public CLI::ConfigTOML {
 public:
  ConfigFile(const CLI::App& app, Role role) : app_(app), role_(role) {}

  /// Throws CLI::ConfigError when a line is not like that, or names no option.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

  /// "FILE:LINE: " when `error`, a sentence of CLI11, is about an option that the file sets; else "".
  std::string place_of(const std::string& error) const;

 private:
  void check_line(const std::string& line, int number) const;
  std::string at(int line) const;
  bool for_other_tool(const std::string& option) const;
  bool set_by_environment(const CLI::ConfigItem& item) const;

  const CLI::App& app_;
  const Role role_;
  mutable std::map<std::string, int> lines_;  ///< By option. CLI11 reads the file through a const object.
};

}  // namespace uroce::tools
