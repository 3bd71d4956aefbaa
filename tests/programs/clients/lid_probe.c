// SPDX-License-Identifier: Apache-2.0
// A program that knows no GIDs, as those that were written for InfiniBand: a datagram goes to a LID, and its receiver
// answers the LID that it came from. Here both are one QP.
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kQkey = 0x11, kGrh = 40, kBytes = 64, kSpins = 200000000 };

static void must(int right, const char* what) {
  if (right) return;
  perror(what);
  exit(1);
}

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_qp* qp;
static struct ibv_mr* mr;
static char memory[kGrh + 2 * kBytes];

static void make_qp(void) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD, .sq_sig_all = 0};
  must((qp = ibv_create_qp(pd, &init)) != NULL, "ibv_create_qp");
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = kQkey};
  must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0, "INIT");
  attr.qp_state = IBV_QPS_RTR;
  must(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "RTR");
  attr.qp_state = IBV_QPS_RTS;
  must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
}

/// Sends a datagram to `lid`; returns from which one it came.
static uint16_t sent_to(uint16_t lid) {
  struct ibv_sge into = {(uintptr_t)memory, kGrh + kBytes, mr->lkey};
  struct ibv_sge from = {(uintptr_t)memory + kGrh + kBytes, kBytes, mr->lkey};
  struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &into, .num_sge = 1}, *bad_receive;
  must(ibv_post_recv(qp, &receive, &bad_receive) == 0, "ibv_post_recv");
  struct ibv_ah_attr address = {.dlid = lid, .port_num = 1};
  struct ibv_ah* ah = ibv_create_ah(pd, &address);
  must(ah != NULL, "ibv_create_ah");
  struct ibv_send_wr send = {
      .wr_id = 2, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = {ah, qp->qp_num, kQkey}};
  struct ibv_send_wr* bad_send;
  must(ibv_post_send(qp, &send, &bad_send) == 0, "ibv_post_send");
  struct ibv_wc wc;
  for (int i = 0; i < kSpins; ++i) {
    if (ibv_poll_cq(cq, 1, &wc) == 0) continue;
    must(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV, "completion");
    must(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
    return wc.slid;
  }
  must(0, "no datagram");
  return 0;
}

int main(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  must(list != NULL && list[0] != NULL, "ibv_get_device_list");
  must((context = ibv_open_device(list[0])) != NULL, "ibv_open_device");
  must((pd = ibv_alloc_pd(context)) != NULL, "ibv_alloc_pd");
  must((cq = ibv_create_cq(context, 8, NULL, NULL, 0)) != NULL, "ibv_create_cq");
  must((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)) != NULL, "ibv_reg_mr");
  make_qp();
  struct ibv_port_attr port;
  must(ibv_query_port(context, 1, &port) == 0 && port.lid != 0, "LID");
  const uint16_t from = sent_to(port.lid);
  must(from == port.lid && sent_to(from) == port.lid, "another LID");
  puts("answered by its LID");
  return 0;
}
