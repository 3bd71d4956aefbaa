// Lesson 48: a completion queue that is too small. Nobody warns; the queue is lost with everything that uses it.
#include <poll.h>

#include "tools/learn/verbs.h"

namespace {

/// Prints the asynchronous events until none has come for a while.
void show_events(ibv_context* context) {
  pollfd wanted{.fd = context->async_fd, .events = POLLIN, .revents = 0};
  for (int patience = 2000; poll(&wanted, 1, patience) == 1; patience = 20) {
    ibv_async_event event{};
    learn::need_zero(ibv_get_async_event(context, &event), "ibv_get_async_event");
    std::printf("event: %s\n", ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
  }
}

}  // namespace

int main() {
  learn::Nic nic;
  learn::Endpoint alice(nic, 4096, IBV_QPT_RC, /*cqe=*/4), bob(nic);
  learn::connect(nic, alice, bob);
  const int room = alice.cq->cqe;
  std::printf("asked for 4 entries, got %s; posting one WRITE more, each signaled, without polling\n",
              room == 4 ? "4" : "more than 4");
  for (int n = 0; n <= room && n < 32; ++n) alice.post(IBV_WR_RDMA_WRITE, static_cast<std::uint64_t>(n), 16, &bob);
  show_events(nic.context);

  ibv_wc wc{};
  int polled = 0;
  while (polled < room && ibv_poll_cq(alice.cq, 1, &wc) == 1) ++polled;
  std::printf("completions that can still be polled: %d\n", polled);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  learn::need_zero(ibv_query_qp(alice.qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
  std::printf("alice's QP: %s\n", attr.qp_state == IBV_QPS_ERR ? "ERR" : "not ERR");
}
