// SPDX-License-Identifier: Apache-2.0
// The part of a program that has to do with QPs and completions.
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/judged/fuzz/api_program.h"
#include "verbs/nic/model/limits.h"

namespace uroce::fuzz {
namespace {

constexpr int kAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// IBTA Vol 1, 10.3.1, without SQE, which RC has not.
bool is_transition(enum ibv_qp_state from, enum ibv_qp_state to) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return true;
  constexpr std::pair<int, int> kRows[] = {{IBV_QPS_RESET, IBV_QPS_INIT}, {IBV_QPS_INIT, IBV_QPS_INIT},
                                           {IBV_QPS_INIT, IBV_QPS_RTR},   {IBV_QPS_RTR, IBV_QPS_RTS},
                                           {IBV_QPS_RTS, IBV_QPS_RTS},    {IBV_QPS_RTS, IBV_QPS_SQD},
                                           {IBV_QPS_SQD, IBV_QPS_SQD},    {IBV_QPS_SQD, IBV_QPS_RTS}};
  return std::find(std::begin(kRows), std::end(kRows), std::pair<int, int>{from, to}) != std::end(kRows);
}

/// The mask of a transition, with what is usual in `attr`.
int fill(struct ibv_qp_attr& attr, enum ibv_qp_state from, enum ibv_qp_state to, const ApiQp& peer) {
  attr.qp_state = to;
  switch (to) {
    case IBV_QPS_INIT:
      attr.port_num = 1;
      attr.qp_access_flags = kAccess;
      return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    case IBV_QPS_RTR:
      attr.path_mtu = IBV_MTU_256;
      attr.dest_qp_num = peer.verbs->qp_num;
      attr.max_dest_rd_atomic = 2;
      attr.min_rnr_timer = 1;
      attr.ah_attr.is_global = 1;
      attr.ah_attr.port_num = 1;
      attr.ah_attr.grh.sgid_index = 1;
      UROCE_ASSERT(v().ibv_query_gid(peer.pd->context->verbs, 1, 1, &attr.ah_attr.grh.dgid) == 0);
      return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER;
    case IBV_QPS_RTS:
      if (from != IBV_QPS_RTR) return IBV_QP_STATE;
      attr.timeout = 8;
      attr.retry_cnt = 2;
      attr.rnr_retry = 2;
      attr.max_rd_atomic = 2;
      return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC;
    default:
      return IBV_QP_STATE;
  }
}

/// 0: usual. Up to 200 as they are; beyond, more than the NIC has.
std::uint32_t capability(Reader& in, std::uint32_t usual, std::uint32_t most) {
  const std::uint32_t n = in.get<std::uint8_t>();
  return n == 0 ? usual : n <= 200 ? std::min(n - 1, most) : most + n - 200;
}

}  // namespace

void ApiProgram::create_qp(ApiPd& pd, Reader& in) {
  ApiCq* const send_cq = o_.cqs.at(in.get<std::uint8_t>() + o_.qps.size());
  ApiCq* const recv_cq = o_.cqs.at(in.get<std::uint8_t>() + o_.qps.size());
  if (send_cq == nullptr || o_.qps.full()) return;
  struct ibv_qp_init_attr init {};
  init.send_cq = send_cq->verbs;
  init.recv_cq = recv_cq->verbs;
  init.cap.max_send_wr = capability(in, 16, nic::kMaxQpWr);
  init.cap.max_recv_wr = capability(in, 16, nic::kMaxQpWr);
  init.cap.max_send_sge = capability(in, 4, nic::kMaxSge);
  init.cap.max_recv_sge = capability(in, 4, nic::kMaxSge);
  init.cap.max_inline_data = capability(in, 64, nic::kMaxInline);
  const int type = IBV_QPT_RC ^ in.get<std::uint8_t>();
  std::memcpy(&init.qp_type, &type, sizeof type);
  init.sq_sig_all = in.get<std::uint8_t>() % 2;
  const bool is_type = type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD;
  const bool is_legal = is_type && send_cq->context == pd.context && recv_cq->context == pd.context &&
                        std::max(init.cap.max_send_wr, init.cap.max_recv_wr) <= nic::kMaxQpWr &&
                        std::max(init.cap.max_send_sge, init.cap.max_recv_sge) <= nic::kMaxSge &&
                        init.cap.max_inline_data <= nic::kMaxInline;
  struct ibv_qp* qp = v().ibv_create_qp(pd.verbs, &init);
  UROCE_ASSERT((qp != nullptr) == is_legal);
  if (qp == nullptr) return;
  if (type != IBV_QPT_RC) {  // The model knows the states of RC only; the fuzzers of the NIC drive UC and UD.
    UROCE_ASSERT(v().ibv_destroy_qp(qp) == 0);
    return;
  }
  ApiQp* const own = o_.qps.add({});
  own->verbs = qp;
  own->pd = &pd;
  own->send_cq = send_cq;
  own->recv_cq = recv_cq;
  own->signal_all = init.sq_sig_all != 0;
}

