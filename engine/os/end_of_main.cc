// SPDX-License-Identifier: Apache-2.0
#include "engine/os/end_of_main.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "engine/os/background_thread.h"
#include "engine/os/own_threads.h"

namespace uroce::engine {
namespace {

/// Nothing tells of the end of a thread that others have started. Such a process ends by so much later.
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

constinit std::atomic<bool> has_own_threads = false;  ///< Or had some.
constinit std::atomic<bool> is_main_gone = false;
constinit std::atomic<bool> is_watched = false;
sigset_t mask_of_main;  ///< In the end. Written before is_main_gone.

/// Whether a thread that is not ours counts. The main thread stays in the list when it has ended, and the kernel adds
/// threads of its own for the io_uring of a process.
bool is_of_program(const std::filesystem::path& task) {
  std::ifstream file(task / "stat");
  std::string stat;
  std::getline(file, stat, '\0');  // 17 (its name) S ... Nothing, and no exception, when the thread has just ended.
  const auto before_name = stat.find('('), behind_name = stat.rfind(") ");
  if (before_name == std::string::npos || behind_name == std::string::npos) return true;  // The next look will tell.
  const char state = stat[behind_name + 2];
  const std::string_view name(stat.data() + before_name + 1, behind_name - before_name - 1);
  const bool has_ended = state == 'Z' || state == 'X';
  return !has_ended && !name.starts_with("iou-wrk-") && !name.starts_with("iou-sqp-");
}

bool are_only_own_threads_left() {
  bool sees_itself = false;  // Else /proc is that of another PID namespace: its numbers say nothing.
  std::error_code error;
  std::filesystem::directory_iterator task("/proc/self/task", error);
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    const auto thread = static_cast<pid_t>(std::strtol(task->path().filename().c_str(), nullptr, 10));
    if (is_own_thread(thread)) {
      sees_itself |= thread == ::gettid();
    } else if (is_of_program(task->path())) {
      return false;
    }
  }
  return sees_itself && !error;
}

/// In a thread that no handler of atexit() joins.
[[noreturn]] void exit_behind_the_last() {
  while (!are_only_own_threads_left()) std::this_thread::sleep_for(kBetweenLooks);
  ::pthread_sigmask(SIG_SETMASK, &mask_of_main, nullptr);  // Signals that nobody could take so far come first.
  std::exit(0);
}

void start_watch() {
  if (!is_watched.exchange(true)) start_background_thread(exit_behind_the_last)->detach();
}

void on_end_of_main(void*) {
  if (is_main_gone) return;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_of_main);
  is_main_gone = true;
  if (!has_own_threads) return;
  try {
    start_watch();
  } catch (const std::exception&) {  // Without another thread this one has to stay.
    const OwnThread own;
    exit_behind_the_last();
  }
}

/// Destructors of keys run when a thread ends, and not when the process exits.
std::optional<pthread_key_t> make_key() {
  pthread_key_t key = 0;
  return ::pthread_key_create(&key, on_end_of_main) == 0 ? std::optional(key) : std::nullopt;
}

/// Its main thread is the one that has forked.
void forget_in_child() { has_own_threads = is_main_gone = is_watched = false; }

/// When the library is loaded.
[[maybe_unused]] const bool kNotices = [] {
  notice_end_of_main();
  return ::pthread_atfork(nullptr, nullptr, forget_in_child) == 0;
}();

}  // namespace

void notice_end_of_main() {
  static const std::optional<pthread_key_t> kKey = make_key();
  if (kKey && ::gettid() == ::getpid()) ::pthread_setspecific(*kKey, &is_main_gone);
}

void before_own_thread() {
  notice_end_of_main();
  has_own_threads = true;
  if (!is_main_gone) return;
  try {
    start_watch();
  } catch (...) {
    is_watched = false;
    throw;
  }
}

}  // namespace uroce::engine
