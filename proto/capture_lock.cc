// SPDX-License-Identifier: Apache-2.0
#include "proto/capture_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace uroce::proto {
namespace {

constexpr off_t kPenByte = 0;
constexpr off_t kFirstPlace = 1;
constexpr off_t kLastPlace = 4096;  ///< Who may read the file could lock all bytes of it.
constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kLockNap = std::chrono::microseconds(50);

/// The lock belongs to the open file description: threads and descriptors of one process exclude each other as those of
/// several do, and closing another descriptor of the file gives nothing back (as it does with POSIX's own locks).
int try_lock(int fd, short type, off_t byte) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return 0;
  return errno == EACCES ? EAGAIN : errno;
}

}  // namespace

int take_place(int fd) {
  int error = EAGAIN;
  for (off_t place = kFirstPlace; error == EAGAIN && place <= kLastPlace; ++place) {
    error = try_lock(fd, F_WRLCK, place);
  }
  return error;
}

bool others_have_places(int fd) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = kFirstPlace;
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

Pen::Pen(int fd) : fd_(fd) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while ((error_ = try_lock(fd, F_WRLCK, kPenByte)) == EAGAIN && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kLockNap);
  }
}

Pen::~Pen() {
  if (error_ == 0) try_lock(fd_, F_UNLCK, kPenByte);
}

}  // namespace uroce::proto
