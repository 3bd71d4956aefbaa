// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/conformance/lab.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace uroce::conformance {
namespace {

constexpr std::size_t kMemory = 64 * 1024;
constexpr auto kPatience = std::chrono::seconds(20);
constexpr std::uint32_t kNobody = 0xABCDE;  ///< A QPN that the peer does not have.

const char* name_of(enum ibv_qp_state state) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state <= IBV_QPS_ERR ? kNames[state] : "?";
}

const char* name_of(enum ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "SUCCESS";
    case IBV_WC_LOC_LEN_ERR:
      return "LOC_LEN_ERR";
    case IBV_WC_LOC_QP_OP_ERR:
      return "LOC_QP_OP_ERR";
    case IBV_WC_LOC_PROT_ERR:
      return "LOC_PROT_ERR";
    case IBV_WC_MW_BIND_ERR:
      return "MW_BIND_ERR";
    case IBV_WC_WR_FLUSH_ERR:
      return "WR_FLUSH_ERR";
    case IBV_WC_REM_INV_REQ_ERR:
      return "REM_INV_REQ_ERR";
    case IBV_WC_REM_ACCESS_ERR:
      return "REM_ACCESS_ERR";
    case IBV_WC_REM_OP_ERR:
      return "REM_OP_ERR";
    case IBV_WC_RETRY_EXC_ERR:
      return "RETRY_EXC_ERR";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "RNR_RETRY_EXC_ERR";
    default:
      return "another error";
  }
}

const char* name_of(enum ibv_wc_opcode opcode) {
  switch (opcode) {
    case IBV_WC_SEND:
      return "SEND";
    case IBV_WC_RDMA_WRITE:
      return "RDMA_WRITE";
    case IBV_WC_RDMA_READ:
      return "RDMA_READ";
    case IBV_WC_COMP_SWAP:
      return "COMP_SWAP";
    case IBV_WC_FETCH_ADD:
      return "FETCH_ADD";
    case IBV_WC_BIND_MW:
      return "BIND_MW";
    case IBV_WC_LOCAL_INV:
      return "LOCAL_INV";
    case IBV_WC_RECV:
      return "RECV";
    case IBV_WC_RECV_RDMA_WITH_IMM:
      return "RECV_RDMA_WITH_IMM";
    default:
      return "another operation";
  }
}

const char* name_of(enum ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return "CQ_ERR";
    case IBV_EVENT_QP_FATAL:
      return "QP_FATAL";
    case IBV_EVENT_QP_REQ_ERR:
      return "QP_REQ_ERR";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "QP_ACCESS_ERR";
    case IBV_EVENT_COMM_EST:
      return "COMM_EST";
    case IBV_EVENT_SQ_DRAINED:
      return "SQ_DRAINED";
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return "LAST_WQE_REACHED";
    case IBV_EVENT_PORT_ERR:
      return "PORT_ERR";
    case IBV_EVENT_PORT_ACTIVE:
      return "PORT_ACTIVE";
    case IBV_EVENT_GID_CHANGE:
      return "GID_CHANGE";
    default:
      return v().ibv_event_type_str(type);
  }
}

template <class Wr>
std::string outcome(int error, const Wr* bad) {
  if (error == 0) return "ok";
  return word(error) + ", bad_wr = " + (bad == nullptr ? "unset" : "wr_id " + std::to_string(bad->wr_id));
}

}  // namespace

Side::Side(int device, const SideOptions& options) : context(open_device(device)), memory(kMemory) {
  pd = v().ibv_alloc_pd(context.get());
  channel = v().ibv_create_comp_channel(context.get());
  cq = v().ibv_create_cq(context.get(), options.cqe, nullptr, channel, 0);
  mr = v().ibv_reg_mr(pd, memory.data(), memory.size(), options.access);
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = cq;
  init.cap = options.cap;
  init.qp_type = options.type;
  init.sq_sig_all = options.signal_all ? 1 : 0;
  qp.reset(v().ibv_create_qp(pd, &init));
  EXPECT_TRUE(pd && channel && cq && mr && qp) << uroce::ibv::last_error();
}

