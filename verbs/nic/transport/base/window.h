// How much of the peers' receive buffers our unacknowledged packets may occupy, over all QPs of a NIC. RC has no flow
// control of its own for packets; without a bound a sender overruns the receiver's socket buffer and go-back-N turns
// that into a storm. READ responses count as well: they land in our own buffer, and the requester is who can bound
// them.
#pragma once

#include <bit>
#include <cstdint>

#include "proto/base/check.h"

namespace uroce::nic {

class Window {
 public:
  explicit Window(std::uint64_t limit) : limit_(limit) {}

  /// Bytes that the kernel charges a socket's receive buffer for one datagram: the buffer, rounded up to a power of
  /// two, and its descriptor (measured on Linux 6.x loopback).
  static constexpr std::uint64_t cost(std::uint32_t payload) { return std::bit_ceil(payload + 450u) + 256u; }

  bool has_room() const { return used_ < limit_; }
  void take(std::uint64_t bytes) { used_ += bytes; }
  void give_back(std::uint64_t bytes) {
    UROCE_ASSERT(bytes <= used_);
    used_ -= bytes;
  }
  std::uint64_t used() const { return used_; }

 private:
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
};

}  // namespace uroce::nic
