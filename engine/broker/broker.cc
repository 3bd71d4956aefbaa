// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/broker.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "engine/os/poll_all.h"
#include "engine/os/unix_message.h"
#include "engine/os/users.h"

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

constexpr int kBacklog = 256;
/// The process that started us connects at once, unless it was killed.
constexpr Duration kFirstVisit = 5s;
/// For those who use the address to come and bring its sockets, and for sockets of killed processes to go.
constexpr Duration kReunion = 2s;
constexpr Duration kReunionStep = 5ms;

/// Between connecting and asking.
constexpr Duration kHello = 2s;
/// All slots, and as many processes that ask; more of them wait in the queue.
constexpr std::size_t kConnectionsMax = 2 * kSlots;
/// So that a crowd does not keep us from the processes that have slots.
constexpr int kAcceptsPerTurn = 64;
/// Without free descriptors or memory.
constexpr Duration kShortage = 100ms;

/// First local QPNs are spread over all that there are.
constexpr std::uint16_t kFirstLocal = 0x11;
constexpr std::uint16_t kSpread = 0xFFFF - kFirstLocal + 1;

std::uint16_t random_first_local() {
  std::uint16_t random = 0;
  [[maybe_unused]] const ssize_t n = ::getrandom(&random, sizeof random, GRND_NONBLOCK);
  return static_cast<std::uint16_t>(kFirstLocal + random % kSpread);
}

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

BrokerReply refusal(const SetupError& error) {
  BrokerReply reply;
  reply.error = error.error;
  error.sentence.copy(reply.sentence, sizeof reply.sentence - 1);
  return reply;
}

/// Why the sockets of a slot could not be sent.
SetupError not_handed_over(int error) {
  SetupError refused = call_failed("can't hand over the sockets of a shared address", "sendmsg", error);
  if (error == ETOOMANYREFS) {
    refused.sentence +=
        "; the brokers of a user may have as many descriptors under way as RLIMIT_NOFILE says, 128 for each shared "
        "address: raise its hard limit, share fewer addresses, or set UROCE_BROKER=off";
  }
  return refused;
}

}  // namespace

Result<Broker, SetupError> Broker::listen(const proto::Gid& local) {
  const auto user = own_user();
  if (!user) return Err{SetupError{ECHILD, "users can't be distinguished in this user namespace"}};
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractName name = broker_name(local);
  if (!listener || ::bind(listener.get(), name.get(), name.size) != 0 || ::listen(listener.get(), kBacklog) != 0) {
    const int error = errno;
    return Err{SetupError{error, std::string("can't listen on a Unix socket: ") + std::strerror(error)}};
  }
  return Broker(local, *user, std::move(listener));
}

Broker::Broker(const proto::Gid& local, uid_t user, Fd listener)
    : local_(local), user_(user), listener_(std::move(listener)), started_(os_now()), accept_again_(started_) {}

void Broker::run() {
  while (true) {
    const Instant now = os_now();
    if (!is_settled()) look_for_slots(now);
    accept_some(now);
    serve_connections(now);
    remove_done();
    if (connections_.empty() && (had_visitors_ || now > started_ + kFirstVisit)) break;
    leaving_.clear();
    wait_and_read(now);
  }
  // The address first, then the name: the next broker, which needs both, waits for the name. A process that
  // has just connected finds its connection closed and asks that broker.
  slots_.reset();
  listener_.reset();
  leaving_.clear();
}

void Broker::serve_connections(Instant now) {
  for (Connection& connection : connections_) {
    if (connection.waiting && is_settled()) answer(connection, *std::exchange(connection.waiting, std::nullopt));
    if (connection.is_silent() && now >= connection.since + kHello) connection.is_done = true;
  }
}

void Broker::remove_done() {
  for (Connection& connection : connections_) {
    if (!connection.is_done) continue;
    if (connection.slot) slots_->give_back(*connection.slot);
    leaving_.push_back(std::move(connection.fd));
  }
  std::erase_if(connections_, [](const Connection& connection) { return connection.is_done; });
}

void Broker::wait_and_read(Instant now) {
  std::vector<pollfd> polled;
  for (const Connection& connection : connections_) {
    polled.push_back({.fd = connection.fd.get(), .events = POLLIN, .revents = 0});
  }
  if (can_accept(now)) polled.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  const Instant deadline = next_deadline(now);
  const timespec timeout = time_until(deadline);
  if (poll_all(polled, deadline == Instant::max() ? nullptr : &timeout) <= 0) return;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (polled[i].revents != 0) read_from(connections_[i]);
  }
}

