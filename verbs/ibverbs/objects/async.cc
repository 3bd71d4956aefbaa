// SPDX-License-Identifier: Apache-2.0
// Events: from the NIC to completion channels and asynchronous queues, and from there to the user.
#include <new>

#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::ibv {
namespace {

/// What is raised while the NIC still knows why.
void record(Context& context, enum ibv_event_type type) {
  FlightRecorder& recorder = context.adapter->recorder();
  if (type == IBV_EVENT_CQ_ERR) recorder.on_error("IBV_EVENT_CQ_ERR");
  if (type == IBV_EVENT_QP_FATAL) recorder.on_error("IBV_EVENT_QP_FATAL");
  if (type == IBV_EVENT_QP_REQ_ERR) recorder.on_error("IBV_EVENT_QP_REQ_ERR");
  if (type == IBV_EVENT_QP_ACCESS_ERR) recorder.on_error("IBV_EVENT_QP_ACCESS_ERR");
}

void raise_cq(CompletionQueue& cq, enum ibv_event_type type) {
  record(context_of(cq.context), type);
  context_of(cq.context).async_events.push({type, &cq, nullptr, nullptr});
}

void raise_qp(const nic::Event& event, enum ibv_event_type type) {
  auto& qp = *static_cast<QueuePair*>(event.qp->init().user);
  record(context_of(qp.qp_base.context), type);
  context_of(qp.qp_base.context).async_events.push({type, nullptr, &qp, nullptr});
}

void raise_srq(SharedReceiveQueue& srq, enum ibv_event_type type) {
  context_of(srq.context).async_events.push({type, nullptr, nullptr, &srq});
}

}  // namespace

void notify(CompletionQueue& cq) {
  if (cq.channel == nullptr) return;
  context_of(cq.context).adapter->on_cq_event();
  own(cq.channel)->events.push(&cq);
}

void raise(Context& context, enum ibv_event_type type) { context.async_events.push({type, nullptr, nullptr, nullptr}); }

namespace {

void deliver(const nic::Event& event) {
  using Kind = nic::Event::Kind;
  switch (event.kind) {
    case Kind::kCqNotify:
      notify(*static_cast<CompletionQueue*>(event.cq->user()));
      break;
    case Kind::kCqErr:
      raise_cq(*static_cast<CompletionQueue*>(event.cq->user()), IBV_EVENT_CQ_ERR);
      break;
    case Kind::kQpFatal:
      raise_qp(event, IBV_EVENT_QP_FATAL);
      break;
    case Kind::kQpReqErr:
      raise_qp(event, IBV_EVENT_QP_REQ_ERR);
      break;
    case Kind::kQpAccessErr:
      raise_qp(event, IBV_EVENT_QP_ACCESS_ERR);
      break;
    case Kind::kCommEst:
      raise_qp(event, IBV_EVENT_COMM_EST);
      break;
    case Kind::kSqDrained:
      raise_qp(event, IBV_EVENT_SQ_DRAINED);
      break;
    case Kind::kLastWqeReached:
      raise_qp(event, IBV_EVENT_QP_LAST_WQE_REACHED);
      break;
    case Kind::kSrqLimitReached:
      raise_srq(*static_cast<SharedReceiveQueue*>(event.srq->user()), IBV_EVENT_SRQ_LIMIT_REACHED);
      break;
  }
}

}  // namespace

void deliver_events(nic::Nic& nic) {
  while (const auto event = nic.poll_event()) {
    try {
      deliver(*event);
    } catch (const std::bad_alloc&) {  // It is lost, or not recorded: a peer may raise one, and the program lives on.
    }
  }
}

namespace impl {

int ibv_get_async_event(struct ibv_context* context, struct ibv_async_event* event) {
  AsyncEvent taken;
  const int error = context_of(context).async_events.take(taken, [](const AsyncEvent& e) {
    if (e.cq != nullptr) ++e.cq->async_events_delivered;
    if (e.qp != nullptr) ++e.qp->async_events_delivered;
    if (e.srq != nullptr) ++e.srq->async_events_delivered;
  });
  if (error != 0) {
    errno = error;
    return -1;
  }
  event->event_type = taken.type;
  if (taken.cq == nullptr && taken.qp == nullptr && taken.srq == nullptr) event->element.port_num = 1;
  if (taken.cq != nullptr) event->element.cq = ibv_cq_ex_to_cq(taken.cq);
  if (taken.qp != nullptr) event->element.qp = &taken.qp->qp_base;
  if (taken.srq != nullptr) event->element.srq = taken.srq;
  return 0;
}

void ibv_ack_async_event(struct ibv_async_event* event) {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
      acknowledge<struct ibv_cq_ex>(*own(event->element.cq), &ibv_cq_ex::async_events_completed, 1);
      break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      acknowledge(*event->element.qp, &ibv_qp::events_completed, 1);
      break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      acknowledge(*event->element.srq, &ibv_srq::events_completed, 1);
      break;
    default:  // Events of ports and devices need no acknowledgement.
      break;
  }
}

}  // namespace impl
}  // namespace uroce::ibv
