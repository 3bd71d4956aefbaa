// SPDX-License-Identifier: Apache-2.0
// QP attributes: which of them a transition needs and takes, and their ranges.
#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"

namespace uroce::conformance {
namespace {

constexpr Rule kRequired{"each transition needs its attributes", "IBTA Vol 1, 11.2.5.2 (table); ibv_modify_qp(3)"};
constexpr Rule kNoOthers{"a transition takes no attributes but its own",
                         "IBTA Vol 1, 11.2.5.2 (table); ibv_modify_qp(3)"};
constexpr Rule kPort{"port_num names a port of the device", "IBTA Vol 1, 11.2.5.2; kernel ib_core"};
constexpr Rule kPkeyIndex{"pkey_index names an entry of the port's P_Key table", "IBTA Vol 1, 10.9.2 and 11.2.5.2"};
constexpr Rule kMtu{"path_mtu is 256 to 4096, within what the port carries", "IBTA Vol 1, 11.2.5.2; ibv_modify_qp(3)"};
constexpr Rule k24Bits{"PSNs and QPNs have 24 bits", "IBTA Vol 1, 9.2 (BTH)"};
constexpr Rule kRnrTimer{"the RNR timer is a code of 5 bits", "IBTA Vol 1, 9.7.5.2.8"};
constexpr Rule kTimeout{"the local ACK timeout is a code of 5 bits", "IBTA Vol 1, 9.7.6.1.3"};
constexpr Rule kRetries{"retry counts have 3 bits; for RNR, 7 means for ever", "IBTA Vol 1, 9.7.5.2.8 and 12.7 (REQ)"};
constexpr Rule kRdAtomic{"at most what the device announces", "IBTA Vol 1, 11.2.5.2; ibv_query_device(3)"};
constexpr Rule kGlobal{"RoCE addresses are GIDs: no address without a global route", "IBTA Vol 1, Annex A16 and A17"};
constexpr Rule kSgidIndex{"sgid_index names a GID of the port", "kernel: rdma_get_gid_attr()"};
constexpr Rule kReachable{"the peer's address is resolved when it is set", "kernel: rdma_resolve_ip()"};
constexpr Rule kFamily{"both addresses are of the same IP version", "kernel: rdma_resolve_ip()"};
constexpr Rule kCurState{"cur_qp_state, when given, has to be true", "IBTA Vol 1, 11.2.5.2"};

constexpr Why kOnePkey =
    choice("rxe does not look at it; ours has one entry, the default key, and refuses others as mlx5 does");
constexpr Why kRnrRange =
    specification("hardware keeps 5 bits of it, and 0 is the longest delay of all: to be told is better");
constexpr Why kRetryRange =
    specification("rxe takes any number; hardware keeps 3 bits, so that 8 retries are none: to be told is better");
constexpr Why kDrdRange = specification("rxe checks max_rd_atomic alone; ours refuses both, as mlx5 does");
constexpr Why kNoRoute =
    choice("the host's routing table says so at once; the kernel takes such a peer for a neighbour and waits a second");
constexpr Why kNoNeighbour =
    no_netdev("the NIC does not see who answers ARP; the first request completes with RETRY_EXC_ERR");

struct Step {
  struct ibv_qp_attr attr;
  int mask;
};

/// Does one transition with good attributes, but for what `change` makes of them.
template <class Change>
std::function<std::string()> step(enum ibv_qp_state from, Change change) {
  return [from, change] {
    Side side(0);
    side.bring(from);
    Step step = from == IBV_QPS_RESET  ? Step{init_attr(), kInitMask}
                : from == IBV_QPS_INIT ? Step{rtr_attr(side.gid(), 99), kRtrMask}
                                       : Step{rts_attr({.timeout = 18}), kRtsMask};
    change(step);
    const int error = side.modify(step.attr, step.mask);
    if (from != IBV_QPS_RTR) return say({word(error), side.state()});
    struct ibv_qp_attr now {};
    struct ibv_qp_init_attr init {};
    EXPECT_EQ(v().ibv_query_qp(side.qp.get(), &now, ~0, &init), 0);
    return say({word(error), side.state(),
                "query: sq_psn " + hex(now.sq_psn) + " timeout " + std::to_string(now.timeout) + " retry " +
                    std::to_string(now.retry_cnt) + " rnr " + std::to_string(now.rnr_retry)});
  };
}

template <class Change>
std::function<std::string()> init(Change change) {
  return step(IBV_QPS_RESET, change);
}
template <class Change>
std::function<std::string()> rtr(Change change) {
  return step(IBV_QPS_INIT, change);
}
template <class Change>
std::function<std::string()> rts(Change change) {
  return step(IBV_QPS_RTR, change);
}

constexpr auto without(int bit) {
  return [bit](Step& step) { step.mask &= ~bit; };
}
constexpr auto with(int bit) {
  return [bit](Step& step) { step.mask |= bit; };
}

auto to_ipv4(std::initializer_list<std::uint8_t> address) {
  return [bytes = std::vector<std::uint8_t>(address)](Step& step) {
    std::copy(bytes.begin(), bytes.end(), step.attr.ah_attr.grh.dgid.raw + 12);
  };
}

/// In RTS, which takes fewer attributes than the way there.
std::string change_in_rts(int mask) {
  Side side(0);
  side.bring(IBV_QPS_RTS);
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_RTS;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  attr.min_rnr_timer = attr.timeout = 5;
  const int error = side.modify(attr, mask);
  return say({word(error), side.state()});
}

constexpr const char* kUnset = "EINVAL; RTR; query: sq_psn 0x0 timeout 0 retry 0 rnr 0";

}  // namespace

// NOLINTNEXTLINE(readability-function-size): one table.
Chapter qp_attributes() {
  return {
      "qp_attributes",
      "QP state machine: attributes",
      {
          {"INIT without pkey_index", kRequired, "EINVAL; RESET", "EINVAL; RESET", kSame,
           init(without(IBV_QP_PKEY_INDEX))},
          {"INIT without port", kRequired, "EINVAL; RESET", "EINVAL; RESET", kSame, init(without(IBV_QP_PORT))},
          {"INIT without access flags", kRequired, "EINVAL; RESET", "EINVAL; RESET", kSame,
           init(without(IBV_QP_ACCESS_FLAGS))},
          {"INIT with port 0", kPort, "EINVAL; RESET", "EINVAL; RESET", kSame,
           init([](Step& s) { s.attr.port_num = 0; })},
          {"INIT with port 2", kPort, "EINVAL; RESET", "EINVAL; RESET", kSame,
           init([](Step& s) { s.attr.port_num = 2; })},
          {"INIT with pkey_index 1", kPkeyIndex, "EINVAL; RESET", "ok; INIT", kOnePkey,
           init([](Step& s) { s.attr.pkey_index = 1; })},
          {"INIT with pkey_index 64", kPkeyIndex, "EINVAL; RESET", "ok; INIT", kOnePkey,
           init([](Step& s) { s.attr.pkey_index = 64; })},
          {"INIT with an RTR-only attribute (path MTU)", kNoOthers, "EINVAL; RESET", "EINVAL; RESET", kSame,
           init([](Step& s) {
             s.attr.path_mtu = IBV_MTU_1024;
             s.mask |= IBV_QP_PATH_MTU;
           })},
          {"RC INIT with a Q_Key", kNoOthers, "EINVAL; RESET", "EINVAL; RESET", kSame, init(with(IBV_QP_QKEY))},
          {"RTR without AV", kRequired, "EINVAL; INIT", "EINVAL; INIT", kSame, rtr(without(IBV_QP_AV))},
          {"RTR without dest_qp_num", kRequired, "EINVAL; INIT", "EINVAL; INIT", kSame, rtr(without(IBV_QP_DEST_QPN))},
          {"RTR without rq_psn", kRequired, "EINVAL; INIT", "EINVAL; INIT", kSame, rtr(without(IBV_QP_RQ_PSN))},
          {"RTR without path_mtu", kRequired, "EINVAL; INIT", "EINVAL; INIT", kSame, rtr(without(IBV_QP_PATH_MTU))},
          {"RTR without min_rnr_timer", kRequired, "EINVAL; INIT", "EINVAL; INIT", kSame,
           rtr(without(IBV_QP_MIN_RNR_TIMER))},
          {"RTR without max_dest_rd_atomic", kRequired, "EINVAL; INIT", "EINVAL; INIT", kSame,
           rtr(without(IBV_QP_MAX_DEST_RD_ATOMIC))},
          {"RTR, path MTU 4096 (netdev MTU 9000)", kMtu, "ok; RTR", "ok; RTR", kSame,
           rtr([](Step& s) { s.attr.path_mtu = IBV_MTU_4096; })},
          {"RTR, path MTU enum 6", kMtu, "EINVAL; INIT", "EINVAL; INIT", kSame,
           rtr([](Step& s) { set_raw(s.attr.path_mtu, 6); })},
          {"RTR, rq_psn of 25 bits", k24Bits, "ok; RTR", "ok; RTR", kSame,
           rtr([](Step& s) { s.attr.rq_psn = 0x1000001; })},
          {"RTR, dest QPN of 25 bits", k24Bits, "ok; RTR", "ok; RTR", kSame,
           rtr([](Step& s) { s.attr.dest_qp_num = 0x1000063; })},
          {"RTR, min_rnr_timer 32", kRnrTimer, "EINVAL; INIT", "ok; RTR", kRnrRange,
           rtr([](Step& s) { s.attr.min_rnr_timer = 32; })},
          {"RTR, max_dest_rd_atomic 128", kRdAtomic, "ok; RTR", "ok; RTR", kSame,
           rtr([](Step& s) { s.attr.max_dest_rd_atomic = 128; })},
          {"RTR, max_dest_rd_atomic 129", kRdAtomic, "EINVAL; INIT", "ok; RTR", kDrdRange,
           rtr([](Step& s) { s.attr.max_dest_rd_atomic = 129; })},
          {"RTR, max_dest_rd_atomic 0", kRdAtomic, "ok; RTR", "ok; RTR", kSame,
           rtr([](Step& s) { s.attr.max_dest_rd_atomic = 0; })},
          {"RTR, sgid_index 7 (empty)", kSgidIndex, "ENODATA; INIT", "ENODATA; INIT", kSame,
           rtr([](Step& s) { s.attr.ah_attr.grh.sgid_index = 7; })},
          {"RTR, is_global 0", kGlobal, "EINVAL; INIT", "EINVAL; INIT", kSame,
           rtr([](Step& s) { s.attr.ah_attr.is_global = 0; })},
          {"RTR, DGID of another subnet without route", kReachable, "ETIMEDOUT; INIT", "ETIMEDOUT; INIT; took 1.0 s",
           kNoRoute, rtr(to_ipv4({192, 0, 2, 1}))},
          {"RTR, DGID in the subnet, no such host", kReachable, "ok; RTR", "ETIMEDOUT; INIT; took 1.0 s", kNoNeighbour,
           rtr(to_ipv4({127, 0, 0, 99}))},
          {"RTR, sgid IPv4 with dgid IPv6", kFamily, "EINVAL; INIT", "EINVAL; INIT", kSame,
           rtr([](Step& s) { s.attr.ah_attr.grh.dgid.raw[0] = 0xFD; })},
          {"RTR, DGID = own address", kReachable, "ok; RTR", "ok; RTR", kSame, rtr([](Step&) {})},
          {"RTS without sq_psn", kRequired, kUnset, "EINVAL; RTR; query: sq_psn 0x0 timeout 0 retry 0 rnr 0", kSame,
           rts(without(IBV_QP_SQ_PSN))},
          {"RTS without timeout", kRequired, kUnset, "EINVAL; RTR; query: sq_psn 0x0 timeout 0 retry 0 rnr 0", kSame,
           rts(without(IBV_QP_TIMEOUT))},
          {"RTS without retry_cnt", kRequired, kUnset, "EINVAL; RTR; query: sq_psn 0x0 timeout 0 retry 0 rnr 0", kSame,
           rts(without(IBV_QP_RETRY_CNT))},
          {"RTS, timeout 32", kTimeout, kUnset, "EINVAL; RTR; query: sq_psn 0x0 timeout 0 retry 0 rnr 0", kSame,
           rts([](Step& s) { s.attr.timeout = 32; })},
          {"RTS, retry_cnt 8", kRetries, kUnset, "ok; RTS; query: sq_psn 0x0 timeout 18 retry 8 rnr 7", kRetryRange,
           rts([](Step& s) { s.attr.retry_cnt = 8; })},
          {"RTS, rnr_retry 8", kRetries, kUnset, "ok; RTS; query: sq_psn 0x0 timeout 18 retry 7 rnr 8", kRetryRange,
           rts([](Step& s) { s.attr.rnr_retry = 8; })},
          {"RTS, max_rd_atomic 129", kRdAtomic, kUnset, "EINVAL; RTR; query: sq_psn 0x0 timeout 0 retry 0 rnr 0", kSame,
           rts([](Step& s) { s.attr.max_rd_atomic = 129; })},
          {"RTS, sq_psn of 25 bits", k24Bits, "ok; RTS; query: sq_psn 0x1 timeout 18 retry 7 rnr 7",
           "ok; RTS; query: sq_psn 0x1 timeout 18 retry 7 rnr 7", kSame,
           rts([](Step& s) { s.attr.sq_psn = 0x1000001; })},
          {"RTS, cur_state INIT although RTR", kCurState, kUnset,
           "EINVAL; RTR; query: sq_psn 0x0 timeout 0 retry 0 rnr 0", kSame, rts([](Step& s) {
             s.attr.cur_qp_state = IBV_QPS_INIT;
             s.mask |= IBV_QP_CUR_STATE;
           })},
          {"RTS -> RTS changing access flags and min_rnr_timer", kNoOthers, "ok; RTS", "ok; RTS", kSame,
           [] { return change_in_rts(IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER); }},
          {"RTS -> RTS changing timeout", kNoOthers, "EINVAL; RTS", "EINVAL; RTS", kSame,
           [] { return change_in_rts(IBV_QP_STATE | IBV_QP_TIMEOUT); }},
      }};
}

}  // namespace uroce::conformance
