// SPDX-License-Identifier: Apache-2.0
#include "engine/port/idle_rings.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "engine/os/left_to_parent.h"

namespace uroce::engine {
namespace {

constexpr std::size_t kKept = 16;  ///< More NICs at a time are rare; each ring takes some 40 KiB.

/// No lock: a fork may happen with any lock of ours held.
std::array<std::atomic<OpenRing*>, kKept> idle{};

void forget_in_child() {
  for (auto& place : idle) {
    if (OpenRing* const ring = place.exchange(nullptr)) leave_to_parent(OwnedRing(ring));
  }
}

// At load: a fork() that has begun already, and waits for a lock of ours, would miss what is installed later.
[[maybe_unused]] const int kInstalled = pthread_atfork(nullptr, nullptr, forget_in_child);

}  // namespace

void OpenRing::remember() { file = FileIdentity::of(ring.ring_fd); }

bool OpenRing::is_there() const { return file && file->is_behind(ring.ring_fd); }

void CloseRing::operator()(OpenRing* ring) const {
  if (!ring->is_there()) ring->ring.ring_fd = -1;
  io_uring_queue_exit(&ring->ring);
  delete ring;
}

void leave_to_parent(OwnedRing ring) {
  OpenRing* const left = ring.release();
  if (left->is_there()) ::close(left->ring.ring_fd);
  leave_to_parent(*left);
}

void keep_idle(OwnedRing ring) {
  for (auto& place : idle) {
    OpenRing* empty = nullptr;
    if (!place.compare_exchange_strong(empty, ring.get())) continue;
    static_cast<void>(ring.release());
    return;
  }
}

OwnedRing take_idle(unsigned entries, unsigned cq_entries) {
  for (auto& place : idle) {
    OwnedRing ring(place.exchange(nullptr));
    if (ring == nullptr) continue;
    const io_uring& r = ring->ring;
    if (ring->is_there() && r.sq.ring_entries == entries && r.cq.ring_entries == cq_entries) return ring;
    if (ring->is_there()) keep_idle(std::move(ring));
  }
  return nullptr;
}

}  // namespace uroce::engine
