// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/capture/input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace uroce::explain {
namespace {

constexpr std::size_t kChunk = 1 << 20;
std::atomic<bool> stopped = false;
/// Readable since stop(); -1 before anything is followed. A signal that comes just before a wait must end it, too.
std::atomic<int> stop_event = -1;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

/// Waits until there is something to read; returns false after stop().
bool wait_for(const Fd& fd) {
  std::array<pollfd, 2> fds{pollfd{fd.get(), POLLIN, 0}, pollfd{stop_event, POLLIN, 0}};
  while (!stopped && ::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) {
  }
  return !stopped;
}

}  // namespace

void Input::stop() {
  const int error = errno;
  stopped = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(stop_event, &one, sizeof one);
  errno = error;
}

Result<Input, std::string> Input::open(const std::string& path, bool follow) {
  const auto failed = [&path](const char* what) {
    return Err{std::string("can't ") + what + " the capture " + path + ": " + std::strerror(errno)};
  };
  Input input;
  input.fd_ = Fd(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!input.fd_) return failed("open");
  struct stat facts {};
  if (::fstat(input.fd_.get(), &facts) != 0) return failed("look at");
  if (S_ISDIR(facts.st_mode)) {
    errno = EISDIR;
    return failed("read");
  }
  input.follows_ = follow;
  if (follow && stop_event < 0) stop_event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!S_ISREG(facts.st_mode)) return input;
  if (!follow) {
    input.size_ = static_cast<std::uint64_t>(facts.st_size);
    return input;
  }
  input.watch_ = Fd(::inotify_init1(IN_CLOEXEC));
  const std::string name = "/proc/self/fd/" + std::to_string(input.fd_.get());
  if (!input.watch_ || ::inotify_add_watch(input.watch_.get(), name.c_str(), IN_MODIFY | IN_ATTRIB) < 0) {
    return failed("watch");
  }
  return input;
}

Bytes Input::peek(std::size_t size) {
  while (filled_ - begin_ < size && fill()) {
  }
  return Bytes(buffer_).subspan(begin_, std::min(size, filled_ - begin_));
}

void Input::skip(std::size_t size) {
  begin_ += size;
  position_ += size;
}

bool Input::fill() {
  if (ended_) return false;
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, filled_ - begin_);
    filled_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < filled_ + kChunk) buffer_.resize(filled_ + kChunk);
  while (!follows_ || wait_for(fd_)) {
    const ssize_t got = ::read(fd_.get(), buffer_.data() + filled_, kChunk);
    if (got > 0) {
      filled_ += static_cast<std::size_t>(got);
      return true;
    }
    if (got == 0 && watch_ && wait_for_growth()) continue;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error_ = std::strerror(errno);
    break;
  }
  ended_ = true;
  return false;
}

/// False when nothing more will come: the file has lost its last name.
bool Input::wait_for_growth() {
  struct stat facts {};
  if (::fstat(fd_.get(), &facts) != 0 || facts.st_nlink == 0) return false;
  alignas(inotify_event) char events[4096];
  return wait_for(watch_) && ::read(watch_.get(), events, sizeof events) > 0;
}

}  // namespace uroce::explain
