// SPDX-License-Identifier: Apache-2.0
// The sockets that a port sends from: one per local address and UDP source port, as the source port is the entropy that
// spreads QPs over paths. There is room for a limited number; beyond that, QPs share source ports.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/port/udp_socket.h"

namespace uroce::engine {

/// Names an open send socket. Indices are reused.
struct SendIndex {
  std::uint16_t value = 0;
  friend bool operator==(SendIndex, SendIndex) = default;
};

struct SendSocket {
  Fd fd;
  proto::Gid local;
  std::uint32_t scope = 0;
  std::uint16_t port = 0;
  std::uint32_t users = 0;      ///< acquire() minus release()
  std::uint32_t queued = 0;     ///< Frames that wait to be sent from it.
  std::uint64_t last_used = 0;  ///< When the last user left or, without users, when it sent; a higher number is later.
  bool has_header_fields = false;
  std::uint8_t tclass = 0;  ///< What the kernel puts into packets without control messages.
  std::uint8_t hop_limit = 0;
};

class SendSockets {
 public:
  static constexpr std::uint16_t kMax = 256;
  /// Sockets that stay open though nobody uses them: the last acknowledgements of a QP leave after it has gone, and the
  /// next QP often has the same port. find_or_open() opens a closed one again.
  static constexpr std::size_t kMaxUnused = 16;
  /// So many can be acquired; more users share them. The rest is for packets that acquire nothing: connection
  /// management, and those last acknowledgements.
  static constexpr std::uint16_t kMaxAcquired = kMax - kMaxUnused;
  /// So many of those may a port acquire in this process: no more than a quarter of the descriptors that it may have
  /// (RLIMIT_NOFILE), which the program needs, too.
  static std::uint16_t fair_share();
  /// Called when a socket has been opened under an index, and (fd -1) before it is closed.
  using OnChange = std::function<void(SendIndex, int fd)>;

  explicit SendSockets(std::uint16_t max_acquired = kMaxAcquired, std::uint16_t max = kMax)
      : max_acquired_(max_acquired), max_(max) {}
  void set_on_change(OnChange on_change) { on_change_ = std::move(on_change); }

  /// See Port::acquire_source_port(). Takes a neighbour when `wanted` belongs to a program that does not share it, any
  /// port when such a program has all of them, and the least used open port of `local` when there is no room; 0 when
  /// no socket could be opened at all.
  std::uint16_t acquire(const proto::Gid& local, std::uint16_t wanted);
  void release(const proto::Gid& local, std::uint16_t port);

  /// The socket that sends from `local` and `port`; opened now if it was not acquired. Nothing when that fails: another
  /// port would not do, as the ICRC of the packet covers it.
  std::optional<SendIndex> find_or_open(const proto::Gid& local, std::uint16_t port);

  SendSocket& operator[](SendIndex index) { return sockets_[index.value]; }
  std::size_t open_count() const { return by_port_.size(); }
  void close_all();
  /// Multicast packets leave where the addresses are now.
  void follow_addresses();

 private:
  struct Key {
    proto::Gid local;
    std::uint16_t port;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };

  std::optional<SendIndex> find(const proto::Gid& local, std::uint16_t port) const;
  std::optional<SendIndex> find_or_open_neighbour(const proto::Gid& local, std::uint16_t wanted);
  std::optional<SendIndex> open(const proto::Gid& local, std::uint16_t port);
  std::optional<SendIndex> vacant_index();
  std::optional<SendIndex> least_used(const proto::Gid& local) const;
  struct Unused {
    std::size_t count = 0;
    std::optional<SendIndex> oldest;  ///< The one that has been without use for longest.
  };
  Unused unused() const;
  void close_unused();
  void close(SendIndex index);

  std::uint16_t max_acquired_, max_;
  std::vector<SendSocket> sockets_;
  std::unordered_map<Key, SendIndex, KeyHash> by_port_;
  std::uint16_t acquired_ = 0;  ///< Sockets that have users.
  std::uint64_t uses_ = 0;
  OnChange on_change_;
};

}  // namespace uroce::engine
