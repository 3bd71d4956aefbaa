// SPDX-License-Identifier: Apache-2.0
// The calls of the exported functions, in the order of their lists.
#include <fcntl.h>
#include <infiniband/sa.h>
#include <poll.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <initializer_list>

#include "tests/judged/every_verb/lab.h"

namespace uroce::every_verb::functions {
namespace {

std::uint64_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

/// Gives back a region that must not be null, and tells whether that worked.
bool registered(struct ibv_mr* mr) { return mr != nullptr && ::ibv_dereg_mr(mr) == 0; }

struct ibv_srq* make_srq(Lab& lab) {
  struct ibv_srq_init_attr init {};
  init.attr = {8, 2, 0};
  return ::ibv_create_srq(lab.pd, &init);
}

void set_nonblocking(int fd) { REQUIRE(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0); }

}  // namespace

bool ibv_get_device_list(Lab&) {
  int count = 0;
  struct ibv_device** const list = ::ibv_get_device_list(&count);
  REQUIRE(list != nullptr);
  ::ibv_free_device_list(list);
  return count == 2;
}
bool ibv_free_device_list(Lab& lab) { return ibv_get_device_list(lab); }
bool ibv_get_device_name(Lab& lab) { return ::ibv_get_device_name(lab.list[0]) != nullptr; }
bool ibv_get_device_guid(Lab& lab) { return ::ibv_get_device_guid(lab.list[0]) != 0; }
bool ibv_get_device_index(Lab& lab) { return ::ibv_get_device_index(lab.list[0]) >= 0; }
bool ibv_open_device(Lab& lab) {
  struct ibv_context* const other = ::ibv_open_device(lab.list[1]);
  return other != nullptr && ::ibv_close_device(other) == 0;
}
bool ibv_close_device(Lab& lab) { return ibv_open_device(lab); }
bool ibv_query_device(Lab& lab) {
  struct ibv_device_attr attr {};
  return ::ibv_query_device(lab.context, &attr) == 0 && attr.max_qp > 0;
}
bool ibv_query_port(Lab& lab) {
  struct ibv_port_attr attr {};
  auto* const compat = reinterpret_cast<struct _compat_ibv_port_attr*>(&attr);
  REQUIRE(::ibv_query_port(lab.context, 0, compat) != 0);
  REQUIRE(::ibv_query_port(lab.context, 255, compat) != 0);
  return ::ibv_query_port(lab.context, 1, compat) == 0;
}
bool ibv_query_gid(Lab& lab) {
  union ibv_gid gid {};
  for (const int index : {-1, 1000, INT_MAX, INT_MIN}) REQUIRE(::ibv_query_gid(lab.context, 1, index, &gid) != 0);
  REQUIRE(::ibv_query_gid(lab.context, 9, 0, &gid) != 0);
  return ::ibv_query_gid(lab.context, 1, 0, &gid) == 0;
}
bool ibv_query_pkey(Lab& lab) {
  __be16 pkey = 0;
  for (const int index : {-1, 1, INT_MAX}) REQUIRE(::ibv_query_pkey(lab.context, 1, index, &pkey) != 0);
  return ::ibv_query_pkey(lab.context, 1, 0, &pkey) == 0;
}
bool ibv_get_pkey_index(Lab& lab) {
  REQUIRE(::ibv_get_pkey_index(lab.context, 1, 0x1234) < 0);
  return ::ibv_get_pkey_index(lab.context, 1, 0xFFFF) == 0;
}
bool ibv_get_async_event(Lab& lab) {
  // An event: a request that cannot be, at the peer of a QP made for it.
  struct ibv_qp* const sender = lab.make_qp(IBV_QPT_RC);
  struct ibv_qp* const victim = lab.make_qp(IBV_QPT_RC);
  lab.connect(sender, victim);
  lab.connect(victim, sender);
  struct ibv_sge sge = lab.sge(0, 8);
  struct ibv_send_wr wr {};
  struct ibv_send_wr* bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.rkey = 0xDEAD;
  REQUIRE(ibv_post_send(sender, &wr, &bad) == 0);
  REQUIRE(lab.completion(lab.cq).status == IBV_WC_REM_ACCESS_ERR);
  struct ibv_async_event event {};
  REQUIRE(::ibv_get_async_event(lab.context, &event) == 0);
  const bool right = event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == victim;
  ::ibv_ack_async_event(&event);
  set_nonblocking(lab.context->async_fd);
  // The other end of the connection may have had its event as well; then there is none.
  while (::ibv_get_async_event(lab.context, &event) == 0) ::ibv_ack_async_event(&event);
  REQUIRE(errno == EAGAIN);
  REQUIRE(::ibv_destroy_qp(sender) == 0);
  REQUIRE(::ibv_destroy_qp(victim) == 0);
  return right;
}
bool ibv_ack_async_event(Lab&) {
  struct ibv_async_event event {};
  for (int type = -1; type < 64; ++type) {
    event.event_type = number<enum ibv_event_type>(type);
    // Events of ports and devices, and types that do not exist: nothing to count.
    const bool of_an_object = type <= IBV_EVENT_PATH_MIG_ERR || type == IBV_EVENT_SRQ_ERR ||
                              type == IBV_EVENT_SRQ_LIMIT_REACHED || type == IBV_EVENT_QP_LAST_WQE_REACHED ||
                              type == IBV_EVENT_WQ_FATAL;
    if (type < 0 || !of_an_object) ::ibv_ack_async_event(&event);
  }
  return true;
}
bool ibv_alloc_pd(Lab& lab) {
  struct ibv_pd* const pd = ::ibv_alloc_pd(lab.context);
  return pd != nullptr && ::ibv_dealloc_pd(pd) == 0;
}
bool ibv_dealloc_pd(Lab& lab) {
  REQUIRE(::ibv_dealloc_pd(lab.pd) == EBUSY);
  return ibv_alloc_pd(lab);
}
bool ibv_reg_mr(Lab& lab) {
  REQUIRE(::ibv_reg_mr(lab.pd, lab.memory, 0, 0) == nullptr);
  REQUIRE(::ibv_reg_mr(lab.pd, lab.memory, SIZE_MAX, 0) == nullptr);
  REQUIRE(::ibv_reg_mr(lab.pd, nullptr, 4096, 0) == nullptr);
  REQUIRE(::ibv_reg_mr(lab.pd, reinterpret_cast<void*>(UINTPTR_MAX - 5), 4096, 0) == nullptr);
  REQUIRE(::ibv_reg_mr(lab.pd, lab.memory, 64, 1 << 15) == nullptr);
  REQUIRE(registered(::ibv_reg_mr(lab.pd, nullptr, SIZE_MAX, IBV_ACCESS_ON_DEMAND)));
  return registered(::ibv_reg_mr(lab.pd, lab.memory, 64, kAccess | IBV_ACCESS_RELAXED_ORDERING));
}
bool ibv_reg_mr_iova(Lab& lab) {
  REQUIRE(::ibv_reg_mr_iova(lab.pd, lab.memory, 64, UINT64_MAX, kAccess) == nullptr);
  return registered(::ibv_reg_mr_iova(lab.pd, lab.memory, 64, 0, kAccess));
}
bool ibv_reg_mr_iova2(Lab& lab) {
  REQUIRE(::ibv_reg_mr_iova2(lab.pd, lab.memory, 64, 0, ~0u) == nullptr);
  return registered(::ibv_reg_mr_iova2(lab.pd, lab.memory, 64, 0, kAccess));
}
bool ibv_rereg_mr(Lab& lab) {
  struct ibv_mr* const mr = ::ibv_reg_mr(lab.pd, lab.memory, 64, kAccess);
  REQUIRE(mr != nullptr);
  REQUIRE(::ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0) != 0);
  REQUIRE(::ibv_rereg_mr(mr, -1, nullptr, nullptr, 0, 0) != 0);
  REQUIRE(::ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0) != 0);
  REQUIRE(::ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, SIZE_MAX, 0) != 0);
  const bool works = ::ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE) == 0;
  return registered(mr) && works;
}
bool ibv_dereg_mr(Lab& lab) { return ibv_reg_mr(lab); }
bool ibv_create_comp_channel(Lab& lab) {
  struct ibv_comp_channel* const channel = ::ibv_create_comp_channel(lab.context);
  return channel != nullptr && ::ibv_destroy_comp_channel(channel) == 0;
}
bool ibv_destroy_comp_channel(Lab& lab) {
  REQUIRE(::ibv_destroy_comp_channel(lab.channel) == EBUSY);
  return ibv_create_comp_channel(lab);
}
bool ibv_create_cq(Lab& lab) {
  for (const int cqe : {0, -1, INT_MAX, INT_MIN}) {
    REQUIRE(::ibv_create_cq(lab.context, cqe, nullptr, nullptr, 0) == nullptr);
  }
  for (const int vector : {-1, 1, INT_MAX}) {
    REQUIRE(::ibv_create_cq(lab.context, 1, nullptr, nullptr, vector) == nullptr);
  }
  struct ibv_cq* const cq = ::ibv_create_cq(lab.context, 1, nullptr, nullptr, 0);
  return cq != nullptr && ::ibv_destroy_cq(cq) == 0;
}
bool ibv_resize_cq(Lab& lab) {
  for (const int cqe : {0, -1, INT_MAX}) REQUIRE(::ibv_resize_cq(lab.cq, cqe) != 0);
  return ::ibv_resize_cq(lab.cq, 300) == 0;
}
bool ibv_destroy_cq(Lab& lab) {
  REQUIRE(::ibv_destroy_cq(lab.cq) == EBUSY);
  return ibv_create_cq(lab);
}
bool ibv_get_cq_event(Lab& lab) {
  REQUIRE(ibv_req_notify_cq(lab.cq, 0) == 0);
  struct ibv_send_wr wr {};
  struct ibv_send_wr* bad = nullptr;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  REQUIRE(ibv_post_send(lab.a, &wr, &bad) == 0);
  struct ibv_cq* cq = nullptr;
  void* context = nullptr;
  REQUIRE(::ibv_get_cq_event(lab.channel, &cq, &context) == 0);
  ::ibv_ack_cq_events(cq, 1);
  REQUIRE(lab.completion(lab.cq).status == IBV_WC_SUCCESS);
  set_nonblocking(lab.channel->fd);
  REQUIRE(::ibv_get_cq_event(lab.channel, &cq, &context) != 0 && errno == EAGAIN);
  return cq == lab.cq && context == &lab;
}
bool ibv_ack_cq_events(Lab& lab) {
  ::ibv_ack_cq_events(lab.cq, 0);
  return true;
}
bool ibv_create_qp(Lab& lab) {
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = lab.cq;
  for (const int type : {0, 1, 5, 8, 9, 10, 0xFF, INT_MAX, -1}) {
    init.qp_type = number<enum ibv_qp_type>(type);
    REQUIRE(::ibv_create_qp(lab.pd, &init) == nullptr);
  }
  init.qp_type = IBV_QPT_RC;
  init.cap = {UINT_MAX, UINT_MAX, UINT_MAX, UINT_MAX, UINT_MAX};
  REQUIRE(::ibv_create_qp(lab.pd, &init) == nullptr);
  init.cap = {};
  init.send_cq = nullptr;
  REQUIRE(::ibv_create_qp(lab.pd, &init) == nullptr);
  bool works = true;
  for (const enum ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    init.send_cq = lab.cq;
    init.qp_type = type;
    struct ibv_qp* const qp = ::ibv_create_qp(lab.pd, &init);
    works = works && qp != nullptr && ::ibv_destroy_qp(qp) == 0;
  }
  return works;
}
bool ibv_modify_qp(Lab& lab) {
  struct ibv_qp_attr attr;
  for (const int fill : {0x00, 0xFF, 0x5A}) {
    for (int bit = -1; bit < 32; ++bit) {
      std::memset(static_cast<void*>(&attr), fill, sizeof attr);
      struct ibv_qp* const qp = lab.make_qp(IBV_QPT_RC);
      const int mask = bit < 0 ? -1 : static_cast<int>(1u << bit);
      const int error = ::ibv_modify_qp(qp, &attr, mask);
      REQUIRE(error >= 0 && (bit == 0 || error != 0));
      REQUIRE(::ibv_destroy_qp(qp) == 0);
    }
  }
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  return ::ibv_modify_qp(lab.b, &attr, IBV_QP_STATE) == 0;
}
bool ibv_query_qp(Lab& lab) {
  struct ibv_qp_attr attr {};
  struct ibv_qp_init_attr init {};
  REQUIRE(::ibv_query_qp(lab.a, &attr, -1, &init) == 0);
  return ::ibv_query_qp(lab.a, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_RTS;
}
bool ibv_destroy_qp(Lab& lab) { return ::ibv_destroy_qp(lab.make_qp(IBV_QPT_UC)) == 0; }
bool ibv_wc_status_str(Lab&) {
  for (int i = -1; i < 64; ++i) REQUIRE(::ibv_wc_status_str(number<enum ibv_wc_status>(i)) != nullptr);
  return true;
}
bool ibv_node_type_str(Lab&) {
  for (int i = -2; i < 64; ++i) REQUIRE(::ibv_node_type_str(number<enum ibv_node_type>(i)) != nullptr);
  return true;
}
bool ibv_port_state_str(Lab&) {
  for (int i = -1; i < 64; ++i) REQUIRE(::ibv_port_state_str(number<enum ibv_port_state>(i)) != nullptr);
  return true;
}
bool ibv_event_type_str(Lab&) {
  for (int i = -1; i < 64; ++i) REQUIRE(::ibv_event_type_str(number<enum ibv_event_type>(i)) != nullptr);
  return true;
}

// --- functions_extra.def ------------------------------------------------------------------------------------------

bool ibv_create_ah(Lab& lab) {
  struct ibv_ah_attr attr {};
  REQUIRE(::ibv_create_ah(lab.pd, &attr) == nullptr);
  attr = lab.ah_attr();
  attr.port_num = 200;
  REQUIRE(::ibv_create_ah(lab.pd, &attr) == nullptr);
  attr = lab.ah_attr();
  attr.grh.sgid_index = 255;
  REQUIRE(::ibv_create_ah(lab.pd, &attr) == nullptr);
  attr = lab.ah_attr();
  struct ibv_ah* const ah = ::ibv_create_ah(lab.pd, &attr);
  return ah != nullptr && ::ibv_destroy_ah(ah) == 0;
}
bool ibv_destroy_ah(Lab& lab) { return ibv_create_ah(lab); }
bool ibv_fork_init(Lab&) { return ::ibv_fork_init() == 0; }
bool ibv_is_fork_initialized(Lab&) { return ::ibv_is_fork_initialized() == IBV_FORK_UNNEEDED; }
bool ibv_qp_to_qp_ex(Lab& lab) { return ::ibv_qp_to_qp_ex(lab.a) == nullptr; }
bool _ibv_query_gid_ex(Lab& lab) {
  struct ibv_gid_entry entry {};
  REQUIRE(::_ibv_query_gid_ex(lab.context, 1, UINT_MAX, &entry, 0, sizeof entry) != 0);
  REQUIRE(::_ibv_query_gid_ex(lab.context, 0, 0, &entry, 0, sizeof entry) != 0);
  REQUIRE(::_ibv_query_gid_ex(lab.context, 1, 0, &entry, ~0u, sizeof entry) != 0);
  REQUIRE(::_ibv_query_gid_ex(lab.context, 1, 0, &entry, 0, 4) == 0);
  return ::_ibv_query_gid_ex(lab.context, 1, 1, &entry, 0, sizeof entry) == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2;
}
bool _ibv_query_gid_table(Lab& lab) {
  struct ibv_gid_entry entries[64];
  REQUIRE(::_ibv_query_gid_table(lab.context, entries, 0, 0, sizeof entries[0]) < 0);
  REQUIRE(::_ibv_query_gid_table(lab.context, entries, 64, ~0u, sizeof entries[0]) < 0);
  return ::_ibv_query_gid_table(lab.context, entries, 64, 0, sizeof entries[0]) >= 2;
}
bool ibv_read_sysfs_file(Lab&) {
  char text[64];
  REQUIRE(::ibv_read_sysfs_file("/nowhere", "nothing", text, sizeof text) < 0);
  REQUIRE(::ibv_read_sysfs_file("/proc/self", "comm", text, 0) < 0);
  REQUIRE(::ibv_read_sysfs_file("/proc", "self", text, sizeof text) < 0);  // A directory.
  return ::ibv_read_sysfs_file("/proc/self", "comm", text, sizeof text) > 0;
}
bool ibv_get_sysfs_path(Lab&) { return ::ibv_get_sysfs_path() != nullptr; }
bool ibv_create_ah_from_wc(Lab& lab) {
  struct ibv_wc wc {};
  struct ibv_grh grh {};
  REQUIRE(::ibv_create_ah_from_wc(lab.pd, &wc, &grh, 1) == nullptr);  // RoCE has no addresses but GIDs.
  wc.wc_flags = IBV_WC_GRH;
  std::memset(static_cast<void*>(&grh), 0xFF, sizeof grh);
  REQUIRE(::ibv_create_ah_from_wc(lab.pd, &wc, &grh, 1) == nullptr);
  grh = {};
  grh.version_tclass_flow = 0x60;  // Big endian: version 6.
  grh.hop_limit = 64;
  grh.sgid = grh.dgid = lab.gid;
  REQUIRE(::ibv_create_ah_from_wc(lab.pd, &wc, &grh, 77) == nullptr);
  struct ibv_ah* const ah = ::ibv_create_ah_from_wc(lab.pd, &wc, &grh, 1);
  return ah != nullptr && ::ibv_destroy_ah(ah) == 0;
}
bool ibv_init_ah_from_wc(Lab& lab) {
  struct ibv_wc wc {};
  struct ibv_grh grh {};
  struct ibv_ah_attr attr {};
  wc.wc_flags = IBV_WC_GRH;
  REQUIRE(::ibv_init_ah_from_wc(lab.context, 1, &wc, &grh, &attr) != 0);
  grh.version_tclass_flow = 0x60;
  grh.sgid = grh.dgid = lab.gid;
  return ::ibv_init_ah_from_wc(lab.context, 1, &wc, &grh, &attr) == 0;
}
bool ibv_attach_mcast(Lab& lab) {
  union ibv_gid group {};
  struct ibv_qp* const qp = lab.make_qp(IBV_QPT_UD);
  REQUIRE(::ibv_attach_mcast(qp, &group, 0) != 0);
  REQUIRE(::ibv_attach_mcast(lab.a, &group, 0) != 0);
  REQUIRE(::ibv_detach_mcast(qp, &group, 0xFFFF) != 0);
  group.raw[10] = group.raw[11] = 0xFF;
  const std::uint8_t v4[] = {239, 1, 2, 3};
  std::memcpy(group.raw + 12, v4, sizeof v4);
  const bool works = ::ibv_attach_mcast(qp, &group, 0) == 0 && ::ibv_detach_mcast(qp, &group, 0) == 0;
  REQUIRE(::ibv_destroy_qp(qp) == 0);
  return works;
}
bool ibv_detach_mcast(Lab& lab) { return ibv_attach_mcast(lab); }
bool ibv_create_srq(Lab& lab) {
  struct ibv_srq_init_attr init {};
  REQUIRE(::ibv_create_srq(lab.pd, &init) == nullptr);
  init.attr = {UINT_MAX, UINT_MAX, UINT_MAX};
  REQUIRE(::ibv_create_srq(lab.pd, &init) == nullptr);
  struct ibv_srq* const srq = make_srq(lab);
  return srq != nullptr && ::ibv_destroy_srq(srq) == 0;
}
bool ibv_modify_srq(Lab& lab) {
  struct ibv_srq* const srq = make_srq(lab);
  if (srq == nullptr) return false;
  struct ibv_srq_attr attr {};
  REQUIRE(::ibv_modify_srq(srq, &attr, -1) != 0);
  attr = {UINT_MAX, UINT_MAX, UINT_MAX};
  REQUIRE(::ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) != 0);
  REQUIRE(::ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) != 0);
  attr = {16, 2, 4};
  const bool works = ::ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == 0;
  return ::ibv_destroy_srq(srq) == 0 && works;
}
bool ibv_query_srq(Lab& lab) {
  struct ibv_srq* const srq = make_srq(lab);
  if (srq == nullptr) return false;
  struct ibv_srq_attr attr {};
  const bool works = ::ibv_query_srq(srq, &attr) == 0 && attr.max_wr >= 8;
  return ::ibv_destroy_srq(srq) == 0 && works;
}
bool ibv_destroy_srq(Lab& lab) { return ibv_create_srq(lab); }
bool ibv_import_device(Lab& lab) { return ::ibv_import_device(lab.context->cmd_fd) != nullptr; }
bool ibv_import_pd(Lab& lab) { return ::ibv_import_pd(lab.context, lab.pd->handle) != nullptr; }
bool ibv_unimport_pd(Lab&) {
  ::ibv_unimport_pd(nullptr);
  return false;
}
bool ibv_import_mr(Lab& lab) { return ::ibv_import_mr(lab.pd, lab.mr->handle) != nullptr; }
bool ibv_unimport_mr(Lab&) {
  ::ibv_unimport_mr(nullptr);
  return false;
}
bool ibv_import_dm(Lab& lab) { return ::ibv_import_dm(lab.context, 1) != nullptr; }
bool ibv_unimport_dm(Lab&) {
  ::ibv_unimport_dm(nullptr);
  return false;
}
bool ibv_reg_dmabuf_mr(Lab& lab) { return ::ibv_reg_dmabuf_mr(lab.pd, 0, 4096, 0, -1, kAccess) != nullptr; }
bool ibv_resolve_eth_l2_from_gid(Lab& lab) {
  struct ibv_ah_attr attr = lab.ah_attr();
  std::uint8_t mac[6];
  std::uint16_t vlan = 0;
  return ::ibv_resolve_eth_l2_from_gid(lab.context, &attr, mac, &vlan) == 0;
}
bool ibv_query_ece(Lab& lab) {
  struct ibv_ece ece {};
  return ::ibv_query_ece(lab.a, &ece) == 0;
}
bool ibv_set_ece(Lab& lab) {
  struct ibv_ece ece {};
  return ::ibv_set_ece(lab.a, &ece) == 0;
}
bool ibv_query_qp_data_in_order(Lab& lab) {
  REQUIRE(::ibv_query_qp_data_in_order(lab.a, number<enum ibv_wr_opcode>(77), ~0u) == 0);
  return ::ibv_query_qp_data_in_order(lab.a, IBV_WR_RDMA_WRITE, 0) == 0;
}
bool ibv_dontfork_range(Lab&) { return ::ibv_dontfork_range(nullptr, SIZE_MAX) == 0; }
bool ibv_dofork_range(Lab&) { return ::ibv_dofork_range(nullptr, SIZE_MAX) == 0; }
bool ibv_rate_to_mult(Lab&) {
  REQUIRE(::ibv_rate_to_mult(number<enum ibv_rate>(-7)) == -1);
  return ::ibv_rate_to_mult(IBV_RATE_5_GBPS) == 2;
}
bool mult_to_ibv_rate(Lab&) {
  REQUIRE(::mult_to_ibv_rate(INT_MIN) == IBV_RATE_MAX);
  return ::mult_to_ibv_rate(2) == IBV_RATE_5_GBPS;
}
bool ibv_rate_to_mbps(Lab&) {
  REQUIRE(::ibv_rate_to_mbps(number<enum ibv_rate>(777)) == -1);
  return ::ibv_rate_to_mbps(IBV_RATE_5_GBPS) == 5000;
}
bool mbps_to_ibv_rate(Lab&) {
  REQUIRE(::mbps_to_ibv_rate(INT_MAX) == IBV_RATE_MAX);
  return ::mbps_to_ibv_rate(5000) == IBV_RATE_5_GBPS;
}
bool ibv_copy_ah_attr_from_kern(Lab&) {
  struct ibv_ah_attr to {};
  struct ib_uverbs_ah_attr from {};
  from.dlid = 7;
  ::ibv_copy_ah_attr_from_kern(&to, &from);
  return to.dlid == 7;
}
bool ibv_copy_qp_attr_from_kern(Lab&) {
  struct ibv_qp_attr to {};
  struct ib_uverbs_qp_attr from {};
  from.dest_qp_num = 7;
  ::ibv_copy_qp_attr_from_kern(&to, &from);
  return to.dest_qp_num == 7;
}
bool ibv_copy_path_rec_from_kern(Lab&) {
  struct ibv_sa_path_rec to {};
  struct ib_user_path_rec from {};
  from.mtu = 4;
  ::ibv_copy_path_rec_from_kern(&to, &from);
  return to.mtu == 4;
}
bool ibv_copy_path_rec_to_kern(Lab&) {
  struct ib_user_path_rec to {};
  struct ibv_sa_path_rec from {};
  from.mtu = 4;
  ::ibv_copy_path_rec_to_kern(&to, &from);
  return to.mtu == 4;
}

