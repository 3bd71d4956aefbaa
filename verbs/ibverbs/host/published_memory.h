// Memory that other processes of the user can read, as they can ask a kernel about its NICs: a memfd that the process
// has open and nobody else. It has a name for who looks through /proc, and is gone with its process.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>

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

/// The same for names that begin like this, of process `only_pid` (0: of all).
void for_each_published_of(std::uint32_t only_pid, const std::string& prefix,
                           const std::function<void(int, std::uint32_t)>& see);

/// Text in a field of fixed size, which is zero before; what does not fit is cut off.
template <std::size_t N>
void set_text(std::array<char, N>& field, const std::string& text) {
  std::memcpy(field.data(), text.data(), std::min(text.size(), N - 1));
}

}  // namespace uroce::ibv
