// SPDX-License-Identifier: Apache-2.0
// What somebody who controls this process can ask for: docs/control.md lists the commands.
#pragma once

#include <string>
#include <string_view>

namespace uroce::ibv {

/// Executes `command`, which may be any bytes, on the NICs of this process. The answer is "ok" and lines, or "error: "
/// and a sentence; each line ends. What was asked for has happened on return. For one thread at a time.
std::string execute_command(std::string_view command);

/// The commands, a line each.
std::string command_help();

}  // namespace uroce::ibv
