// SPDX-License-Identifier: Apache-2.0
// Extended queue pairs: ibv_create_qp_ex() and the functions with which programs build WRs one property at a time.
#include <bit>

#include "engine/os/os_clock.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/catalogue/newer.h"
#include "verbs/ibverbs/catalogue/verbs_front.h"
#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/ibverbs/objects/post.h"

namespace uroce::ibv {
namespace {

/// What ibv_create_qp_ex() understands in comp_mask.
constexpr std::uint32_t kKnownQpAttributes = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                             IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

/// The operations that a QP of this type can be asked for.
std::uint64_t offered_ops(int qp_type) {
  constexpr std::uint64_t kSend = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t kWrite = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  constexpr std::uint64_t kKeys = IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
  constexpr std::uint64_t kFetch =
      IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  switch (qp_type) {
    case IBV_QPT_RC:
      return kSend | kWrite | kKeys | kFetch | IBV_QP_EX_WITH_ATOMIC_WRITE | newer::kQpExWithFlush;
    case IBV_QPT_UC:
      return kSend | kWrite;
    case IBV_QPT_UD:
      return kSend;
    default:
      return 0;
  }
}

int check_init(const struct ibv_context* context, const struct ibv_qp_init_attr_ex& init) {
  const auto has = [&init](std::uint32_t bit) { return (init.comp_mask & bit) != 0; };
  if ((init.comp_mask & ~kKnownQpAttributes) != 0) {
    return refuse(EOPNOTSUPP, "the NIC has no XRC, no RSS and no raw packets");
  }
  if (!has(IBV_QP_INIT_ATTR_PD) || init.pd == nullptr || init.pd->context != context) {
    return refuse(EINVAL, "a QP needs a protection domain of its own context");
  }
  if (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && init.create_flags != 0) {
    return refuse(EOPNOTSUPP, "create_flags: the NIC has none of what they ask for");
  }
  if (has(IBV_QP_INIT_ATTR_MAX_TSO_HEADER) && init.max_tso_header != 0) {
    return refuse(EOPNOTSUPP, "the NIC has no TCP segmentation");
  }
  if (has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && (init.send_ops_flags & ~offered_ops(raw(init.qp_type))) != 0) {
    return refuse(EOPNOTSUPP, "send_ops_flags: an operation that QPs of this type do not have");
  }
  return 0;
}

/// Adds a WR with the wr_id and the flags that the program has left in the QP.
struct ibv_send_wr* add(struct ibv_qp_ex* qp, enum ibv_wr_opcode opcode, std::uint64_t send_op) {
  return own(qp)->builder->add(qp->wr_id, qp->wr_flags, opcode, send_op);
}

struct ibv_send_wr* add_rdma(struct ibv_qp_ex* qp, enum ibv_wr_opcode opcode, std::uint64_t send_op, std::uint32_t rkey,
                             std::uint64_t remote_addr) {
  struct ibv_send_wr* const wr = add(qp, opcode, send_op);
  if (wr == nullptr) return nullptr;
  wr->wr.rdma.remote_addr = remote_addr;
  wr->wr.rdma.rkey = rkey;
  return wr;
}

struct ibv_send_wr* add_atomic(struct ibv_qp_ex* qp, enum ibv_wr_opcode opcode, std::uint64_t send_op,
                               std::uint32_t rkey, std::uint64_t remote_addr, std::uint64_t compare_add) {
  struct ibv_send_wr* const wr = add(qp, opcode, send_op);
  if (wr == nullptr) return nullptr;
  wr->wr.atomic.remote_addr = remote_addr;
  wr->wr.atomic.rkey = rkey;
  wr->wr.atomic.compare_add = compare_add;
  return wr;
}

void wr_atomic_cmp_swp(struct ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, std::uint64_t compare,
                       std::uint64_t swap) {
  struct ibv_send_wr* const wr =
      add_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare);
  if (wr != nullptr) wr->wr.atomic.swap = swap;
}

void wr_atomic_fetch_add(struct ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, std::uint64_t value) {
  add_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, value);
}

void wr_atomic_write(struct ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, const void* value) {
  if (add_rdma(qp, IBV_WR_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE, rkey, remote_addr) == nullptr) return;
  if (value == nullptr) return own(qp)->builder->fail(EINVAL, "an ATOMIC WRITE needs 8 bytes of data");
  own(qp)->builder->set_atomic_value(value);
}

