// SPDX-License-Identifier: Apache-2.0
// What is in a directory.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace uroce {

/// The entries of `directory`, as many as can be read; `error` says why it ends where it is not the end. A loop over a
/// directory_iterator throws where the next entry can't be read: a process of /proc has ended, a server is away.
inline std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& directory,
                                                                std::error_code& error) {
  std::vector<std::filesystem::directory_entry> entries;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) entries.push_back(*entry);
  return entries;
}

}  // namespace uroce
