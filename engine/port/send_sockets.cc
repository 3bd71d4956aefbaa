// SPDX-License-Identifier: Apache-2.0
#include "engine/port/send_sockets.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>

#include "engine/port/socket_address.h"
#include "proto/base/check.h"

namespace uroce::engine {
namespace {

/// How many ports above the wanted one are tried when a program that does not share has it.
constexpr int kNeighboursTried = 16;

/// Next port within 0xC000..0xFFFF, the range of RoCEv2 source ports.
constexpr std::uint16_t next_port(std::uint16_t port) { return static_cast<std::uint16_t>((port + 1) | 0xC000); }

std::uint16_t bound_port(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  auto* const address = reinterpret_cast<sockaddr*>(&bound);
  return ::getsockname(fd, address, &size) == 0 ? port_of(address) : std::uint16_t{0};
}

}  // namespace

std::size_t SendSockets::KeyHash::operator()(const Key& key) const {
  std::uint64_t high, low;
  std::memcpy(&high, key.local.raw.data(), sizeof high);
  std::memcpy(&low, key.local.raw.data() + 8, sizeof low);
  return static_cast<std::size_t>((high ^ low ^ key.port) * 0x9E3779B97F4A7C15u >> 32);
}

std::uint16_t SendSockets::fair_share() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return kMaxAcquired;
  return static_cast<std::uint16_t>(std::clamp<rlim_t>(files.rlim_cur / 4, 1, kMaxAcquired));
}

std::uint16_t SendSockets::acquire(const proto::Gid& local, std::uint16_t wanted) {
  const bool has_room = acquired_ < max_acquired_;
  std::optional<SendIndex> index = has_room ? find_or_open_neighbour(local, wanted) : least_used(local);
  if (!index) index = has_room ? least_used(local) : find_or_open_neighbour(local, wanted);
  if (!index) return 0;
  SendSocket& socket = sockets_[index->value];
  if (socket.users++ == 0) ++acquired_;
  return socket.port;
}

std::optional<SendIndex> SendSockets::find_or_open_neighbour(const proto::Gid& local, std::uint16_t wanted) {
  std::optional<SendIndex> index;
  for (int i = 0; i < kNeighboursTried && !index; ++i, wanted = next_port(wanted)) index = find_or_open(local, wanted);
  // Nothing demands that range of ports, and anybody on this machine may take all of it.
  return index ? index : open(local, 0);
}

void SendSockets::release(const proto::Gid& local, std::uint16_t port) {
  const std::optional<SendIndex> index = find(local, port);
  if (!index || sockets_[index->value].users == 0 || --sockets_[index->value].users > 0) return;
  --acquired_;
  sockets_[index->value].last_used = ++uses_;
  close_unused();
}

/// Closes the socket that has been without users for longest, if there are too many of them.
void SendSockets::close_unused() {
  const auto [count, oldest] = unused();
  if (count > kMaxUnused) close(*oldest);
}

SendSockets::Unused SendSockets::unused() const {
  Unused found;
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    if (!sockets_[i].fd || sockets_[i].users != 0 || sockets_[i].queued != 0) continue;
    if (found.count++ == 0 || sockets_[i].last_used < sockets_[found.oldest->value].last_used) {
      found.oldest = SendIndex{static_cast<std::uint16_t>(i)};
    }
  }
  return found;
}

void SendSockets::close(SendIndex index) {
  SendSocket& socket = sockets_[index.value];
  if (on_change_) on_change_(index, -1);
  by_port_.erase(Key{socket.local, socket.port});
  socket = SendSocket{};
}

std::optional<SendIndex> SendSockets::find_or_open(const proto::Gid& local, std::uint16_t port) {
  const std::optional<SendIndex> index = find(local, port);
  if (!index) return open(local, port);
  SendSocket& socket = sockets_[index->value];
  if (socket.users == 0) socket.last_used = ++uses_;
  return index;
}

void SendSockets::close_all() {
  by_port_.clear();
  sockets_.clear();
}

std::optional<SendIndex> SendSockets::find(const proto::Gid& local, std::uint16_t port) const {
  const auto it = by_port_.find(Key{local, port});
  if (it == by_port_.end()) return std::nullopt;
  return it->second;
}

void SendSockets::follow_addresses() {
  for (const SendSocket& socket : sockets_) {
    if (socket.fd) direct_multicast(socket.fd.get(), socket.local);
  }
}

/// Port 0: one that the kernel chooses.
std::optional<SendIndex> SendSockets::open(const proto::Gid& local, std::uint16_t port) {
  const std::optional<SendIndex> index = vacant_index();
  if (!index) return std::nullopt;
  Result<Fd, SetupError> fd = open_send_socket(local, port);
  if (!fd) return std::nullopt;
  if (port == 0) {
    port = bound_port(fd->get());
    if (const auto known = find(local, port)) return known;  // The kernel may choose one that we share already.
  }
  by_port_.emplace(Key{local, port}, *index);  // Takes memory, and may find none: before there is a socket to forget.
  SendSocket& socket = sockets_[index->value];
  socket = SendSocket{
      .fd = std::move(*fd), .local = local, .scope = link_local_scope(local), .port = port, .last_used = ++uses_};
  if (on_change_) on_change_(*index, socket.fd.get());
  return index;
}

/// An index without socket, made by closing one that nobody uses if there is no other.
std::optional<SendIndex> SendSockets::vacant_index() {
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    if (!sockets_[i].fd) return SendIndex{static_cast<std::uint16_t>(i)};
  }
  if (sockets_.size() < max_) {
    sockets_.emplace_back();
    return SendIndex{static_cast<std::uint16_t>(sockets_.size() - 1)};
  }
  const std::optional<SendIndex> index = unused().oldest;
  if (index) close(*index);
  return index;
}

std::optional<SendIndex> SendSockets::least_used(const proto::Gid& local) const {
  std::optional<SendIndex> best;
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    if (!sockets_[i].fd || sockets_[i].local != local) continue;
    if (sockets_[i].users == 0 && acquired_ >= max_acquired_) continue;
    if (!best || sockets_[i].users < sockets_[best->value].users) best = SendIndex{static_cast<std::uint16_t>(i)};
  }
  return best;
}

}  // namespace uroce::engine
