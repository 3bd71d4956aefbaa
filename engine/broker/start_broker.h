// SPDX-License-Identifier: Apache-2.0
// Starting a broker: a process of its own that lives as long as somebody shares the address.
#pragma once

#include <optional>
#include <string>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"
#include "engine/os/setup_error.h"
#include "proto/base/result.h"
#include "proto/path.h"

namespace uroce::engine {

/// Descriptor on which a broker says that it listens (one byte, kBrokerListens) or why not (a sentence), to the process
/// that started it. Nothing else is inherited.
inline constexpr int kBrokerReport = 3;
inline constexpr char kBrokerListens = '+';

/// The broker's executable: beside the file (library or program) that this code is in, or in ../bin or ../lib/uroce
/// from there. Nothing when there is none.
std::optional<std::string> find_broker();

/// Starts `executable` with one argument, and `descriptor` as its descriptor 3; it inherits nothing else, neither
/// processors, nor a scheduling policy, nor a nice value (as far as the caller may change them). No child of the caller
/// either. Nothing, or why it can't be started.
std::optional<SetupError> start_helper(const std::string& executable, const char* argument, Fd descriptor);
/// The argument with which uroce-broker executes the wills of a process (wills.h).
inline constexpr const char* kExecuteWills = "--wills";

/// A broker that is being started. The new process is no child of the caller, who gets no signal and has nothing to
/// wait for.
class BrokerStart {
 public:
  enum class State : std::uint8_t {
    kUnderWay,
    kListens,   ///< The new one, or another.
    kVanished,  ///< It has ended silently, like one that was killed.
    kFailed,
  };

  /// Starts `executable` for `local`. An error when not even that is possible.
  static Result<BrokerStart, SetupError> begin(const std::string& executable, const proto::Gid& local);
  /// How far it is. To be called when `fd()` becomes readable, or at `deadline()`.
  State look();
  int fd() const { return report_.get(); }
  Instant deadline() const { return deadline_; }
  /// Why it failed, or that it vanished.
  const SetupError& error() const { return error_; }

 private:
  BrokerStart(std::string executable, Fd report);

  std::string executable_;
  Fd report_;
  Instant deadline_;
  SetupError error_;
};

}  // namespace uroce::engine
