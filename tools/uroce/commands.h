// SPDX-License-Identifier: Apache-2.0
// The commands of `uroce`. Each returns the exit status of the process.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "verbs/ibverbs/catalogue/settings.h"

namespace uroce::tools {

struct RunOptions {
  std::array<std::string, static_cast<std::size_t>(ibv::Setting::kCount)> settings;  ///< By ibv::Setting; or empty.
  std::vector<std::string> command;
};
/// Becomes the command, with its environment set up so that it finds the emulated NICs. Returns only on failure: 127
/// when there is no such command, 126 when it can't be executed, 2 when our library is missing (as env(1) has it).
int run(const RunOptions& options);
/// Prints what run() would set, for other programs to take over: lines `export NAME='VALUE'` for a shell's eval, or
/// with `plain` lines `NAME=VALUE`, as GitHub's GITHUB_ENV and `docker run --env-file` take them.
int print_environment(const RunOptions& options, bool plain);

/// Has what a user does after the next login find the NICs, by a line in ~/.profile or its like; again: with other
/// options. disable() takes the line away. 0; 1: that file can't be written.
int enable(const RunOptions& options);
int disable();

/// Names, node GUIDs and addresses of the devices (as ibv_devices does), without opening any.
int show_devices();
/// Opens every device and prints what matters of device and port (as ibv_devinfo does).
int show_info();
/// Opens every device and prints its GID tables (as show_gids does).
int show_gids();

/// Looks at everything that the emulated NICs depend on, and prints each finding with its remedy. 0: they can work.
int doctor();

constexpr const char* kOwnSys = "/sys";
/// Lists the RDMA devices of the machine, as the tree below `sys` shows them, and uroce's: which GID index to take,
/// commands that work, and for kOwnSys what else of this machine could be in the way. 0; 1: no device can be used, or
/// `sys` is no such tree.
int diagnose(const std::string& sys);

/// Writes what the NICs of process `pid` remember to `directory`, and prints where. 0; 1: nothing, or it can't be
/// written.
int record(std::uint32_t pid, const std::string& directory);

/// Sends a command (docs/control.md) to process `whom`, or to "all" that take commands, and prints what they answer.
/// "": lists them. 0; 1: nobody has done it; 2: that is no process.
int control(const std::string& whom, const std::vector<std::string>& words);

struct TopOptions {
  double interval = 1;  ///< Seconds between two looks.
  bool json = false;    ///< One JSON document instead of a table.
  bool once = false;    ///< One table.
};
/// Shows what the QPs of all processes of this user do, until ^C. 0; 1: none that we may look into has a NIC open, with
/// --json or once.
int top(const TopOptions& options);

/// Tells everything about the QPs that `name` ("PID/QPN", or "PID" for all of the process) stands for. 1: there is
/// none.
int show_qp(const std::string& name, bool json);

struct PeerOptions {
  std::string peer;            ///< The host on which the other one listens ...
  bool listens = false;        ///< ... or this one does.
  std::uint16_t port = 18515;  ///< TCP.
};
/// Sends packets between a NIC here and one at the peer, and prints for each direction whether they arrive. 0: they do;
/// 1: in one of them they do not; 2: it could not be tried.
int examine_peer(const PeerOptions& options);

}  // namespace uroce::tools