void wr_flush(struct ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
              std::uint8_t type, std::uint8_t level) {
  constexpr auto kFlush = static_cast<enum ibv_wr_opcode>(newer::kWrFlush);
  if (add_rdma(qp, kFlush, newer::kQpExWithFlush, rkey, remote_addr) == nullptr) return;
  if (length > nic::kMaxMessageBytes) return own(qp)->builder->fail(EINVAL, "a FLUSH of more than 2 GiB");
  own(qp)->builder->set_flush({static_cast<std::uint32_t>(length), type, level});
}

void wr_bind_mw(struct ibv_qp_ex* qp, struct ibv_mw* mw, std::uint32_t rkey, const struct ibv_mw_bind_info* info) {
  struct ibv_send_wr* const wr = add(qp, IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW);
  if (wr == nullptr) return;
  if (mw == nullptr || info == nullptr) return own(qp)->builder->fail(EINVAL, "no memory window, or nothing to bind");
  wr->bind_mw.mw = mw;
  wr->bind_mw.rkey = rkey;
  wr->bind_mw.bind_info = *info;
}

void wr_local_inv(struct ibv_qp_ex* qp, std::uint32_t rkey) {
  struct ibv_send_wr* const wr = add(qp, IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV);
  if (wr != nullptr) wr->invalidate_rkey = rkey;
}

void wr_rdma_read(struct ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) {
  add_rdma(qp, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote_addr);
}

void wr_rdma_write(struct ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr) {
  add_rdma(qp, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote_addr);
}

void wr_rdma_write_imm(struct ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr, __be32 imm_data) {
  struct ibv_send_wr* const wr =
      add_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, remote_addr);
  if (wr != nullptr) wr->imm_data = imm_data;
}

void wr_send(struct ibv_qp_ex* qp) { add(qp, IBV_WR_SEND, IBV_QP_EX_WITH_SEND); }

void wr_send_imm(struct ibv_qp_ex* qp, __be32 imm_data) {
  struct ibv_send_wr* const wr = add(qp, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM);
  if (wr != nullptr) wr->imm_data = imm_data;
}

void wr_send_inv(struct ibv_qp_ex* qp, std::uint32_t rkey) {
  struct ibv_send_wr* const wr = add(qp, IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV);
  if (wr != nullptr) wr->invalidate_rkey = rkey;
}

void wr_set_ud_addr(struct ibv_qp_ex* qp, struct ibv_ah* ah, std::uint32_t remote_qpn, std::uint32_t remote_qkey) {
  struct ibv_send_wr* const wr = own(qp)->builder->last();
  if (wr == nullptr) return;
  if (raw(qp->qp_base.qp_type) != IBV_QPT_UD) return own(qp)->builder->fail(EINVAL, "only UD sends have an address");
  wr->wr.ud.ah = ah;
  wr->wr.ud.remote_qpn = remote_qpn;
  wr->wr.ud.remote_qkey = remote_qkey;
}

void wr_set_inline_data(struct ibv_qp_ex* qp, void* addr, std::size_t length) {
  const struct ibv_data_buf buffer { addr, length };
  own(qp)->builder->set_inline(&buffer, 1);
}

void wr_set_inline_data_list(struct ibv_qp_ex* qp, std::size_t num_buf, const struct ibv_data_buf* list) {
  own(qp)->builder->set_inline(list, num_buf);
}

void wr_set_sge(struct ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
  const struct ibv_sge sge { addr, length, lkey };
  own(qp)->builder->set_sges(&sge, 1);
}

void wr_set_sge_list(struct ibv_qp_ex* qp, std::size_t num_sge, const struct ibv_sge* list) {
  own(qp)->builder->set_sges(list, num_sge);
}

// What no QP here can be created for; programs that try nevertheless get to know when they complete the list.
void refuse_builder(struct ibv_qp_ex* qp) {
  own(qp)->builder->fail(EOPNOTSUPP, "no QP of this NIC has TCP segmentation or XRC");
}
void wr_send_tso(struct ibv_qp_ex* qp, void*, std::uint16_t, std::uint16_t) { refuse_builder(qp); }
void wr_set_xrc_srqn(struct ibv_qp_ex* qp, std::uint32_t) { refuse_builder(qp); }

