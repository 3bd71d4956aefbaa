// Lesson 47: the peer is killed. RC has no "connection closed": alice learns it from her next request, when the retries
// have run out. A program that only receives learns nothing at all.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/learn/verbs.h"

namespace {

struct Metadata {
  std::uint32_t qpn = 0;
  ibv_gid gid{};
};

Metadata exchange(int peer, const Metadata& ours) {
  Metadata theirs;
  if (write(peer, &ours, sizeof ours) != sizeof ours ||
      recv(peer, &theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs) {
    std::exit(1);
  }
  return theirs;
}

/// Both processes: alice is the parent, bob the child, which never comes back.
void run(int peer, pid_t child) {
  learn::Nic nic;
  learn::Endpoint endpoint(nic);
  const Metadata theirs = exchange(peer, {endpoint.qp->qp_num, nic.gid});
  const bool alice = child != 0;
  learn::connect(nic, endpoint.qp, theirs.qpn, theirs.gid, alice ? 0x100 : 0x200, alice ? 0x200 : 0x100,
                 {.timeout = 12, .retry_cnt = 3});  // 16.8 ms, four times
  endpoint.post_recv(11, 64);
  exchange(peer, {});  // Both are ready.
  if (!alice) {
    learn::wait(endpoint.cq);
    for (;;) pause();  // Until it is killed.
  }

  endpoint.post(IBV_WR_SEND, 1, 16);
  learn::print("bob lives, alice", learn::wait(endpoint.cq));

  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ibv_wc wc{};
  std::printf("bob is killed; completions at alice: %d (her receive waits and will go on waiting)\n",
              ibv_poll_cq(endpoint.cq, 1, &wc));

  const auto began = std::chrono::steady_clock::now();
  endpoint.post(IBV_WR_SEND, 2, 16);
  learn::print("her next SEND", learn::wait(endpoint.cq));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  learn::print("her receive", learn::wait(endpoint.cq));
  std::printf("after ~%.0f ms\n", took.count());
}

}  // namespace

int main() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
  const pid_t child = fork();
  close(pair[child == 0 ? 1 : 0]);
  run(pair[child == 0 ? 0 : 1], child);
}
