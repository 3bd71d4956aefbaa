// SPDX-License-Identifier: Apache-2.0
// Completion queues: sizes, overflow, notification; asynchronous events of QPs.
#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"
#include "tests/judged/conformance/srqs.h"

namespace uroce::conformance {
namespace {

constexpr Rule kSize{"at least what was asked for, at most max_cqe", "IBTA Vol 1, 10.2.6.1 ?; ibv_create_cq(3)"};
constexpr Rule kResize{"at least what was asked for, at most max_cqe", "IBTA Vol 1, 10.2.6.3 ?; ibv_resize_cq(3)"};
constexpr Rule kOverflow{"a CQ that overflows raises CQ_ERR; its QPs are in error",
                         "IBTA Vol 1, 10.2.6 ? and 11.6.3; ibv_get_async_event(3)"};
constexpr Rule kNotArmed{"no event without a request for one", "IBTA Vol 1, 11.4.2.2; ibv_req_notify_cq(3)"};
constexpr Rule kNextOnly{"the event is for the next completion, not for one that is there",
                         "IBTA Vol 1, 11.4.2.2; ibv_req_notify_cq(3)"};
constexpr Rule kOneShot{"one event for one request", "IBTA Vol 1, 11.4.2.2; ibv_req_notify_cq(3)"};
constexpr Rule kErrorsSolicit{"a failed completion counts as solicited", "IBTA Vol 1, 11.4.2.2; ibv_req_notify_cq(3)"};
constexpr Rule kLastWqe{"LAST_WQE_REACHED when a QP with an SRQ is in ERR",
                        "IBTA Vol 1, 11.6.3; ibv_get_async_event(3)"};
constexpr Rule kAccessError{"a remote access error is told at the responder",
                            "IBTA Vol 1, 11.6.3; ibv_get_async_event(3)"};

constexpr Why kExactCqe = choice("ours has exactly the entries asked for, rxe rounds up to 2^n - 1");
constexpr Why kLargerLimit = choice("our max_cqe is 4194304, that of rxe 32767");
constexpr Why kDead = specification("rxe raises the event again for each loss, and its QP goes on");
constexpr Why kDeadQp = specification("the QP is in ERR since the overflow");
constexpr Why kFlushSolicits =
    specification("rxe looks at the solicited bit of the WR alone: who sleeps does not hear of the error");
constexpr Why kTold = specification("rxe of 6.12 says nothing; newer ones raise it too");

std::string create_cq(int cqe) {
  const ContextPtr context = open_device(0);
  struct ibv_cq* cq = v().ibv_create_cq(context.get(), cqe, nullptr, nullptr, 0);
  if (cq == nullptr) return word(errno);
  const int got = cq->cqe;
  EXPECT_EQ(v().ibv_destroy_cq(cq), 0);
  return "ok, cqe=" + std::to_string(got);
}

std::string resize_cq(int cqe) {
  Side side(0, {.cqe = 63});
  const int error = v().ibv_resize_cq(side.cq, cqe);
  return error != 0 ? word(error) : "ok, cqe=" + std::to_string(side.cq->cqe);
}

Case created(int cqe, const char* ours, const char* rxe, const Why& why = kSame) {
  return {"create CQ with cqe=" + std::to_string(cqe), kSize, ours, rxe, why, [cqe] { return create_cq(cqe); }};
}

struct Overflow {
  Overflow() {
    for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(post_recv(link.b.qp.get(), i, link.b.sge(0, 64)), 0);
    struct ibv_sge sge = link.a.sge(0, 8);
    for (std::uint64_t i = 0; i < 12; ++i) EXPECT_EQ(post(link.a.qp.get(), send_wr(i, IBV_WR_SEND, &sge)), 0);
    link.a.wait_for(IBV_QPS_ERR);
    raised = events(link.a);
    polled = take(link.a.cq, 1);
  }
  Link link{{.a_side = {.cqe = 1}}};
  std::string raised;
  std::vector<struct ibv_wc> polled;
};

std::string overflow() {
  const Overflow o;
  return say({std::to_string(o.polled.size()) + " completions polled: " + words(o.polled), "QP " + o.link.a.state(),
              "async events: " + o.raised});
}

std::string after_overflow() {
  const Overflow o;
  struct ibv_sge sge = o.link.a.sge(0, 8);
  const std::string posted = post_one(o.link.a.qp.get(), send_wr(77, IBV_WR_SEND, &sge));
  return say({posted, words(take(o.link.a.cq, 1)), "QP " + o.link.a.state()});
}

/// B's CQ and its channel, with A sending to it.
class Notified {
 public:
  Notified() {
    for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(post_recv(link_.b.qp.get(), i, link_.b.sge(0, 64)), 0);
  }
  /// A's completion comes when B has its own.
  void one_completion() {
    struct ibv_sge sge = link_.a.sge(0, 8);
    EXPECT_EQ(post(link_.a.qp.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(words(take(link_.a.cq, 1)), "SUCCESS wr 1 len 8 SEND");
  }
  void arm(bool solicited_only = false) { EXPECT_EQ(ibv_req_notify_cq(link_.b.cq, solicited_only ? 1 : 0), 0); }
  void empty() { take(link_.b.cq, 0); }
  void fail() { EXPECT_EQ(set_state(link_.b.qp.get(), IBV_QPS_ERR), 0); }
  /// Takes one event, if there is one.
  std::string event() {
    if (!readable(link_.b.channel->fd, 0)) return "event: no";
    struct ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    EXPECT_EQ(v().ibv_get_cq_event(link_.b.channel, &cq, &cookie), 0);
    v().ibv_ack_cq_events(cq, 1);
    return "event: yes";
  }

 private:
  Link link_;
};

std::string never_armed() {
  Notified n;
  n.one_completion();
  return n.event();
}

std::string armed_late() {
  Notified n;
  n.one_completion();
  n.arm();
  return n.event();
}

std::string next_completion() {
  Notified n;
  n.one_completion();
  n.arm();
  n.one_completion();
  return n.event();
}

std::string not_armed_again() {
  Notified n;
  n.one_completion();
  n.arm();
  n.one_completion();
  n.event();
  n.one_completion();
  return n.event();
}

std::string flush_when_solicited_only() {
  Notified n;
  n.one_completion();
  n.empty();
  n.arm(true);
  n.fail();
  return n.event();
}

std::string remote_access_error() {
  Link link;
  struct ibv_sge sge = link.a.sge(0, 64);
  struct ibv_send_wr wr = remote_wr(link, 1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma.rkey = 0x123456;
  EXPECT_EQ(post(link.a.qp.get(), wr), 0);
  take(link.a.cq, 1);
  return say({"B " + link.b.state(), "async at B: " + events(link.b) + ", at A: " + events(link.a)});
}

}  // namespace

Chapter completion_queues() {
  return {"completion_queues",
          "Completion queues and events",
          {
              created(0, "EINVAL", "EINVAL"),
              created(1, "ok, cqe=1", "ok, cqe=1"),
              created(2, "ok, cqe=2", "ok, cqe=3", kExactCqe),
              created(15, "ok, cqe=15", "ok, cqe=15"),
              created(16, "ok, cqe=16", "ok, cqe=31", kExactCqe),
              created(31, "ok, cqe=31", "ok, cqe=31"),
              created(32, "ok, cqe=32", "ok, cqe=63", kExactCqe),
              created(32767, "ok, cqe=32767", "ok, cqe=32767"),
              created(32768, "ok, cqe=32768", "EINVAL", kLargerLimit),
              {"resize CQ 63 -> 200", kResize, "ok, cqe=200", "ok, cqe=255", kExactCqe, [] { return resize_cq(200); }},
              {"resize CQ -> 0", kResize, "EINVAL", "EINVAL", kSame, [] { return resize_cq(0); }},
              {"resize CQ -> 40000", kResize, "ok, cqe=40000", "EINVAL", kLargerLimit, [] { return resize_cq(40000); }},
              {"CQ overflow: 12 signalled sends into a CQ of cqe=1 (capacity reported above), not polled", kOverflow,
               "1 completions polled: SUCCESS wr 0 len 8 SEND; QP ERR; async events: CQ_ERR, QP_FATAL",
               "1 completions polled: SUCCESS wr 0 len 8 SEND; QP RTS; async events: 11 times CQ_ERR", kDead, overflow},
              {"... a further send after the overflow (CQ drained)", kOverflow, "ok; WR_FLUSH_ERR wr 77; QP ERR",
               "ok; SUCCESS wr 77 len 8 SEND; QP RTS", kDeadQp, after_overflow},
              {"completion arrives, CQ never armed", kNotArmed, "event: no", "event: no", kSame, never_armed},
              {"arm while a completion is already in the CQ", kNextOnly, "event: no", "event: no", kSame, armed_late},
              {"... next completion (CQ armed, one unpolled completion before it)", kNextOnly, "event: yes",
               "event: yes", kSame, next_completion},
              {"... another completion without re-arming", kOneShot, "event: no", "event: no", kSame, not_armed_again},
              {"armed solicited-only, then a flush error completion", kErrorsSolicit, "event: yes", "event: no",
               kFlushSolicits, flush_when_solicited_only},
              {"QP with SRQ moved to ERR", kLastWqe, "ERR; async: LAST_WQE_REACHED", "ERR; async: LAST_WQE_REACHED",
               kSame, error_with_srq},
              {"responder after a remote access error", kAccessError, "B ERR; async at B: QP_ACCESS_ERR, at A: none",
               "B ERR; async at B: none, at A: none", kTold, remote_access_error},
          }};
}

}  // namespace uroce::conformance
