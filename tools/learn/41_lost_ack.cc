// Lesson 41: the answer is lost, not the request. Nothing tells alice, so only her timer helps; bob gets the SEND twice
// and must take it once.
#include "tools/learn/verbs.h"

int main() {
  learn::Nic nic_a(0), nic_b(1);
  learn::Endpoint alice(nic_a), bob(nic_b);
  learn::connect(nic_a, alice, nic_b, bob, {.timeout = 13});  // 4.096 us * 2^13 = 33.6 ms
  bob.post_recv(11, 64);
  bob.post_recv(12, 64);

  const auto began = std::chrono::steady_clock::now();
  alice.post(IBV_WR_SEND, 1, 16);
  learn::print("bob", learn::wait(bob.cq));
  learn::print("alice", learn::wait(alice.cq));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  ibv_wc wc{};
  std::printf("alice had to wait ~%.1f ms; more completions at bob: %d\n", took.count(), ibv_poll_cq(bob.cq, 1, &wc));
}
