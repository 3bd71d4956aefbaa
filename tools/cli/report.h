// SPDX-License-Identifier: Apache-2.0
// What the tools print at the end: a summary for people, or one JSON object for machines.
#pragma once

#include <optional>
#include <string>

#include "tools/backend/backend.h"
#include "tools/cli/options.h"
#include "tools/rdma/failure.h"
#include "tools/session/session.h"

namespace uroce::tools {

struct Report {
  const Options* options = nullptr;
  Outcome outcome;
  ExitCode exit_code = kExitOk;
  std::string error;  ///< One sentence, "" when all went well.
  std::string device, gid;
  std::optional<int> gid_index;  ///< That of the device, once it is open.
  std::optional<ibv::NicFacts> nic;

  /// Notes which device and address are used, and what its NIC has counted.
  void describe_device(const RdmaResources& resources);
};

/// One line, without a line break.
std::string json_report(const Report& report);
std::string text_report(const Report& report);

/// Prints what the user asked for: the result on stdout, the error sentence on stderr. Returns the exit status: the
/// report's, or kExitFailed when all went well and the result can't be written.
ExitCode print_report(const Report& report);

}  // namespace uroce::tools
