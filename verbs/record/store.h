// SPDX-License-Identifier: Apache-2.0
// Recordings on disk, and rings that other processes write. Errors are sentences for people.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "verbs/record/ring.h"

namespace uroce::record {

/// Recordings of one user that a directory keeps; older ones are removed for newer ones.
inline constexpr std::size_t kRecordingsKept = 64;
inline constexpr std::size_t kRingsLeft = 16;
/// What the names of all our files there begin with.
inline constexpr std::string_view kFilePrefix = "uroce-";
inline constexpr std::string_view kRingSuffix = ".ring";

/// "uroce-PROGRAM-PID-NIC": what the files of a NIC are called, before a number and the suffix. Of a long name of a
/// program, the begin.
std::string stem_of(const std::string& program, std::uint32_t pid, std::uint32_t nic);

/// Whether a file of this name is a ring of ours.
bool is_ring(const std::string& path);

/// Reads a ring, which its owner may write meanwhile. Nothing when it is none of this build.
std::optional<Recording> read_ring_file(int fd);

/// What stays in the directory of a new recording.
enum class Keep : std::uint8_t {
  kNewest,  ///< kRecordingsKept recordings of this user.
  kAll,
};

/// Writes the recording as STEM-N.pcapng and STEM-N.json. The result is the path without suffix. `like`: a file whose
/// owner becomes theirs, as far as we may give files away; -1: they are ours.
Result<std::string, std::string> save(const Recording& recording, const std::string& why, const std::string& directory,
                                      Keep keep = Keep::kNewest, int like = -1);

/// Saves the rings that processes have left in `directory` which ended without closing their NICs, and removes them.
/// The result names those that stay although their process has gone, each with why.
std::vector<std::string> save_left_rings(const std::string& directory);

/// Removes the oldest of those rings, beyond kRingsLeft: nobody may ever ask for them.
void remove_old_rings(const std::string& directory);

}  // namespace uroce::record
