// SPDX-License-Identifier: Apache-2.0
// Makes the links between this NIC and others of this user on this host, and notices their end. A thread of its own
// does that: the threads that move packets never wait for another process.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/os/background_thread.h"
#include "engine/os/setup_error.h"
#include "engine/os/waiter.h"
#include "engine/shm/bell.h"
#include "engine/shm/greeting.h"
#include "engine/shm/packet_ring.h"
#include "proto/base/result.h"

namespace uroce::engine {

/// Names a link of one LinkKeeper for as long as that lives.
using LinkId = std::uint64_t;

struct OutgoingLink {
  LinkId id;
  LinkName name;
  RingWriter ring;
  BellRope thread_bell, program_bell;
};
struct IncomingLink {
  IncomingLink(LinkId i, const LinkName& n, Mapping memory) : id(i), name(n), ring(std::move(memory)) {}
  LinkId id;
  LinkName name;
  RingReader ring;
};

/// What has happened since the last time.
struct LinkNews {
  std::vector<OutgoingLink> outgoing;
  std::vector<std::unique_ptr<IncomingLink>> incoming;
  std::vector<LinkId> ended;  ///< The other process is gone. What it wrote is still there to be read.
};

class LinkKeeper {
 public:
  /// Links in each direction. Packets for others go by UDP.
  static constexpr std::size_t kMost = 256;

  /// Listens for the NIC that has `slot` of each of `locals`. `bells` must outlive this. `wake` is called, by the
  /// thread, when there are news. The error says why this host, or this process, can't have links.
  static Result<std::unique_ptr<LinkKeeper>, SetupError> start(std::span<const proto::Gid> locals, std::uint8_t slot,
                                                               const Bells& bells, std::function<void()> wake);
  ~LinkKeeper();
  LinkKeeper(const LinkKeeper&) = delete;
  LinkKeeper& operator=(const LinkKeeper&) = delete;

  /// Asks for a link, unless there is one or it is being made. There may be no answer: nobody listens, or another user.
  void want(const LinkName& name);
  /// Ends a link whose other side breaks the rules.
  void drop(LinkId id);
  bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  LinkNews take_news();

  // Around fork(), as with Lease.
  void before_fork();
  void after_fork_in_parent();
  /// Closes the descriptors. Afterwards only the destructor may be called.
  void after_fork_in_child();

 private:
  struct Listener {
    proto::Gid local;
    Fd fd;
  };
  struct Connection {
    enum class State : std::uint8_t { kAwaitsHello, kAwaitsWelcome, kIncoming, kOutgoing, kOver };
    Fd fd;
    State state;
    LinkId id;
    LinkName name;  ///< In kAwaitsHello only the destination.
    Instant since;
    std::optional<Mapping> ring;  ///< In kAwaitsWelcome.
    bool is_established() const { return state == State::kIncoming || state == State::kOutgoing; }
  };

  LinkKeeper(uid_t user, std::uint8_t slot, const Bells& bells, std::function<void()> wake)
      : user_(user), slot_(slot), bells_(bells), wake_(std::move(wake)) {}
  void keep();
  void let_in();
  void work(Instant now);
  void connect(const LinkName& name, Instant now);
  void accept_from(const Listener& listener, Instant now);
  void read_from(Connection& connection);
  bool take_hello(Connection& connection);
  bool take_welcome(Connection& connection);
  std::size_t count(Connection::State one, Connection::State other) const;
  void tell();
  bool is_same_user(int fd) const;
  std::vector<int> descriptors(Instant now) const;
  std::optional<Instant> next_deadline(Instant now) const;

  const uid_t user_;
  const std::uint8_t slot_;
  const Bells& bells_;
  const std::function<void()> wake_;
  std::vector<Listener> listeners_;
  Waiter waiter_;
  std::mutex accepting_;  ///< Held around accept(), so that no child of fork() has half of a visitor. Before mutex_.
  std::mutex mutex_;      ///< Guards what follows. Nobody waits with it.
  std::vector<Connection> connections_;
  std::vector<LinkName> wanted_;
  std::vector<LinkId> dropped_;
  LinkNews news_;
  LinkId next_id_ = 1;
  Instant accept_again_{};  ///< Not before: there were no descriptors.
  bool stop_ = false;
  bool forking_ = false;
  std::atomic<bool> has_news_ = false;
  std::unique_ptr<BackgroundThread> thread_;
};

}  // namespace uroce::engine
