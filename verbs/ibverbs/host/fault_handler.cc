// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/fault_handler.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "verbs/ibverbs/host/guarded_access.h"

namespace uroce::ibv {
namespace {

/// SA_RESETHAND is the sign bit, which <signal.h> has as an unsigned number.
constexpr int kResetHand = static_cast<int>(SA_RESETHAND);

/// What the program wants done with a signal.
struct Wanted {
  int signal;
  struct sigaction action {};
  std::atomic<bool> spent = false;  ///< An action of SA_RESETHAND has had its one run.
};
std::array<Wanted, 2> all_wanted{{{SIGSEGV}, {SIGBUS}}};

bool is_function(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

/// The default action, by the kernel: what has faulted does so again on return; what was sent is sent again.
void take_default(int signal, siginfo_t* info) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  const bool was_sent = info->si_code <= 0;
  if (was_sent) ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), signal, info);
}

/// Mask and flags of the program's action are those of ours: the kernel has seen to them.
void pass_on(Wanted& wanted, siginfo_t* info, void* context) {
  const struct sigaction& action = wanted.action;
  if (!is_function(action)) {
    // Faults can't be ignored (sigaction(2)); only what was sent can.
    if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;
    return take_default(wanted.signal, info);
  }
  if ((action.sa_flags & kResetHand) != 0 && wanted.spent.exchange(true)) return take_default(wanted.signal, info);
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(wanted.signal, info, context);
  } else {
    action.sa_handler(wanted.signal);
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const bool is_fault = info->si_code > 0;
  if (is_fault && fail_guarded_access(context)) return;
  for (Wanted& wanted : all_wanted) {
    if (wanted.signal == signal) pass_on(wanted, info, context);
  }
}

bool install(Wanted& wanted) {
  ::sigaction(wanted.signal, nullptr, &wanted.action);
  struct sigaction ours = wanted.action;
  ours.sa_sigaction = on_fault;
  // With nobody behind us, a thread's alternate stack is the better place: some have little room on their own.
  ours.sa_flags = is_function(wanted.action) ? (ours.sa_flags & ~kResetHand) | SA_SIGINFO : SA_SIGINFO | SA_ONSTACK;
  ::sigaction(wanted.signal, &ours, nullptr);
  return true;
}

}  // namespace

void install_fault_handler() {
  if (!kHasGuardedAccess) return;
  static const bool kInstalled = install(all_wanted[0]) && install(all_wanted[1]);
  static_cast<void>(kInstalled);
}

bool faults_reach_our_handler() {
  sigset_t blocked;
  if (::pthread_sigmask(SIG_BLOCK, nullptr, &blocked) != 0) return false;
  for (const Wanted& wanted : all_wanted) {
    struct sigaction now {};
    const bool is_ours = ::sigaction(wanted.signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
                         now.sa_sigaction == on_fault;
    if (!is_ours || ::sigismember(&blocked, wanted.signal) != 0) return false;
  }
  return true;
}

}  // namespace uroce::ibv
