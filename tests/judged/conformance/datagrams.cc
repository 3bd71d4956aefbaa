// SPDX-License-Identifier: Apache-2.0
// UC and UD.
#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"
#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::conformance {
namespace {

constexpr Rule kUdTransitions{"UD needs a Q_Key and takes no address vector",
                              "IBTA Vol 1, 11.2.5.2 (table); ibv_modify_qp(3)"};
constexpr Rule kUcOps{"UC has SEND and RDMA WRITE", "IBTA Vol 1, 9.8.2 ? and 11.4.1.1; ibv_post_send(3)"};
constexpr Rule kUcInvalidate{"SEND with invalidate on UC: the manual has it, the specification leaves it to RC",
                             "ibv_post_send(3); IBTA Vol 1, 9.4.1.1 ?"};
constexpr Rule kUdOps{"UD has SEND", "IBTA Vol 1, 9.8.3 ? and 11.4.1.1; ibv_post_send(3)"};
constexpr Rule kUdHandle{"a UD SEND needs an address handle", "ibv_post_send(3)"};
constexpr Rule kUdLength{"a datagram is no longer than the path MTU; a longer one is an error of the send side",
                         "IBTA Vol 1, 9.8.3 ?, 11.6.2 and 10.3.1.6"};
constexpr Rule kUdNobody{"a datagram to nobody is lost", "IBTA Vol 1, 9.8.3 ?"};
constexpr Rule kUdShortReceive{"a datagram that does not fit its receive is lost, and the receive stays",
                               "IBTA Vol 1, 9.9.3 ?: class D"};
constexpr Rule kUdFields{"40 bytes for the GRH come first; flags, source QP and immediate data are told",
                         "IBTA Vol 1, 11.4.2.1; ibv_poll_cq(3)"};

constexpr Why kImmediate = specification("rxe accepts, fails when it executes, and the flush overwrites the status");
constexpr Why kNoCrash = specification("a mistake of the program is an error, and no reason to crash");
constexpr Why kAsMlx5 = choice(
    "as mlx5 does: bit 3 is UDP, 2 below it is IPv4, 1 IPv6. UCX before 1.19 drops each datagram that does not say");
constexpr Why kTooLong = specification("rxe says that it was sent");

std::string modified(const Side& side, const struct ibv_qp_attr& attr, int mask) {
  const std::string said = word(side.modify(attr, mask));
  return say({said, side.state()});
}

std::string init_without_qkey() {
  const Side side(0, {.type = IBV_QPT_UD});
  return modified(side, init_attr(), mask_for(*side.qp, IBV_QPS_INIT) & ~IBV_QP_QKEY);
}

std::string rtr_with_av() {
  Side side(0, {.type = IBV_QPT_UD});
  side.bring(IBV_QPS_INIT);
  return modified(side, rtr_attr(side.gid(), 1), mask_for(*side.qp, IBV_QPS_RTR) | IBV_QP_AV);
}

std::string rts() {
  Side side(0, {.type = IBV_QPT_UD});
  side.bring(IBV_QPS_RTR);
  return modified(side, rts_attr(), mask_for(*side.qp, IBV_QPS_RTS));
}

/// A WR that UC does not have, on a connected pair.
std::function<std::string()> uc_shot(enum ibv_wr_opcode opcode) {
  return [opcode] {
    Link link({.a_side = {.type = IBV_QPT_UC}, .b_side = {.type = IBV_QPT_UC}});
    struct ibv_sge sge = link.a.sge(0, 8);
    struct ibv_send_wr wr = remote_wr(link, 1, opcode, &sge);
    if (opcode == IBV_WR_SEND_WITH_INV) wr.invalidate_rkey = link.b.mr->rkey;
    const std::string posted = post_one(link.a.qp.get(), wr);
    return say({posted, words(take(link.a.cq, 0)), link.states()});
  };
}

/// Two UD QPs, and a handle from the first to the second.
struct Datagrams : Link {
  Datagrams() : Link({.a_side = {.type = IBV_QPT_UD}, .b_side = {.type = IBV_QPT_UD}}) {
    struct ibv_ah_attr attr {};
    attr.is_global = attr.port_num = attr.grh.sgid_index = 1;
    attr.grh.dgid = b.gid();
    ah = uroce::ibv::impl::ibv_create_ah(a.pd, &attr);
    EXPECT_NE(ah, nullptr) << uroce::ibv::last_error();
  }
  ~Datagrams() { EXPECT_EQ(uroce::ibv::impl::ibv_destroy_ah(ah), 0); }

