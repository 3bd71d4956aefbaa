// SPDX-License-Identifier: Apache-2.0
#include "engine/broker/start_broker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "proto/address.h"
#include "proto/base/no_signals.h"

// What runs in the new processes uses the memory of the caller, whose thread stands still meanwhile, on a stack that
// sanitizers know nothing of.
#define UROCE_IN_NEW_PROCESS __attribute__((no_sanitize("address", "thread", "undefined")))

/// clone(2) by the name that sanitizers do not intercept: the thread sanitizer takes every clone() for a fork(), and in
/// a process that shares our memory turns itself off for the caller.
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
extern "C" int __clone(int (*body)(void*), void* stack, int flags, void* argument, ...);

namespace uroce::engine {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr Duration kStartTimeout = std::chrono::seconds(5);
constexpr int kDescriptorsMax = 1 << 16;  ///< More than programs have.

struct Plan {
  const char* path;
  char* const* arguments;
  char* const* environment;
  int null;    ///< /dev/null
  int report;  ///< To become kBrokerReport; above all that the new process needs.
  bool resets_schedule;
  char* stack_end;
  int error = 0;  ///< Why there is no broker: the new processes have our memory.
};

/// Whether the caller has chosen its processors, or when it runs on them: it may compute in real time, and a broker
/// that did as it does would never run.
bool has_own_schedule() {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  return (::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER || ::getpriority(PRIO_PROCESS, 0) != 0 ||
         (::sched_getaffinity(0, sizeof processors, &processors) == 0 &&
          CPU_COUNT(&processors) < ::sysconf(_SC_NPROCESSORS_ONLN));
}

/// As far as the caller may. The kernel leaves out processors that there are not.
UROCE_IN_NEW_PROCESS void reset_schedule() {
  const unsigned long all[]{~0UL, ~0UL, ~0UL, ~0UL, ~0UL, ~0UL, ~0UL, ~0UL,
                            ~0UL, ~0UL, ~0UL, ~0UL, ~0UL, ~0UL, ~0UL, ~0UL};
  const sched_param none{};
  ::syscall(SYS_sched_setaffinity, 0, sizeof all, all);
  ::syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none);
  ::syscall(SYS_setpriority, PRIO_PROCESS, 0, 0);
}

UROCE_IN_NEW_PROCESS int become_broker(void* argument) {
  Plan& plan = *static_cast<Plan*>(argument);
  if (plan.resets_schedule) reset_schedule();
  ::syscall(SYS_setsid);
  for (int fd = 0; fd < kBrokerReport; ++fd) ::syscall(SYS_dup3, plan.null, fd, 0);
  ::syscall(SYS_dup3, plan.report, kBrokerReport, 0);
  if (::syscall(__NR_close_range, kBrokerReport + 1, ~0u, 0) != 0) {  // A seccomp filter that is older than it.
    for (int fd = kBrokerReport + 1; fd < kDescriptorsMax; ++fd) ::syscall(SYS_close, fd);
  }
  ::syscall(SYS_chdir, "/");
  ::syscall(SYS_execve, plan.path, plan.arguments, plan.environment);
  plan.error = errno;
  ::syscall(SYS_exit_group, 1);
  return 1;
}

/// In between, so that the broker is a child of init.
UROCE_IN_NEW_PROCESS int step_aside(void* argument) {
  Plan& plan = *static_cast<Plan*>(argument);
  if (__clone(become_broker, plan.stack_end, CLONE_VM | CLONE_VFORK, argument) < 0) plan.error = errno;
  ::syscall(SYS_exit_group, 0);
  return 1;
}

/// Not fork(): its handlers (pthread_atfork) would wait for locks that our callers hold, ours among them. And the
/// process in between sends no SIGCHLD, which would be news to the program.
void spawn(Plan& plan) {
  std::vector<char> stacks(2 * kStackBytes);
  char* const end = stacks.data() + stacks.size();
  plan.stack_end = stacks.data() + kStackBytes;
  int between = -1;
  {
    const NoSignals guard;  // The program's handlers must not run in the new processes.
    between = __clone(step_aside, end, CLONE_VM | CLONE_VFORK, &plan);
    if (between < 0) plan.error = errno;
  }
  while (between > 0 && ::waitpid(between, nullptr, static_cast<int>(__WCLONE)) < 0 && errno == EINTR) continue;
}

/// Moves `fd` out of the way of 0 to 3.
Fd above_report(Fd fd) { return Fd(fd ? ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kBrokerReport + 1) : -1); }

