// SPDX-License-Identifier: Apache-2.0
// A program with an open device whose main thread ends, or closes all descriptors, as its argument says:
// end_of_main_test.cc runs it.
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/judged/every_verb/lab.h"
#include "tests/support/in_child.h"

#ifdef __SANITIZE_ADDRESS__
/// glibc destroys no thread_local of a main thread that calls pthread_exit(), and LeakSanitizer does not look into it.
extern "C" int __lsan_is_turned_off() { return 1; }
#endif

namespace {

using uroce::every_verb::Lab;

constexpr int kReturned = 3;

Lab* lab = nullptr;
Lab* first = nullptr;  ///< Of two.
pthread_t main_thread;

void say(const char* what) {
  std::puts(what);
  std::fflush(stdout);
}

void exchange() {
  constexpr int kTimes = 100;
  for (int i = 0; i < kTimes; ++i) {
    struct ibv_sge sge = lab->sge(0, 64);
    struct ibv_recv_wr receive {};
    receive.sg_list = &sge;
    receive.num_sge = 1;
    struct ibv_recv_wr* bad_receive = nullptr;
    REQUIRE(ibv_post_recv(lab->b, &receive, &bad_receive) == 0);
    struct ibv_send_wr send {};
    send.sg_list = &sge;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    struct ibv_send_wr* bad_send = nullptr;
    REQUIRE(ibv_post_send(lab->a, &send, &bad_send) == 0);
    for (int end = 0; end < 2; ++end) REQUIRE(lab->completion(lab->cq).status == IBV_WC_SUCCESS);
  }
  say("exchanged");
}

void wait_for_end_of_main() { REQUIRE(pthread_join(main_thread, nullptr) == 0); }

/// Nobody joins it, but it can be joined: a worker that forks is the main thread of its child.
void start_worker(void (*body)()) {
  const auto run = [](void* what) -> void* {
    reinterpret_cast<void (*)()>(what)();
    return nullptr;
  };
  pthread_t worker{};
  REQUIRE(pthread_create(&worker, nullptr, run, reinterpret_cast<void*>(body)) == 0);
}

/// A child is the only thread that its parent's worker was, and its main thread.
void fork_and_end_in_child_as_in_parent() {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // It must not outlive a test that fails.
    main_thread = pthread_self();
    std::thread([] { first = new Lab; }).join();  // It is this one that starts the NIC's threads.
    lab = new Lab;
    start_worker([] {
      wait_for_end_of_main();
      exchange();
    });
    pthread_exit(nullptr);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child && status == 0);
  say("its child has ended");
}

bool are_others_asleep() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::string line;
    std::getline(std::ifstream(task.path() / "stat"), line);
    const std::size_t behind_name = line.rfind(") ");
    if (behind_name != std::string::npos && line[behind_name + 2] != 'S') return false;
  }
  return true;
}

/// As daemons do. `how`: also whether the NIC's threads sleep, and whether the device stays open.
int close_descriptors(const std::string& how) {
  while (how.find("asleep") != std::string::npos && !are_others_asleep()) std::this_thread::yield();
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  if (how.find("exits") == std::string::npos) delete lab;
  say("closed");
  return 0;
}

}  // namespace

int main(int, char** argv) {
  const std::string how = argv[1];
  main_thread = pthread_self();
  std::atexit([] { say("atexit"); });
  if (how != "opens_behind") lab = new Lab;
  if (how == "returns") {
    exchange();
    return kReturned;
  }
  if (how.starts_with("closes_descriptors")) return close_descriptors(how);
  if (how == "works" || how == "is_cancelled") {
    start_worker([] {
      wait_for_end_of_main();
      exchange();
    });
  } else if (how == "opens_behind") {
    start_worker([] {
      wait_for_end_of_main();
      lab = new Lab;
      exchange();
    });
  } else if (how == "closes_behind") {
    start_worker([] {
      wait_for_end_of_main();
      delete lab;
    });
  } else if (how == "lacks_a_thread") {
    start_worker(exchange);
    uroce::test::forbid({SYS_clone, SYS_clone3}, EAGAIN);  // This thread, and nobody else.
  } else if (how == "forks") {
    start_worker([] {
      wait_for_end_of_main();
      fork_and_end_in_child_as_in_parent();
    });
  } else if (how == "executes") {
    start_worker([] {
      wait_for_end_of_main();
      execl("/bin/sh", "sh", "-c", "echo executed; kill $$", nullptr);
    });
  } else if (how == "awaits_a_signal") {
    std::atexit([] { pause(); });
    start_worker([] {
      wait_for_end_of_main();
      say(std::to_string(gettid()).c_str());
    });
  }
  if (how == "is_cancelled") {
    pthread_cancel(main_thread);
    pause();
  }
  pthread_exit(nullptr);
}
