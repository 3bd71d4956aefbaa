// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/bell.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/os/known_fd.h"
#include "engine/os/take_back.h"

namespace uroce::engine {
namespace {

/// Counts sleeps: odd while one lasts.
using Sleeps = std::atomic<std::uint32_t>;
static_assert(Sleeps::is_always_lock_free && sizeof(Sleeps) == 4);

Sleeps& sleeps(const Mapping& memory) { return *reinterpret_cast<Sleeps*>(memory.data()); }
/// In a line of its own, which seldom changes.
std::atomic<std::uint32_t>& reading(const Mapping& memory) {
  constexpr std::size_t kOffset = 128;
  return *reinterpret_cast<std::atomic<std::uint32_t>*>(memory.data() + kOffset);
}

/// Whether a write of 1 finds no room now. The owner of an eventfd can fill it, and have it block who writes, at any
/// time: the flags of the file are the owner's, too, and eventfds know no RWF_NOWAIT for writes.
bool is_full(int fd) {
  pollfd look{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&look, 1, 0) == 0 || (look.revents & POLLERR) != 0;
}

bool is_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

/// A write to another kind of file might block, or do harm. All files of the kernel that have no name are one to
/// fstat(2), but of these only events take a number that adds nothing. (/proc would say it, where there is one.)
bool is_eventfd(int fd) {
  const Fd one(::eventfd(0, EFD_CLOEXEC));
  const auto nameless = FileIdentity::of(one.get());
  const std::uint64_t nothing = 0;
  return nameless && nameless->is_behind(fd) && ::write(fd, &nothing, sizeof nothing) == sizeof nothing;
}

}  // namespace

std::optional<Bell> Bell::make() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Fd memory_fd = make_shared_memory(kBellMemory);
  if (!event || !memory_fd) return std::nullopt;
  auto memory = Mapping::make(memory_fd.get(), kBellMemory, 0, Mapping::Access::kReadWrite);
  if (!memory || !forbid_new_writers(memory_fd.get())) return std::nullopt;
  return Bell(std::move(event), std::move(memory_fd), std::move(*memory));
}

Bell::Bell(Fd event, Fd memory_fd, Mapping memory)
    : event_(std::move(event)), memory_fd_(std::move(memory_fd)), memory_(std::move(memory)) {}

void Bell::set_asleep(bool asleep) {
  const std::uint32_t count = sleeps(memory_).load(std::memory_order_relaxed);
  if ((count % 2 == 1) == asleep) return;
  // In one order with publish(), ring_if_asleep() and is_empty(): either the writer sees that we sleep, or we see what
  // it has published.
  sleeps(memory_).store(count + 1, std::memory_order_seq_cst);
}

// Not by read(2): who rings can have that block.
void Bell::forget_rings() const { take_back(event_.get(), sizeof(std::uint64_t)); }

void Bell::set_reading(bool is_reading) { reading(memory_).store(is_reading ? 1 : 0, std::memory_order_relaxed); }

void Bell::close() {
  event_.reset();
  memory_fd_.reset();
  memory_.forget();
}

std::optional<BellRope> BellRope::adopt(Fd event, const Fd& memory) {
  if (!is_nonblocking(event.get()) || is_full(event.get()) || !is_eventfd(event.get())) return std::nullopt;
  if (!is_shared_memory(memory.get(), kBellMemory)) return std::nullopt;
  auto mapping = Mapping::make(memory.get(), kBellMemory, 0, Mapping::Access::kRead);
  if (!mapping) return std::nullopt;
  return BellRope(std::move(event), std::move(*mapping));
}

bool BellRope::ring_if_asleep() {
  const std::uint32_t count = sleeps(memory_).load(std::memory_order_seq_cst);
  if (count % 2 == 0 || count == rung_) return false;
  rung_ = count;
  broken_ = broken_ || is_full(event_.get());
  if (broken_) return true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
  return true;
}

bool BellRope::is_reading() const { return reading(memory_).load(std::memory_order_relaxed) != 0; }

void BellRope::close() {
  event_.reset();
  memory_.forget();
}

}  // namespace uroce::engine
