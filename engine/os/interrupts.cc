// SPDX-License-Identifier: Apache-2.0
#include "engine/os/interrupts.h"

#include <sys/prctl.h>
#include <sys/timerfd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "engine/os/background_thread.h"
#include "engine/os/epoll.h"
#include "engine/os/poll_all.h"

namespace uroce::engine {
namespace {

/// How long a wait lasts at most while a socket can't end it.
constexpr Duration kLookWhenDeaf = std::chrono::milliseconds(10);

/// While one lives, the timeouts of this thread may be so much late (PR_SET_TIMERSLACK of prctl(2)).
class TimerSlack {
 public:
  explicit TimerSlack(Duration slack) { ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack.count())); }
  ~TimerSlack() { ::prctl(PR_SET_TIMERSLACK, 0UL); }  // The default.
  TimerSlack(const TimerSlack&) = delete;
  TimerSlack& operator=(const TimerSlack&) = delete;
};

/// Linux before 5.11 and seccomp refuse epoll_pwait2(2). Asked no more then: valgrind warns at each call that it does
/// not know.
std::atomic<bool> is_wait_refused{false};

}  // namespace

Interrupts::Interrupts() {
  if (!event_.valid()) refusal_ = {"eventfd2", event_.error()};
  epoll_ = make_epoll();
  if (!epoll_) refusal_ = {"epoll_create1", errno};
  alarm_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!alarm_) refusal_ = {"timerfd_create", errno};
  if (refusal_) return;
  wake_for(event_.fd(), EPOLLIN);
  add_bell(alarm_.get());
}

void Interrupts::wake_for(int fd, std::uint32_t events) {
  if (!refusal_ && !control_epoll(epoll_, EPOLL_CTL_ADD, fd, events)) refusal_ = {"epoll_ctl", errno};
}

void Interrupts::add(int fd) {
  sockets_.push_back(fd);
  wake_for(fd, EPOLLIN);
}

void Interrupts::add_rare(int fd) {
  add(fd);
  has_rare_ = true;
}

void Interrupts::add_bell(int fd) { wake_for(fd, EPOLLIN | EPOLLET); }

void Interrupts::mask(bool masked) { mask(often(), is_masked_, masked); }
void Interrupts::mask_rare(bool masked) { mask(rare(), is_rare_masked_, masked); }

std::span<const int> Interrupts::often() const { return sockets().first(sockets_.size() - rare().size()); }
std::span<const int> Interrupts::rare() const { return sockets().last(has_rare_ ? 1 : 0); }

void Interrupts::mask(std::span<const int> sockets, bool& are_masked, bool masked) {
  const std::lock_guard lock(mask_mutex_);
  are_masked = masked;
  if (control(sockets, masked)) return;
  is_deaf_.store(true, std::memory_order_relaxed);
  wake();  // A wait() that runs does not hear them.
}

/// False: for some, which are not masked, the kernel has no memory.
bool Interrupts::control(std::span<const int> sockets, bool masked) const {
  bool done = true;
  // Taken out, not only told to be silent: then a packet does not even have to look here, which saves 4 % of a stream.
  for (const int fd : sockets) {
    done &= control_epoll(epoll_, masked ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, fd, EPOLLIN) || masked || errno == EEXIST;
  }
  return done;
}

/// Whether all sockets that are not masked can end a wait() again.
bool Interrupts::hear_again() {
  const std::lock_guard lock(mask_mutex_);
  const bool hears_often = is_masked_ || control(often(), false);
  const bool hears_rare = is_rare_masked_ || control(rare(), false);
  is_deaf_.store(!(hears_often && hears_rare), std::memory_order_relaxed);
  return hears_often && hears_rare;
}

bool Interrupts::wait(std::optional<Instant> deadline) { return wait(deadline, Timer::kAlarm); }

bool Interrupts::doze(Instant earliest, Duration slack) {
  const TimerSlack loose(slack);
  return wait(earliest, Timer::kTimeout);
}

bool Interrupts::wait(std::optional<Instant> deadline, Timer timer) {
  if (!is_deaf_.load(std::memory_order_relaxed) || hear_again()) return wait_for_events(deadline, timer);
  const Instant soon = os_now() + kLookWhenDeaf;
  if (deadline && *deadline <= soon) return wait_for_events(deadline, timer);
  wait_for_events(soon, timer);
  return true;  // There may be packets.
}

bool Interrupts::wait_for_events(std::optional<Instant> deadline, Timer timer) {
  while (true) {
    const Instant now = deadline ? os_now() : Instant{};
    const bool is_look = deadline && *deadline <= now;
    const bool has_timeout = deadline && (is_look || timer == Timer::kTimeout || !set_alarm(*deadline, now));
    const timespec timeout = has_timeout ? time_until(*deadline) : timespec{};
    switch (sleep(has_timeout ? &timeout : nullptr)) {
      case Cause::kEvent:
        return true;
      case Cause::kAlarm:
        alarm_at_ = Instant::max();
        break;
      case Cause::kNothing:
        return false;
    }
  }
}

bool Interrupts::set_alarm(Instant deadline, Instant now) {
  if (alarm_at_ <= deadline) return true;
  const auto left = (deadline - now).count();
  itimerspec spec{};
  spec.it_value = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  // Relative: libfaketime (0.9.10) takes absolute times of any clock for dates.
  if (::timerfd_settime(alarm_.get(), 0, &spec, nullptr) != 0) return false;
  alarm_at_ = deadline;
  return true;
}

Interrupts::Cause Interrupts::sleep(const timespec* timeout) const {
  epoll_event event{};
  int ready = 0;
  const int epoll = epoll_.get();  // Who is left asleep touches nothing of this object.
  do {
    const LeavableSleep sleep;
    bool is_refused = is_wait_refused.load(std::memory_order_relaxed);
    if (!is_refused) {
      ready = wait_epoll(epoll, event, timeout);
      is_refused = ready < 0 && (errno == ENOSYS || errno == EPERM);
      if (is_refused) is_wait_refused.store(true, std::memory_order_relaxed);
    }
    if (is_refused) {
      pollfd set{.fd = epoll, .events = POLLIN, .revents = 0};
      ready = poll_all({&set, 1}, timeout);
      if (ready > 0) ready = look_at_epoll(epoll, event);
    }
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return Cause::kNothing;
  if (ready < 0) nap();
  if (ready > 0 && event.data.fd == alarm_.get()) return Cause::kAlarm;
  if (ready > 0 && event.data.fd == event_.fd()) event_.clear();
  return Cause::kEvent;  // Or an error: the caller has to look.
}

void Interrupts::close() {
  epoll_.reset();
  event_.close();
  alarm_.reset();
  sockets_.clear();
  has_rare_ = false;
}

}  // namespace uroce::engine
