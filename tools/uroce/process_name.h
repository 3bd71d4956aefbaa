// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>
#include <pwd.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "proto/base/printable.h"

namespace uroce::tools {

/// The name of process `pid`, which it chooses itself; "" if there is none.
inline std::string process_name(std::string_view pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
  return proto::printable(name);
}

/// The user that process `pid` belongs to: a name, or a number where the machine knows none; "" if there is no such
/// process.
inline std::string process_user(std::string_view pid) {
  static std::map<uid_t, std::string> names;  // A directory service may take long to answer.
  struct stat about {};
  if (::stat(fmt::format("/proc/{}", pid).c_str(), &about) != 0) return "";
  const auto [name, is_new] = names.try_emplace(about.st_uid);
  if (is_new) {
    const passwd* entry = ::getpwuid(about.st_uid);
    name->second = entry != nullptr ? proto::printable(entry->pw_name) : std::to_string(about.st_uid);
  }
  return name->second;
}

}  // namespace uroce::tools
