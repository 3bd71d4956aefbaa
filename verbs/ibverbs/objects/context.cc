// SPDX-License-Identifier: Apache-2.0
// Opening, closing and querying a device.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "proto/base/fd.h"
#include "proto/pkey.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/catalogue/verbs_front.h"
#include "verbs/ibverbs/control/server.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/objects/leftovers.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {
namespace {

constexpr std::uint8_t kPort = 1;

// Values of ibv_port_attr that <infiniband/verbs.h> has no names for (IBTA Vol 1, 14.2.5.6).
constexpr std::uint8_t kPhysStateDisabled = 3;
constexpr std::uint8_t kPhysStateLinkUp = 5;
constexpr std::uint8_t kWidth1x = 1;
constexpr std::uint8_t kSpeed10Gbps = 4;  ///< QDR: the order of what a core moves.

__be64 guid_be(const Adapter& adapter) {
  __be64 guid = 0;
  std::memcpy(&guid, adapter.guid().data(), sizeof guid);
  return guid;
}

int check_port(std::uint8_t port_num) {
  return port_num == kPort ? 0 : refuse(EINVAL, "port " + std::to_string(port_num) + ": the NIC has port 1 only");
}

/// As ports count violations: in 16 bits, and no further (IBTA Vol 1, 14.2.5.6).
std::uint32_t violations(std::uint64_t count) {
  return static_cast<std::uint32_t>(std::min(count, std::uint64_t{0xFFFF}));
}

struct ibv_port_attr port_attr_of(Adapter& adapter) {
  const bool up = adapter.is_port_up();
  const nic::Counters counted = adapter.counters().nic;
  struct ibv_port_attr attr {};
  attr.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = static_cast<enum ibv_mtu>(adapter.mtu_max());
  attr.gid_tbl_len = static_cast<int>(adapter.gids().size());
  attr.port_cap_flags = kPortCapabilities;
  attr.max_msg_sz = nic::kMaxMessageBytes;
  attr.bad_pkey_cntr = violations(counted.wrong_pkey);
  attr.qkey_viol_cntr = violations(counted.qkey_violations);
  attr.pkey_tbl_len = 1;
  if (device_table().lids) attr.lid = lid_of(main_address(adapter.gids()));
  attr.max_vl_num = 1;
  attr.active_width = kWidth1x;
  attr.active_speed = kSpeed10Gbps;
  attr.phys_state = up ? kPhysStateLinkUp : kPhysStateDisabled;
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  attr.flags = IBV_QPF_GRH_REQUIRED;
  return attr;
}

/// How long fork() waits for the lists of a context.
constexpr Duration kForkWait = std::chrono::milliseconds(100);

}  // namespace

void lock_for_fork(Context& context) { context.held_across_fork.take(context.objects_mutex, kForkWait); }

void unlock_after_fork(Context& context) { context.held_across_fork.give_back(); }

Context::Context(Device& device, std::shared_ptr<Adapter> shared)
    : verbs_context{}, owner(device), adapter(std::move(shared)) {
  adapter->add(*this);  // First of all, as memory may be missing.
  verbs_context::sz = sizeof(verbs_context);
  struct ibv_context& base = verbs_context::context;
  base.device = &device;
  // Members that stay null make the inline verbs return EOPNOTSUPP.
#define UROCE_OP(member, verb, ret, params, args) base.ops.member = front::member;
#define UROCE_EXTENDED(member, verb, ret, params, args) verbs_context::member = front::member;
#include "verbs/ibverbs/catalogue/slots.def"
  base.cmd_fd = above_standard(::open("/dev/null", O_RDWR | O_CLOEXEC));
  base.num_comp_vectors = 1;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&base.mutex, nullptr);
}

std::shared_ptr<Adapter> Context::close() {
  adapter->remove(*this);
  for (QueuePair* qp : qps) take_from_nic(*qp);
  for (AddressHandle* ah : ahs) take_from_nic(*ah);
  if (const NicLock lock(*adapter, NicLock::Purpose::kCleanUp); lock) {
    for (const SharedReceiveQueue* srq : srqs) lock->destroy_srq(srq->nic_srq);
    for (const CompletionQueue* cq : cqs) lock->destroy_cq(cq->nic_cq);
    for (const MemoryWindow* mw : mws) lock->mrs().remove_window(mw->nic_mw);
    for (const MemoryRegion* mr : mrs) lock->mrs().remove(mr->nic_mr);
    for (const ProtectionDomain* pd : pds) {
      if (pd->is_parent) --pd->nic_pd->users;
    }
    for (const ProtectionDomain* pd : pds) {
      if (!pd->is_parent) lock->dealloc_pd(pd->nic_pd);
    }
  }
  struct ibv_context& base = verbs_context::context;
  if (base.cmd_fd >= 0) ::close(base.cmd_fd);
  async_events.close();
  for (CompChannel* channel : channels) {
    channel->events.end();  // Threads that sleep there have the NIC.
    adapter->on_cq_events_dropped(channel->events.remove_if([](const CompletionQueue*) { return true; }));
  }
  return std::move(adapter);
}

Context::~Context() { pthread_mutex_destroy(&(verbs_context::context.mutex)); }

std::optional<NicFacts> nic_facts(struct ibv_context* context) {
  if (context == nullptr || context->ops.poll_cq != front::poll_cq) return std::nullopt;
  return context_of(context).adapter->facts();
}