/// When there is something to do although nobody says anything.
Instant Broker::next_deadline(Instant now) const {
  Instant next = Instant::max();
  if (!is_settled()) next = now + kReunionStep;
  if (!had_visitors_) next = std::min(next, started_ + kFirstVisit + 1ms);
  if (accept_again_ > now) next = std::min(next, accept_again_);
  for (const Connection& connection : connections_) {
    if (connection.is_silent()) next = std::min(next, connection.since + kHello);
  }
  return next;
}

/// Opens the slots, unless processes of an earlier broker have them.
void Broker::look_for_slots(Instant now) {
  auto slots = SlotTable::open(local_);
  if (slots) {
    slots_ = std::move(*slots);
  } else if (slots.error().error != EADDRINUSE || holder_of(local_) == Holder::kOther) {
    failure_ = slots.error();
  } else if (now > started_ + kReunion) {
    failure_ = address_in_use(local_,
                              "processes that share it have lost their broker and don't reconnect (stopped, or of "
                              "another version?); end them (see: ss -lupn sport = 4791)");
  }
}

bool Broker::can_accept(Instant now) const { return connections_.size() < kConnectionsMax && now >= accept_again_; }

void Broker::accept_some(Instant now) {
  for (int i = 0; i < kAcceptsPerTurn && can_accept(now); ++i) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && is_shortage(errno)) accept_again_ = now + kShortage;
    if (!fd) return;
    if (peer_user(fd.get()) != user_) {
      send_message(fd.get(),
                   refusal(address_in_use(local_, "processes of user " + std::to_string(user_) + " share it")));
      continue;
    }
    had_visitors_ = true;
    connections_.push_back({.fd = std::move(fd), .since = now, .is_done = false, .waiting = {}, .slot = {}});
  }
}

void Broker::read_from(Connection& connection) {
  BrokerRequest request;
  std::vector<Fd> descriptors;
  if (!receive_message(connection.fd.get(), request, descriptors)) {
    connection.is_done = errno != EAGAIN && errno != EINTR;
    return;
  }
  if (request.protocol != kBrokerProtocol) {
    refuse(connection, address_in_use(local_, "processes with another version of uroce share it"));
  } else if (connection.slot || connection.waiting) {
    connection.is_done = true;  // One request each.
  } else if (request.kind == BrokerRequest::Kind::kKeepSlot) {
    keep(connection, request.slot, std::move(descriptors));
  } else if (is_settled()) {
    answer(connection, request);
  } else {
    connection.waiting = request;
  }
}

void Broker::answer(Connection& connection, const BrokerRequest& request) {
  if (failure_) {
    refuse(connection, *failure_);
  } else if (request.kind == BrokerRequest::Kind::kThisSlot) {
    if (slots_->lease(request.slot)) return hand_over(connection, request.slot);
    refuse(connection, {EBUSY, "slot " + std::to_string(request.slot) + " is taken"});
  } else {
    if (const auto slot = slots_->lease_any()) return hand_over(connection, *slot);
    refuse(connection, address_in_use(local_, "all of its slots are taken"));
  }
}

void Broker::keep(Connection& connection, std::uint8_t slot, std::vector<Fd> brought) {
  brought.resize(2);
  bool is_ours;
  if (slots_) {
    is_ours = slots_->is_bag(brought[0].get());
  } else {
    slots_ = SlotTable::from_bag(std::move(brought[0]), std::move(brought[1]));
    is_ours = slots_.has_value();
  }
  if (slots_) failure_.reset();
  if (!is_ours || !slots_->keep(slot)) {
    refuse(connection, address_in_use(local_, "another process has slot " + std::to_string(slot)));
    return;
  }
  connection.slot = slot;
  BrokerReply reply;
  reply.slot = slot;
  connection.is_done = !send_message(connection.fd.get(), reply);
}

void Broker::hand_over(Connection& connection, std::uint8_t slot) {
  connection.slot = slot;
  BrokerReply reply;
  reply.slot = slot;
  reply.first_local = random_first_local();
  if (send_message(connection.fd.get(), reply, std::array{slots_->socket(slot), slots_->bag(), slots_->claims()}))
    return;
  refuse(connection, not_handed_over(errno));  // Else it takes us for one that ends, and starts another.
}

void Broker::refuse(Connection& connection, const SetupError& error) {
  send_message(connection.fd.get(), refusal(error));  // Stays readable when the connection has ended.
  connection.is_done = true;
}

}  // namespace uroce::engine
