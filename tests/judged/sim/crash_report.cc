// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/crash_report.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/judged/sim/campaign.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

namespace uroce::simulator {
namespace {

// Prepared beforehand: a handler may only do what is safe in the middle of anything.
constexpr char kProgram[] = "/proc/self/exe";
char g_message[8192], g_seed[32], g_pcap[2048];
std::size_t g_message_size = 0;
bool g_capture = false;
bool g_reported = false;
std::string g_name, g_folder;  // The program's, as it was called.

void report() {
  if (g_reported) return;
  g_reported = true;
  if (write(STDOUT_FILENO, g_message, g_message_size) < 0) return;
  if (!g_capture) return;
  const pid_t child = fork();
  if (child == 0) {
    const char* const argv[] = {kProgram, "--seed", g_seed, "--pcap", g_pcap, nullptr};
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execv(kProgram, const_cast<char* const*>(argv));
    _exit(1);
  }
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
}

void on_signal(int) {
  report();
  _exit(kExitCrash);
}
#if defined(__SANITIZE_ADDRESS__)
void on_death() {
  report();
  _exit(kExitCrash);
}
#endif

}  // namespace

CrashReport::CrashReport(const std::string& program, const std::string& folder, bool capture) {
  g_name = program;
  g_folder = folder;
  g_capture = capture;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(signal, &action, nullptr);
  }
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(on_death);
#endif
}

void CrashReport::running(std::uint64_t seed) {
  const auto number = static_cast<unsigned long long>(seed);
  std::snprintf(g_seed, sizeof g_seed, "%llu", number);
  std::snprintf(g_pcap, sizeof g_pcap, "%s/uroce-sim-seed-%llu.pcap", g_folder.c_str(), number);
  const int size =
      std::snprintf(g_message, sizeof g_message, "seed %llu: crash\ncapture: %s\nreplay: %s --seed %llu --verbose\n",
                    number, g_pcap, g_name.c_str(), number);
  g_message_size = size < 0 ? 0 : std::min(sizeof g_message - 1, static_cast<std::size_t>(size));
}

}  // namespace uroce::simulator
