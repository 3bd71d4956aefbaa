// SPDX-License-Identifier: Apache-2.0
// Directories of recordings (UROCE_RECORD) among the files that are to be explained.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "proto/base/result.h"
#include "tools/explain/words/output.h"

namespace uroce::explain {

struct InputFiles {
  std::vector<std::string> captures;
  std::set<std::string> cut;         ///< Of them, recordings that have forgotten older packets.
  std::vector<Verdict> verdicts;     ///< What recorders say about what broke last, oldest first.
  std::vector<std::string> skipped;  ///< Recordings that could not be read, each with why.
};

/// Files stay as they are; of a directory come the captures of what broke last there, at all ends that recorded it.
/// What killed processes have left in it is made a recording first. The error is a sentence.
Result<InputFiles, std::string> input_of(const std::vector<std::string>& files);

}  // namespace uroce::explain
