// SPDX-License-Identifier: Apache-2.0
#include "engine/os/namespaces.h"

#include <sys/stat.h>

#include <string>

namespace uroce::engine {

std::optional<bool> shares_namespace(std::uint32_t pid, const char* kind) {
  struct stat own {
  }, its{};
  if (::stat((std::string("/proc/self/ns/") + kind).c_str(), &own) != 0) return std::nullopt;
  if (::stat(("/proc/" + std::to_string(pid) + "/ns/" + kind).c_str(), &its) != 0) return std::nullopt;
  return own.st_ino == its.st_ino;
}

}  // namespace uroce::engine
