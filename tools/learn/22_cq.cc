// Lesson 22: hear of completions. Poll the completion queue (fast, burns a core), or sleep on a completion channel
// (costs an interrupt), with the one order of calls that loses nothing.
#include <poll.h>

#include "tools/learn/verbs.h"

namespace {

/// Whether an event waits at the channel, within `milliseconds`.
bool event_within(ibv_comp_channel* channel, int milliseconds) {
  pollfd wanted{.fd = channel->fd, .events = POLLIN, .revents = 0};
  return poll(&wanted, 1, milliseconds) == 1;
}

}  // namespace

int main() {
  learn::Nic nic;
  ibv_comp_channel* channel = learn::need(ibv_create_comp_channel(nic.context), "ibv_create_comp_channel");
  {
    learn::Endpoint sender(nic), receiver(nic, 4096, IBV_QPT_RC, 10, channel);
    learn::connect(nic, sender, receiver);

    std::printf("1. polling\n");
    ibv_wc wc{};
    std::printf("  a CQ of 10 entries was asked for, and has room for 10 or more: %s\n",
                receiver.cq->cqe >= 10 ? "yes" : "no");
    std::printf("  empty: ibv_poll_cq returns %d\n", ibv_poll_cq(receiver.cq, 1, &wc));
    receiver.post_recv(100, 64);
    sender.post(IBV_WR_SEND, 7, 16);
    learn::print("  receiver", learn::wait(receiver.cq));
    learn::print("  sender", learn::wait(sender.cq));

    std::printf("2. sleeping\n");
    // Arm: the NEXT completion raises one event. For those that are there already, do not count on one.
    learn::need_zero(ibv_req_notify_cq(receiver.cq, 0), "ibv_req_notify_cq");
    std::printf("  armed; event without a completion: %s\n", event_within(channel, 10) ? "yes" : "no");
    receiver.post_recv(101, 64);
    sender.post(IBV_WR_SEND, 8, 16);
    std::printf("  after a SEND, an event: %s\n", event_within(channel, 5000) ? "yes" : "no");
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ibv_get_cq_event(channel, &cq, &context);
    ibv_ack_cq_events(cq, 1);  // ibv_destroy_cq waits until every event is acknowledged.

    // The order that loses nothing: event, arm again, then poll until empty. Polled first, a completion between the
    // last poll and the arming may raise no event.
    ibv_req_notify_cq(cq, 0);
    int taken = 0;
    while (ibv_poll_cq(cq, 1, &wc) > 0) ++taken;
    std::printf("  armed again, then polled: %d completion\n", taken);

    std::printf("3. only when the sender wants it\n");
    // The second argument: wake up for "solicited" messages only (and for errors). The sender marks them. Part 2 has
    // armed the CQ for all completions, so one more event comes first.
    learn::wait(sender.cq);
    receiver.post_recv(102, 64);
    sender.post(IBV_WR_SEND, 9, 16);
    event_within(channel, 5000);
    ibv_get_cq_event(channel, &cq, &context);
    ibv_ack_cq_events(cq, 1);
    learn::wait(receiver.cq);
    learn::wait(sender.cq);

    ibv_req_notify_cq(receiver.cq, 1);
    receiver.post_recv(103, 64);
    sender.post(IBV_WR_SEND, 10, 16);
    learn::wait(sender.cq);
    std::printf("  an ordinary SEND, an event:  %s\n", event_within(channel, 10) ? "yes" : "no");

    receiver.post_recv(104, 64);
    ibv_sge part = sender.sge(0, 16);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &part;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;  // The SE bit of the BTH.
    learn::need_zero(ibv_post_send(sender.qp, &wr, &bad), "ibv_post_send");
    std::printf("  a solicited SEND, an event:  %s\n", event_within(channel, 5000) ? "yes" : "no");
    ibv_get_cq_event(channel, &cq, &context);
    ibv_ack_cq_events(cq, 1);
  }
  ibv_destroy_comp_channel(channel);
}