void wr_start(struct ibv_qp_ex* qp) { own(qp)->builder->start(); }
void wr_abort(struct ibv_qp_ex* qp) { own(qp)->builder->abort(); }

/// Posts all that was built or, with an errno value, nothing.
int post_all(QueuePair& qp) {
  const std::vector<struct ibv_send_wr>& wrs = qp.builder->finish();
  NicLock lock(*context_of(qp.qp_base.context).adapter);
  if (!lock) return refuse_without_nic();
  if (qp.nic_qp->state() == nic::QpState::kErr) lock->set_time(engine::os_now());  // They complete at once.
  SgeArray sges;
  nic::UdTarget target;
  std::uint32_t ahead = 0;
  const auto nth = [&](std::size_t i) {
    auto converted = to_nic(qp, wrs[i], sges, target);
    if (converted.ok()) converted->flush = qp.builder->flush(i);
    return converted;
  };
  for (; ahead < wrs.size(); ++ahead) {
    const auto converted = nth(ahead);
    if (!converted.ok()) return converted.error();
    if (const int error = lock->check_send(qp.nic_qp, *converted, ahead)) {
      return refuse(error,
                    "WR " + std::to_string(ahead + 1) + " of the list, wr_id " + std::to_string(wrs[ahead].wr_id));
    }
  }
  int error = 0;
  for (std::size_t i = 0; i < wrs.size() && error == 0; ++i) error = lock->post_send(qp.nic_qp, *nth(i));
  lock.touch(*qp.nic_qp);
  lock.posted_wrs();
  return error;
}

}  // namespace

void install_builders(struct ibv_qp_ex& qp) {
  qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
  qp.wr_bind_mw = wr_bind_mw;
  qp.wr_local_inv = wr_local_inv;
  qp.wr_rdma_read = wr_rdma_read;
  qp.wr_rdma_write = wr_rdma_write;
  qp.wr_rdma_write_imm = wr_rdma_write_imm;
  qp.wr_send = wr_send;
  qp.wr_send_imm = wr_send_imm;
  qp.wr_send_inv = wr_send_inv;
  qp.wr_send_tso = wr_send_tso;
  qp.wr_set_ud_addr = wr_set_ud_addr;
  qp.wr_set_xrc_srqn = wr_set_xrc_srqn;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_start = wr_start;
  qp.wr_complete = front::wr_complete;
  qp.wr_abort = wr_abort;
  qp.wr_atomic_write = wr_atomic_write;
  own(&qp)->wr_flush = wr_flush;
}

namespace impl {

// <infiniband/verbs.h> calls ibv_create_qp() itself when there is nothing but a protection domain in comp_mask.
struct ibv_qp* create_qp_ex(struct ibv_context* context, struct ibv_qp_init_attr_ex* init) {
  static_assert(offsetof(struct ibv_qp_init_attr_ex, sq_sig_all) == offsetof(struct ibv_qp_init_attr, sq_sig_all));
  if (const int error = check_init(context, *init)) {
    errno = error;
    return nullptr;
  }
  std::unique_ptr<SendBuilder> builder;  // First, as memory may be missing.
  if ((init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0)
    builder = std::make_unique<SendBuilder>(init->send_ops_flags);
  struct ibv_qp* const qp = impl::ibv_create_qp(init->pd, reinterpret_cast<struct ibv_qp_init_attr*>(init));
  if (qp == nullptr || builder == nullptr) return qp;
  QueuePair& ours = *own(qp);
  builder->set_cap(ours.cap);
  ours.builder = std::move(builder);
  install_builders(ours);
  return qp;
}

struct ibv_qp_ex* ibv_qp_to_qp_ex(struct ibv_qp* qp) {
  if (own(qp)->builder != nullptr) return own(qp);
  return refuse_null(EOPNOTSUPP, "the QP was created without send_ops_flags");
}

// 0, or an errno value and nothing of the list is posted. The list ends in any case.
int wr_complete(struct ibv_qp_ex* qp) {
  QueuePair& ours = *own(qp);
  int error = ours.builder->error();
  if (error == 0) error = post_all(ours);
  ours.builder->abort();
  return error;
}

}  // namespace impl
}  // namespace uroce::ibv
