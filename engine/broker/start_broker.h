// Starting a broker: a process of its own that lives as long as somebody shares the address.
#pragma once

#include <optional>
#include <string>

#include "engine/setup_error.h"
#include "proto/path.h"

namespace uroce::engine {

/// Descriptor on which a broker tells who started it that it listens, or why not: one byte, kBrokerListens, or a
/// sentence. Nothing else is inherited.
inline constexpr int kBrokerReport = 3;
inline constexpr char kBrokerListens = '+';

/// The broker's executable: beside the file (library or program) that this code is in, or in ../bin or ../lib/uroce
/// from there. Nothing when there is none.
std::optional<std::string> find_broker();

/// Starts `executable` for `local` and waits until it listens, or finds that another one does. The new process is no
/// child of the caller, who gets no signal and has nothing to wait for. An error when it does not start.
std::optional<SetupError> start_broker(const std::string& executable, const proto::Gid& local);

}  // namespace uroce::engine
