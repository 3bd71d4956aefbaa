// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ibverbs/support.h"

#include <fcntl.h>
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace uroce::ibv::test {
namespace {

// Before the first verb of any test.
const bool environment_is_set = [] {
  setenv("UROCE_DEVICES", "2", 1);
  unsetenv("UROCE_ADDR");
  unsetenv("UROCE_PCAP");
  return true;
}();

}  // namespace

ContextPtr open_device(int index) {
  int count = 0;
  struct ibv_device** list = v().ibv_get_device_list(&count);
  EXPECT_NE(list, nullptr) << last_error();
  if (list == nullptr) return nullptr;
  EXPECT_EQ(count, 2);
  ContextPtr context(v().ibv_open_device(list[index]));
  EXPECT_NE(context, nullptr) << last_error();
  v().ibv_free_device_list(list);
  return context;
}

Node::Node(int device, const NodeOptions& options) : context(open_device(device)), memory(kMemory) {
  pd = v().ibv_alloc_pd(context.get());
  if (options.with_channel) channel = v().ibv_create_comp_channel(context.get());
  send_cq = v().ibv_create_cq(context.get(), options.cqe, this, channel, 0);
  recv_cq = v().ibv_create_cq(context.get(), options.cqe, this, channel, 0);
  mr = v().ibv_reg_mr(pd, memory.data(), memory.size(), options.access);
  EXPECT_TRUE(pd && send_cq && recv_cq && mr) << last_error();
}

Node::~Node() {
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  EXPECT_EQ(v().ibv_destroy_cq(send_cq), 0);
  EXPECT_EQ(v().ibv_destroy_cq(recv_cq), 0);
  if (channel != nullptr) {
    EXPECT_EQ(v().ibv_destroy_comp_channel(channel), 0);
  }
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
}

QpPtr Node::make_qp(const struct ibv_qp_cap& cap, bool signal_all, enum ibv_qp_type type) {
  struct ibv_qp_init_attr init {};
  init.send_cq = send_cq;
  init.recv_cq = recv_cq;
  init.cap = cap;
  init.qp_type = type;
  init.sq_sig_all = signal_all ? 1 : 0;
  QpPtr qp(v().ibv_create_qp(pd, &init));
  EXPECT_NE(qp, nullptr) << last_error();
  return qp;
}

union ibv_gid Node::gid(int index) const {
  union ibv_gid gid {};
  EXPECT_EQ(v().ibv_query_gid(context.get(), 1, index, &gid), 0);
  return gid;
}

int mask_for(const struct ibv_qp& qp, enum ibv_qp_state state) {
  const bool ud = qp.qp_type == IBV_QPT_UD;
  switch (state) {
    case IBV_QPS_INIT:
      return ud ? IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY : kInitMask;
    case IBV_QPS_RTR:
      if (ud) return IBV_QP_STATE;
      return qp.qp_type == IBV_QPT_RC ? kRtrMask : kRtrMask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    case IBV_QPS_RTS:
      return qp.qp_type == IBV_QPT_RC ? kRtsMask : IBV_QP_STATE | IBV_QP_SQ_PSN;
    default:
      return IBV_QP_STATE;
  }
}

struct ibv_qp_attr init_attr(const ConnectOptions& options) {
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = kQkey;
  attr.qp_access_flags = static_cast<unsigned int>(options.qp_access);
  return attr;
}

struct ibv_qp_attr rtr_attr(const union ibv_gid& dgid, std::uint32_t dest_qpn, const ConnectOptions& options) {
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = options.mtu;
  attr.dest_qp_num = dest_qpn;
  attr.rq_psn = 0xFFFFF0;
  attr.max_dest_rd_atomic = options.rd_atomic;
  attr.min_rnr_timer = options.min_rnr_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = dgid;
  attr.ah_attr.grh.sgid_index = 1;
  attr.ah_attr.grh.hop_limit = 1;
  return attr;
}

struct ibv_qp_attr rts_attr(const ConnectOptions& options) {
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_cnt;
  attr.rnr_retry = options.rnr_retry;
  attr.sq_psn = 0xFFFFF0;
  attr.max_rd_atomic = options.rd_atomic;
  return attr;
}

int set_state(struct ibv_qp* qp, enum ibv_qp_state state) {
  struct ibv_qp_attr attr {};
  attr.qp_state = state;
  return v().ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state state_of(struct ibv_qp* qp) {
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr init {};
  EXPECT_EQ(v().ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  return attr.qp_state;
}

void bring_to(struct ibv_qp* qp, enum ibv_qp_state state, const union ibv_gid& dgid, std::uint32_t dest_qpn,
              const ConnectOptions& options) {
  struct ibv_qp_attr attr = init_attr(options);
  ASSERT_EQ(v().ibv_modify_qp(qp, &attr, mask_for(*qp, IBV_QPS_INIT)), 0) << last_error();
  if (state == IBV_QPS_INIT) return;
  attr = rtr_attr(dgid, dest_qpn, options);
  ASSERT_EQ(v().ibv_modify_qp(qp, &attr, mask_for(*qp, IBV_QPS_RTR)), 0) << last_error();
  if (state == IBV_QPS_RTR) return;
  attr = rts_attr(options);
  ASSERT_EQ(v().ibv_modify_qp(qp, &attr, mask_for(*qp, IBV_QPS_RTS)), 0) << last_error();
}

Pair::Pair(const ConnectOptions& options, const NodeOptions& a_options, const NodeOptions& b_options,
           const struct ibv_qp_cap& cap)
    : a(0, a_options), b(1, b_options), qa(a.make_qp(cap)), qb(b.make_qp(cap)) {
  bring_to(qa.get(), IBV_QPS_RTS, b.gid(), qb->qp_num, options);
  bring_to(qb.get(), IBV_QPS_RTS, a.gid(), qa->qp_num, options);
}

int post(struct ibv_qp* qp, struct ibv_send_wr wr, struct ibv_send_wr** bad) {
  struct ibv_send_wr* unused = nullptr;
  return ibv_post_send(qp, &wr, bad != nullptr ? bad : &unused);
}

int post(struct ibv_qp* qp, struct ibv_recv_wr wr, struct ibv_recv_wr** bad) {
  struct ibv_recv_wr* unused = nullptr;
  return ibv_post_recv(qp, &wr, bad != nullptr ? bad : &unused);
}

int post_recv(struct ibv_qp* qp, std::uint64_t wr_id, struct ibv_sge sge) {
  struct ibv_recv_wr wr {};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return post(qp, wr);
}

struct ibv_send_wr send_wr(std::uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge* sge, unsigned int flags) {
  struct ibv_send_wr wr {};
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.sg_list = sge;
  wr.num_sge = sge != nullptr ? 1 : 0;
  wr.send_flags = flags;
  return wr;
}

struct ibv_wc wait_completion(struct ibv_cq* cq) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  struct ibv_wc wc {};
  while (ibv_poll_cq(cq, 1, &wc) == 0) {
    if (std::chrono::steady_clock::now() < give_up) continue;
    ADD_FAILURE() << "no completion";
    wc.status = IBV_WC_GENERAL_ERR;
    return wc;
  }
  return wc;
}

void expect_no_completion(struct ibv_cq* cq) {
  struct ibv_wc wc {};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0) << "wr_id " << wc.wr_id << " " << v().ibv_wc_status_str(wc.status);
}

void wait_until_asleep(pid_t id) {
  const std::string path = "/proc/self/task/" + std::to_string(id) + "/stat";
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  for (std::string stat; stat.find(") S ") == std::string::npos; std::this_thread::yield()) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "it does not sleep";
    std::ifstream file(path);
    std::getline(file, stat);
  }
}

bool readable(int fd, int timeout_ms) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, timeout_ms) == 1;
}

void set_nonblocking(int fd) { ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0); }

std::optional<enum ibv_event_type> next_async_event(struct ibv_context* context) {
  if (!readable(context->async_fd, kPatienceMs)) {
    ADD_FAILURE() << "no asynchronous event";
    return std::nullopt;
  }
  struct ibv_async_event event {};
  EXPECT_EQ(v().ibv_get_async_event(context, &event), 0);
  v().ibv_ack_async_event(&event);
  return event.event_type;
}

}  // namespace uroce::ibv::test
