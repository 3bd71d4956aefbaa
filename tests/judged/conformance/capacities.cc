// SPDX-License-Identifier: Apache-2.0
// What QPs can be made with; SRQs and address handles.
#include <algorithm>

#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"
#include "tests/judged/conformance/not_offered.h"
#include "tests/judged/conformance/srqs.h"

namespace uroce::conformance {
namespace {

constexpr Rule kAtLeast{"a QP has at least what was asked for, and create_qp tells what",
                        "IBTA Vol 1, 10.2.4.1 ?; ibv_create_qp(3)"};
constexpr Rule kLimits{"no more than the device announces", "IBTA Vol 1, 10.2.4.1 ?; ibv_query_device(3)"};
constexpr Rule kInlineLimit{"inline data up to what the provider can do", "ibv_create_qp(3)"};
constexpr Rule kTypes{"a device may lack types of QPs, and says so", "ibv_create_qp(3)"};
constexpr Rule kQpns{"the number of a QP that is gone is not used again soon",
                     "IBTA Vol 1, 9.? : late packets; kernel: cyclic"};
constexpr Rule kSrq{"an SRQ has at least what was asked for; limit and size stay within",
                    "IBTA Vol 1, 10.2.9 ?; ibv_create_srq(3), ibv_modify_srq(3)"};
constexpr Why kNobodyAsks = no_netdev("the NIC does not see who answers ARP; datagrams to nobody are lost");
constexpr Why kWaits = no_netdev("the kernel asks for its address for a second first");
constexpr Rule kAh{"an address handle is checked as an address vector is", "IBTA Vol 1, 11.2.2; ibv_create_ah(3)"};

constexpr Why kExact = choice(
    "both give at least what was asked for: ours exactly that, and inline data of 16 bytes per SGE; rxe rounds WRs up "
    "to 2^n - 1, and SGEs and inline data share their space");

std::string create_qp(const struct ibv_qp_cap& cap) {
  Side side(0);
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = side.cq;
  init.cap = cap;
  init.qp_type = IBV_QPT_RC;
  const QpPtr qp(v().ibv_create_qp(side.pd, &init));
  if (qp == nullptr) return word(errno);
  return "ok, swr=" + std::to_string(init.cap.max_send_wr) + ", rwr=" + std::to_string(init.cap.max_recv_wr) +
         ", ssge=" + std::to_string(init.cap.max_send_sge) + ", rsge=" + std::to_string(init.cap.max_recv_sge) +
         ", inl=" + std::to_string(init.cap.max_inline_data);
}

Case capacity(const char* what, const Rule& rule, const struct ibv_qp_cap& cap, const char* ours, const char* rxe,
              const Why& why = kSame) {
  return {std::string("create QP, ") + what, rule, ours, rxe, why, [cap] { return create_qp(cap); }};
}

std::string four_qps() {
  Side side(0);
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = side.cq;
  init.qp_type = IBV_QPT_RC;
  std::uint32_t last = side.qp->qp_num;
  bool up_by_one = true;
  for (int i = 0; i < 4; ++i) {
    const QpPtr qp(v().ibv_create_qp(side.pd, &init));
    up_by_one = up_by_one && qp->qp_num == last + 1;
    last = qp->qp_num;
  }
  return up_by_one ? "each one above the last" : "otherwise";
}

constexpr Why kSrqSges = choice("ours takes 32 SGEs, as a QP does, and says so; rxe announces 27");

Case srq(const char* name, const char* ours, const char* rxe, const Why& why, const struct ibv_srq_attr& attr) {
  return {name, kSrq, ours, rxe, why, [attr] { return create_srq(attr); }};
}

Case change(const char* what, const char* same, const struct ibv_srq_attr& attr, int mask) {
  return {std::string("modify SRQ ") + what, kSrq, same, same, kSame, [attr, mask] { return modify_srq(attr, mask); }};
}

Case ah(const char* what, const char* ours, const char* rxe, const struct ibv_ah_attr& attr, const Why& why = kSame) {
  return {std::string("create AH, ") + what, kAh, ours, rxe, why, [attr] { return try_ah(attr); }};
}

/// A handle to an IPv4 address.
struct ibv_ah_attr to(std::initializer_list<std::uint8_t> address) {
  struct ibv_ah_attr attr {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = 1;
  attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xFF;
  std::copy(address.begin(), address.end(), attr.grh.dgid.raw + 12);
  return attr;
}

template <class Change>
struct ibv_ah_attr changed(Change change) {
  struct ibv_ah_attr attr = to({127, 0, 0, 2});
  change(attr);
  return attr;
}

}  // namespace

Chapter capacities() {
  return {"capacities",
          "Capacities, SRQs and address handles",
          {
              capacity("default 1/1 WRs", kAtLeast, {1, 1, 1, 1, 0}, "ok, swr=1, rwr=1, ssge=1, rsge=1, inl=16",
                       "ok, swr=1, rwr=1, ssge=1, rsge=1, inl=16"),
              capacity("0 send / 0 recv WRs", kAtLeast, {0, 0, 0, 0, 0}, "ok, swr=0, rwr=0, ssge=0, rsge=0, inl=0",
                       "ok, swr=0, rwr=0, ssge=0, rsge=0, inl=0"),
              capacity("16/16, 4 SGEs", kAtLeast, {16, 16, 4, 4, 0}, "ok, swr=16, rwr=16, ssge=4, rsge=4, inl=64",
                       "ok, swr=31, rwr=31, ssge=4, rsge=4, inl=64", kExact),
              capacity("1024 WRs", kAtLeast, {1024, 1024, 2, 2, 0}, "ok, swr=1024, rwr=1024, ssge=2, rsge=2, inl=32",
                       "ok, swr=2047, rwr=2047, ssge=2, rsge=2, inl=32", kExact),
              capacity("max_send_sge 32", kAtLeast, {16, 16, 32, 2, 0}, "ok, swr=16, rwr=16, ssge=32, rsge=2, inl=512",
                       "ok, swr=31, rwr=31, ssge=32, rsge=2, inl=512", kExact),
              capacity("max_send_sge 33", kLimits, {16, 16, 33, 2, 0}, "EINVAL", "EINVAL"),
              capacity("max_recv_sge 33", kLimits, {16, 16, 2, 33, 0}, "EINVAL", "EINVAL"),
              capacity("max_send_wr 1048577", kLimits, {1048577, 16, 2, 2, 0}, "EINVAL", "EINVAL"),
              capacity("inline 256", kAtLeast, {16, 16, 2, 2, 256}, "ok, swr=16, rwr=16, ssge=2, rsge=2, inl=256",
                       "ok, swr=31, rwr=31, ssge=16, rsge=2, inl=256", kExact),
              capacity("inline 512", kAtLeast, {16, 16, 2, 2, 512}, "ok, swr=16, rwr=16, ssge=2, rsge=2, inl=512",
                       "ok, swr=31, rwr=31, ssge=32, rsge=2, inl=512", kExact),
              capacity("inline 513", kInlineLimit, {16, 16, 2, 2, 513}, "EINVAL", "EINVAL"),
              capacity("inline 4096", kInlineLimit, {16, 16, 2, 2, 4096}, "EINVAL", "EINVAL"),
              {"create QP, type RAW_PACKET", kTypes, "create QP: EOPNOTSUPP", "create QP: EOPNOTSUPP", kSame,
               [] { return try_qp(IBV_QPT_RAW_PACKET); }},
              {"create QP, type XRC_SEND (9)", kTypes, "create QP: EOPNOTSUPP", "create QP: EOPNOTSUPP", kSame,
               [] { return try_qp(IBV_QPT_XRC_SEND); }},
              {"four create/destroy in a row: QPNs", kQpns, "each one above the last", "each one above the last", kSame,
               four_qps},
              srq("create SRQ, wr 16, limit 17", "ok, max_wr=16, max_sge=1", "ok, max_wr=31, max_sge=1", kExact,
                  {16, 1, 17}),
              srq("create SRQ, wr 0", "EINVAL", "EINVAL", kSame, {0, 1, 0}),
              srq("create SRQ, wr 16", "ok, max_wr=16, max_sge=1", "ok, max_wr=31, max_sge=1", kExact, {16, 1, 0}),
              {"post to SRQ until it refuses", kSrq, "ENOMEM, bad_wr = wr_id 16; accepted 16",
               "ENOMEM, bad_wr = wr_id 31; accepted 31", kExact, fill_srq},
              change("limit 8", "ok", {0, 0, 8}, IBV_SRQ_LIMIT),
              change("limit 1000", "EINVAL", {0, 0, 1000}, IBV_SRQ_LIMIT),
              change("max_wr 64", "ok", {64, 0, 0}, IBV_SRQ_MAX_WR),
              change("max_wr 2 (below the number posted)", "EINVAL", {2, 0, 0}, IBV_SRQ_MAX_WR),
              srq("create SRQ, sge 27", "ok, max_wr=16, max_sge=27", "ok, max_wr=31, max_sge=27", kExact, {16, 27, 0}),
              srq("create SRQ, sge 28", "ok, max_wr=16, max_sge=28", "EINVAL", kSrqSges, {16, 28, 0}),
              srq("create SRQ, sge 0", "ok, max_wr=16, max_sge=1", "ok, max_wr=31, max_sge=1", kExact, {16, 0, 0}),
              ah("is_global 0", "EINVAL", "EINVAL", changed([](struct ibv_ah_attr& a) { a.is_global = 0; })),
              ah("sgid_index 7 (empty)", "ENODATA", "ENODATA",
                 changed([](struct ibv_ah_attr& a) { a.grh.sgid_index = 7; })),
              ah("port 2", "EINVAL", "EINVAL", changed([](struct ibv_ah_attr& a) { a.port_num = 2; })),
              ah("unreachable DGID", "ETIMEDOUT", "ETIMEDOUT; took 1.0 s", to({192, 0, 2, 1}), kWaits),
              ah("no such host in the subnet", "ok", "ETIMEDOUT; took 1.0 s", to({127, 0, 0, 98}), kNobodyAsks),
              ah("own address", "ok", "ok", to({127, 0, 0, 1})),
              ah("multicast DGID", "ok", "ok", to({239, 1, 2, 3})),
          }};
}

}  // namespace uroce::conformance
