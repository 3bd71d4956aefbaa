// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/channel_fd.h"

#include <array>
#include <atomic>
#include <cerrno>

#include "proto/base/no_cancellation.h"
#include "verbs/preload/borrowed_memory.h"
#include "verbs/rdmacm/front.h"

namespace uroce::preload {
namespace {

/// Whether a channel was ever opened.
std::atomic<bool> used = false;
/// Descriptors that are, or were once, channels. Never taken back: after vfork() a child closes descriptors in the
/// memory of its parent, which keeps them.
constexpr std::size_t kMarks = 4096;
std::array<std::atomic<bool>, kMarks> marks{};

bool is_marked(int descriptor) {
  if (!used.load(std::memory_order_relaxed) || descriptor < 0) return false;
  const auto at = static_cast<std::size_t>(descriptor);
  return at >= kMarks || marks.at(at).load(std::memory_order_relaxed);
}

void mark(int descriptor) {
  if (descriptor < 0) return;
  const auto at = static_cast<std::size_t>(descriptor);
  if (at < kMarks) marks.at(at).store(true, std::memory_order_relaxed);
  used.store(true, std::memory_order_relaxed);
}

}  // namespace

int open_channel(int flags) {
  const int descriptor = rdmacm::Front::get().open_channel(flags);
  mark(descriptor);
  return descriptor;
}

std::shared_ptr<rdmacm::Channel> channel_of(int descriptor) {
  if (!is_marked(descriptor)) return nullptr;
  const int error = errno;
  const auto pipe = rdmacm::pipe_behind(descriptor);
  auto channel = pipe ? rdmacm::Front::get().channel_with(*pipe) : nullptr;
  errno = error;
  return channel;
}

void note_copy(int of, int copy) {
  if (copy >= 0 && is_marked(of)) mark(copy);
}

void note_close(const std::shared_ptr<rdmacm::Channel>& channel) {
  const NoCancellation whole;
  const int error = errno;
  if (!borrows_memory()) rdmacm::Front::get().copy_closed(channel);
  errno = error;
}

void note_closes() {
  if (!used.load(std::memory_order_relaxed)) return;
  const NoCancellation whole;
  const int error = errno;
  if (!borrows_memory()) rdmacm::Front::get().release_closed();
  errno = error;
}

}  // namespace uroce::preload
