// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/shm_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

/// How soon it is tried again when nobody polls.
constexpr Duration kRetryFull = 100us;
/// After a packet by UDP more of them are expected for so long; else a look now and then is enough, for it is a system
/// call. A thread that sleeps is woken by them all the same.
constexpr Duration kUdpBusy = 1ms;
constexpr Duration kUdpLook = 100us;
/// The same for a thread that lingers, which it does not do for long.
constexpr Duration kUdpLookLingering = 20us;
constexpr std::uint32_t kTurnsPerClock = 8;

}  // namespace

Result<std::unique_ptr<ShmPort>, SetupError> ShmPort::open(std::unique_ptr<Port>& udp,
                                                           std::span<const proto::Gid> locals, std::uint8_t slot) {
  auto* const below = dynamic_cast<UdpPort*>(udp.get());
  if (below == nullptr) return Err{SetupError{EOPNOTSUPP, "the NIC's port has no UDP sockets"}};
  auto thread = Bell::make();
  auto program = Bell::make();
  const bool has_room = thread && program && make_shared_memory(kRingMemory);
  if (!has_room) {
    const int error = errno;
    const char* const remedy = error == EFBIG ? "; raise RLIMIT_FSIZE (ulimit -f)" : "";
    return Err{SetupError{error, std::string("can't make shared memory: ") + std::strerror(error) + remedy}};
  }
  auto bells = std::make_unique<Bells>(Bells{std::move(*thread), std::move(*program)});
  auto keeper = LinkKeeper::start(locals, slot, *bells, [below] { below->wake(); });
  if (!keeper) return Err{keeper.error()};
  static_cast<void>(udp.release());
  return std::unique_ptr<ShmPort>(new ShmPort(std::unique_ptr<UdpPort>(below), std::move(bells), std::move(*keeper)));
}

ShmPort::ShmPort(std::unique_ptr<UdpPort> udp, std::unique_ptr<Bells> bells, std::unique_ptr<LinkKeeper> keeper)
    : udp_(std::move(udp)),
      bells_(std::move(bells)),
      keeper_(std::move(keeper)),
      sender_(*udp_, *keeper_),
      receiver_(*keeper_) {
  udp_->also_wake_by(bells_->thread.fd());
  const auto sockets = udp_->packet_fds();
  packet_fds_.assign(sockets.begin(), sockets.end());
  packet_fds_.push_back(bells_->program.fd());
}

void ShmPort::flush() {
  sender_.publish();
  if (keeper_->has_news()) take_news();
  udp_->flush();
}

void ShmPort::take_news() {
  LinkNews news = keeper_->take_news();
  {
    const std::lock_guard lock(wait_mutex_);
    for (auto& link : news.incoming) receiver_.add(std::move(link));
  }
  for (OutgoingLink& link : news.outgoing) sender_.add(std::move(link));
  for (const LinkId id : news.ended) {
    sender_.end(id);
    receiver_.end(id);
  }
}

std::size_t ShmPort::exchange(DatagramSink& sink, std::size_t rx_budget) {
  sender_.publish();
  if (keeper_->has_news()) take_news();
  // A NIC that sends by a ring has links, too, without answers (UD and UC). But it says nothing of being quick: it
  // would send at once what is posted first, which costs a stream more than it saves.
  was_quick_ = receiver_.size() > 0;
  if (!was_quick_ && !sender_.uses_link()) {
    sender_.forget_udp();
    return udp_->exchange(sink, rx_budget);
  }
  std::size_t received = receive_by_rings(sink, rx_budget);
  if (is_udp_due(received)) received += exchange_udp(sink, rx_budget);
  return received;
}

/// And what came by UDP before the first packets of a ring.
std::size_t ShmPort::receive_by_rings(DatagramSink& sink, std::size_t budget) {
  std::size_t received = 0;
  if (receiver_.find_closed()) {
    received = exchange_udp(sink, budget);
    if (received < budget) receiver_.open();
  }
  received += receiver_.receive(sink, budget - std::min(received, budget));
  if (receiver_.has_finished()) {
    const std::lock_guard lock(wait_mutex_);
    receiver_.remove_finished();
  }
  return received;
}

bool ShmPort::is_udp_due(std::size_t received) {
  if (sender_.has_sent_by_udp()) return true;
  if (udp_ready_.load(std::memory_order_relaxed)) {
    udp_ready_.store(false, std::memory_order_relaxed);
    return true;
  }
  // A turn that finds nothing takes less time than some looks at the clock.
  idle_turns_ = received > 0 ? 0 : idle_turns_ + 1;
  if (idle_turns_ % kTurnsPerClock != 0) return false;
  const Instant now = os_now();
  return now < udp_busy_until_ || now >= udp_look_at_;
}