/// The path of the file that this code was loaded from: absolute, whatever the program was started as.
/// Empty when it can't be found.
std::string own_file() {
  const auto here = reinterpret_cast<std::uintptr_t>(&own_file);
  // Not /proc/self: that is the main thread, which may have ended.
  std::ifstream maps("/proc/thread-self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const char* const text_end = line.data() + line.size();
    const auto [dash, error] = std::from_chars(line.data(), text_end, begin, 16);
    if (error != std::errc{} || dash == text_end) continue;
    std::from_chars(dash + 1, text_end, end, 16);
    const std::size_t path = line.find('/');
    if (begin <= here && here < end && path != std::string::npos) return line.substr(path);
  }
  // Without /proc: what the loader was told. It knows the program by the name that was typed.
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_file), &info) == 0) return {};
  if (info.dli_fname[0] == '/') return info.dli_fname;
  const auto* const started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (started == nullptr || std::strcmp(info.dli_fname, program_invocation_name) != 0) return {};
  std::error_code error;
  return std::filesystem::canonical(started, error).string();
}

}  // namespace

std::optional<std::string> find_broker() {
  const std::string file = own_file();
  const std::string folder = file.substr(0, file.rfind('/') + 1);
  for (const char* place : {"", "../bin/", "../lib/uroce/"}) {
    std::string path = folder + place + "uroce-broker";
    if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return std::nullopt;
}

BrokerStart::BrokerStart(std::string executable, Fd report)
    : executable_(std::move(executable)), report_(std::move(report)), deadline_(os_now() + kStartTimeout) {}

std::optional<SetupError> start_helper(const std::string& executable, const char* argument, Fd descriptor) {
  Fd opened(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!opened) {
    const int error = errno;
    return SetupError{error, "no input and output for a new broker: /dev/null: " + errno_text(error) +
                                 "; let the program read and write it"};
  }
  const Fd null = above_report(std::move(opened));
  const Fd report = above_report(std::move(descriptor));
  if (!report || !null) return call_failed("no descriptors for a new broker", "fcntl", errno);
  std::string name = "uroce-broker";
  std::string text = argument;
  const std::array<char*, 3> arguments{name.data(), text.data(), nullptr};
  const std::array<char*, 1> environment{nullptr};
  Plan plan{.path = executable.c_str(),
            .arguments = arguments.data(),
            .environment = environment.data(),
            .null = null.get(),
            .report = report.get(),
            .resets_schedule = has_own_schedule(),
            .stack_end = nullptr};
  spawn(plan);
  if (plan.error == 0) return std::nullopt;
  return SetupError{ECHILD, executable + " does not start: " + std::strerror(plan.error)};
}

Result<BrokerStart, SetupError> BrokerStart::begin(const std::string& executable, const proto::Gid& local) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Err{call_failed("no pipe to a new broker", "pipe2", errno)};
  Fd reader(ends[0]);
  if (auto error = start_helper(executable, proto::to_string(local).c_str(), Fd(ends[1]))) return Err{*error};
  return BrokerStart(executable, std::move(reader));
}

BrokerStart::State BrokerStart::look() {
  std::array<char, 512> report{};
  const ssize_t size = ::read(report_.get(), report.data(), report.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR) && os_now() < deadline_) return State::kUnderWay;
  if (size > 0 && report[0] == kBrokerListens) return State::kListens;
  const std::string why = size > 0 ? std::string(report.data(), static_cast<std::size_t>(size)) : "it gives no reason";
  error_ = {ECHILD, executable_ + " does not start: " + why};
  return size == 0 ? State::kVanished : State::kFailed;
}

}  // namespace uroce::engine
