#include "engine/broker/lease.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "engine/background_thread.h"
#include "engine/broker/start_broker.h"
#include "engine/broker/unix_message.h"
#include "engine/broker/users.h"

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

/// For everything that a broker does before it answers, on a busy machine.
constexpr Duration kPatience = 10s;
constexpr Duration kRetry = 1ms;
/// For the broker to take a slot back.
constexpr Duration kFarewell = 1s;

/// A broker's answer and what came with it.
struct Answer {
  Fd connection;
  BrokerReply reply;
  std::vector<Fd> descriptors;
};

/// Waits for something to read, or for the end of the connection. False: not until `deadline`.
bool wait_readable(int fd, Instant deadline) {
  while (true) {
    const Duration left = std::max(deadline - os_now(), Duration{});
    pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    const int ready = ::poll(&polled, 1, static_cast<int>(milliseconds));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

/// Connects to the broker of `local`; errno ECONNREFUSED: there is none.
Fd connect_to_broker(const proto::Gid& local) {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const BrokerName name(local);
  if (fd && ::connect(fd.get(), name.get(), name.size) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

/// Sends `request` to the broker of `local`, which is started if there is none. An error is one of ours, not of the
/// reply.
Result<Answer, SetupError> ask(const proto::Gid& local, const std::string& executable, const BrokerRequest& request,
                               std::span<const int> descriptors) {
  const Instant deadline = os_now() + kPatience;
  const auto me = own_user();
  if (!me) {
    return Err{SetupError{ECHILD, "users can't be told apart in this user namespace, which does not map them (see "
                                  "/proc/self/uid_map)"}};
  }
  while (true) {
    Answer answer{.connection = connect_to_broker(local), .reply = {}, .descriptors = {}};
    const int fd = answer.connection.get();
    if (answer.connection) {
      const auto user = peer_user(fd);
      if (user != me) {
        const std::string other = user ? "processes of user " + std::to_string(*user) : "others";
        return Err{address_in_use(local, other + " share it, and only those of one user can")};
      }
      // A broker that ends at this moment does not answer; then there is, or will be, another one.
      const bool answered = send_message(fd, request, descriptors) && wait_readable(fd, deadline) &&
                            receive_message(fd, answer.reply, answer.descriptors);
      if (answered) return answer;
    } else if (errno == ECONNREFUSED) {
      if (const auto error = start_broker(executable, local)) return Err{*error};
      continue;
    } else if (errno != EAGAIN && errno != EINTR) {  // EAGAIN: too many others are asking.
      return Err{SetupError{errno, std::string("can't ask the broker: ") + std::strerror(errno)}};
    }
    if (os_now() >= deadline) return Err{address_in_use(local, "the broker of those who share it does not answer")};
    Waiter().wait({}, os_now() + kRetry);
  }
}

}  // namespace

Result<std::unique_ptr<Lease>, SetupError> Lease::acquire(const proto::Gid& local, std::optional<std::uint8_t> slot,
                                                          std::string executable) {
  std::unique_ptr<Lease> lease(new Lease(local, std::move(executable)));
  BrokerRequest request;
  request.kind = slot ? BrokerRequest::Kind::kThisSlot : BrokerRequest::Kind::kAnySlot;
  request.slot = slot.value_or(0);
  auto answer = ask(local, lease->executable_, request, {});
  if (!answer) return Err{answer.error()};
  BrokerReply& reply = answer->reply;
  if (reply.error != 0) {
    reply.sentence[sizeof reply.sentence - 1] = '\0';
    return Err{SetupError{reply.error, reply.sentence}};
  }
  if (reply.protocol != kBrokerProtocol || answer->descriptors.size() != 2 || !lease->waiter_.valid()) {
    return Err{SetupError{EMFILE, "the descriptors of a slot don't arrive; raise RLIMIT_NOFILE (ulimit -n)"}};
  }
  lease->slot_ = reply.slot;
  lease->first_local_ = reply.first_local;
  lease->socket_ = std::move(answer->descriptors[0]);
  lease->bag_ = std::move(answer->descriptors[1]);
  lease->connection_ = std::move(answer->connection);
  lease->thread_ = start_background_thread([raw = lease.get()] { raw->keep(); });
  return lease;
}

Lease::~Lease() {
  if (abandoned_ || !thread_) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  waiter_.wake();
  thread_->join();
  socket_.reset();
  bag_.reset();
  if (!connection_) return;
  ::shutdown(connection_.get(), SHUT_WR);
  wait_readable(connection_.get(), os_now() + kFarewell);
}

/// The thread: sleeps until the broker is gone.
void Lease::keep() {
  while (true) {
    const int fd = connection_.get();
    waiter_.wait(connection_ ? std::span(&fd, 1) : std::span<const int>{}, std::nullopt);
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    if (connection_ && wait_readable(connection_.get(), os_now()) && !renew()) connection_.reset();
  }
}

/// The broker says nothing without being asked: the connection has ended.
bool Lease::renew() {
  BrokerRequest request;
  request.kind = BrokerRequest::Kind::kKeepSlot;
  request.slot = slot_;
  auto answer = ask(local_, executable_, request, std::array{bag_.get()});
  if (!answer || answer->reply.error != 0) return false;
  connection_ = std::move(answer->connection);
  return true;
}

void Lease::after_fork_in_child() {
  abandoned_ = true;
  static_cast<void>(thread_.release());  // It stayed with the parent.
  connection_.reset();
  bag_.reset();
  socket_.reset();
  waiter_.close();
  mutex_.unlock();
}

Result<SlotLeases, SetupError> acquire_slot(std::span<const proto::Gid> addresses, const std::string& executable) {
  std::vector<std::unique_ptr<Lease>> unsuitable;  // Kept until we have one, so as not to get them again.
  while (true) {
    SlotLeases result;
    for (const proto::Gid& address : addresses) {
      const bool is_first = result.leases.empty();
      auto lease = Lease::acquire(address, is_first ? std::nullopt : std::optional(result.slot), executable);
      if (!lease && lease.error().error == EBUSY) break;
      if (!lease) return Err{lease.error()};
      if (is_first) {
        result.slot = (*lease)->slot();
        result.first_local = (*lease)->first_local();
      }
      result.leases.push_back(std::move(*lease));
    }
    if (result.leases.size() == addresses.size()) return result;
    unsuitable.push_back(std::move(result.leases.front()));
  }
}

}  // namespace uroce::engine
