// UC and UD.
#include "tests/conformance/case.h"
#include "tests/conformance/not_offered.h"

namespace uroce::conformance {
namespace {

constexpr Rule kUdTransitions{"UD needs a Q_Key and takes no address vector",
                              "IBTA Vol 1, 11.2.5.2 (table); ibv_modify_qp(3)"};
constexpr Rule kUcOps{"UC has SEND and RDMA WRITE", "IBTA Vol 1, 9.8.2 ? and 11.4.1.1; ibv_post_send(3)"};
constexpr Rule kUcInvalidate{"SEND with invalidate on UC: the manual has it, the specification leaves it to RC",
                             "ibv_post_send(3); IBTA Vol 1, 9.4.1.1 ?"};
constexpr Rule kUdOps{"UD has SEND", "IBTA Vol 1, 9.8.3 ? and 11.4.1.1; ibv_post_send(3)"};
constexpr Rule kUdHandle{"a UD SEND needs an address handle", "ibv_post_send(3)"};
constexpr Rule kUdLength{"a datagram is no longer than the path MTU", "IBTA Vol 1, 9.8.3 ?"};
constexpr Rule kUdNobody{"a datagram to nobody is lost", "IBTA Vol 1, 9.8.3 ?"};
constexpr Rule kUdShortReceive{"a datagram that does not fit its receive is an error of the receive",
                               "IBTA Vol 1, 9.8.3 ? and 11.6.2: LOC_LEN_ERR"};
constexpr Rule kUdFields{"40 bytes for the GRH come first; flags, source QP and immediate data are told",
                         "IBTA Vol 1, 11.4.2.1; ibv_poll_cq(3)"};

Case uc(const char* name, const Rule& rule, const char* rxe) {
  return {name, rule, "create QP: EOPNOTSUPP", rxe, kNotOffered, [] { return try_qp(IBV_QPT_UC); }};
}

Case ud(const char* name, const Rule& rule, const char* rxe) {
  return {name, rule, "create QP: EOPNOTSUPP", rxe, kNotOffered, [] { return try_qp(IBV_QPT_UD); }};
}

}  // namespace

Chapter datagrams() {
  return {
      "datagrams",
      "UC and UD",
      {
          ud("UD INIT without Q_Key", kUdTransitions, "EINVAL; RESET"),
          ud("UD RTR with AV", kUdTransitions, "EINVAL; INIT"),
          ud("UD RTS", kUdTransitions, "ok; RTS"),
          uc("UC: READ", kUcOps, "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS"),
          uc("UC: CAS", kUcOps, "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS"),
          uc("UC: SEND with invalidate", kUcInvalidate, "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS"),
          ud("UD: WRITE", kUdOps, "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS"),
          ud("UD: SEND without AH (ah = NULL)", kUdHandle,
             "the process crashes (SIGSEGV in the rxe provider of rdma-core 44: it copies from wr.ud.ah)"),
          ud("UD: SEND of 4097 bytes", kUdLength, "ok; SUCCESS wr 1 len 4097 SEND; A RTS, B RTS"),
          ud("UD: SEND to a QPN that does not exist", kUdNobody, "ok; SUCCESS wr 1 len 64 SEND; A RTS, B RTS"),
          ud("UD: two 100-byte messages, first receive 60 bytes, second 4096", kUdShortReceive,
             "A: SUCCESS wr 1 len 100 SEND, SUCCESS wr 2 len 100 SEND / B: none; B RTS"),
          ud("... a third message of 10 bytes", kUdShortReceive,
             "A: SUCCESS wr 3 len 10 SEND / B: SUCCESS wr 1 len 50 RECV; the short receive stays at the head of the "
             "queue"),
          ud("UD receive completion", kUdFields,
             "SUCCESS wr 2 len 140 RECV; byte_len 140 (40 + 100), wc_flags 3 (1 = GRH, 2 = IMM), src_qp = sender"),
      }};
}

}  // namespace uroce::conformance
