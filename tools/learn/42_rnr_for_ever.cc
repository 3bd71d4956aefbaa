// Lesson 42: rnr_retry 7 means "for ever". A program that forgets its receives does not fail: it hangs.
#include "tools/learn/verbs.h"

namespace {

/// Whether a completion comes within that time.
bool completes_within(ibv_cq* cq, std::chrono::milliseconds time, ibv_wc& wc) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < deadline) {
    if (ibv_poll_cq(cq, 1, &wc) == 1) return true;
  }
  return false;
}

}  // namespace

int main() {
  learn::Nic nic_a(0), nic_b(1);
  learn::Endpoint alice(nic_a), bob(nic_b);
  learn::connect(nic_a, alice, nic_b, bob, {.rnr_retry = 7, .min_rnr_timer = 18});  // "Come again in 5.12 ms."

  alice.post(IBV_WR_SEND, 1, 16);
  ibv_wc wc{};
  std::printf("a completion within 50 ms: %s\n",
              completes_within(alice.cq, std::chrono::milliseconds(50), wc) ? "yes" : "no");

  // The QP is healthy; nothing in its state says that it waits.
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  learn::need_zero(ibv_query_qp(alice.qp, &attr, IBV_QP_STATE | IBV_QP_RNR_RETRY, &init), "ibv_query_qp");
  std::printf("alice's QP: %s, rnr_retry %u\n", attr.qp_state == IBV_QPS_RTS ? "RTS" : "not in RTS", attr.rnr_retry);

  // The way out without the peer's help: ERR flushes what is posted.
  attr.qp_state = IBV_QPS_ERR;
  learn::need_zero(ibv_modify_qp(alice.qp, &attr, IBV_QP_STATE), "ERR");
  learn::print("after ibv_modify_qp(ERR), alice", learn::wait(alice.cq));
}
