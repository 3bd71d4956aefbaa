// SPDX-License-Identifier: Apache-2.0
// Memory that other processes of the user can read, as they can ask a kernel about its NICs: a memfd that the process
// has open and nobody else. Its name can be found in /proc, and it is gone with its process.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/os/fd.h"

namespace uroce::ibv {

/// The name of a memfd: `kind` tells what is in it, `name` of which NIC. Another build of ours may keep other things
/// there; it has other names then.
std::string published_name(const std::string& kind, const std::string& name);

/// `size` bytes of zeros under that name, mapped at `*memory`. Invalid where there is no shared memory.
engine::Fd publish_memory(const std::string& published, std::size_t size, void** memory);

/// Calls `see(descriptor, pid)` for each process of ours, this one too, that publishes under that name. Takes
/// milliseconds.
void for_each_published(const std::string& published, const std::function<void(int, std::uint32_t)>& see);

/// Calls `see(descriptor, pid)` for each file that processes of ours have open under a name (what /proc/PID/fd shows)
/// that is `wanted`, once for each file. `only_pid`: for that process; 0: for all. Takes milliseconds.
void for_each_open_file(std::uint32_t only_pid, const std::function<bool(const std::string& name)>& wanted,
                        const std::function<void(int, std::uint32_t)>& see);

/// What such names of published memory begin with.
inline constexpr std::string_view kMemoryPrefix = "/memfd:";

}  // namespace uroce::ibv