void ApiProgram::destroy_qp(ApiQp* qp) {
  UROCE_ASSERT(v().ibv_destroy_qp(qp->verbs) == 0);
  forget_work(*qp);
  o_.qps.remove(qp);
}

/// What has completed is no longer in the CQs.
void ApiProgram::forget_work(ApiQp& qp) {
  qp.sends.reset();
  qp.receives.reset();
  qp.first_id = next_id_;
}

enum ibv_qp_state ApiProgram::ask_state(ApiQp& qp) {
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr init {};
  UROCE_ASSERT(v().ibv_query_qp(qp.verbs, &attr, IBV_QP_STATE, &init) == 0);
  UROCE_ASSERT(init.send_cq == qp.send_cq->verbs && init.recv_cq == qp.recv_cq->verbs);
  UROCE_ASSERT(attr.qp_state == qp.verbs->state);
  const bool may_fail = qp.state == IBV_QPS_RTR || qp.state == IBV_QPS_RTS || qp.state == IBV_QPS_SQD ||
                        qp.send_cq->may_overflow || qp.recv_cq->may_overflow;
  UROCE_ASSERT(attr.qp_state == qp.state || (attr.qp_state == IBV_QPS_ERR && may_fail));
  return qp.state = attr.qp_state;
}

void ApiProgram::modify(ApiQp& qp, struct ibv_qp_attr& attr, int mask, bool must_succeed) {
  const enum ibv_qp_state from = ask_state(qp);
  const int error = v().ibv_modify_qp(qp.verbs, &attr, mask);
  UROCE_ASSERT(error >= 0 && (error == 0 || !must_succeed));
  if (error == 0) {
    const enum ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
    UROCE_ASSERT(is_transition(from, to));
    qp.state = to;
    if (to == IBV_QPS_RESET) forget_work(qp);
  }
  ask_state(qp);
}

/// The right attributes for the next state, then bytes of them and bits of the mask changed.
void ApiProgram::modify_qp(ApiQp& qp, Reader& in) {
  const auto to = static_cast<enum ibv_qp_state>(in.get<std::uint8_t>() % (IBV_QPS_ERR + 1));
  const ApiQp& peer = *o_.qps.at(in.get<std::uint8_t>());
  struct ibv_qp_attr attr {};
  int mask = fill(attr, ask_state(qp), to, peer);
  mask ^= static_cast<int>(in.get<std::uint32_t>());
  std::array<std::uint8_t, sizeof attr> bytes;
  std::memcpy(bytes.data(), &attr, sizeof attr);
  while (!in.empty()) {
    const std::size_t at = in.get<std::uint8_t>() % bytes.size();
    bytes[at] = in.get<std::uint8_t>();
  }
  std::memcpy(&attr, bytes.data(), sizeof attr);
  modify(qp, attr, mask, false);
}

void ApiProgram::step_qp(ApiQp& qp, enum ibv_qp_state to, const ApiQp& peer) {
  struct ibv_qp_attr attr {};
  const enum ibv_qp_state from = ask_state(qp);
  const int mask = fill(attr, from, to, peer);
  modify(qp, attr, mask, is_transition(from, to));
}

void ApiProgram::connect(ApiQp& qp, const ApiQp& peer) {
  for (const auto state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) step_qp(qp, state, peer);
}

/// num_sge entries, some of which may name what is not ours; but the data of an inline WR must be there.
std::vector<struct ibv_sge> ApiProgram::sges(Reader& in, bool is_inline) {
  const std::size_t count = in.get<std::uint8_t>();
  const std::uint32_t offset = in.get<std::uint32_t>();
  const std::uint32_t length = in.get<std::uint32_t>();
  const ApiMr* const mr = o_.mrs.at(in.get<std::uint8_t>());
  const std::uint32_t wrong_key = in.get<std::uint8_t>();
  struct ibv_sge sge {};
  sge.addr = address(offset);
  sge.length = length == 0 ? 300 : length - 1;
  sge.lkey = (mr == nullptr ? 0 : mr->verbs->lkey) + wrong_key;
  if (is_inline) {
    const auto size = static_cast<std::uint32_t>(memory_size());
    sge.addr = address(offset % size);
    sge.length = std::min(sge.length, size - offset % size);
  }
  return std::vector<struct ibv_sge>(count == 0 ? 1 : (count - 1) % 40, sge);
}

