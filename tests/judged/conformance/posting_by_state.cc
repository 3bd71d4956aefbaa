// SPDX-License-Identifier: Apache-2.0
// What posting does in each state, and what becomes of WRs when the QP leaves RTS.
#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"

namespace uroce::conformance {
namespace {

constexpr Rule kPosting{
    "sends from RTS on, receives from INIT on; in ERR they complete flushed; *bad_wr is the first WR refused",
    "IBTA Vol 1, 10.3.1; ibv_post_send(3), ibv_post_recv(3)"};
constexpr Rule kRetryExceeded{"without answers the retries run out; WRs behind are flushed",
                              "IBTA Vol 1, 9.7.6.1 and 11.6.2"};
constexpr Rule kFlush{"ERR completes everything outstanding, unsignalled WRs too, each queue in its order",
                      "IBTA Vol 1, 10.3.1 and 10.8.6 ?"};
constexpr Rule kNoFlush{"RESET takes everything outstanding off without completions",
                        "IBTA Vol 1, 10.3.1; 10.2.4.4 ? (destroy)"};
constexpr Rule kForgetCompletions{"a QP that is destroyed takes its completions along; who wants them polls before",
                                  "open in IBTA Vol 1 and ibv_destroy_qp(3); rdma-core: mlx4, mlx5, irdma"};
constexpr Rule kRtrResponds{"in RTR the responder works; the first request raises COMM_EST",
                            "IBTA Vol 1, 10.3.1 and 11.6.3; ibv_get_async_event(3)"};

constexpr Why kBadWr = specification("rdma-core 44's rxe provider leaves *bad_wr unset when the state is wrong");
constexpr Why kCommEst = specification("rxe never raises COMM_EST");
constexpr Why kLeftBehind =
    choice("rxe leaves them; adapters take them out, and programs that were written for them count on it");
constexpr Why kPostOrder = choice("the queues are independent; ours flushes in the order of the posts");

std::string post_both(enum ibv_qp_state state) {
  Side side(0);
  side.bring(state);
  struct ibv_sge sge = side.sge(0, 100);
  const std::string recv = post_one_recv(side.qp.get(), 2, side.sge(4096, 100));
  const std::string send = post_one(side.qp.get(), send_wr(1, IBV_WR_SEND, &sge));
  const bool completes = state == IBV_QPS_RTS || state == IBV_QPS_ERR;
  const auto completions = take(side.cq, completes ? 2 : 0);
  return say({"send: " + send, "recv: " + recv, words(completions), side.state()});
}

/// No receive at B, and a long RNR timer: what A sends is outstanding.
LinkOptions blocked_by_rnr() { return {.b = {.min_rnr_timer = 26}}; }

std::string to_error(Link& link) {
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(post_recv(link.a.qp.get(), 100 + i, link.a.sge(8192, 100)), 0);
  struct ibv_sge sge = link.a.sge(0, 64);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(post(link.a.qp.get(), send_wr(i, IBV_WR_SEND, &sge, i == 1 ? 0 : IBV_SEND_SIGNALED)), 0);
  }
  quiesce();
  const int error = set_state(link.a.qp.get(), IBV_QPS_ERR);
  return say({word(error), words(take(link.a.cq, 6)), link.a.state()});
}

std::string post_after_flush() {
  Link link(blocked_by_rnr());
  to_error(link);
  struct ibv_sge sge = link.a.sge(0, 64);
  const std::string recv = post_one_recv(link.a.qp.get(), 200, link.a.sge(8192, 100));
  const std::string send = post_one(link.a.qp.get(), send_wr(201, IBV_WR_SEND, &sge));
  return say({"send: " + send, "recv: " + recv, words(take(link.a.cq, 2)), link.a.state()});
}

void leave_outstanding(Link& link) {
  EXPECT_EQ(post_recv(link.a.qp.get(), 100, link.a.sge(8192, 100)), 0);
  struct ibv_sge sge = link.a.sge(0, 64);
  EXPECT_EQ(post(link.a.qp.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  quiesce();
}

std::string to_reset() {
  Link link(blocked_by_rnr());
  leave_outstanding(link);
  const int error = set_state(link.a.qp.get(), IBV_QPS_RESET);
  return say({word(error), words(take(link.a.cq, 0)), link.a.state()});
}

std::string destroy_outstanding() {
  Link link(blocked_by_rnr());
  leave_outstanding(link);
  const int error = v().ibv_destroy_qp(link.a.qp.release());
  return say({word(error), words(take(link.a.cq, 0))});
}

std::string destroy_completed() {
  Link link;
  EXPECT_EQ(post_recv(link.b.qp.get(), 5, link.b.sge(0, 100)), 0);
  EXPECT_EQ(ibv_req_notify_cq(link.a.cq, 0), 0);
  struct ibv_sge sge = link.a.sge(0, 64);
  EXPECT_EQ(post(link.a.qp.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_TRUE(readable(link.a.channel->fd, kPatienceMs));
  const int error = v().ibv_destroy_qp(link.a.qp.release());
  return say({word(error), words(take(link.a.cq, 0))});
}

std::string peer_in_rtr() {
  Side a(0), b(1);
  bring_to(a.qp.get(), IBV_QPS_RTS, b.gid(), b.qp->qp_num, {.timeout = kPatientTimeout});
  bring_to(b.qp.get(), IBV_QPS_RTR, a.gid(), a.qp->qp_num);
  EXPECT_EQ(post_recv(b.qp.get(), 9, b.sge(0, 100)), 0);
  struct ibv_sge sge = a.sge(0, 64);
  EXPECT_EQ(post(a.qp.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  const std::string at_a = words(take(a.cq, 1));
  return say({"A: " + at_a + " / B: " + words(take(b.cq, 1)), "B " + b.state(), "async at B: " + events(b)});
}

}  // namespace

Chapter posting_by_state() {
  const auto posts = [](enum ibv_qp_state state) { return [state] { return post_both(state); }; };
  return {
      "posting_by_state",
      "Posting by state",
      {
          {"post_send + post_recv in RESET", kPosting,
           "send: EINVAL, bad_wr = wr_id 1; recv: EINVAL, bad_wr = wr_id 2; none; RESET",
           "send: EINVAL, bad_wr = unset; recv: EINVAL, bad_wr = unset; none; RESET", kBadWr, posts(IBV_QPS_RESET)},
          {"post_send + post_recv in INIT", kPosting, "send: EINVAL, bad_wr = wr_id 1; recv: ok; none; INIT",
           "send: EINVAL, bad_wr = unset; recv: ok; none; INIT", kBadWr, posts(IBV_QPS_INIT)},
          {"post_send + post_recv in RTR", kPosting, "send: EINVAL, bad_wr = wr_id 1; recv: ok; none; RTR",
           "send: EINVAL, bad_wr = unset; recv: ok; none; RTR", kBadWr, posts(IBV_QPS_RTR)},
          {"post_send + post_recv in RTS", kRetryExceeded,
           "send: ok; recv: ok; RETRY_EXC_ERR wr 1, WR_FLUSH_ERR wr 2; ERR",
           "send: ok; recv: ok; RETRY_EXC_ERR wr 1, WR_FLUSH_ERR wr 2; ERR", kSame, posts(IBV_QPS_RTS)},
          {"post_send + post_recv in SQD", kPosting, "send: ok; recv: ok; none; SQD", "send: ok; recv: ok; none; SQD",
           kSame, posts(IBV_QPS_SQD)},
          {"post_send + post_recv in ERR", kPosting, "send: ok; recv: ok; WR_FLUSH_ERR wr 2, WR_FLUSH_ERR wr 1; ERR",
           "send: ok; recv: ok; WR_FLUSH_ERR wr 1, WR_FLUSH_ERR wr 2; ERR", kPostOrder, posts(IBV_QPS_ERR)},
          {"modify to ERR with 3 sends (middle one unsignalled) blocked by RNR and 3 receives posted", kFlush,
           "ok; WR_FLUSH_ERR wr 100, WR_FLUSH_ERR wr 101, WR_FLUSH_ERR wr 102, WR_FLUSH_ERR wr 0, WR_FLUSH_ERR wr 1, "
           "WR_FLUSH_ERR wr 2; ERR",
           "ok; WR_FLUSH_ERR wr 100, WR_FLUSH_ERR wr 101, WR_FLUSH_ERR wr 102, WR_FLUSH_ERR wr 0, WR_FLUSH_ERR wr 1, "
           "WR_FLUSH_ERR wr 2; ERR",
           kSame,
           [] {
             Link link(blocked_by_rnr());
             return to_error(link);
           }},
          {"... then post_send and post_recv in ERR", kPosting,
           "send: ok; recv: ok; WR_FLUSH_ERR wr 200, WR_FLUSH_ERR wr 201; ERR",
           "send: ok; recv: ok; WR_FLUSH_ERR wr 201, WR_FLUSH_ERR wr 200; ERR", kPostOrder, post_after_flush},
          {"modify to RESET with a send and a receive outstanding", kNoFlush, "ok; none; RESET", "ok; none; RESET",
           kSame, to_reset},
          {"destroy QP with a send and a receive outstanding", kNoFlush, "ok; none", "ok; none", kSame,
           destroy_outstanding},
          {"destroy QP with an unpolled successful completion in the CQ", kForgetCompletions, "ok; none",
           "ok; SUCCESS wr 1 len 64 SEND", kLeftBehind, destroy_completed},
          {"peer is only in RTR: SEND arrives", kRtrResponds,
           "A: SUCCESS wr 1 len 64 SEND / B: SUCCESS wr 9 len 64 RECV; B RTR; async at B: COMM_EST",
           "A: SUCCESS wr 1 len 64 SEND / B: SUCCESS wr 9 len 64 RECV; B RTR; async at B: none", kCommEst, peer_in_rtr},
      }};
}

}  // namespace uroce::conformance