// --- functions_newer.def ------------------------------------------------------------------------------------------

bool ibv_alloc_dmah(Lab& lab) { return ::ibv_alloc_dmah(lab.context, nullptr) != nullptr; }
bool ibv_dealloc_dmah(Lab&) { return ::ibv_dealloc_dmah(nullptr) == 0; }
bool ibv_reg_mr_ex(Lab& lab) {
  ibv::newer::MrInitAttr attr{};
  const auto call = [&] { return ::ibv_reg_mr_ex(lab.pd, reinterpret_cast<struct ibv_mr_init_attr*>(&attr)); };
  REQUIRE(call() == nullptr);
  attr.comp_mask = ~std::uint64_t{0};
  REQUIRE(call() == nullptr);
  attr.comp_mask = ibv::newer::kAddr | ibv::newer::kBuf;
  REQUIRE(call() == nullptr);
  attr.comp_mask = ibv::newer::kAddr;
  attr.addr = lab.memory;
  attr.length = 64;
  return registered(call());
}
bool ibv_dm_export_dmabuf_fd(Lab&) { return ::ibv_dm_export_dmabuf_fd(nullptr) >= 0; }
bool ibv_query_port_speed(Lab& lab) {
  std::uint64_t speed = 0;
  REQUIRE(::ibv_query_port_speed(lab.context, 0, &speed) != 0);
  return ::ibv_query_port_speed(lab.context, 1, &speed) == 0 && speed == 100;
}
bool ibv_alloc_buf(Lab& lab) {
  struct ibv_buf* buf = nullptr;
  for (const std::size_t size : {std::size_t{0}, SIZE_MAX, SIZE_MAX / 2}) {
    REQUIRE(::ibv_alloc_buf(lab.pd, size, &buf) == nullptr);
  }
  void* const memory = ::ibv_alloc_buf(lab.pd, 5000, &buf);
  if (memory == nullptr) return false;
  std::memset(memory, 1, 5000);
  const bool works = registered(::ibv_reg_buf_mr(lab.pd, buf, memory, 5000, kAccess));
  REQUIRE(::ibv_reg_buf_mr(lab.pd, buf, memory, SIZE_MAX, kAccess) == nullptr);
  REQUIRE(::ibv_reg_buf_mr(lab.pd, buf, lab.memory, 1, kAccess) == nullptr);
  ::ibv_free_buf(buf);
  return works && address(memory) % 4096 == 0;
}
bool ibv_free_buf(Lab&) {
  ::ibv_free_buf(nullptr);
  return true;
}
bool ibv_reg_buf_mr(Lab& lab) {
  REQUIRE(::ibv_reg_buf_mr(lab.pd, nullptr, lab.memory, 64, kAccess) == nullptr);
  return ibv_alloc_buf(lab);
}
bool ibv_export_buf_dmabuf_fd(Lab&) { return ::ibv_export_buf_dmabuf_fd(nullptr) >= 0; }
bool _ibv_query_comp_cntr_caps(Lab& lab) { return ::_ibv_query_comp_cntr_caps(lab.context, nullptr, 0) == 0; }
bool ibv_create_comp_cntr(Lab& lab) { return ::ibv_create_comp_cntr(lab.context, nullptr) != nullptr; }
bool ibv_destroy_comp_cntr(Lab&) { return ::ibv_destroy_comp_cntr(nullptr) == 0; }
bool ibv_set_comp_cntr(Lab&) { return ::ibv_set_comp_cntr(nullptr, 1) == 0; }
bool ibv_set_err_comp_cntr(Lab&) { return ::ibv_set_err_comp_cntr(nullptr, 1) == 0; }
bool ibv_inc_comp_cntr(Lab&) { return ::ibv_inc_comp_cntr(nullptr, 1) == 0; }
bool ibv_inc_err_comp_cntr(Lab&) { return ::ibv_inc_err_comp_cntr(nullptr, 1) == 0; }
bool ibv_read_comp_cntr(Lab&) { return ::ibv_read_comp_cntr(nullptr, nullptr) == 0; }
bool ibv_read_err_comp_cntr(Lab&) { return ::ibv_read_err_comp_cntr(nullptr, nullptr) == 0; }
bool ibv_qp_attach_comp_cntr(Lab& lab) { return ::ibv_qp_attach_comp_cntr(lab.a, nullptr, nullptr) == 0; }

}  // namespace uroce::every_verb::functions
