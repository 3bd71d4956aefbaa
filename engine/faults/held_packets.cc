// SPDX-License-Identifier: Apache-2.0
#include "engine/faults/held_packets.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "proto/base/copy_packet.h"

namespace uroce::engine::faults {
namespace {

#ifdef __SANITIZE_ADDRESS__  // Which finds out who reads beyond a packet if its memory ends there.
constexpr bool kReuses = false;
#else
constexpr bool kReuses = true;
#endif

}  // namespace

bool HeldPackets::hold(Instant until, Held packet) {
  if (turns_.size() == kMost) return false;
  overtakable_ += packet.distance != 0;
  if (vacant_.empty()) {
    vacant_.push_back(static_cast<std::uint32_t>(places_.size()));
    places_.emplace_back();
  }
  const std::uint32_t place = vacant_.back();
  vacant_.pop_back();
  places_[place] = std::move(packet);
  turns_.push_back({until, ++orders_, place});
  std::push_heap(turns_.begin(), turns_.end(), std::greater<>());
  return true;
}

void HeldPackets::overtake(StreamId stream) {
  if (overtakable_ == 0) return;
  for (Turn& turn : turns_) {
    Held& held = places_[turn.place];
    if (held.stream != stream || held.distance == 0 || --held.distance != 0) continue;
    --overtakable_;
    turn.until = Instant::min();
  }
  std::make_heap(turns_.begin(), turns_.end(), std::greater<>());
}

std::optional<HeldPackets::Held> HeldPackets::take_due(Instant now) {
  if (turns_.empty() || turns_.front().until > now) return std::nullopt;
  std::pop_heap(turns_.begin(), turns_.end(), std::greater<>());
  const std::uint32_t place = turns_.back().place;
  turns_.pop_back();
  vacant_.push_back(place);
  Held& held = places_[place];
  overtakable_ -= held.distance != 0;
  return std::move(held);
}

std::optional<Instant> HeldPackets::next() const {
  return turns_.empty() ? std::nullopt : std::optional(turns_.front().until);
}

void HeldPackets::hurry() {
  for (Turn& turn : turns_) turn.until = Instant::min();
  std::make_heap(turns_.begin(), turns_.end(), std::greater<>());
}

std::vector<std::uint8_t> Spares::copy(Bytes bytes) {
  std::vector<std::uint8_t> copied;
  if (!spares_.empty()) {
    copied = std::move(spares_.back());
    spares_.pop_back();
  }
  copied.resize(bytes.size());
  copy_packet(copied.data(), bytes.data(), bytes.size());
  return copied;
}

void Spares::give_back(std::vector<std::uint8_t> bytes) {
  if (kReuses && spares_.size() < kMost) spares_.push_back(std::move(bytes));
}

}  // namespace uroce::engine::faults
