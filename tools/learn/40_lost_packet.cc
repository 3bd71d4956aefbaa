// Lesson 40: a packet is lost in the middle of a WRITE. Run it under a fault that drops one; the program sees nothing
// of it but the time.
#include "tools/learn/verbs.h"

int main() {
  learn::Nic nic_a(0), nic_b(1);  // Two devices where there are two, so that a capture of the first shows one end.
  learn::Endpoint alice(nic_a), bob(nic_b);
  learn::connect(nic_a, alice, nic_b, bob);
  for (std::size_t i = 0; i < alice.buffer.size(); ++i) alice.buffer[i] = static_cast<char>('a' + i % 26);

  const auto began = std::chrono::steady_clock::now();
  alice.post(IBV_WR_RDMA_WRITE, 1, 4096, &bob);  // Path MTU 1024: FIRST, MIDDLE, MIDDLE, LAST.
  learn::print("alice", learn::wait(alice.cq));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  std::printf("after ~%.2f ms; bob's memory is %s\n", took.count(),
              alice.buffer == bob.buffer ? "the same as alice's" : "WRONG");
}
