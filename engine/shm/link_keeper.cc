// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/link_keeper.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/os/name_holder.h"
#include "engine/os/unix_message.h"
#include "engine/os/users.h"

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

constexpr int kWaitingLinks = 256;
/// For the other side to say what it has to say. A process that is stopped does not.
constexpr Duration kGreeting = 1s;
/// Without free descriptors or memory.
constexpr Duration kRetryAccept = 100ms;
/// Then links get their turn.
constexpr int kAcceptsPerTurn = 64;

SetupError system_error(const char* what) { return {errno, std::string(what) + ": " + std::strerror(errno)}; }

Fd open_socket() { return Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

Result<std::unique_ptr<LinkKeeper>, SetupError> LinkKeeper::start(std::span<const proto::Gid> locals, std::uint8_t slot,
                                                                  const Bells& bells, std::function<void()> wake) {
  const auto user = own_user();
  if (!user) return Err{SetupError{EPERM, "users can't be distinguished in this user namespace"}};
  std::unique_ptr<LinkKeeper> keeper(new LinkKeeper(*user, slot, bells, std::move(wake)));
  if (!keeper->waiter_.valid()) return Err{system_error("can't open an event descriptor")};
  for (const proto::Gid& local : locals) {
    Fd fd = open_socket();
    const AbstractName name = wire_name(local, slot);
    if (!fd || ::bind(fd.get(), name.get(), name.size) != 0 || ::listen(fd.get(), kWaitingLinks) != 0) {
      if (errno == EADDRINUSE) return Err{SetupError{EADDRINUSE, held_by_others(name)}};
      return Err{system_error("can't listen on a Unix socket")};
    }
    keeper->listeners_.push_back({local, std::move(fd)});
  }
  keeper->thread_ = start_background_thread([raw = keeper.get()] { raw->keep(); });
  return keeper;
}

LinkKeeper::~LinkKeeper() {
  if (!thread_) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  waiter_.wake();
  thread_->join();
}

void LinkKeeper::want(const LinkName& name) {
  {
    const std::lock_guard lock(mutex_);
    wanted_.push_back(name);
  }
  waiter_.wake();
}

void LinkKeeper::drop(LinkId id) {
  {
    const std::lock_guard lock(mutex_);
    dropped_.push_back(id);
  }
  waiter_.wake();
}

LinkNews LinkKeeper::take_news() {
  const std::lock_guard lock(mutex_);
  has_news_.store(false, std::memory_order_relaxed);
  return std::exchange(news_, {});
}

void LinkKeeper::tell() {
  has_news_.store(true, std::memory_order_release);
  wake_();
}

void LinkKeeper::keep() {
  std::vector<int> fds;
  while (true) {
    try {
      let_in();
      std::optional<Instant> until;
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
        const Instant now = os_now();
        work(now);
        fds = descriptors(now);
        until = next_deadline(now);
      }
      waiter_.wait(fds, until);
    } catch (const std::bad_alloc&) {  // The program has taken all the memory that it may have. Peers ask again.
      nap();
    }
  }
}

/// Without the mutex, which the NIC may want: strangers can come as fast as they like.
void LinkKeeper::let_in() {
  const std::lock_guard accepting(accepting_);
  for (const Listener& listener : listeners_) accept_from(listener, os_now());
}

/// Does all that can be done now.
void LinkKeeper::work(Instant now) {
  for (const LinkId id : std::exchange(dropped_, {})) {
    for (Connection& connection : connections_) {
      if (connection.id == id) connection.state = Connection::State::kOver;
    }
  }
  for (const LinkName& name : std::exchange(wanted_, {})) connect(name, now);
  for (Connection& connection : connections_) {
    read_from(connection);
    if (!connection.is_established() && now > connection.since + kGreeting) {
      connection.state = Connection::State::kOver;
    }
  }
  std::erase_if(connections_, [](const Connection& c) { return c.state == Connection::State::kOver; });
}

std::size_t LinkKeeper::count(Connection::State one, Connection::State other) const {
  return static_cast<std::size_t>(std::count_if(connections_.begin(), connections_.end(), [&](const Connection& c) {
    return c.state == one || c.state == other;
  }));
}

bool LinkKeeper::is_same_user(int fd) const {
  const auto user = peer_user(fd);
  return user && *user == user_;
}

void LinkKeeper::connect(const LinkName& name, Instant now) {
  using State = Connection::State;
  const auto is_it = [&name](const Connection& c) {
    return (c.state == State::kAwaitsWelcome || c.state == State::kOutgoing) && c.name == name;
  };
  if (std::any_of(connections_.begin(), connections_.end(), is_it)) return;
  if (count(State::kAwaitsWelcome, State::kOutgoing) >= kMost) return;
  Fd fd = open_socket();
  const AbstractName address = wire_name(name.destination, name.slot);
  if (!fd || ::connect(fd.get(), address.get(), address.size) != 0 || !is_same_user(fd.get())) return;
  const Fd memory = make_shared_memory(kRingMemory);
  if (!memory) return;
  auto ring = Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite);
  Hello hello;
  hello.link = name;
  if (!ring || !send_message(fd.get(), hello, std::array{memory.get()})) return;
  connections_.push_back({std::move(fd), State::kAwaitsWelcome, next_id_++, name, now, std::move(ring)});
}

