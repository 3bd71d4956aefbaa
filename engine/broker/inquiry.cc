// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/inquiry.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/os/name_holder.h"
#include "engine/os/unix_message.h"
#include "engine/os/users.h"

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRetry = 1ms;
/// Somebody may kill a new broker; one that ends by itself each time will not come.
constexpr int kMostVanished = 2;
/// A broker of another version may be about to end: it has not read yet that its last process has.
constexpr Duration kOtherVersion = 100ms;

/// `broker`: its process; 0 when that is not known.
std::string silence_of(pid_t broker) {
  std::string what = "the broker of the processes that share it does not answer";
  if (broker == 0) return what;
  const std::string process = std::to_string(broker);
  return what + " (uroce-broker, process " + process + "): if it is stopped, have it go on with kill -CONT " + process +
         "; if it has used up its descriptors (/proc/" + process + "/limits), end it, and another process starts one";
}

}  // namespace

Inquiry::Inquiry(const proto::Gid& local, const std::string& executable, const BrokerRequest& request,
                 std::vector<int> descriptors, Duration patience)
    : local_(local),
      executable_(executable),
      request_(request),
      descriptors_(std::move(descriptors)),
      deadline_(os_now() + patience),
      next_(os_now()) {}

int Inquiry::fd() const { return start_ ? start_->fd() : connection_.get(); }

bool Inquiry::advance() {
  if (start_) await_start();
  if (connection_) await_reply();
  if (!result_ && !start_ && !connection_ && os_now() >= next_) connect();
  return result_.has_value();
}

void Inquiry::connect() {
  const auto me = own_user();
  if (!me) {
    return fail({ECHILD,
                 "users can't be distinguished in this user namespace, which does not map them (see "
                 "/proc/self/uid_map)"});
  }
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractName name = broker_name(local_);
  if (!fd || ::connect(fd.get(), name.get(), name.size) != 0) {
    const int error = errno;
    if (fd && gives_up_on_stranger()) return;
    if (fd && error == ECONNREFUSED) return start();
    if (error == EAGAIN || error == EINTR) return try_again_soon();  // EAGAIN: too many others are asking.
    return fail(call_failed("can't ask the broker", fd ? "connect" : "socket", error));
  }
  const auto asked = ask_for_peer_user(fd.get());
  if (!asked.ok()) return fail(call_failed("can't ask whose the broker is", "getsockopt", asked.error()));
  const std::optional<uid_t> user = *asked;
  if (!user || *user != *me) {
    const std::string other = user ? "processes of user " + std::to_string(*user) : "other processes";
    return fail(address_in_use(local_, other + " share it; only processes of one user can"));
  }
  if (!send_message(fd.get(), request_, descriptors_)) return try_again_soon();
  connection_ = std::move(fd);
  refused_.reset();
  next_ = request_.kind == BrokerRequest::Kind::kKeepSlot ? Instant::max() : deadline_;
}

/// Whether another user has the broker's name, with a socket that can't be asked: no broker of ours can have it then.
bool Inquiry::gives_up_on_stranger() {
  const AbstractName name = broker_name(local_);
  const auto holder = holder_of(name);
  if (!holder || holder == own_user()) return false;
  fail({ECHILD, held_by_others(name) + ", the name of its broker, and does not answer"});
  return true;
}

/// There is no broker.
void Inquiry::start() {
  if (os_now() >= deadline_) return fail({ECHILD, executable_ + " starts and ends at once"});
  auto started = BrokerStart::begin(executable_, local_);
  if (!started) return fail(started.error());
  start_ = std::move(*started);
  next_ = start_->deadline();
}

void Inquiry::await_start() {
  const BrokerStart::State state = start_->look();
  if (state == BrokerStart::State::kUnderWay) return;
  const bool vanished = state == BrokerStart::State::kVanished && ++vanished_ <= kMostVanished;
  if (state != BrokerStart::State::kListens && !vanished) fail(start_->error());
  has_started_ |= state == BrokerStart::State::kListens;
  start_.reset();
  next_ = os_now();
}

void Inquiry::await_reply() {
  Answer answer;
  const bool is_there = receive_message(connection_.get(), answer.reply, answer.descriptors);
  if (is_there && answer.reply.protocol != kBrokerProtocol) {
    if (refused_until_ == Instant{}) refused_until_ = os_now() + kOtherVersion;
    refused_ = std::move(answer);  // It closes the connection, too; then the address is free if it has ended.
  } else if (is_there) {
    answer.connection = std::move(connection_);
    result_ = std::move(answer);
  } else if (errno == EMFILE) {
    fail(call_failed("the descriptors of a slot don't arrive", "recvmsg", EMFILE));
  } else if (errno != EAGAIN && errno != EINTR && refused_) {
    after_other_version();
  } else if (errno != EAGAIN && errno != EINTR) {
    try_again_soon();  // It ends at this moment, and does not answer; then there is, or will be, another one.
  } else if (os_now() >= next_) {
    fail(address_in_use(local_, silence_of(peer_process(connection_.get()))));
  }
}

void Inquiry::after_other_version() {
  const bool is_renewal = request_.kind == BrokerRequest::Kind::kKeepSlot;  // Which is repeated anyway.
  if (has_started_) {
    fail({EPROTONOSUPPORT, executable_ +
                               " is of another version than the library of this process: if uroce was upgraded "
                               "meanwhile, start this program again"});
  } else if (!is_renewal && os_now() < refused_until_) {
    try_again_soon();
  } else {
    result_ = std::move(*refused_);
  }
}

void Inquiry::try_again_soon() {
  connection_.reset();
  next_ = os_now() + kRetry;
  if (next_ >= deadline_) fail(address_in_use(local_, silence_of(0)));
}

}  // namespace uroce::engine