std::size_t ShmPort::exchange_udp(DatagramSink& sink, std::size_t budget) {
  was_quick_ = false;
  const std::size_t received = udp_->exchange(sink, budget);
  const Instant now = os_now();
  if (received > 0 || sender_.has_sent_by_udp()) udp_busy_until_ = now + kUdpBusy;
  sender_.forget_udp();
  udp_look_at_ = now + kUdpLook;
  return received;
}

/// With wait_mutex_ held.
void ShmPort::set_waiting(bool waiting) {
  waiting_ = waiting;
  bells_->thread.set_asleep(waiting_ && !masked_);
}

bool ShmPort::wait(std::optional<Instant> deadline) {
  const bool is_held = sender_.is_held_back();
  const Instant now = deadline || is_held ? os_now() : Instant{};
  if (is_held) deadline = std::min(deadline.value_or(Instant::max()), now + kRetryFull);
  if (!deadline || *deadline > now) return sleep([&] { return udp_->wait(deadline); });
  {
    const std::lock_guard lock(wait_mutex_);
    if (!masked_ && has_packets()) return true;
    // A thread that looks again and again looks at the rings: the sockets need a system call.
    if (receiver_.size() > 0 && now < socket_look_at_) return false;
    socket_look_at_ = now + kUdpLookLingering;
  }
  const bool woken = udp_->wait(deadline);
  const std::lock_guard lock(wait_mutex_);
  note_udp(woken);
  return woken;
}

bool ShmPort::doze(Instant earliest, Duration slack) {
  return sender_.is_held_back() ? wait(earliest) : sleep([&] { return udp_->doze(earliest, slack); });
}

/// A wait() or doze() that is no look. `sleep_by_udp()`: that of the sockets.
template <class Sleep>
bool ShmPort::sleep(const Sleep& sleep_by_udp) {
  {
    const std::lock_guard lock(wait_mutex_);
    set_waiting(true);
    if (!masked_ && has_packets()) {
      set_waiting(false);
      return true;
    }
  }
  const bool woken = sleep_by_udp();
  const std::lock_guard lock(wait_mutex_);
  set_waiting(false);
  note_udp(woken);
  return woken;
}

/// With wait_mutex_ held: whether something other than time has ended a wait of the sockets.
void ShmPort::note_udp(bool woken) {
  if (woken && !has_packets()) udp_ready_.store(true, std::memory_order_relaxed);
}

void ShmPort::mask_packets(bool masked) {
  udp_->mask_packets(masked);
  const std::lock_guard lock(wait_mutex_);
  masked_ = masked;
  bells_->program.set_reading(masked);
  set_waiting(waiting_);
  if (waiting_ && !masked_ && has_packets()) udp_->wake();
}

bool ShmPort::expect_packets(bool expected) {
  const std::lock_guard lock(wait_mutex_);
  if (std::exchange(expecting_, expected) == expected) return !has_packets();
  bells_->program.set_asleep(expected);
  const bool is_quiet = !has_packets();
  if (expected) return is_quiet;
  bells_->program.forget_rings();
  if (is_quiet) udp_ready_.store(true, std::memory_order_relaxed);
  return true;
}

void ShmPort::abandon_after_fork() {
  keeper_->after_fork_in_child();
  sender_.abandon();
  receiver_.abandon();
  bells_->thread.close();
  bells_->program.close();
  packet_fds_.clear();
  udp_->abandon_after_fork();
}

PortInfo ShmPort::info() const {
  PortInfo info = udp_->info();
  info.features += " shared-memory";
  info.by_shm = sender_.destinations();
  return info;
}

PortCounters ShmPort::counters() const {
  PortCounters sum = udp_->counters();
  const PortCounters& sent = sender_.counters();
  const PortCounters& received = receiver_.counters();
  sum.sent_packets += sent.sent_packets;
  sum.sent_bytes += sent.sent_bytes;
  sum.received_packets += received.received_packets;
  sum.received_bytes += received.received_bytes;
  sum.send_errors += sent.send_errors;
  sum.system_calls += sent.system_calls;
  sum.sent_by_shm = sent.sent_packets;
  sum.received_by_shm = received.received_packets;
  return sum;
}

}  // namespace uroce::engine