void LinkKeeper::accept_from(const Listener& listener, Instant now) {
  using State = Connection::State;
  for (int i = 0; i < kAcceptsPerTurn && now >= accept_again_; ++i) {
    Fd fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) accept_again_ = now + kRetryAccept;
      return;
    }
    if (!is_same_user(fd.get())) continue;
    const LinkName name{.source = {}, .destination = listener.local, .slot = slot_};
    const std::lock_guard lock(mutex_);
    if (count(State::kAwaitsHello, State::kIncoming) >= kMost) continue;
    connections_.push_back({std::move(fd), State::kAwaitsHello, next_id_++, name, now, std::nullopt});
  }
}

void LinkKeeper::read_from(Connection& connection) {
  using State = Connection::State;
  switch (connection.state) {
    case State::kAwaitsHello:
      if (!take_hello(connection) && errno != EAGAIN) connection.state = State::kOver;
      return;
    case State::kAwaitsWelcome:
      if (!take_welcome(connection) && errno != EAGAIN) connection.state = State::kOver;
      return;
    case State::kIncoming:
    case State::kOutgoing: {
      char nothing = 0;
      if (::recv(connection.fd.get(), &nothing, 1, 0) < 0 && (errno == EAGAIN || errno == EINTR)) return;
      connection.state = State::kOver;  // The end, or something that nobody has to say.
      news_.ended.push_back(connection.id);
      tell();
      return;
    }
    case State::kOver:
      return;
  }
}

/// False: errno EAGAIN, or it is no use to wait.
bool LinkKeeper::take_hello(Connection& connection) {
  Hello hello;
  std::vector<Fd> descriptors;
  if (!receive_message(connection.fd.get(), hello, descriptors)) return false;
  errno = EPROTO;
  if (hello.protocol != kWireProtocol || descriptors.size() != 1 || hello.link.slot != slot_ ||
      hello.link.destination != connection.name.destination || !is_possible(hello.link) ||
      !is_shared_memory(descriptors[0].get(), kRingMemory)) {
    return false;
  }
  auto ring = Mapping::make(descriptors[0].get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite);
  if (!ring) return false;
  connection.name = hello.link;
  // Before the other side may write.
  news_.incoming.push_back(std::make_unique<IncomingLink>(connection.id, connection.name, std::move(*ring)));
  connection.state = Connection::State::kIncoming;
  tell();
  const auto& [thread, program] = bells_;
  const std::array descriptors_of_bells{thread.memory_fd(), thread.fd(), program.memory_fd(), program.fd()};
  if (!send_message(connection.fd.get(), Welcome{}, descriptors_of_bells)) {
    news_.ended.push_back(connection.id);
    errno = EPROTO;
    return false;
  }
  return true;
}

/// The same.
bool LinkKeeper::take_welcome(Connection& connection) {
  Welcome welcome;
  std::vector<Fd> descriptors;
  if (!receive_message(connection.fd.get(), welcome, descriptors)) return false;
  errno = EPROTO;
  if (welcome.protocol != kWireProtocol || descriptors.size() != 4) return false;
  auto thread = BellRope::adopt(std::move(descriptors[1]), descriptors[0]);
  auto program = BellRope::adopt(std::move(descriptors[3]), descriptors[2]);
  errno = EPROTO;
  if (!thread || !program) return false;
  RingWriter ring(std::move(*connection.ring));
  connection.ring.reset();
  connection.state = Connection::State::kOutgoing;
  news_.outgoing.push_back({connection.id, connection.name, std::move(ring), std::move(*thread), std::move(*program)});
  tell();
  return true;
}

std::vector<int> LinkKeeper::descriptors(Instant now) const {
  std::vector<int> fds;
  if (now >= accept_again_) {
    for (const Listener& listener : listeners_) fds.push_back(listener.fd.get());
  }
  for (const Connection& connection : connections_) fds.push_back(connection.fd.get());
  return fds;
}

std::optional<Instant> LinkKeeper::next_deadline(Instant now) const {
  std::optional<Instant> next;
  const auto consider = [&next](Instant at) { next = next ? std::min(*next, at) : at; };
  if (now < accept_again_) consider(accept_again_);
  for (const Connection& connection : connections_) {
    if (!connection.is_established()) consider(connection.since + kGreeting + 1ms);
  }
  return next;
}

void LinkKeeper::before_fork() {
  accepting_.lock();
  mutex_.lock();
  forking_ = true;
}

void LinkKeeper::after_fork_in_parent() {
  forking_ = false;
  mutex_.unlock();
  accepting_.unlock();
}

void LinkKeeper::after_fork_in_child() {
  leave_to_parent(std::move(thread_));
  for (Listener& listener : listeners_) listener.fd.reset();
  for (Connection& connection : connections_) {
    connection.fd.reset();
    if (connection.ring) connection.ring->forget();
  }
  for (OutgoingLink& link : news_.outgoing) {
    link.ring.forget();
    link.thread_bell.close();
    link.program_bell.close();
  }
  for (const auto& link : news_.incoming) link->ring.forget();
  waiter_.close();
  if (!std::exchange(forking_, false)) return;
  mutex_.unlock();
  accepting_.unlock();
}

}  // namespace uroce::engine
