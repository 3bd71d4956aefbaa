// Lesson 24: SEND and receive. Every SEND takes one receive that the peer has posted before. If there is none, the peer
// says "receiver not ready" (RNR NAK), and the sender tries again after the time that the NAK names.
#include "tools/learn/verbs.h"

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point began) {
  return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

}  // namespace

int main() {
  learn::Nic nic;

  std::printf("1. receive first, then SEND\n");
  {
    learn::Endpoint alice(nic), bob(nic);
    learn::connect(nic, alice, bob);
    bob.post_recv(/*wr_id=*/11, 64);
    std::strcpy(alice.buffer.data(), "hello");
    alice.post(IBV_WR_SEND, /*wr_id=*/1, 6);
    learn::print("  bob", learn::wait(bob.cq));
    learn::print("  alice", learn::wait(alice.cq));  // Bob's NIC has acknowledged: the buffer is ours again.
    std::printf("  bob's buffer: %s\n", bob.buffer.data());
  }

  std::printf("2. SEND first, the receive 20 ms later, rnr_retry 7 (for ever)\n");
  {
    learn::Endpoint alice(nic), bob(nic);
    learn::connect(nic, alice, bob, {.rnr_retry = 7, .min_rnr_timer = 12});  // "Come again in 0.64 ms."
    const auto began = Clock::now();
    alice.post(IBV_WR_SEND, 2, 6);
    ibv_wc wc{};
    while (milliseconds_since(began) < 20) {
      if (ibv_poll_cq(alice.cq, 1, &wc) != 0) std::printf("  too early\n");
    }
    bob.post_recv(12, 64);
    learn::print("  alice", learn::wait(alice.cq));
    std::printf("  ~%.1f ms after the SEND was posted\n", milliseconds_since(began));
  }

  std::printf("3. no receive at all, rnr_retry 2\n");
  {
    learn::Endpoint alice(nic), bob(nic);
    learn::connect(nic, alice, bob, {.rnr_retry = 2, .min_rnr_timer = 12});
    alice.post(IBV_WR_SEND, 3, 6);
    alice.post(IBV_WR_SEND, 4, 6);
    learn::print("  alice", learn::wait(alice.cq));
    learn::print("  alice", learn::wait(alice.cq));  // The QP is in ERR: what is posted behind is flushed.
  }

  std::printf("4. a receive that is too short\n");
  {
    learn::Endpoint alice(nic), bob(nic);
    learn::connect(nic, alice, bob);
    bob.post_recv(13, 3);
    alice.post(IBV_WR_SEND, 5, 6);
    learn::print("  alice", learn::wait(alice.cq));
    learn::print("  bob", learn::wait(bob.cq));
  }
}
