// SPDX-License-Identifier: Apache-2.0
// The frame of both tools: options, backend, signals, and one place where failures become a sentence and a status.
#pragma once

#include <functional>

#include "tools/cli/options.h"
#include "tools/cli/report.h"

namespace uroce::tools {

/// Opens the device into `resources`, and does the tool's work with it.
using ToolBody = std::function<ExitCode(const Options&, RdmaOwner& resources)>;
/// Parses the options, selects the backend and calls `body`. Returns the exit status of the process.
int run_tool(Role role, int argc, const char* const* argv, const ToolBody& body);

/// Runs one session on an open device and prints its report. Returns how it went; never throws Failure.
ExitCode run_and_report(const Options& options, Connection connection, RdmaOwner& resources);

}  // namespace uroce::tools
