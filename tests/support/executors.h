// SPDX-License-Identifier: Apache-2.0
// Executors of wills (engine/broker/wills.h) that run.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

namespace uroce::test {

/// The executors of this network namespace, which is the test's own.
inline std::set<pid_t> executors() {
  const auto network = [](const std::string& process) {
    char name[64] = "";
    [[maybe_unused]] const ssize_t n = ::readlink(("/proc/" + process + "/ns/net").c_str(), name, sizeof name - 1);
    return std::string(name);
  };
  std::set<pid_t> found;
  DIR* const processes = ::opendir("/proc");
  while (const dirent* const entry = ::readdir(processes)) {
    std::ifstream file(std::string("/proc/") + entry->d_name + "/cmdline");
    std::string command;
    std::getline(file, command);
    const bool is_one = command.find(std::string("uroce-broker") + '\0' + "--wills") != std::string::npos;
    if (is_one && network(entry->d_name) == network("self")) found.insert(std::stoi(entry->d_name));
  }
  ::closedir(processes);
  return found;
}

}  // namespace uroce::test
