// Lesson 43: a key that does not fit. The peer refuses, both queue pairs are lost, and everything posted behind the bad
// request is flushed.
#include "tools/learn/verbs.h"

namespace {

const char* state_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  learn::need_zero(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
  return attr.qp_state == IBV_QPS_ERR ? "ERR" : "not ERR";
}

}  // namespace

int main() {
  learn::Nic nic_a(0), nic_b(1);
  learn::Endpoint alice(nic_a), bob(nic_b);
  learn::connect(nic_a, alice, nic_b, bob);
  std::strcpy(bob.buffer.data(), "bob's own");

  ibv_sge part = alice.sge(0, 10);
  ibv_send_wr bad_key{}, behind{}, *bad = nullptr;
  bad_key.wr_id = 1;
  bad_key.sg_list = &part;
  bad_key.num_sge = 1;
  bad_key.opcode = IBV_WR_RDMA_WRITE;
  bad_key.send_flags = IBV_SEND_SIGNALED;
  bad_key.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(bob.buffer.data());
  bad_key.wr.rdma.rkey = bob.mr->rkey ^ 0xFF;  // One byte of the key is wrong: as after a re-registration.
  bad_key.next = &behind;
  behind = bad_key;
  behind.wr_id = 2;
  behind.wr.rdma.rkey = bob.mr->rkey;  // This one would be right.
  behind.next = nullptr;
  learn::need_zero(ibv_post_send(alice.qp, &bad_key, &bad), "ibv_post_send");

  learn::print("alice", learn::wait(alice.cq));
  learn::print("alice", learn::wait(alice.cq));
  std::printf("bob's memory: %s\n", bob.buffer.data());
  std::printf("alice's QP: %s, bob's QP: %s\n", state_of(alice.qp), state_of(bob.qp));
}
