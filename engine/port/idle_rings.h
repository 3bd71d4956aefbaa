// SPDX-License-Identifier: Apache-2.0
// io_urings that no port uses any more, kept for the next port. When one is closed, Linux interrupts each thread of the
// process that has ever used it, some milliseconds later and without a signal: epoll_wait, and reads from sockets with
// a time limit, then fail with EINTR (seen on Linux 6.1 to 6.18). Programs that open and close a device several times,
// and do not expect EINTR, would end there.
#pragma once

#include <liburing.h>

#include <memory>
#include <optional>

#include "engine/os/known_fd.h"

namespace uroce::engine {

/// A ring, and by what its descriptor is known: programs close descriptors that are not theirs.
struct OpenRing {
  io_uring ring;
  std::optional<FileIdentity> file;

  /// To be called when the ring has just been opened.
  void remember();
  /// Whether the descriptor is still the ring's.
  bool is_there() const;

  OpenRing* left_before = nullptr;  ///< For leave_to_parent().
};

/// Closes the ring, if its descriptor is still its own.
struct CloseRing {
  void operator()(OpenRing* ring) const;
};
using OwnedRing = std::unique_ptr<OpenRing, CloseRing>;

/// In a child of fork(): closes the descriptor. The mappings are the parent's as well.
void leave_to_parent(OwnedRing ring);

/// Keeps a ring that has nothing in flight, nothing queued and nothing registered; closes it when enough are kept.
/// A child of fork() has none of those that its parent keeps. Any thread.
void keep_idle(OwnedRing ring);
/// One that was kept, with these numbers of entries; null when there is none.
OwnedRing take_idle(unsigned entries, unsigned cq_entries);

}  // namespace uroce::engine
