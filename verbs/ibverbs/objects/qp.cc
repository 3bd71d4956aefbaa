// SPDX-License-Identifier: Apache-2.0
// Queue pairs.
#include "verbs/nic/transport/qp.h"

#include <algorithm>
#include <cstring>

#include "engine/os/os_clock.h"
#include "proto/entropy.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/leftovers.h"
#include "verbs/ibverbs/objects/new_object.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/ibverbs/objects/path_to.h"

namespace uroce::ibv {
namespace {

/// Sets the path of `attr`, with a source port that the caller now holds.
Result<HeldSourcePort, int> hold_path(NicLock& lock, const QueuePair& qp, const struct ibv_qp_attr& attr, int mask,
                                      nic::QpAttr& out) {
  const auto path = path_to(adapter_of(qp), attr.ah_attr, Reach::kUnicast);
  if (!path.ok()) return Err{path.error()};
  out.path = *path;
  out.sgid_index = attr.ah_attr.grh.sgid_index;
  const std::uint32_t peer = (mask & IBV_QP_DEST_QPN) != 0 ? out.dest_qpn : qp.nic_qp->attr().dest_qpn;
  const std::uint16_t wanted = proto::flow_source_port(attr.ah_attr.grh.flow_label, qp.qp_base.qp_num, peer);
  return hold(lock, out.path, wanted);
}

int check_init(const struct ibv_pd& pd, const struct ibv_qp_init_attr& init) {
  const int type = raw(init.qp_type);
  if (type != IBV_QPT_RC && type != IBV_QPT_UC && type != IBV_QPT_UD) {
    return refuse(EOPNOTSUPP, "the NIC has RC, UC and UD queue pairs");
  }
  struct ibv_qp_cap cap = init.cap;
  if (init.srq != nullptr) cap.max_recv_wr = cap.max_recv_sge = 0;  // Ignored (ibv_create_qp(3)).
  if (std::max(cap.max_send_wr, cap.max_recv_wr) > nic::kMaxQpWr ||
      std::max(cap.max_send_sge, cap.max_recv_sge) > nic::kMaxSge || cap.max_inline_data > nic::kMaxInline) {
    return refuse(EINVAL, "a QP takes at most " + std::to_string(nic::kMaxQpWr) + " WRs, " +
                              std::to_string(nic::kMaxSge) + " SGEs, and " + std::to_string(nic::kMaxInline) +
                              " bytes of inline data");
  }
  if (init.send_cq == nullptr || init.recv_cq == nullptr)
    return refuse(EINVAL, "a QP needs two CQs (or twice the same)");
  if (init.send_cq->context != pd.context || init.recv_cq->context != pd.context) {
    return refuse(EINVAL, "the CQs belong to another context than the protection domain");
  }
  if (init.srq != nullptr && init.srq->context != pd.context) {
    return refuse(EINVAL, "the SRQ belongs to another context than the protection domain");
  }
  return 0;
}

/// The PSNs of the next requests, sent and expected, as they are by now (as rxe and adapters do). UD expects none.
void tell_psns(const nic::Qp& qp, struct ibv_qp_attr& attr) {
  const nic::QpState state = qp.state();
  if (state == nic::QpState::kReset || state == nic::QpState::kInit) return;
  const nic::QpInside inside = qp.inside();
  if (state != nic::QpState::kRtr) attr.sq_psn = inside.next.value();
  if (qp.type() != nic::QpType::kUd) attr.rq_psn = inside.expected.value();
}

}  // namespace

void take_from_nic(QueuePair& qp) {
  NicLock lock(adapter_of(qp), NicLock::Purpose::kCleanUp);
  if (!lock) return;
  lock.send_last_answers(qp.nic_qp);
  for (const proto::Gid& group : lock->groups_of(qp.nic_qp)) lock.port().leave_group(group);
  lock.hide(*qp.nic_qp);
  lock->destroy_qp(qp.nic_qp);
  release(lock, qp.source_port);
}

namespace impl {

struct ibv_qp* ibv_create_qp(struct ibv_pd* pd, struct ibv_qp_init_attr* init) {
  if (const int error = check_init(*pd, *init)) {
    errno = error;
    return nullptr;
  }
  Context& context = context_of(pd->context);
  NewObject qp(context, &Context::qps);
  nic::QpInit wanted;
  wanted.type = static_cast<nic::QpType>(raw(init->qp_type));
  wanted.pd = own(pd)->nic_pd;
  wanted.send_cq = own(init->send_cq)->nic_cq;
  wanted.recv_cq = own(init->recv_cq)->nic_cq;
  if (init->srq != nullptr) {
    wanted.srq = own(init->srq)->nic_srq;
    init->cap.max_recv_wr = init->cap.max_recv_sge = 0;  // That is what it gets.
  }
  // A work queue's entry has room for SGEs or for inline data. As with Soft-RoCE, who asks for one gets the other, too:
  // programs count on it.
  if (init->cap.max_inline_data != 0) init->cap.max_send_sge = std::max(init->cap.max_send_sge, 1u);
  static_assert(nic::kMaxSge * sizeof(struct ibv_sge) <= nic::kMaxInline);
  const auto sge_bytes = static_cast<std::uint32_t>(init->cap.max_send_sge * sizeof(struct ibv_sge));
  init->cap.max_inline_data = std::max(init->cap.max_inline_data, sge_bytes);
  wanted.max_send_wr = init->cap.max_send_wr;
  wanted.max_recv_wr = init->cap.max_recv_wr;
  wanted.max_send_sge = init->cap.max_send_sge;
  wanted.max_recv_sge = init->cap.max_recv_sge;
  wanted.max_inline = init->cap.max_inline_data;
  wanted.sq_sig_all = init->sq_sig_all != 0;
  wanted.user = qp.get();
  struct ibv_qp& base = qp->qp_base;
  // Complete before the NIC knows it: from then on, events may come.
  base.context = pd->context;
  base.qp_context = init->qp_context;
  base.pd = pd;
  base.send_cq = init->send_cq;
  base.recv_cq = init->recv_cq;
  base.srq = init->srq;
  base.state = IBV_QPS_RESET;
  base.qp_type = init->qp_type;
  qp->cap = init->cap;
  qp->sq_sig_all = wanted.sq_sig_all;
  init_ack(base);
  {
    const NicLock lock(*context.adapter);
    const auto made = lock ? lock->create_qp(wanted) : Err{refuse_without_nic()};
    if (!made.ok()) {
      destroy_ack(base);
      errno = made.error();
      return nullptr;
    }
    qp->nic_qp = *made;
    base.handle = base.qp_num = qp->nic_qp->qpn();
    lock.show(*qp->nic_qp);
  }
  return &qp.keep()->qp_base;
}

int ibv_modify_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int mask) {
  QueuePair& ours = *own(qp);
  NicLock lock(adapter_of(ours));
  if (!lock) return refuse_without_nic();
  const nic::QpType type = ours.nic_qp->type();
  const nic::QpState from = ours.nic_qp->state();
  auto converted = from_attr(*attr, mask, from);
  if (!converted.ok()) return converted.error();
  const nic::QpState to = converted->state;
  const auto bits = static_cast<std::uint32_t>(mask);
  if (nic::check_transition(type, from, to, bits).code != nic::TransitionVerdict::Code::kOk) {
    return refuse(EINVAL, explain(type, from, to, mask));
  }
  std::optional<HeldSourcePort> held;
  if ((mask & IBV_QP_AV) != 0) {
    const auto got = hold_path(lock, ours, *attr, mask, *converted);
    if (!got.ok()) return got.error();
    held = *got;
  }
  if (to == nic::QpState::kReset || to == nic::QpState::kErr) lock.send_last_answers(ours.nic_qp);
  // What peers have sent to its life before must not find the next one: adapters take packets as they come.
  if (ours.was_reset && from == nic::QpState::kReset && to != from) lock.take_arrived();
  lock->set_time(engine::os_now());  // Completions of a flush bear it.
  if (const int error = lock->modify_qp(ours.nic_qp, *converted, bits)) {
    release(lock, held);
    if (error == ENOMEM) return error;  // No sentence: to make one takes memory.
    return refuse(error, explain(type, from, to, mask));
  }
  if (to == nic::QpState::kReset) {
    ours.set = {};
    ours.was_reset = true;
    release(lock, ours.source_port);
  }
  merge(ours.set, *attr, mask);
  if (held) {
    release(lock, ours.source_port);
    ours.source_port = held;
  }
  if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  lock.show(*ours.nic_qp);
  lock.posted();
  return 0;
}

int ibv_query_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int mask, struct ibv_qp_init_attr* init) {
  QueuePair& ours = *own(qp);
  const NicLock lock(adapter_of(ours));
  if (!lock) return refuse_without_nic();
  *attr = ours.set;
  tell_psns(*ours.nic_qp, *attr);
  attr->qp_state = attr->cur_qp_state = static_cast<enum ibv_qp_state>(ours.nic_qp->state());
  attr->sq_draining = ours.nic_qp->draining() ? 1 : 0;
  attr->cap = ours.cap;
  if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;  // As rdma-core does: UCX checks its own idea of it.
  *init = {};
  init->qp_context = qp->qp_context;
  init->send_cq = qp->send_cq;
  init->recv_cq = qp->recv_cq;
  init->srq = qp->srq;
  init->cap = ours.cap;
  init->qp_type = qp->qp_type;
  init->sq_sig_all = ours.sq_sig_all ? 1 : 0;
  return 0;
}

int ibv_destroy_qp(struct ibv_qp* qp) {
  QueuePair* const ours = own(qp);
  Context& context = context_of(qp->context);
  if (destroy_leftover(context, &Context::qps, ours)) return 0;
  if (const NicLock lock(*context.adapter); lock && !lock->groups_of(ours->nic_qp).empty()) {
    return refuse(EBUSY, "the queue pair is in a multicast group");
  }
  take_from_nic(*ours);  // First of all: no event may follow while we wait for the user to acknowledge the old ones.
  context.async_events.remove_if([ours](const AsyncEvent& event) { return event.qp == ours; });
  await_acknowledged(context, *qp, &ibv_qp::events_completed, ours->async_events_delivered);
  {
    const std::scoped_lock lock(context.objects_mutex);
    context.qps.erase(ours);
  }
  destroy_ack(*qp);
  delete ours;
  return 0;
}

}  // namespace impl
}  // namespace uroce::ibv
