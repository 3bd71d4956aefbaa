// Lesson 45: two sides with different path MTUs. Each transition succeeds, and short messages work; the first long one
// breaks the connection.
#include "tools/learn/verbs.h"

namespace {

void try_sizes(learn::Nic& nic_a, learn::Nic& nic_b, ibv_mtu of_alice, ibv_mtu of_bob, const char* words) {
  std::printf("%s\n", words);
  learn::Endpoint alice(nic_a), bob(nic_b);
  learn::connect(nic_a, alice.qp, bob.qp->qp_num, nic_b.gid, 0x100, 0x200, {}, of_alice);
  learn::connect(nic_b, bob.qp, alice.qp->qp_num, nic_a.gid, 0x200, 0x100, {}, of_bob);
  for (std::uint32_t size : {256u, 3000u}) {
    bob.post_recv(size, 4096);
    alice.post(IBV_WR_SEND, size, size);
    learn::print("  alice", learn::wait(alice.cq));
  }
}

}  // namespace

int main() {
  learn::Nic nic_a(0), nic_b(1);
  try_sizes(nic_a, nic_b, IBV_MTU_1024, IBV_MTU_1024, "alice 1024, bob 1024");
  try_sizes(nic_a, nic_b, IBV_MTU_2048, IBV_MTU_1024, "alice 2048, bob 1024: a packet is longer than bob's MTU");
  try_sizes(nic_a, nic_b, IBV_MTU_512, IBV_MTU_1024,
            "alice 512, bob 1024: a packet in the middle is shorter than bob's MTU");
}
