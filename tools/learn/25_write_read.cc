// Lesson 25: RDMA WRITE and READ. One side alone names both addresses; the other side's program does nothing, and hears
// nothing, unless the WRITE carries immediate data.
#include <arpa/inet.h>

#include "tools/learn/verbs.h"

int main() {
  learn::Nic nic;
  learn::Endpoint alice(nic), bob(nic);
  learn::connect(nic, alice, bob);
  ibv_wc wc{};

  std::printf("1. WRITE: alice's buffer into bob's\n");
  std::strcpy(alice.buffer.data(), "from alice");
  alice.post(IBV_WR_RDMA_WRITE, 1, 11, &bob);
  learn::print("  alice", learn::wait(alice.cq));
  std::printf("  bob's buffer: %s; completions at bob: %d\n", bob.buffer.data(), ibv_poll_cq(bob.cq, 1, &wc));

  std::printf("2. READ: bob's buffer into alice's\n");
  std::strcpy(bob.buffer.data(), "bob was here");
  alice.post(IBV_WR_RDMA_READ, 2, 13, &bob);
  learn::print("  alice", learn::wait(alice.cq));
  std::printf("  alice's buffer: %s; completions at bob: %d\n", alice.buffer.data(), ibv_poll_cq(bob.cq, 1, &wc));

  std::printf("3. WRITE with immediate: takes a receive at bob, so bob hears of it\n");
  bob.post_recv(33, 0);  // The data go where the WRITE says; the receive only gives the completion.
  std::strcpy(alice.buffer.data(), "look here");
  ibv_sge part = alice.sge(0, 10);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = 3;
  wr.sg_list = &part;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.imm_data = htonl(42);  // 32 bits in network byte order, as they stand in the packet.
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(bob.buffer.data());
  wr.wr.rdma.rkey = bob.mr->rkey;
  learn::need_zero(ibv_post_send(alice.qp, &wr, &bad), "ibv_post_send");
  wc = learn::wait(bob.cq);
  std::printf("  bob: wr_id %llu, %u bytes, immediate %u, buffer: %s\n", static_cast<unsigned long long>(wc.wr_id),
              wc.byte_len, ntohl(wc.imm_data), bob.buffer.data());
  learn::print("  alice", learn::wait(alice.cq));

  std::printf("4. gather: two pieces of alice's memory, one WRITE\n");
  std::strcpy(alice.buffer.data() + 100, "one, ");
  std::strcpy(alice.buffer.data() + 200, "two");
  std::vector<ibv_sge> pieces{alice.sge(100, 5), alice.sge(200, 4)};
  wr.wr_id = 4;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.sg_list = pieces.data();
  wr.num_sge = 2;
  learn::need_zero(ibv_post_send(alice.qp, &wr, &bad), "ibv_post_send");
  learn::print("  alice", learn::wait(alice.cq));
  std::printf("  bob's buffer: %s\n", bob.buffer.data());

  // How many pieces a work request may have was chosen when the queue pair was made (the device may have given more).
  ibv_qp_init_attr init{};
  ibv_qp_attr attr{};
  ibv_query_qp(alice.qp, &attr, IBV_QP_CAP, &init);
  pieces.resize(init.cap.max_send_sge + 1, alice.sge(0, 1));
  wr.sg_list = pieces.data();
  wr.num_sge = static_cast<int>(pieces.size());
  std::printf("  one piece more than max_send_sge: %s\n", std::strerror(ibv_post_send(alice.qp, &wr, &bad)));
}