  struct ibv_send_wr wr(std::uint64_t id, enum ibv_wr_opcode opcode, struct ibv_sge* sge) const {
    struct ibv_send_wr wr = send_wr(id, opcode, sge);
    wr.wr.ud = {ah, b.qp->qp_num, kQkey};
    return wr;
  }
  /// Posts a message of `length` bytes and waits for its completion.
  std::string send(std::uint64_t id, std::uint32_t length) {
    struct ibv_sge sge = a.sge(0, length);
    const std::string posted = post_one(a.qp.get(), wr(id, IBV_WR_SEND, &sge));
    return posted == "ok" ? words(take(a.cq, 1)) : posted;
  }
  struct ibv_ah* ah = nullptr;
};

std::function<std::string()> ud_shot(enum ibv_wr_opcode opcode, std::uint32_t length,
                                     const std::function<void(struct ibv_send_wr&)>& change = {}) {
  return [opcode, length, change] {
    Datagrams d;
    struct ibv_sge sge = d.a.sge(0, length);
    struct ibv_send_wr wr = d.wr(1, opcode, &sge);
    if (change) change(wr);
    const std::string posted = post_one(d.a.qp.get(), wr);
    return say({posted, words(take(d.a.cq, posted == "ok" ? 1 : 0)), d.states()});
  };
}

std::string short_receive() {
  Datagrams d;
  EXPECT_EQ(post_recv(d.b.qp.get(), 1, d.b.sge(0, 60)), 0);
  EXPECT_EQ(post_recv(d.b.qp.get(), 2, d.b.sge(4096, 4096)), 0);
  const std::string first = d.send(1, 100);
  const std::string second = d.send(2, 100);
  return "A: " + first + ", " + second + " / B: " + words(take(d.b.cq, 0)) + "; B " + d.b.state();
}

std::string third_message() {
  Datagrams d;
  EXPECT_EQ(post_recv(d.b.qp.get(), 1, d.b.sge(0, 60)), 0);
  EXPECT_EQ(post_recv(d.b.qp.get(), 2, d.b.sge(4096, 4096)), 0);
  d.send(1, 100);
  d.send(2, 100);
  const std::string third = d.send(3, 10);
  return "A: " + third + " / B: " + words(take(d.b.cq, 1)) + "; the short receive stays at the head of the queue";
}

std::string receive_completion() {
  Datagrams d;
  EXPECT_EQ(post_recv(d.b.qp.get(), 2, d.b.sge(0, 4096)), 0);
  struct ibv_sge sge = d.a.sge(0, 100);
  struct ibv_send_wr wr = d.wr(1, IBV_WR_SEND_WITH_IMM, &sge);
  EXPECT_EQ(post_one(d.a.qp.get(), wr), "ok");
  const auto got = take(d.b.cq, 1);
  if (got.size() != 1) return words(got);
  const struct ibv_wc& wc = got.front();
  return words(got) + "; byte_len " + std::to_string(wc.byte_len) + " (40 + 100), wc_flags " +
         std::to_string(wc.wc_flags) +
         " (1 = GRH, 2 = IMM), src_qp = " + (wc.src_qp == d.a.qp->qp_num ? "sender" : std::to_string(wc.src_qp)) +
         ", sl " + std::to_string(wc.sl);
}

}  // namespace

Chapter datagrams() {
  const char* const refused = "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS";
  return {
      "datagrams",
      "UC and UD",
      {
          {"UD INIT without Q_Key", kUdTransitions, "EINVAL; RESET", "EINVAL; RESET", kSame, init_without_qkey},
          {"UD RTR with AV", kUdTransitions, "EINVAL; INIT", "EINVAL; INIT", kSame, rtr_with_av},
          {"UD RTS", kUdTransitions, "ok; RTS", "ok; RTS", kSame, rts},
          {"UC: READ", kUcOps, refused, "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS", kImmediate, uc_shot(IBV_WR_RDMA_READ)},
          {"UC: CAS", kUcOps, refused, "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS", kImmediate,
           uc_shot(IBV_WR_ATOMIC_CMP_AND_SWP)},
          {"UC: SEND with invalidate", kUcInvalidate, refused, "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS", kImmediate,
           uc_shot(IBV_WR_SEND_WITH_INV)},
          {"UD: WRITE", kUdOps, refused, "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS", kImmediate,
           ud_shot(IBV_WR_RDMA_WRITE, 8)},
          {"UD: SEND without AH (ah = NULL)", kUdHandle, refused,
           "the process crashes (SIGSEGV in the rxe provider of rdma-core 44: it copies from wr.ud.ah)", kNoCrash,
           ud_shot(IBV_WR_SEND, 8, [](struct ibv_send_wr& wr) { wr.wr.ud.ah = nullptr; })},
          {"UD: SEND of 4097 bytes", kUdLength, "ok; LOC_LEN_ERR wr 1; A SQE, B RTS",
           "ok; SUCCESS wr 1 len 4097 SEND; A RTS, B RTS", kTooLong, ud_shot(IBV_WR_SEND, 4097)},
          {"UD: SEND to a QPN that does not exist", kUdNobody, "ok; SUCCESS wr 1 len 64 SEND; A RTS, B RTS",
           "ok; SUCCESS wr 1 len 64 SEND; A RTS, B RTS", kSame,
           ud_shot(IBV_WR_SEND, 64, [](struct ibv_send_wr& wr) { wr.wr.ud.remote_qpn = 0xABCDE; })},
          {"UD: two 100-byte messages, first receive 60 bytes, second 4096", kUdShortReceive,
           "A: SUCCESS wr 1 len 100 SEND, SUCCESS wr 2 len 100 SEND / B: none; B RTS",
           "A: SUCCESS wr 1 len 100 SEND, SUCCESS wr 2 len 100 SEND / B: none; B RTS", kSame, short_receive},
          {"... a third message of 10 bytes", kUdShortReceive,
           "A: SUCCESS wr 3 len 10 SEND / B: SUCCESS wr 1 len 50 RECV; the short receive stays at the head of the "
           "queue",
           "A: SUCCESS wr 3 len 10 SEND / B: SUCCESS wr 1 len 50 RECV; the short receive stays at the head of the "
           "queue",
           kSame, third_message},
          {"UD receive completion", kUdFields,
           "SUCCESS wr 2 len 140 RECV; byte_len 140 (40 + 100), wc_flags 3 (1 = GRH, 2 = IMM), src_qp = sender, sl 10",
           "SUCCESS wr 2 len 140 RECV; byte_len 140 (40 + 100), wc_flags 3 (1 = GRH, 2 = IMM), src_qp = sender, sl 0",
           kAsMlx5, receive_completion},
      }};
}

}  // namespace uroce::conformance
