// SPDX-License-Identifier: Apache-2.0
// Verbs on objects that the NIC does not have: each says so.
#include <cerrno>

#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::ibv::impl {
namespace {

constexpr char kNoImport[] = "objects of another process can't be imported: there is no kernel driver that shares them";

}  // namespace

struct ibv_context* ibv_import_device(int) {
  return refuse_null(EOPNOTSUPP, kNoImport);
}
struct ibv_pd* ibv_import_pd(struct ibv_context*, std::uint32_t) {
  return refuse_null(EOPNOTSUPP, kNoImport);
}
void ibv_unimport_pd(struct ibv_pd*) {}
struct ibv_mr* ibv_import_mr(struct ibv_pd*, std::uint32_t) {
  return refuse_null(EOPNOTSUPP, kNoImport);
}
void ibv_unimport_mr(struct ibv_mr*) {}
struct ibv_dm* ibv_import_dm(struct ibv_context*, std::uint32_t) {
  return refuse_null(EOPNOTSUPP, kNoImport);
}
void ibv_unimport_dm(struct ibv_dm*) {}

struct ibv_mr* ibv_reg_dmabuf_mr(struct ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  return refuse_null(EOPNOTSUPP, "a dma-buf has no address in this process");
}
int ibv_resolve_eth_l2_from_gid(struct ibv_context*, struct ibv_ah_attr*, std::uint8_t*, std::uint16_t*) {
  return refuse(EOPNOTSUPP, "the NIC sends through UDP sockets and knows no MAC addresses");
}

// Enhanced connection establishment is a negotiation between vendors' drivers; there is nothing to negotiate.
int ibv_query_ece(struct ibv_qp*, struct ibv_ece*) { return refuse(EOPNOTSUPP, "no connection enhancements"); }
int ibv_set_ece(struct ibv_qp*, struct ibv_ece*) { return refuse(EOPNOTSUPP, "no connection enhancements"); }

// 0: no guarantee. A retransmission may write the same bytes again after later ones were seen.
int ibv_query_qp_data_in_order(struct ibv_qp*, enum ibv_wr_opcode, std::uint32_t) { return 0; }

}  // namespace uroce::ibv::impl
