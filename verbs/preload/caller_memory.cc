// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/caller_memory.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

/// Of valgrind; null without.
extern "C" [[gnu::weak]] int _vgnU_freeres();  // NOLINT(bugprone-reserved-identifier,readability-identifier-naming)

namespace uroce::preload {
namespace {

/// Asks the kernel to read the aligned word around `at`: it does so before it finds that there is no such request.
/// Under valgrind, which minds a word that is not the program's to the last byte, in a slower way.
bool is_readable(std::uintptr_t at) {
  if (_vgnU_freeres != nullptr) {
    char byte = 0;
    const iovec to{&byte, 1}, from{reinterpret_cast<void*>(at), 1};
    return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
  }
  constexpr std::uintptr_t kWord = 8;
  constexpr long kNoSuchRequest = -1;
  return ::syscall(SYS_rt_sigprocmask, kNoSuchRequest, at / kWord * kWord, nullptr, kWord) == 0 || errno != EFAULT;
}

}  // namespace

bool can_read(const char* text) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const int error = errno;
  auto at = reinterpret_cast<std::uintptr_t>(text);
  bool readable = false;
  while ((readable = is_readable(at))) {
    const std::uintptr_t rest = page - at % page;
    if (std::memchr(reinterpret_cast<const void*>(at), 0, rest) != nullptr) break;
    at += rest;
  }
  errno = error;
  return readable;
}

bool give(void* to, const void* from, std::size_t size) {
  const int error = errno;
  const iovec source{const_cast<void*>(from), size};
  const iovec target{to, size};
  const ssize_t given = ::process_vm_writev(::getpid(), &source, 1, &target, 1, 0);
  const bool forbidden = given < 0 && errno != EFAULT;  // By a filter of system calls.
  if (forbidden) std::memcpy(to, from, size);
  const bool done = forbidden || given == static_cast<ssize_t>(size);
  errno = done ? error : EFAULT;
  return done;
}

}  // namespace uroce::preload
