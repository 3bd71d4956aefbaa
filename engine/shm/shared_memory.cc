// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <utility>

#include "proto/quiet_signals.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace uroce::engine {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

bool map_at(std::uint8_t* at, std::size_t size, int protection, int fd, std::size_t offset) {
  return size == 0 || ::mmap(at, size, protection, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset)) == at;
}

}  // namespace

std::optional<Mapping> Mapping::make(int fd, std::size_t head, std::size_t ring, Access access) {
  const std::size_t size = head + 2 * ring;
  void* const at = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return std::nullopt;
  Mapping mapping(static_cast<std::uint8_t*>(at), size);
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  if (!map_at(mapping.data_, head + ring, protection, fd, 0) ||
      !map_at(mapping.data_ + head + ring, ring, protection, fd, head) || ::madvise(at, size, MADV_DONTFORK) != 0) {
    return std::nullopt;
  }
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Fd make_shared_memory(std::size_t size) {
  Fd fd(::memfd_create("uroce-wire", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const proto::QuietSignals quiet;  // RLIMIT_FSIZE counts for a memfd as well.
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0 || ::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    return {};
  }
  return fd;
}

bool forbid_new_writers(int fd) { return ::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0; }

bool is_shared_memory(int fd, std::size_t size) {
  struct stat file {};
  struct statfs system {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  // Huge pages, which also have seals, may be missing when they are touched.
  return seals >= 0 && (seals & kSizeSeals) == kSizeSeals && ::fstatfs(fd, &system) == 0 &&
         system.f_type == TMPFS_MAGIC && ::fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
         static_cast<std::size_t>(file.st_size) == size;
}

}  // namespace uroce::engine
