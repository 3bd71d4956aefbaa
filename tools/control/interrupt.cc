// SPDX-License-Identifier: Apache-2.0
#include "tools/control/interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

#include "tools/rdma/failure.h"

namespace uroce::tools {
namespace {

std::atomic<int> g_signal{0};
int g_event_fd = -1;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler stores to it");

extern "C" void on_signal(int signal) {
  const int saved_errno = errno;
  g_signal.store(signal, std::memory_order_relaxed);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(g_event_fd, &one, sizeof one);
  errno = saved_errno;
}

}  // namespace

void install_interrupt_handlers() {
  if (g_event_fd >= 0) return;
  g_event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (g_event_fd < 0) throw Failure(kExitUsage, std::string("can't create an eventfd: ") + std::strerror(errno));
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  // Not every library minds EINTR: rsetsockopt() of librdmacm takes it for the answer of its service thread, and waits
  // two hours for that to end. Our own waits are poll(), which is interrupted all the same.
  // And whatever it is that does not end, the second signal ends the process.
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup wants it to be ignored.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

bool interrupted() { return g_signal.load(std::memory_order_relaxed) != 0; }

void throw_if_interrupted() {
  const int signal = g_signal.load(std::memory_order_relaxed);
  if (signal == 0) return;
  const char* const name = signal == SIGINT ? "SIGINT" : signal == SIGHUP ? "SIGHUP" : "SIGTERM";
  throw Failure(kExitInterrupted, std::string("interrupted (") + name + ")");
}

int interrupt_fd() { return g_event_fd; }

}  // namespace uroce::tools
