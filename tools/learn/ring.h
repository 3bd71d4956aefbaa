/// What every io_uring lesson begins with: a ring, or a sentence that says why there is none.
#pragma once

#include <liburing.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace learn {

/// Exit status of a lesson that can't run on this machine; test drivers take it as "skipped".
inline constexpr int kSkipped = 77;

/// Ends the lesson when a call of liburing (a negative errno in `result`) has failed.
inline int check(int result, const char* what) {
  if (result >= 0) return result;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(-result));
  std::exit(1);
}

/// The same for system calls, which return -1 and set errno.
inline int check_errno(int result, const char* what) { return check(result < 0 ? -errno : result, what); }

/// A pair of queues that the kernel and this process share. Lives as long as the object.
struct Ring : io_uring {
  explicit Ring(unsigned entries) {
    const int result = io_uring_queue_init(entries, this, 0);
    if (result >= 0) return;
    std::fprintf(stderr, "io_uring is not available here: %s.\n", std::strerror(-result));
    if (result == -EPERM) {
      std::fprintf(stderr,
                   "Either the administrator has switched it off (sysctl kernel.io_uring_disabled is 1 or 2; 0 allows "
                   "it),\nor a seccomp filter forbids the system call, as Docker's default profile does\n"
                   "(docker run --security-opt seccomp=unconfined ... allows it).\n");
    } else if (result == -ENOSYS) {
      std::fprintf(stderr,
                   "The kernel is older than Linux 5.1, or was built without io_uring, or a seccomp filter "
                   "hides the system call.\n");
    }
    std::exit(kSkipped);
  }
  ~Ring() { io_uring_queue_exit(this); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// An empty entry of the submission queue. Lessons never have more under way than fit.
  io_uring_sqe* sqe() { return io_uring_get_sqe(this); }
  /// Submits what is prepared and waits for `n` completions; returns how many entries the kernel took.
  int submit_and_wait(unsigned n) { return check(io_uring_submit_and_wait(this, n), "io_uring_enter"); }
  /// The next completion. Waits for it when there is none.
  io_uring_cqe* wait() {
    io_uring_cqe* cqe = nullptr;
    check(io_uring_wait_cqe(this, &cqe), "io_uring_wait_cqe");
    return cqe;
  }
  /// Gives the completion's place in the queue back to the kernel.
  void seen(io_uring_cqe* cqe) { io_uring_cqe_seen(this, cqe); }
};

}  // namespace learn
