// SPDX-License-Identifier: Apache-2.0
// What the user asked for: command line, environment and configuration file, in this order of precedence.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

#include "tools/backend/backend.h"
#include "tools/rdma/rdma.h"
#include "tools/rdma/steps.h"
#include "tools/session/session.h"

namespace uroce::tools {

struct Options {
  std::string program;  ///< As it was called: packages have names of their own for rdma_server and rdma_client.
  SessionOptions session;
  DeviceChoice device;
  Backend backend = Backend::kUroce;
  std::string server;        ///< Client: whom to connect to; by RDMA CM with session.cm.
  std::string bind_address;  ///< Server: where to listen, "" = everywhere.
  std::uint16_t port = 18515;
  std::chrono::milliseconds connect_timeout{3000};
  bool loop = false;
  bool json = false;
  bool trace = false;
  bool explain = false;                    ///< Tell the story of the run at its end.
  Language language = Language::kEnglish;  ///< For the trace.
  std::string addr;                        ///< As UROCE_ADDR.
  std::string pcap;
  std::string wire;    ///< As UROCE_WIRE.
  std::string faults;  ///< As UROCE_FAULTS.
};

/// What is wrong with the options, and those that were understood.
struct RefusedOptions {
  Options options;
  std::string why;
};

/// The options; or what is wrong with them; or the status to exit with at once, as help was printed.
std::variant<Options, RefusedOptions, int> parse_options(Role role, int argc, const char* const* argv);

}  // namespace uroce::tools
