// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/lease.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

/// For the broker to take a slot back.
constexpr Duration kFarewell = 1s;
/// Between attempts to renew a lease: at first, and at most. A new broker waits longer than that for us (kReunion).
constexpr Duration kRenewFirst = 50ms;
constexpr Duration kRenewMost = 1s;
/// The same where a broker of another version is started each time.
constexpr Duration kRenewOtherVersion = 60s;

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

/// One descriptor, or none.
std::span<const int> only(const int& fd) { return {&fd, fd < 0 ? std::size_t{0} : 1}; }

}  // namespace

Result<std::unique_ptr<Lease>, SetupError> Lease::acquire(const proto::Gid& local, std::optional<std::uint8_t> slot,
                                                          std::string executable) {
  std::unique_ptr<Lease> lease(new Lease(local, std::move(executable)));
  if (!lease->waiter_.valid()) return Err{call_failed("can't wait for the broker", "eventfd2", lease->waiter_.error())};
  BrokerRequest request;
  request.kind = slot ? BrokerRequest::Kind::kThisSlot : BrokerRequest::Kind::kAnySlot;
  request.slot = slot.value_or(0);
  Inquiry inquiry(local, lease->executable_, request);
  while (!inquiry.advance()) {
    const int fd = inquiry.fd();
    lease->waiter_.wait(only(fd), inquiry.next());
  }
  auto& answer = inquiry.result();
  if (!answer) return Err{answer.error()};
  BrokerReply& reply = answer->reply;
  if (reply.error != 0) {
    reply.sentence[sizeof reply.sentence - 1] = '\0';
    return Err{SetupError{reply.error, reply.sentence}};
  }
  constexpr const char* kMissing = "the descriptors of a slot don't arrive";
  if (reply.protocol != kBrokerProtocol || answer->descriptors.size() != 3) {
    return Err{call_failed(kMissing, "recvmsg", EMFILE)};
  }
  lease->slot_ = reply.slot;
  lease->first_local_ = reply.first_local;
  lease->socket_ = std::move(answer->descriptors[0]);
  lease->steering_ = Fd(::fcntl(lease->socket_.get(), F_DUPFD_CLOEXEC, 0));
  if (!lease->steering_) return Err{call_failed(kMissing, "fcntl", errno)};
  lease->bag_ = std::move(answer->descriptors[1]);
  lease->claims_ = std::move(answer->descriptors[2]);
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
  steering_.reset();
  bag_.reset();
  claims_.reset();
  if (!connection_) return;
  ::shutdown(connection_.get(), SHUT_WR);
  wait_readable(connection_.get(), os_now() + kFarewell);
}

/// The thread: sleeps until the broker is gone, and looks for another one.
void Lease::keep() {
  while (true) {
    try {
      int fd = -1;
      std::optional<Instant> until;
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
        renew();
        fd = renewal_ ? renewal_->fd() : connection_.get();
        if (!connection_) until = renewal_ ? renewal_->next() : renew_at_;
      }
      waiter_.wait(only(fd), until);
    } catch (const std::bad_alloc&) {
      // The program has taken all the memory that it may have. It goes on, and so does a renewal: the broker may
      // have its request.
      nap();
    }
  }
}

/// Does what can be done now to have a connection.
void Lease::renew() {
  // A broker says nothing without being asked: the connection has ended.
  if (connection_ && wait_readable(connection_.get(), os_now())) {
    connection_.reset();
    renew_at_ = os_now();
    renew_again_ = kRenewFirst;
  }
  if (!connection_ && !renewal_ && os_now() >= renew_at_) {
    BrokerRequest request;
    request.kind = BrokerRequest::Kind::kKeepSlot;
    request.slot = slot_;
    renewal_.emplace(local_, executable_, request, std::vector{bag_.get(), claims_.get()});
  }
  if (!renewal_ || !renewal_->advance()) return;
  auto& answer = renewal_->result();
  if (answer && answer->reply.error == 0) {
    connection_ = std::move(answer->connection);
  } else {
    const bool is_other_version = !answer && answer.error().error == EPROTONOSUPPORT;
    renew_at_ = os_now() + (is_other_version ? kRenewOtherVersion : renew_again_);
    renew_again_ = std::min(2 * renew_again_, kRenewMost);
  }
  renewal_.reset();
}

void Lease::after_fork_in_child() {
  abandoned_ = true;
  leave_to_parent(std::move(thread_));
  connection_.reset();
  renewal_.reset();
  bag_.reset();
  claims_.reset();
  socket_.reset();
  steering_.reset();
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
