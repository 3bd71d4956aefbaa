// SPDX-License-Identifier: Apache-2.0
// Transmit frames: one block of memory cut into equal frames, named by index. Frames are handed out and taken back in
// any order; nothing is allocated after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "proto/base/check.h"
#include "proto/packet.h"

namespace uroce::engine {

/// Names a frame of one FramePool.
struct FrameIndex {
  std::uint32_t value = 0;
  friend bool operator==(FrameIndex, FrameIndex) = default;
};

class FramePool {
 public:
  /// Room for the largest packet, in whole cache lines so that neighbours do not share one.
  static constexpr std::size_t kStride = (proto::kMaxPacketSize + 63) / 64 * 64;

  explicit FramePool(std::uint32_t count)
      : memory_(static_cast<std::uint8_t*>(::operator new (count* kStride, std::align_val_t{64}))),
        busy_(count, false) {
    free_.reserve(count);
    for (std::uint32_t i = count; i-- > 0;) free_.push_back({i});
  }

  /// The frame used last, whose cache lines are the warmest; nothing when all are taken.
  std::optional<FrameIndex> take() {
    if (free_.empty()) return std::nullopt;
    const FrameIndex frame = free_.back();
    free_.pop_back();
    busy_[frame.value] = true;
    return frame;
  }
  void give_back(FrameIndex frame) {
    UROCE_ASSERT(frame.value < busy_.size() && busy_[frame.value]);
    busy_[frame.value] = false;
    free_.push_back(frame);
  }

  MutBytes bytes(FrameIndex frame) { return {memory_.get() + frame.value * kStride, kStride}; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(busy_.size()); }
  std::size_t free_count() const { return free_.size(); }

 private:
  struct Release {
    void operator()(std::uint8_t* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::uint8_t[], Release> memory_;
  std::vector<FrameIndex> free_;
  std::vector<bool> busy_;
};

}  // namespace uroce::engine
