// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/control/server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/os/aware_mutex.h"
#include "engine/os/background_thread.h"
#include "engine/os/bounded_lock.h"
#include "engine/os/end_of_exit.h"
#include "engine/os/fd.h"
#include "engine/os/known_fd.h"
#include "engine/os/left_to_parent.h"
#include "engine/os/name_holder.h"
#include "engine/os/poll_all.h"
#include "engine/os/users.h"
#include "engine/run/tunables.h"
#include "proto/base/made_once.h"
#include "verbs/ibverbs/catalogue/settings.h"
#include "verbs/ibverbs/control/commands.h"
#include "verbs/ibverbs/host/environment.h"
#include "verbs/ibverbs/host/fork.h"
#include "verbs/include/uroce/control.h"

namespace uroce::ibv {
namespace {

using engine::Fd;
using engine::KnownFd;

constexpr int kBacklog = 16;
/// One more, and the first of them has to go: peers that only connect keep nobody away.
constexpr std::size_t kConnectionsMax = 16;
/// Without free descriptors or memory.
constexpr int kShortageMs = 100;
/// How long fork() waits for a command that another thread executes.
constexpr Duration kCommandWait = std::chrono::seconds(1);

/// Root may look into all processes.
bool may_control(int connection) {
  const auto peer = engine::peer_user(connection);
  return peer && (*peer == 0 || peer == engine::own_user());
}

class Server {
 public:
  std::string start();
  /// The process exits: a command that it executes is finished, and answered, and none is begun any more. Unless it
  /// waits for what the exiting thread has.
  void finish() { static_cast<void>(engine::try_lock_for(mutex_, engine::kExitWait)); }
  /// Not where a signal handler forks inside a call, since a command may wait for that call, or inside fork().
  void before_fork() {
    if (++forks_here_ > 1 || forks_inside_call() || Mutex::is_inside()) return;
    held_here_ = engine::try_lock_for(mutex_, kCommandWait);
  }
  void in_parent() {
    if (--forks_here_ == 0 && std::exchange(held_here_, false)) mutex_.unlock();
  }
  /// The thread stayed with the parent, the name belongs to it. False: the mutex stayed with it, too.
  bool in_child() {
    listener_ = {};
    const bool is_whole = --forks_here_ == 0 && held_here_;
    held_here_ = false;
    if (!is_whole) return false;
    connections_.clear();
    mutex_.unlock();
    return true;
  }

  Server* left_before = nullptr;  ///< For leave_to_parent().

 private:
  void run();
  void list(std::vector<pollfd>& polled);
  bool serve(const std::vector<pollfd>& polled);
  void accept_one();
  /// False: the connection is over.
  static bool answer(int connection);

  using Mutex = engine::AwareMutex<Server>;
  Mutex mutex_;  ///< Held while a command is executed, and during fork().
  // Of this thread: several may fork at the same time.
  static inline thread_local int forks_here_ = 0;
  static inline thread_local bool held_here_ = false;
  KnownFd listener_;
  std::vector<KnownFd> connections_;
};

constinit std::atomic<Server*> the_server = nullptr;
Server& server() { return made_once(the_server); }

void finish_before_exit() {
  if (Server* const made = the_server.load()) made->finish();
}
void let_go_in_child() {
  Server* const inherited = the_server.load();
  if (inherited == nullptr || inherited->in_child()) return;
  the_server.store(nullptr);  // The child makes its own.
  engine::leave_to_parent(*inherited);
}
[[maybe_unused]] const int kFinishesBeforeExit = engine::at_end_of_exit<finish_before_exit>();

std::string Server::start() {
  const std::scoped_lock lock(mutex_);
  if (listener_) return "";
  if (!engine::own_user()) return "UROCE_CONTROL: users can't be distinguished in this user namespace";
  sockaddr_un address{};
  socklen_t length = 0;
  if (const int error = ::uroce_control_address(0, &address, &length))
    return std::string("UROCE_CONTROL: /proc/self/ns/pid: ") + std::strerror(error);
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener || ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener.get(), kBacklog) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) {
      return "UROCE_CONTROL: " + engine::held_by_others(engine::AbstractName(address.sun_path + 1)) +
             ", which this process needs to take commands; start it again: its name will be another one";
    }
    return std::string("UROCE_CONTROL: can't listen on a Unix socket: ") + std::strerror(error);
  }
  listener_ = KnownFd(std::move(listener));
  try {
    engine::start_background_thread([this] { run(); })->detach();
  } catch (const std::system_error& error) {
    listener_ = {};
    return std::string("UROCE_CONTROL: no thread: ") + error.what();
  }
  return "";
}

void Server::run() {
  std::vector<pollfd> polled;
  while (true) {
    try {
      list(polled);
      const int ready = engine::poll_all(polled, nullptr);
      if (ready < 0) engine::nap();
      if (ready > 0 && !serve(polled)) return;
    } catch (const std::bad_alloc&) {  // The program has taken all the memory that it may have. It goes on.
      engine::nap();
    }
  }
}

/// What to wait for: the listener, and the connections in their order.
void Server::list(std::vector<pollfd>& polled) {
  const std::scoped_lock lock(mutex_);
  polled.clear();
  polled.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  for (const KnownFd& connection : connections_)
    polled.push_back({.fd = connection.get(), .events = POLLIN, .revents = 0});
}

/// Returns false when the program has closed the listener, so that nobody connects any more; start() may open another.
bool Server::serve(const std::vector<pollfd>& polled) {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = connections_.size(); i > 0; --i) {
    const KnownFd& connection = connections_[i - 1];
    if (!connection.is_there() || (polled[i].revents != 0 && !answer(connection.get())))
      connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  if (!listener_.is_there()) {
    listener_ = {};
    connections_.clear();
    return false;
  }
  if (polled[0].revents != 0) accept_one();
  return true;
}

void Server::accept_one() {
  Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) {
    // The connection waits in the queue, and poll() would return at once.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) ::poll(nullptr, 0, kShortageMs);
    return;
  }
  if (!may_control(connection.get())) return;
  if (connections_.size() == kConnectionsMax) connections_.erase(connections_.begin());
  connections_.emplace_back(std::move(connection));
}

bool Server::answer(int connection) {
  std::array<char, UROCE_CONTROL_COMMAND + 1> command{};  // A byte more shows that a command is too long.
  const ssize_t size = ::recv(connection, command.data(), command.size(), MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size == 0) return false;
  // A peer that does not read answers gets no more of them.
  const auto send = [connection](std::string_view text) {
    return ::send(connection, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  };
  try {
    const std::string text = execute_command({command.data(), static_cast<std::size_t>(size)});
    return send(text.size() > UROCE_CONTROL_ANSWER ? "error: the answer would be too long\n" : text);
  } catch (const std::bad_alloc&) {
    return send("error: the process has no memory left; try again later\n");
  }
}

}  // namespace

std::string start_control() {
  const auto wanted = control_wanted(setting(Setting::kControl));
  if (!wanted.ok()) return wanted.error();
  if (!*wanted) return "";
  // Registered behind those of the NICs, our handler runs before them: a command may wait for a NIC.
  static constinit std::atomic_flag is_installed;
  if (!is_installed.test_and_set()) {
    ::pthread_atfork([] { server().before_fork(); }, [] { server().in_parent(); }, let_go_in_child);
  }
  return server().start();
}

}  // namespace uroce::ibv
