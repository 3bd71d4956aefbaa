// Lesson 29: asynchronous events. What does not belong to a work request (a QP that broke, a shared receive queue that
// runs dry, a port that went down) is told through the context's event queue.
#include <poll.h>

#include "tools/learn/verbs.h"

namespace {

/// Prints the events that are there, or come within two seconds for the first one, and acknowledges them.
void show_events(ibv_context* context) {
  for (int patience = 2000;; patience = 20) {
    pollfd wanted{.fd = context->async_fd, .events = POLLIN, .revents = 0};
    if (poll(&wanted, 1, patience) == 0) return;
    ibv_async_event event{};
    learn::need_zero(ibv_get_async_event(context, &event), "ibv_get_async_event");
    std::printf("  event: %s\n", ibv_event_type_str(event.event_type));
    // Objects of unacknowledged events can't be destroyed: ibv_destroy_qp would wait for ever.
    ibv_ack_async_event(&event);
  }
}

void limit_of_an_srq(learn::Nic& nic) {
  std::printf("1. an SRQ that runs dry: limit 2, three receives, two SENDs\n");
  ibv_srq_init_attr init{.srq_context = nullptr, .attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* srq = learn::need(ibv_create_srq(nic.pd, &init), "ibv_create_srq");
  {
    learn::Endpoint alice(nic), bob(nic, 4096, IBV_QPT_RC, 64, nullptr, srq);
    learn::connect(nic, alice, bob);
    for (std::uint64_t id = 1; id <= 3; ++id) {
      ibv_sge part = bob.sge(0, 64);
      ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &part, .num_sge = 1}, *bad = nullptr;
      learn::need_zero(ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
    }
    ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
    learn::need_zero(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), "ibv_modify_srq");
    for (std::uint64_t id = 1; id <= 2; ++id) {
      alice.post(IBV_WR_SEND, id, 16);
      learn::wait(alice.cq);
      learn::wait(bob.cq);
    }
    show_events(nic.context);  // One receive is left, fewer than two. The limit is disarmed now.

    std::printf("2. that QP goes to ERR: it takes no more receives from the SRQ\n");
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    learn::need_zero(ibv_modify_qp(bob.qp, &error, IBV_QP_STATE), "ERR");
    show_events(nic.context);
  }
  ibv_destroy_srq(srq);
}

void refused_access(learn::Nic& nic) {
  std::printf("3. a peer with a wrong R_Key\n");
  learn::Endpoint alice(nic), bob(nic);
  learn::connect(nic, alice, bob);
  ibv_sge part = alice.sge(0, 16);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &part;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(bob.buffer.data());
  wr.wr.rdma.rkey = bob.mr->rkey ^ 0xFF;
  learn::need_zero(ibv_post_send(alice.qp, &wr, &bad), "ibv_post_send");
  learn::print("  the one who asks", learn::wait(alice.cq));
  std::printf("  the one who refuses has no work request, so it gets an event\n");
  show_events(nic.context);
}

}  // namespace

int main() {
  learn::Nic nic;
  limit_of_an_srq(nic);
  refused_access(nic);
}
