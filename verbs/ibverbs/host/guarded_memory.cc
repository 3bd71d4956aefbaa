// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/guarded_memory.h"

#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "proto/crc32.h"
#include "verbs/ibverbs/host/fault_handler.h"
#include "verbs/ibverbs/host/guarded_access.h"
#include "verbs/ibverbs/host/memory_check.h"

namespace uroce::ibv {
namespace {

/// How long a thread's last look at its handlers is good for. A thread that moves packets all the time pays one
/// look in so many microseconds; one that comes now and then looks each time. A look is three system calls, of which
/// each takes a microsecond on some virtual machines.
constexpr Duration kLookAgainAfter = std::chrono::microseconds(250);

struct Look {
  Instant until{};
  bool result = false;
};
thread_local Look last_look;

/// `last`: that many bytes are copied after the rest.
bool copy_by_kernel(void* to, const void* from, std::size_t size, std::size_t last) {
  auto* const begin = static_cast<std::uint8_t*>(const_cast<void*>(from));
  const std::array<iovec, 2> source{{{begin, size - last}, {begin + size - last, last}}};
  const iovec target{to, size};
  // The kernel knows both ranges as ours, and says EFAULT of either.
  const ssize_t copied = ::process_vm_writev(::getpid(), source.data(), source.size(), &target, 1, 0);
  // Where the call is forbidden, memory that stays is still served.
  if (copied < 0 && (errno == ENOSYS || errno == EPERM)) return uroce_guarded_write(to, from, size);
  return copied == static_cast<ssize_t>(size);
}

/// For as long as it lives, the thread does not block faults.
class UnblockedFaults {
 public:
  UnblockedFaults() {
    sigset_t faults;
    ::sigemptyset(&faults);
    ::sigaddset(&faults, SIGSEGV);
    ::sigaddset(&faults, SIGBUS);
    ::pthread_sigmask(SIG_UNBLOCK, &faults, &before_);
  }
  ~UnblockedFaults() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  UnblockedFaults(const UnblockedFaults&) = delete;
  UnblockedFaults& operator=(const UnblockedFaults&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

GuardedMemory::GuardedMemory() { install_fault_handler(); }

void GuardedMemory::look() {
  Look& last = last_look;
  if (now_ >= last.until) last = {now_ + kLookAgainAfter, kHasGuardedAccess && faults_reach_our_handler()};
  can_fault_ = last.result;
  is_known_ = true;
}

bool GuardedMemory::read(void* to, const void* from, std::size_t size) {
  return can_fault() ? uroce_guarded_read(to, from, size) : copy_by_kernel(to, from, size, 0);
}

bool GuardedMemory::write(void* to, const void* from, std::size_t size) {
  if (can_fault()) return uroce_guarded_write(to, from, size);
  // In two pieces, as the kernel uses string operations, too: the last bytes are the last to be visible. They begin
  // with a word.
  const std::size_t past_word = (reinterpret_cast<std::uintptr_t>(to) + size) % 8;
  return copy_by_kernel(to, from, size, std::min<std::size_t>(size, 64 + past_word));
}

bool GuardedMemory::read_with_crc(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint32_t& crc) {
  // Whole lines go fast. They begin with a word of the program's, so that none is cut in two.
  const std::size_t before_word = std::min(size, -reinterpret_cast<std::uintptr_t>(from) % 8);
  if (before_word != 0) {
    if (!read(to, from, before_word)) return false;
    crc = proto::crc32(crc, {to, before_word});
    to += before_word;
    from += before_word;
    size -= before_word;
  }
  const auto done = can_fault() ? proto::copy_lines_with_crc32(crc, to, from, size) : std::optional<std::size_t>(0);
  if (!done || !read(to + *done, from + *done, size - *done)) return false;
  crc = proto::crc32(crc, {to + *done, size - *done});
  return true;
}

/// access(original): one of the atomics. The kernel has none for us: where faults are blocked, they are let through
/// for the one instruction; where the program has put another handler in the place of ours, all that can be done is to
/// look first.
template <class Access>
std::optional<std::uint64_t> GuardedMemory::in_one_step(std::uint64_t* word, Access access) {
  std::uint64_t original = 0;
  if (can_fault()) return access(&original) ? std::optional(original) : std::nullopt;
  const UnblockedFaults unblocked;
  const bool is_there = faults_reach_our_handler() || touch_memory(word, sizeof *word, /*write=*/true);
  return is_there && access(&original) ? std::optional(original) : std::nullopt;
}

std::optional<std::uint64_t> GuardedMemory::fetch_add(std::uint64_t* word, std::uint64_t operand) {
  return in_one_step(word, [&](std::uint64_t* original) { return uroce_guarded_fetch_add(word, operand, original); });
}

std::optional<std::uint64_t> GuardedMemory::compare_swap(std::uint64_t* word, std::uint64_t expected,
                                                         std::uint64_t desired) {
  return in_one_step(
      word, [&](std::uint64_t* original) { return uroce_guarded_compare_swap(word, expected, desired, original); });
}

bool GuardedMemory::store(std::uint64_t* word, std::uint64_t value) {
  return in_one_step(word, [&](std::uint64_t*) { return uroce_guarded_store(word, value); }).has_value();
}

}  // namespace uroce::ibv
