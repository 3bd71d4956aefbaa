// SPDX-License-Identifier: Apache-2.0
// A client as NCCL is one: built without libibverbs, it opens "libibverbs.so" (the name without a version) at run time
// and asks for each function by name and version. It connects a QP with itself and writes through it.
//   dlopen_probe           exit status 0: "LIBRARY: 64 bytes written"
//   dlopen_probe PLUGIN    loads and unloads that instead: "PLUGIN: loaded and unloaded"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GID_INDEX 1
#define SIZE 64

static void* library;

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

static void* find(const char* name, const char* version) {
  void* const found = dlvsym(library, name, version);
  if (found == NULL) fprintf(stderr, "%s\n", dlerror());
  check(found != NULL, name);
  return found;
}

// FUNCTION(ibv_open_device)(...): the function of version 1.1 with the type that the header gives it.
#define FUNCTION(name) ((__typeof__(&name))find(#name, "IBVERBS_1.1"))

// What NCCL looks for besides what is called here.
static void find_the_rest(void) {
  static const char* const kFirst[] = {
      "ibv_get_device_name", "ibv_get_async_event", "ibv_ack_async_event", "ibv_query_qp",
      "ibv_event_type_str",  "ibv_fork_init",       "ibv_query_port",
  };
  for (size_t i = 0; i < sizeof kFirst / sizeof kFirst[0]; ++i) find(kFirst[i], "IBVERBS_1.1");
  find("ibv_reg_mr_iova2", "IBVERBS_1.8");
  find("ibv_query_ece", "IBVERBS_1.10");
  find("ibv_set_ece", "IBVERBS_1.10");
  find("ibv_reg_dmabuf_mr", "IBVERBS_1.12");
}

static void connect_with_itself(struct ibv_context* context, struct ibv_qp* qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  __typeof__(&ibv_modify_qp) const modify = FUNCTION(ibv_modify_qp);
  check(modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.sgid_index = GID_INDEX;
  attr.ah_attr.grh.hop_limit = 64;
  check(FUNCTION(ibv_query_gid)(context, 1, GID_INDEX, &attr.ah_attr.grh.dgid) == 0, "query_gid");
  check(modify(qp, &attr,
               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  check(modify(qp, &attr,
               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                   IBV_QP_MAX_QP_RD_ATOMIC) == 0,
        "RTS");
}

static int load_and_unload(const char* plugin) {
  void* const loaded = dlopen(plugin, RTLD_NOW);
  if (loaded == NULL) fprintf(stderr, "%s\n", dlerror());
  check(loaded != NULL && dlclose(loaded) == 0, plugin);
  printf("%s: loaded and unloaded\n", plugin);
  return 0;
}

int main(int argument_count, char** arguments) {
  if (argument_count > 1) return load_and_unload(arguments[1]);
  library = dlopen("libibverbs.so", RTLD_NOW);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  check(library != NULL, "dlopen");
  find_the_rest();

  int count = 0;
  struct ibv_device** const devices = (FUNCTION(ibv_get_device_list))(&count);
  check(devices != NULL && count > 0, "there is no device");
  struct ibv_context* const context = FUNCTION(ibv_open_device)(devices[0]);
  check(context != NULL, "ibv_open_device");
  FUNCTION(ibv_free_device_list)(devices);
  struct ibv_device_attr device;
  check(FUNCTION(ibv_query_device)(context, &device) == 0 && device.max_qp > 0, "ibv_query_device");

  static char memory[2 * SIZE];
  memset(memory, 'x', SIZE);
  struct ibv_pd* const pd = FUNCTION(ibv_alloc_pd)(context);
  check(pd != NULL, "ibv_alloc_pd");
  // The header makes a macro of this one, to reach the newer function at run time.
  typedef struct ibv_mr* (*RegMr)(struct ibv_pd*, void*, size_t, int);
  struct ibv_mr* const mr = ((RegMr)find("ibv_reg_mr", "IBVERBS_1.1"))(
      pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  check(mr != NULL, "ibv_reg_mr");
  struct ibv_cq* const cq = FUNCTION(ibv_create_cq)(context, 4, NULL, NULL, 0);
  check(cq != NULL, "ibv_create_cq");
  struct ibv_qp_init_attr init = {.send_cq = cq,
                                  .recv_cq = cq,
                                  .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
                                  .qp_type = IBV_QPT_RC};
  struct ibv_qp* const qp = FUNCTION(ibv_create_qp)(pd, &init);
  check(qp != NULL, "ibv_create_qp");
  connect_with_itself(context, qp);

  struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = SIZE, .lkey = mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma.remote_addr = (uintptr_t)memory + SIZE;
  wr.wr.rdma.rkey = mr->rkey;
  struct ibv_send_wr* bad = NULL;
  check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
  struct ibv_wc wc;
  int done = 0;
  for (const time_t deadline = time(NULL) + 20; done == 0 && time(NULL) < deadline;) done = ibv_poll_cq(cq, 1, &wc);
  check(done == 1 && wc.status == IBV_WC_SUCCESS, "the WRITE");
  check(memcmp(memory, memory + SIZE, SIZE) == 0, "the bytes written");

  check(FUNCTION(ibv_destroy_qp)(qp) == 0 && FUNCTION(ibv_destroy_cq)(cq) == 0, "destroying");
  check(FUNCTION(ibv_dereg_mr)(mr) == 0 && FUNCTION(ibv_dealloc_pd)(pd) == 0, "freeing");
  check(FUNCTION(ibv_close_device)(context) == 0, "ibv_close_device");
  Dl_info info;
  dladdr(dlsym(library, "ibv_open_device"), &info);
  printf("%s: %d bytes written\n", info.dli_fname, SIZE);
  return 0;
}
