// Lesson 28: other kinds of queue pairs. UC: connected, but nobody acknowledges. UD: one QP talks to any other, one
// packet per message. And a shared receive queue (SRQ), from which many QPs take their receives.
#include <arpa/inet.h>

#include "tools/learn/verbs.h"

namespace {

void unreliable_connected(learn::Nic& nic) {
  std::printf("1. UC: three SENDs, one receive\n");
  learn::Endpoint alice(nic, 4096, IBV_QPT_UC), bob(nic, 4096, IBV_QPT_UC);
  learn::connect(nic, alice, bob);
  bob.post_recv(11, 64);
  for (std::uint32_t n = 1; n <= 3; ++n) {
    alice.post(IBV_WR_SEND, n, 16 * n);
    learn::print("  alice", learn::wait(alice.cq));  // "It has been sent" is all that this means.
  }
  learn::print("  bob", learn::wait(bob.cq));
  ibv_wc wc{};
  std::printf("  more at bob: %d; the others are lost, and nobody was told\n", ibv_poll_cq(bob.cq, 1, &wc));
}

constexpr std::uint32_t kQKey = 0x1234;  // Both sides of UD must know it; packets with another one are dropped.

/// RESET to RTS without a peer: a UD QP is told with each SEND where it goes.
void ready(ibv_qp* qp) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qkey = kQKey;
  learn::need_zero(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
  a.qp_state = IBV_QPS_RTR;
  learn::need_zero(ibv_modify_qp(qp, &a, IBV_QP_STATE), "RTR");
  a.qp_state = IBV_QPS_RTS;
  learn::need_zero(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

void unreliable_datagram(learn::Nic& nic) {
  std::printf("2. UD: an address handle, and 40 bytes in front\n");
  learn::Endpoint alice(nic, 4096, IBV_QPT_UD), bob(nic, 4096, IBV_QPT_UD);
  ready(alice.qp);
  ready(bob.qp);
  bob.post_recv(21, 40 + 64);  // The first 40 bytes are for the GRH, always.

  ibv_ah_attr where{};
  where.is_global = 1;
  where.grh = {.dgid = nic.gid, .flow_label = 0, .sgid_index = nic.gid_index, .hop_limit = 64, .traffic_class = 0};
  where.port_num = 1;
  ibv_ah* ah = learn::need(ibv_create_ah(nic.pd, &where), "ibv_create_ah");

  std::strcpy(alice.buffer.data(), "datagram");
  ibv_sge part = alice.sge(0, 9);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = 2;
  wr.sg_list = &part;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud = {.ah = ah, .remote_qpn = bob.qp->qp_num, .remote_qkey = kQKey};
  learn::need_zero(ibv_post_send(alice.qp, &wr, &bad), "ibv_post_send");

  const ibv_wc wc = learn::wait(bob.cq);
  std::printf("  bob: %u bytes = 40 + 9; text: %s\n", wc.byte_len, bob.buffer.data() + 40);
  std::printf("  from alice's QP: %s; GRH flag: %s\n", wc.src_qp == alice.qp->qp_num ? "yes" : "no",
              (wc.wc_flags & IBV_WC_GRH) != 0 ? "set" : "not set");
  // RoCEv2 over IPv4: the IPv4 header lies in the last 20 of the 40 bytes; its byte 9 is the protocol (17 = UDP).
  std::printf("  protocol in the IPv4 header at byte 20: %d\n", bob.buffer[20 + 9]);
  ibv_destroy_ah(ah);
}

void shared_receive_queue(learn::Nic& nic) {
  std::printf("3. SRQ: three receives, two queue pairs\n");
  ibv_srq_init_attr init{.srq_context = nullptr, .attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* srq = learn::need(ibv_create_srq(nic.pd, &init), "ibv_create_srq");
  {
    learn::Endpoint a1(nic), a2(nic);
    learn::Endpoint b1(nic, 4096, IBV_QPT_RC, 64, nullptr, srq), b2(nic, 4096, IBV_QPT_RC, 64, nullptr, srq);
    learn::connect(nic, a1, b1);
    learn::connect(nic, a2, b2);
    for (std::uint64_t id = 31; id <= 33; ++id) {
      ibv_sge part = b1.sge(0, 64);
      ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &part, .num_sge = 1}, *bad = nullptr;
      learn::need_zero(ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
    }
    learn::Endpoint* order[] = {&a1, &a2, &a1};
    for (learn::Endpoint* sender : order) {
      sender->post(IBV_WR_SEND, 3, 16);
      learn::wait(sender->cq);
      learn::print(sender == &a1 ? "  at the first QP " : "  at the second QP",
                   learn::wait(sender == &a1 ? b1.cq : b2.cq));
    }
  }
  ibv_destroy_srq(srq);
}

}  // namespace

int main() {
  learn::Nic nic;
  unreliable_connected(nic);
  unreliable_datagram(nic);
  shared_receive_queue(nic);
}