Side::~Side() {
  qp.reset();
  if (mr != nullptr) {
    EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  }
  EXPECT_EQ(v().ibv_destroy_cq(cq), 0);
  EXPECT_EQ(v().ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
}

union ibv_gid Side::gid() const {
  union ibv_gid gid {};
  EXPECT_EQ(v().ibv_query_gid(context.get(), 1, 1, &gid), 0);
  return gid;
}

void Side::bring(enum ibv_qp_state state) {
  if (state == IBV_QPS_RESET) return;
  const bool beyond = state == IBV_QPS_SQD || state == IBV_QPS_ERR;
  bring_to(qp.get(), beyond ? IBV_QPS_RTS : state, gid(), kNobody, {.timeout = 1, .retry_cnt = 1});
  if (beyond) {
    EXPECT_EQ(set_state(qp.get(), state), 0);
  }
}

std::string Side::state() const { return name_of(state_of(qp.get())); }

void Side::wait_for(enum ibv_qp_state state) const {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (state_of(qp.get()) != state && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
}

Link::Link(const LinkOptions& options) : a(0, options.a_side), b(1, options.b_side) {
  bring_to(a.qp.get(), IBV_QPS_RTS, b.gid(), b.qp->qp_num, options.a);
  bring_to(b.qp.get(), IBV_QPS_RTS, a.gid(), a.qp->qp_num, options.b);
}

struct ibv_send_wr remote_wr(const Link& link, std::uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge* sge) {
  struct ibv_send_wr wr = send_wr(wr_id, opcode, sge);
  if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = link.b.address();
    wr.wr.atomic.rkey = link.b.mr->rkey;
  } else {
    wr.wr.rdma.remote_addr = link.b.address();
    wr.wr.rdma.rkey = link.b.mr->rkey;
  }
  return wr;
}

std::vector<struct ibv_wc> take(struct ibv_cq* cq, std::size_t expected) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  std::vector<struct ibv_wc> all;
  struct ibv_wc wc {};
  while (all.size() < expected && std::chrono::steady_clock::now() < give_up) {
    if (ibv_poll_cq(cq, 1, &wc) == 1) all.push_back(wc);
  }
  quiesce();
  while (ibv_poll_cq(cq, 1, &wc) == 1) all.push_back(wc);
  return all;
}

void quiesce() {
  Pair p({.timeout = kPatientTimeout});
  for (const auto& [from, to, from_qp, to_qp] :
       {std::tuple{&p.a, &p.b, p.qa.get(), p.qb.get()}, std::tuple{&p.b, &p.a, p.qb.get(), p.qa.get()}}) {
    ASSERT_EQ(post_recv(to_qp, 1, to->sge(0, 8)), 0);
    struct ibv_sge sge = from->sge(0, 8);
    ASSERT_EQ(post(from_qp, send_wr(1, IBV_WR_SEND, &sge)), 0);
    ASSERT_EQ(wait_completion(from->send_cq).status, IBV_WC_SUCCESS);
    ASSERT_EQ(wait_completion(to->recv_cq).status, IBV_WC_SUCCESS);
  }
}

std::string word(int error) {
  if (error == 0) return "ok";
  const char* name = strerrorname_np(error);
  return name != nullptr ? name : std::to_string(error);
}

std::string words(const std::vector<struct ibv_wc>& completions) {
  std::string all;
  for (const struct ibv_wc& wc : completions) {
    if (!all.empty()) all += ", ";
    all += std::string(name_of(wc.status)) + " wr " + std::to_string(wc.wr_id);
    if (wc.status == IBV_WC_SUCCESS) all += " len " + std::to_string(wc.byte_len) + " " + name_of(wc.opcode);
  }
  return all.empty() ? "none" : all;
}

std::string events(const Side& side) {
  std::string all;
  while (readable(side.context->async_fd, 0)) {
    struct ibv_async_event event {};
    if (v().ibv_get_async_event(side.context.get(), &event) != 0) break;
    if (!all.empty()) all += ", ";
    all += name_of(event.event_type);
    v().ibv_ack_async_event(&event);
  }
  return all.empty() ? "none" : all;
}

std::string hex(std::uint64_t number) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

std::string say(std::initializer_list<std::string> parts) {
  std::string all;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!all.empty()) all += "; ";
    all += part;
  }
  return all;
}

std::string post_list(struct ibv_qp* qp, struct ibv_send_wr* wr) {
  struct ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, wr, &bad);
  return outcome(error, bad);
}

std::string post_list(struct ibv_qp* qp, struct ibv_recv_wr* wr) {
  struct ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp, wr, &bad);
  return outcome(error, bad);
}

std::string post_one(struct ibv_qp* qp, struct ibv_send_wr wr) { return post_list(qp, &wr); }

std::string post_one_recv(struct ibv_qp* qp, std::uint64_t wr_id, struct ibv_sge sge) {
  struct ibv_recv_wr wr {};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return post_list(qp, &wr);
}

}  // namespace uroce::conformance