namespace impl {

struct ibv_context* ibv_open_device(struct ibv_device* device) {
  // A child of fork() may have its parent's list.
  if (const std::string wrong = start_control(); !wrong.empty()) return refuse_null(EINVAL, wrong);
  auto& owner = *static_cast<Device*>(device);
  auto adapter = owner.open();
  if (!adapter.ok()) {
    errno = adapter.error();
    return nullptr;
  }
  if (!(*adapter)->works()) return refuse_null(refuse_without_nic(), last_error());
  auto* context = new Context(owner, *adapter);
  struct ibv_context* base = &context->verbs_context::context;
  if (base->cmd_fd < 0 || base->async_fd < 0) {
    const int error = errno;
    const bool lacks_null = base->cmd_fd < 0;
    impl::ibv_close_device(base);
    const char* const advice = error == EMFILE   ? "; raise RLIMIT_NOFILE (ulimit -n)"
                               : error == ENFILE ? "; raise fs.file-max (sysctl)"
                               : lacks_null ? "; each context opens /dev/null: see that there is one, to read and write"
                                            : "";
    refuse_setting(error,
                   std::string("no file descriptor for another context (") + std::strerror(error) + ')' + advice);
    return nullptr;
  }
  return base;
}

int ibv_close_device(struct ibv_context* context) {
  Context* own = &context_of(context);
  Device& owner = own->owner;
  std::shared_ptr<Adapter> adapter = own->close();
  leave(own);
  owner.close(std::move(adapter));
  return 0;
}

int ibv_query_device(struct ibv_context* context, struct ibv_device_attr* attr) {
  const Adapter& adapter = *context_of(context).adapter;
  *attr = {};
  std::snprintf(attr->fw_ver, sizeof attr->fw_ver, "%s", firmware_version());
  attr->node_guid = guid_be(adapter);
  attr->sys_image_guid = attr->node_guid;
  attr->max_mr_size = ~std::uint64_t{0};
  attr->page_size_cap = 0xFFFFF000;
  const VendorId& vendor = device_table().vendor;  // Fixed before there is a device.
  attr->vendor_id = vendor.vendor;
  attr->vendor_part_id = vendor.part;
  attr->hw_ver = 1;
  attr->max_qp = nic::kMaxQp;
  attr->max_qp_wr = nic::kMaxQpWr;
  attr->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                           IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
                           IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attr->max_sge = nic::kMaxSge;
  attr->max_sge_rd = nic::kMaxSge;
  attr->max_cq = nic::kMaxCq;
  attr->max_cqe = nic::kMaxCqe;
  attr->max_mr = nic::kMaxMr;
  attr->max_mw = nic::kMaxMw;
  attr->max_pd = nic::kMaxPd;
  attr->max_qp_rd_atom = nic::kMaxRdAtomic;
  attr->max_res_rd_atom = static_cast<int>(nic::kMaxRdAtomic * nic::kMaxQp);
  attr->max_qp_init_rd_atom = nic::kMaxRdAtomic;
  attr->atomic_cap = IBV_ATOMIC_HCA;
  attr->max_srq = nic::kMaxSrq;
  attr->max_srq_wr = nic::kMaxSrqWr;
  attr->max_srq_sge = nic::kMaxSrqSge;
  attr->max_ah = nic::kMaxAh;
  attr->max_mcast_grp = nic::kMaxMulticastGroups;
  attr->max_mcast_qp_attach = nic::kMaxMulticastQps;
  attr->max_total_mcast_qp_attach = static_cast<int>(nic::kMaxMulticastGroups * nic::kMaxMulticastQps);
  attr->max_pkeys = 1;
  attr->local_ca_ack_delay = 15;  // 134 ms: a NIC that is a process may have to wait for a processor.
  attr->phys_port_cnt = 1;
  return 0;
}

int query_port(struct ibv_context* context, std::uint8_t port_num, struct ibv_port_attr* attr, std::size_t attr_size) {
  if (const int error = check_port(port_num)) return error;
  // The structure has grown over the years; callers say which one they have.
  const struct ibv_port_attr ours = port_attr_of(*context_of(context).adapter);
  std::memset(static_cast<void*>(attr), 0, attr_size);
  std::memcpy(static_cast<void*>(attr), &ours, std::min(attr_size, sizeof ours));
  return 0;
}

// The symbol has an older structure, which ends with `flags`.
int ibv_query_port(struct ibv_context* context, std::uint8_t port_num, struct _compat_ibv_port_attr* attr) {
  constexpr std::size_t kCompatSize = offsetof(struct ibv_port_attr, flags) + sizeof(std::uint8_t);
  if (const int error = check_port(port_num)) return error;
  const struct ibv_port_attr ours = port_attr_of(*context_of(context).adapter);
  std::memcpy(static_cast<void*>(attr), &ours, kCompatSize);
  return 0;
}

int ibv_query_gid(struct ibv_context* context, std::uint8_t port_num, int index, union ibv_gid* gid) {
  const std::vector<proto::Gid>& gids = context_of(context).adapter->gids();
  if (check_port(port_num) != 0 || index < 0 || static_cast<std::size_t>(index) >= gids.size()) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(gid->raw, gids[static_cast<std::size_t>(index)].raw.data(), sizeof gid->raw);
  return 0;
}

int ibv_query_pkey(struct ibv_context*, std::uint8_t port_num, int index, __be16* pkey) {
  if (check_port(port_num) != 0 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = proto::kDefaultPkey;  // The same in either byte order.
  return 0;
}

int ibv_get_pkey_index(struct ibv_context*, std::uint8_t port_num, __be16 pkey) {
  if (check_port(port_num) == 0 && pkey == proto::kDefaultPkey) return 0;
  errno = EINVAL;
  return -1;
}

}  // namespace impl
}  // namespace uroce::ibv
