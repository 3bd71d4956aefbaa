// Lesson 23: the life of a queue pair. RESET, INIT, RTR (ready to receive), RTS (ready to send), and what each step
// needs. Then the mistakes, and what they return.
#include <array>

#include "tools/learn/verbs.h"

namespace {

const char* state_name(ibv_qp_state state) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state <= IBV_QPS_ERR ? kNames[state] : "?";
}

ibv_qp_attr query(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  learn::need_zero(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_TIMEOUT, &init), "ibv_query_qp");
  return attr;
}

/// One transition; says what it returned and where the queue pair is now.
void step(ibv_qp* qp, ibv_qp_attr attr, int mask, const char* words) {
  const int error = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
  std::printf("  %-42s %-18s now %s\n", words, error == 0 ? "ok" : std::strerror(error),
              state_name(query(qp).qp_state));
}

ibv_qp_attr to(ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  attr.port_num = 1;
  return attr;
}

using Masks = std::array<int, IBV_QPS_ERR + 1>;  // Per state: the attributes that the way into it requires.

bool go(ibv_qp* qp, ibv_qp_attr attr, ibv_qp_state state, int mask) {
  attr.qp_state = state;
  return ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE) == 0;
}

/// Tries every transition, each from a fresh start. `all` has every attribute.
void print_table(ibv_qp* qp, const ibv_qp_attr& all, const Masks& required) {
  constexpr std::array kStates{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR};
  std::printf("every transition, tried\n  from \\ to  RESET  INIT   RTR    RTS    ERR\n");
  for (ibv_qp_state from : kStates) {
    std::printf("  %-9s", state_name(from));
    for (ibv_qp_state into : kStates) {
      go(qp, all, IBV_QPS_RESET, 0);
      if (from == IBV_QPS_ERR) go(qp, all, IBV_QPS_INIT, required[IBV_QPS_INIT]) && go(qp, all, IBV_QPS_ERR, 0);
      for (ibv_qp_state on_the_way : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        if (from != IBV_QPS_ERR && on_the_way <= from) go(qp, all, on_the_way, required[on_the_way]);
      }
      const int mask = into == from ? 0 : required[into];  // To where it is already: nothing is required.
      std::printf("  %-5s", query(qp).qp_state != from ? "?" : go(qp, all, into, mask) ? "yes" : "-");
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  learn::Nic nic;
  learn::Endpoint endpoint(nic), peer(nic);
  ibv_qp* qp = endpoint.qp;

  const int init_mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  const int rtr_mask =
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  const int rts_mask = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

  std::printf("mistakes in RESET\n");
  ibv_send_wr send{}, *bad_send = nullptr;
  std::printf("  %-42s %s\n", "ibv_post_send", std::strerror(ibv_post_send(qp, &send, &bad_send)));
  step(qp, to(IBV_QPS_RTS), rts_mask, "RESET -> RTS");
  step(qp, to(IBV_QPS_INIT), IBV_QP_PKEY_INDEX | IBV_QP_PORT, "RESET -> INIT without access flags");

  std::printf("the way\n");
  ibv_qp_attr init = to(IBV_QPS_INIT);
  init.pkey_index = 0;                             // Partition: the default one.
  init.port_num = 1;                               // Which port of the device.
  init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;  // What peers may do, on top of each MR's rights.
  step(qp, init, init_mask, "RESET -> INIT");

  endpoint.post_recv(1, 64);  // From INIT on: the peer may send as soon as we are in RTR.
  std::printf("  %-42s %s\n", "ibv_post_recv in INIT", "ok");

  ibv_qp_attr rtr = init;  // The mask says which attributes count; the others may stay.
  rtr.qp_state = IBV_QPS_RTR;
  rtr.path_mtu = IBV_MTU_1024;                 // Bytes of data per packet; both sides must have the same.
  rtr.dest_qp_num = peer.qp->qp_num;           // The peer's queue pair,
  rtr.rq_psn = 0x200;                          // and the PSN of its first packet.
  rtr.max_dest_rd_atomic = 4;                  // READs and atomics of the peer that we answer at a time.
  rtr.min_rnr_timer = 12;                      // Asked of the peer when no receive is posted: 0.64 ms.
  rtr.ah_attr.is_global = 1;                   // RoCE: always with GIDs.
  rtr.ah_attr.grh.dgid = nic.gid;              // The peer's GID (here: our own device),
  rtr.ah_attr.grh.sgid_index = nic.gid_index;  // and which of our GIDs we use. Its type decides RoCE v1 or v2.
  rtr.ah_attr.grh.hop_limit = 64;
  rtr.ah_attr.port_num = 1;
  step(qp, rtr, rtr_mask & ~IBV_QP_AV, "INIT -> RTR without an address vector");
  step(qp, rtr, rtr_mask, "INIT -> RTR");
  std::printf("  %-42s %s\n", "ibv_post_send in RTR", std::strerror(ibv_post_send(qp, &send, &bad_send)));

  ibv_qp_attr rts = rtr;
  rts.qp_state = IBV_QPS_RTS;
  rts.sq_psn = 0x100;     // The PSN of our first packet: what the peer has as its rq_psn.
  rts.timeout = 14;       // 4.096 us * 2^14 = 67 ms without an answer: send again,
  rts.retry_cnt = 7;      // at most seven times.
  rts.rnr_retry = 7;      // The same when the peer has no receive; 7 = for ever.
  rts.max_rd_atomic = 4;  // Our READs and atomics under way; at most the peer's max_dest_rd_atomic.
  step(qp, rts, rts_mask, "RTR -> RTS");
  std::printf("  peer's QP as asked for: %s, timeout %u\n", query(qp).dest_qp_num == peer.qp->qp_num ? "yes" : "no",
              query(qp).timeout);

  std::printf("the end\n");
  step(qp, to(IBV_QPS_ERR), 0, "RTS -> ERR");
  learn::print("  the posted receive", learn::wait(endpoint.cq));
  step(qp, to(IBV_QPS_RTS), rts_mask, "ERR -> RTS");
  step(qp, to(IBV_QPS_RESET), 0, "ERR -> RESET");

  Masks required{};
  required[IBV_QPS_INIT] = init_mask;
  required[IBV_QPS_RTR] = rtr_mask;
  required[IBV_QPS_RTS] = rts_mask;
  print_table(qp, rts, required);
}
