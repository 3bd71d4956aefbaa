#include "engine/broker/broker.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "engine/broker/unix_message.h"

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

constexpr int kBacklog = 256;
/// Who started us connects at once, unless it was killed.
constexpr Duration kFirstVisit = 5s;
/// For those who use the address to come and bring its sockets, and for sockets of killed processes to go.
constexpr Duration kReunion = 2s;
constexpr Duration kReunionStep = 5ms;

/// First local QPNs are spread over this many.
constexpr std::uint16_t kSpread = 4096;
constexpr std::uint16_t kFirstLocal = 0x11;

std::uint16_t random_first_local() {
  std::uint16_t random = 0;
  [[maybe_unused]] const ssize_t n = ::getrandom(&random, sizeof random, GRND_NONBLOCK);
  return static_cast<std::uint16_t>(kFirstLocal + random % kSpread);
}

}  // namespace

Result<Broker, SetupError> Broker::listen(const proto::Gid& local) {
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const BrokerName name(local);
  if (!listener || ::bind(listener.get(), name.get(), name.size) != 0 || ::listen(listener.get(), kBacklog) != 0) {
    const int error = errno;
    return Err{SetupError{error, std::string("can't listen on a Unix socket: ") + std::strerror(error)}};
  }
  return Broker(local, std::move(listener));
}

Broker::Broker(const proto::Gid& local, Fd listener)
    : local_(local), listener_(std::move(listener)), started_(os_now()) {}

void Broker::run() {
  bool had_visitors = false;
  while (true) {
    if (!is_settled()) look_for_group(os_now());
    accept_all();
    for (Connection& connection : connections_) {
      if (connection.waiting && is_settled()) answer(connection, *std::exchange(connection.waiting, std::nullopt));
    }
    had_visitors = had_visitors || !connections_.empty();
    if (connections_.empty() && (had_visitors || os_now() > started_ + kFirstVisit)) break;
    leaving_.clear();

    std::vector<pollfd> polled{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const Connection& connection : connections_) {
      polled.push_back({.fd = connection.fd.get(), .events = POLLIN, .revents = 0});
    }
    const Duration most = !is_settled() ? kReunionStep : had_visitors ? Duration(-1) : kFirstVisit;
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(most).count();
    ::poll(polled.data(), polled.size(), most < Duration{} ? -1 : static_cast<int>(milliseconds) + 1);
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (polled[i + 1].revents != 0) read_from(connections_[i]);
    }
    for (Connection& connection : connections_) {
      if (!connection.is_done) continue;
      if (connection.slot) group_->give_back(*connection.slot);
      leaving_.push_back(std::move(connection.fd));
    }
    std::erase_if(connections_, [](const Connection& connection) { return connection.is_done; });
  }
  // The address first, then the name: the next broker, which needs both, waits for the name. Whoever has just connected
  // finds the connection closed and asks that one.
  group_.reset();
  listener_.reset();
  leaving_.clear();
}

/// Opens the slots, unless processes of an earlier broker have them.
void Broker::look_for_group(Instant now) {
  auto group = SlotGroup::open(local_);
  if (group) {
    group_ = std::move(*group);
  } else if (group.error().error != EADDRINUSE || holder_of(local_) == Holder::kOther) {
    failure_ = group.error();
  } else if (now > started_ + kReunion) {
    failure_ = address_in_use(local_,
                              "processes that share it have lost their broker and don't come back (stopped?); end "
                              "them (see: ss -lupn sport = 4791)");
  }
}

void Broker::accept_all() {
  while (true) {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    connections_.push_back({.fd = std::move(fd), .is_done = false, .waiting = {}, .slot = {}});
  }
}

void Broker::read_from(Connection& connection) {
  BrokerRequest request;
  std::vector<Fd> descriptors;
  if (!receive_message(connection.fd.get(), request, descriptors)) {
    connection.is_done = errno != EAGAIN && errno != EINTR;
    return;
  }
  const auto user = peer_user(connection.fd.get());
  if (!user || *user != ::geteuid()) {
    refuse(connection, address_in_use(local_, "processes of user " + std::to_string(::geteuid()) + " share it"));
  } else if (request.protocol != kBrokerProtocol) {
    refuse(connection, address_in_use(local_, "processes with another version of uroce share it"));
  } else if (connection.slot || connection.waiting) {
    connection.is_done = true;  // One request each.
  } else if (request.kind == BrokerRequest::Kind::kKeepSlot) {
    keep(connection, request.slot, descriptors.empty() ? Fd() : std::move(descriptors.front()));
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
    if (group_->lease(request.slot)) return hand_over(connection, request.slot);
    refuse(connection, {EBUSY, "slot " + std::to_string(request.slot) + " is taken"});
  } else {
    if (const auto slot = group_->lease_any()) return hand_over(connection, *slot);
    refuse(connection, address_in_use(local_, "all of its slots are taken"));
  }
}

void Broker::keep(Connection& connection, std::uint8_t slot, Fd bag) {
  const bool is_first = !group_;
  if (is_first) group_ = SlotGroup::from_bag(std::move(bag));
  if (group_) failure_.reset();
  const bool is_ours = group_ && (is_first || group_->is_bag(bag.get()));
  if (!is_ours || !group_->keep(slot)) {
    refuse(connection, address_in_use(local_, "somebody else has slot " + std::to_string(slot)));
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
  connection.is_done = !send_message(connection.fd.get(), reply, std::array{group_->socket(slot), group_->bag()});
}

/// The other side closes the connection when it has read why.
void Broker::refuse(Connection& connection, const SetupError& error) {
  BrokerReply reply;
  reply.error = error.error;
  error.sentence.copy(reply.sentence, sizeof reply.sentence - 1);
  connection.is_done = !send_message(connection.fd.get(), reply);
}

}  // namespace uroce::engine