void ApiProgram::post_sends(ApiQp& qp, Reader& in) {
  const enum ibv_qp_state state = ask_state(qp);
  struct One {
    struct ibv_send_wr wr {};
    std::vector<struct ibv_sge> sges;
  };
  std::vector<One> list(1 + in.get<std::uint8_t>() % 4);
  for (std::size_t i = 0; i < list.size(); ++i) {
    struct ibv_send_wr& wr = list[i].wr;
    wr.wr_id = next_id_++ * 2;
    const int opcode = IBV_WR_SEND ^ in.get<std::int8_t>();
    std::memcpy(&wr.opcode, &opcode, sizeof opcode);
    wr.send_flags = IBV_SEND_SIGNALED ^ in.get<std::uint8_t>();
    const ApiMr* const remote = o_.mrs.at(in.get<std::uint8_t>());
    const std::uint32_t rkey = (remote == nullptr ? 0 : remote->verbs->rkey) + in.get<std::uint8_t>();
    const std::uint64_t remote_addr = address(in.get<std::uint16_t>());
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic = {remote_addr, 1, 2, rkey};
    } else {
      wr.wr.rdma = {remote_addr, rkey};
    }
    list[i].sges = sges(in, (wr.send_flags & IBV_SEND_INLINE) != 0);
    wr.sg_list = list[i].sges.data();
    wr.num_sge = static_cast<int>(list[i].sges.size());
    wr.next = i + 1 < list.size() ? &list[i + 1].wr : nullptr;
  }
  struct ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp.verbs, &list[0].wr, &bad);
  const bool may_post = state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_ERR;
  UROCE_ASSERT((error == 0) == (bad == nullptr) && (may_post || error == EINVAL));
  for (const One& one : list) {
    if (&one.wr == bad) break;
    std::uint64_t length = 0;
    for (const struct ibv_sge& sge : one.sges) length += sge.length;
    qp.sends.post(one.wr.wr_id, qp.signal_all || (one.wr.send_flags & IBV_SEND_SIGNALED) != 0, length);
  }
  UROCE_ASSERT(may_post || qp.sends.size() == 0);
  look_for_overflow();
}

void ApiProgram::post_recvs(ApiQp& qp, Reader& in) {
  const enum ibv_qp_state state = ask_state(qp);
  const std::vector<struct ibv_sge> buffers = sges(in, false);
  std::vector<struct ibv_recv_wr> list(1 + in.get<std::uint8_t>() % 4);
  std::vector<struct ibv_sge> copy = buffers;
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i] = {next_id_++ * 2 + 1, i + 1 < list.size() ? &list[i + 1] : nullptr, copy.data(),
               static_cast<int>(copy.size())};
  }
  struct ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp.verbs, list.data(), &bad);
  UROCE_ASSERT((error == 0) == (bad == nullptr) && (state != IBV_QPS_RESET || error == EINVAL));
  std::uint64_t length = 0;
  for (const struct ibv_sge& sge : buffers) length += sge.length;
  for (const struct ibv_recv_wr& wr : list) {
    if (&wr == bad) break;
    qp.receives.post(wr.wr_id, true, length);
  }
  look_for_overflow();
}

void ApiProgram::look_for_overflow() {
  for (const auto& cq : o_.cqs) {
    std::size_t most = 0;
    for (const auto& qp : o_.qps) {
      most += qp->send_cq == cq.get() ? qp->sends.size() : 0;
      most += qp->recv_cq == cq.get() ? qp->receives.size() : 0;
    }
    if (most > static_cast<std::size_t>(cq->verbs->cqe)) cq->may_overflow = true;
  }
}

void ApiProgram::poll_cq(ApiCq& cq, int count) {
  if (count == 0) count = 16;
  std::vector<struct ibv_wc> completions(static_cast<std::size_t>(std::max(count, 0)));
  const int taken = ibv_poll_cq(cq.verbs, count, completions.data());
  UROCE_ASSERT(taken >= 0 && taken <= std::max(count, 0));
  completions.resize(static_cast<std::size_t>(taken));
  for (const struct ibv_wc& wc : completions) {
    const bool is_receive = wc.wr_id % 2 == 1;
    ApiQp* owner = nullptr;
    for (const auto& qp : o_.qps) {
      const bool uses = (is_receive ? qp->recv_cq : qp->send_cq) == &cq;
      if (uses && qp->verbs->qp_num == wc.qp_num && wc.wr_id / 2 >= qp->first_id) owner = qp.get();
    }
    UROCE_ASSERT(owner != nullptr && "a completion for nothing");
    if (cq.may_overflow) continue;
    const bool is_written = wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    (is_receive ? owner->receives : owner->sends)
        .complete(wc.wr_id, static_cast<nic::WcStatus>(wc.status), is_written ? 0 : wc.byte_len);
    UROCE_ASSERT(wc.status == IBV_WC_SUCCESS || ask_state(*owner) == IBV_QPS_ERR);
  }
}

void ApiProgram::get_async_event(ApiContext& context) {
  struct ibv_async_event event {};
  if (v().ibv_get_async_event(context.verbs, &event) != 0) {
    UROCE_ASSERT(errno == EAGAIN);
    return;
  }
  if (event.event_type == IBV_EVENT_CQ_ERR) {
    UROCE_ASSERT(o_.cqs.any([&](const ApiCq& cq) { return cq.verbs == event.element.cq && cq.may_overflow; }));
  } else {
    UROCE_ASSERT(o_.qps.any([&](const ApiQp& qp) { return qp.verbs == event.element.qp; }));
  }
  v().ibv_ack_async_event(&event);
}

}  // namespace uroce::fuzz
