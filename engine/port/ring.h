// SPDX-License-Identifier: Apache-2.0
// RAII over liburing: the ring itself, the provided-buffer ring, and what this kernel can do, found out once by trying.
#pragma once

#include <liburing.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/os/setup_error.h"
#include "engine/port/idle_rings.h"
#include "proto/base/result.h"
#include "proto/bytes.h"

namespace uroce::engine {

/// An io_uring for requests that complete while they are submitted. Several threads may use it, one at a time: nothing
/// is armed in any of them, so that none of them owes the others a completion. Its end unregisters files and the
/// BufferRing.
class Ring {
 public:
  /// `entries`: submission queue; `cq_entries`: completion queue; powers of two. Errors: EPERM (seccomp filter or
  /// kernel.io_uring_disabled), ENOSYS, ENOMEM (RLIMIT_MEMLOCK), EINVAL (older than Linux 6.1), as sentences.
  static Result<Ring, SetupError> open(unsigned entries, unsigned cq_entries);

  ~Ring();
  Ring(Ring&&) = default;
  Ring& operator=(Ring&&) = delete;

  io_uring* get() const { return ring_ ? &ring_->ring : nullptr; }
  /// Next free submission entry, zeroed; null when the queue is full.
  io_uring_sqe* next_sqe() const { return io_uring_get_sqe(get()); }
  /// Submits what is queued: one system call. What the kernel does not take stays queued.
  void submit() const { io_uring_submit(get()); }
  /// Calls `handle(cqe)` for every completion that is there, without a system call; then frees their entries. Those
  /// behind one that it throws at are for the next time.
  template <class Handle>
  void reap(Handle&& handle) const {
    struct Seen {
      ~Seen() { io_uring_cq_advance(ring, count); }
      io_uring* ring;
      unsigned count = 0;
    } seen{get()};
    unsigned head = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(get(), head, cqe) {
      ++seen.count;
      handle(*cqe);
    }
  }

  /// In the child of fork(): closes the descriptor and leaves the mappings, which the parent set up, alone.
  void abandon();

 private:
  explicit Ring(OwnedRing ring) : ring_(std::move(ring)) {}
  OwnedRing ring_;
};

/// Receive buffers that the kernel takes from a shared ring as packets arrive, and that the user gives back.
class BufferRing {
 public:
  /// Linux 6.1 (not 6.12) keeps the place of the next buffer of groups below 64 when their ring is unregistered: the
  /// next ring would begin there, and the kernel would fill buffers that nobody has given back.
  static constexpr std::uint16_t kGroup = 64;

  /// `count` buffers (a power of two) of `size` bytes. The ring must outlive this.
  static Result<BufferRing, SetupError> open(const Ring& ring, std::uint16_t count, std::size_t size);

  std::uint8_t* buffer(std::uint16_t id) const { return memory_.get() + entries_bytes(count_) + id * size_; }
  /// Hands a buffer back to the kernel; it may be filled again at once.
  void give_back(std::uint16_t id) const;

  /// The buffer of a completion with IORING_CQE_F_BUFFER.
  static std::uint16_t id_of(const io_uring_cqe& cqe) {
    return static_cast<std::uint16_t>(cqe.flags >> IORING_CQE_BUFFER_SHIFT);
  }
  void abandon() { static_cast<void>(memory_.release()); }

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::uint8_t* memory) const;
  };
  BufferRing(std::unique_ptr<std::uint8_t[], Unmap> memory, std::uint16_t count, std::size_t size)
      : memory_(std::move(memory)), count_(count), size_(size) {}
  /// The kernel's entries come first, in whole pages; the buffers follow.
  static std::size_t entries_bytes(std::uint16_t count);
  io_uring_buf_ring* entries() const { return reinterpret_cast<io_uring_buf_ring*>(memory_.get()); }

  std::unique_ptr<std::uint8_t[], Unmap> memory_;
  std::uint16_t count_;
  std::size_t size_;
};

}  // namespace uroce::engine
