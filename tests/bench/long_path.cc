// SPDX-License-Identifier: Apache-2.0
// A path with a round trip between two hosts, for what is measured over it: uroce and TCP alike.
//
//   uroce_bench_path MICROSECONDS MTU
//
// Makes a network interface `path0` in its network namespace and another one in a new namespace, moves packets between
// them, and delivers each that many microseconds after it came. A packet that finds the path full is lost, as in a
// switch. Prints its process ID, whose network namespace is the other host, when the interfaces are there; ends with
// its input. Needs the rights over its network namespace (`unshare -rn`).
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "engine/os/os_clock.h"
#include "proto/base/clock.h"

namespace uroce::bench {
namespace {

constexpr std::size_t kMostPackets = 8192;  ///< On the way in one direction: 30 MB of 4 KiB, 5 ms of 50 Gb/s.
constexpr int kBatch = 32;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

int open_interface() {
  const int fd = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strcpy(request.ifr_name, "path0");
  if (fd < 0 || ::ioctl(fd, TUNSETIFF, &request) != 0) die("path0");
  return fd;
}

/// One direction.
class Line {
 public:
  Line(int from, int to, Duration delay, std::size_t mtu)
      : from_(from), to_(to), delay_(delay), mtu_(mtu), bytes_(kMostPackets * mtu), packets_(kMostPackets) {}

  /// Takes what has come. Returns whether there may be more.
  bool take(Instant now) {
    for (int i = 0; i < kBatch; ++i) {
      const bool has_room = end_ - begin_ < kMostPackets;
      char* const place = has_room ? at(end_) : lost_.data();
      const ssize_t size = ::read(from_, place, mtu_);
      if (size < 0) return false;
      if (has_room) packets_[end_++ % kMostPackets] = {now + delay_, static_cast<std::size_t>(size)};
    }
    return true;
  }
  /// Delivers what is due.
  void deliver(Instant now) {
    for (; begin_ != end_ && packets_[begin_ % kMostPackets].due <= now; ++begin_) {
      // What the interface does not take is lost.
      static_cast<void>(!::write(to_, at(begin_), packets_[begin_ % kMostPackets].size));
    }
  }
  std::optional<Instant> next() const {
    return begin_ == end_ ? std::nullopt : std::optional(packets_[begin_ % kMostPackets].due);
  }

 private:
  struct Packet {
    Instant due;
    std::size_t size;
  };
  char* at(std::size_t index) { return &bytes_[index % kMostPackets * mtu_]; }

  const int from_, to_;
  const Duration delay_;
  const std::size_t mtu_;
  std::vector<char> bytes_;
  std::vector<Packet> packets_;
  std::size_t begin_ = 0, end_ = 0;
  std::array<char, 65536> lost_{};
};

void run(Duration delay, std::size_t mtu) {
  const int here = open_interface();
  if (::unshare(CLONE_NEWNET) != 0) die("unshare");
  const int there = open_interface();
  ::prctl(PR_SET_TIMERSLACK, 1);
  std::printf("%d\n", ::getpid());
  std::fflush(stdout);

  Line forth(here, there, delay, mtu), back(there, here, delay, mtu);
  while (true) {
    const Instant now = engine::os_now();
    const bool more = static_cast<int>(forth.take(now)) + static_cast<int>(back.take(now)) > 0;
    forth.deliver(now);
    back.deliver(now);
    const Instant wake = std::min(forth.next().value_or(Instant::max()), back.next().value_or(Instant::max()));
    std::array<pollfd, 3> polled{{{STDIN_FILENO, 0, 0}, {here, POLLIN, 0}, {there, POLLIN, 0}}};
    const timespec time = engine::time_until(more ? now : wake);
    if (::ppoll(polled.data(), polled.size(), &time, nullptr) < 0) die("ppoll");
    if ((polled[0].revents & POLLHUP) != 0) return;
  }
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  const long delay = argc == 3 ? std::strtol(argv[1], nullptr, 10) : -1,
             mtu = argc == 3 ? std::strtol(argv[2], nullptr, 10) : 0;
  if (delay < 0 || mtu < 1280 || mtu > 65535) {
    std::fputs("usage: uroce_bench_path MICROSECONDS MTU\n", stderr);
    return 2;
  }
  uroce::bench::run(std::chrono::microseconds(delay), static_cast<std::size_t>(mtu));
}
