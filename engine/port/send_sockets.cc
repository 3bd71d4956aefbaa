// SPDX-License-Identifier: Apache-2.0
#include "engine/port/send_sockets.h"

#include "proto/base/check.h"

namespace uroce::engine {
namespace {

/// How many ports above the wanted one are tried when a program that does not share has it.
constexpr int kNeighboursTried = 16;

/// Next port within 0xC000..0xFFFF, the range of RoCEv2 source ports.
constexpr std::uint16_t next_port(std::uint16_t port) { return static_cast<std::uint16_t>((port + 1) | 0xC000); }

}  // namespace

std::size_t SendSockets::KeyHash::operator()(const Key& key) const {
  std::uint64_t high, low;
  std::memcpy(&high, key.local.raw.data(), sizeof high);
  std::memcpy(&low, key.local.raw.data() + 8, sizeof low);
  return static_cast<std::size_t>((high ^ low ^ key.port) * 0x9E3779B97F4A7C15u >> 32);
}

std::uint16_t SendSockets::acquire(const proto::Gid& local, std::uint16_t wanted) {
  const bool has_room = acquired_ < max_acquired_;
  std::optional<SendSlot> slot = has_room ? find_or_open_neighbour(local, wanted) : least_used(local);
  if (!slot) slot = has_room ? least_used(local) : find_or_open_neighbour(local, wanted);
  if (!slot) return 0;
  SendSocket& socket = slots_[slot->value];
  if (socket.users++ == 0) ++acquired_;
  return socket.port;
}

std::optional<SendSlot> SendSockets::find_or_open_neighbour(const proto::Gid& local, std::uint16_t wanted) {
  std::optional<SendSlot> slot;
  for (int i = 0; i < kNeighboursTried && !slot; ++i, wanted = next_port(wanted)) slot = find_or_open(local, wanted);
  return slot;
}

void SendSockets::release(const proto::Gid& local, std::uint16_t port) {
  const std::optional<SendSlot> slot = find(local, port);
  if (!slot || slots_[slot->value].users == 0 || --slots_[slot->value].users > 0) return;
  --acquired_;
  slots_[slot->value].last_used = ++uses_;
  close_unused();
}

/// Closes the socket that has been without users for longest, if there are too many of them.
void SendSockets::close_unused() {
  const auto [count, oldest] = unused();
  if (count > kMaxUnused) close(*oldest);
}

SendSockets::Unused SendSockets::unused() const {
  Unused found;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].fd || slots_[i].users != 0 || slots_[i].queued != 0) continue;
    if (found.count++ == 0 || slots_[i].last_used < slots_[found.oldest->value].last_used) {
      found.oldest = SendSlot{static_cast<std::uint16_t>(i)};
    }
  }
  return found;
}

void SendSockets::close(SendSlot slot) {
  SendSocket& socket = slots_[slot.value];
  if (on_change_) on_change_(slot, -1);
  by_port_.erase(Key{socket.local, socket.port});
  socket = SendSocket{};
}

std::optional<SendSlot> SendSockets::find_or_open(const proto::Gid& local, std::uint16_t port) {
  const std::optional<SendSlot> slot = find(local, port);
  if (!slot) return open(local, port);
  SendSocket& socket = slots_[slot->value];
  if (socket.users == 0) socket.last_used = ++uses_;
  return slot;
}

void SendSockets::close_all() {
  by_port_.clear();
  slots_.clear();
}

std::optional<SendSlot> SendSockets::find(const proto::Gid& local, std::uint16_t port) const {
  const auto it = by_port_.find(Key{local, port});
  if (it == by_port_.end()) return std::nullopt;
  return it->second;
}

std::optional<SendSlot> SendSockets::open(const proto::Gid& local, std::uint16_t port) {
  const std::optional<SendSlot> slot = vacant_slot();
  if (!slot) return std::nullopt;
  Result<Fd, SetupError> fd = open_send_socket(local, port);
  if (!fd) return std::nullopt;
  SendSocket& socket = slots_[slot->value];
  socket = SendSocket{
      .fd = std::move(*fd), .local = local, .scope = link_local_scope(local), .port = port, .last_used = ++uses_};
  by_port_.emplace(Key{local, port}, *slot);
  if (on_change_) on_change_(*slot, socket.fd.get());
  return slot;
}

/// A slot without socket, made by closing one that nobody uses if there is no other.
std::optional<SendSlot> SendSockets::vacant_slot() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].fd) return SendSlot{static_cast<std::uint16_t>(i)};
  }
  if (slots_.size() < max_) {
    slots_.emplace_back();
    return SendSlot{static_cast<std::uint16_t>(slots_.size() - 1)};
  }
  const std::optional<SendSlot> slot = unused().oldest;
  if (slot) close(*slot);
  return slot;
}

std::optional<SendSlot> SendSockets::least_used(const proto::Gid& local) const {
  std::optional<SendSlot> best;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].fd || slots_[i].local != local) continue;
    if (slots_[i].users == 0 && acquired_ >= max_acquired_) continue;
    if (!best || slots_[i].users < slots_[best->value].users) best = SendSlot{static_cast<std::uint16_t>(i)};
  }
  return best;
}

}  // namespace uroce::engine
