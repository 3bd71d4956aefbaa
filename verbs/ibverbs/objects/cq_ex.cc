// SPDX-License-Identifier: Apache-2.0
// Extended completion queues: completions read field by field, and what else ibv_create_cq_ex() and ibv_modify_cq()
// offer.
#include <arpa/inet.h>

#include <chrono>
#include <cstdint>

#include "engine/os/os_clock.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/catalogue/verbs_front.h"
#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/look.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/ibverbs/objects/wall_offset.h"

namespace uroce::ibv {
namespace {

/// What of a completion can be asked for: all but VLAN tags, flow tags and tag matching.
constexpr std::uint64_t kOfferedFields = static_cast<std::uint64_t>(IBV_WC_STANDARD_FLAGS) |
                                         IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                         IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint32_t kKnownCqAttributes = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
constexpr std::uint32_t kKnownFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

const nic::Completion& current(struct ibv_cq_ex* cq) { return own(cq)->current; }

enum ibv_wc_opcode read_opcode(struct ibv_cq_ex* cq) { return static_cast<enum ibv_wc_opcode>(current(cq).opcode); }
std::uint32_t read_vendor_err(struct ibv_cq_ex*) { return 0; }  // As in to_wc().
std::uint32_t read_byte_len(struct ibv_cq_ex* cq) { return current(cq).byte_len; }
// As in ibv_wc, an invalidated rkey is in the same place, in host order.
__be32 read_imm_data(struct ibv_cq_ex* cq) {
  const nic::Completion& completion = current(cq);
  return (completion.flags & nic::kWcWithInv) != 0 ? completion.invalidated_rkey : htonl(completion.imm);
}
std::uint32_t read_qp_num(struct ibv_cq_ex* cq) { return current(cq).qpn; }
std::uint32_t read_src_qp(struct ibv_cq_ex* cq) { return current(cq).src_qp; }
unsigned int read_wc_flags(struct ibv_cq_ex* cq) { return current(cq).flags; }
std::uint64_t read_completion_ts(struct ibv_cq_ex* cq) {
  return static_cast<std::uint64_t>(current(cq).when.time_since_epoch().count());
}
std::uint64_t read_completion_wallclock_ns(struct ibv_cq_ex* cq) {
  std::chrono::nanoseconds& offset = own(cq)->wall_offset;
  const Instant before = engine::os_now();
  const std::chrono::nanoseconds seen = engine::wall_clock_now() - before.time_since_epoch();
  offset = wall_offset(offset, seen, engine::os_now() - before);
  return static_cast<std::uint64_t>((current(cq).when.time_since_epoch() + offset).count());
}
std::uint8_t read_sl(struct ibv_cq_ex* cq) { return current(cq).sl; }
std::uint32_t read_slid(struct ibv_cq_ex* cq) { return slid_of(current(cq)); }
std::uint8_t read_dlid_path_bits(struct ibv_cq_ex*) { return 0; }
// No CQ can be created for these; programs that read them nevertheless find nothing.
std::uint16_t read_cvlan(struct ibv_cq_ex*) { return 0; }
std::uint32_t read_flow_tag(struct ibv_cq_ex*) { return 0; }
void read_tm_info(struct ibv_cq_ex*, struct ibv_wc_tm_info* info) { *info = {}; }

void end_poll(struct ibv_cq_ex* cq) { own(cq)->poll_gate.leave(); }

void install_readers(struct ibv_cq_ex& cq) {
  cq.start_poll = front::start_poll;
  cq.next_poll = front::next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_slid;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_dlid_path_bits;
  cq.read_completion_ts = read_completion_ts;
  cq.read_cvlan = read_cvlan;
  cq.read_flow_tag = read_flow_tag;
  cq.read_tm_info = read_tm_info;
  cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

int check_init(const struct ibv_context* context, const struct ibv_cq_init_attr_ex& init) {
  if ((init.comp_mask & ~kKnownCqAttributes) != 0) return refuse(EINVAL, "comp_mask: an attribute that does not exist");
  if ((init.wc_flags & ~kOfferedFields) != 0) {
    return refuse(EOPNOTSUPP, "wc_flags: completions have no VLAN tag, no flow tag and no tag matching");
  }
  if ((init.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (init.flags & ~kKnownFlags) != 0) {
    return refuse(EOPNOTSUPP, "flags: only SINGLE_THREADED and IGNORE_OVERRUN exist here");
  }
  // Programs compiled with older headers have no such field; then the bit is clear.
  if ((init.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
      (init.parent_domain == nullptr || init.parent_domain->context != context)) {
    return refuse(EINVAL, "the parent domain belongs to another context");
  }
  return 0;
}

/// Makes the next completion the current one. Returns whether there was one.
bool advance(CompletionQueue& cq) {
  if (cq.nic_cq->poll({&cq.current, 1}) == 0) return false;
  cq.status = static_cast<enum ibv_wc_status>(cq.current.status);
  cq.wr_id = cq.current.wr_id;
  return true;
}

/// Makes the first completion of a poll the current one. ENOENT: there is none; EIO: no NIC any more.
int advance_to_first(CompletionQueue& cq) {
  const auto found = look(cq, [&cq] {
    if (!advance(cq)) return false;
    cq.armed_since_poll = false;  // The rest of this poll is the look before the program sleeps.
    return true;
  });
  if (!found.ok()) return found.error();
  return *found ? 0 : ENOENT;
}

}  // namespace

namespace impl {

struct ibv_cq_ex* create_cq_ex(struct ibv_context* context, struct ibv_cq_init_attr_ex* init) {
  if (const int error = check_init(context, *init)) {
    errno = error;
    return nullptr;
  }
  if (init->cqe > nic::kMaxCqe) return refuse_null(EINVAL, "more entries than a CQ can have");
  struct ibv_cq* const cq = impl::ibv_create_cq(context, static_cast<int>(init->cqe), init->cq_context, init->channel,
                                                static_cast<int>(init->comp_vector));
  if (cq == nullptr) return nullptr;
  CompletionQueue& ours = *own(cq);
  const std::uint32_t flags = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? init->flags : 0;
  if ((flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0) ours.nic_cq->ignore_overrun();
  ours.poll_gate.open_for_all = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  install_readers(ours);
  return &ours;
}

// 0: there is a current completion, until end_poll(). ENOENT: the CQ is empty, and nothing needs to be ended.
int start_poll(struct ibv_cq_ex* cq, struct ibv_poll_cq_attr* attr) {
  if (attr != nullptr && attr->comp_mask != 0) return refuse(EINVAL, "comp_mask: no attribute of polling exists");
  CompletionQueue& ours = *own(cq);
  // Whom it would wait for at the gate may have stayed with the parent.
  if (context_of(ours.context).async_events.is_inherited()) return refuse_without_nic();
  ours.poll_gate.enter();
  const int error = advance_to_first(ours);
  if (error != 0) ours.poll_gate.leave();
  return error;
}

int next_poll(struct ibv_cq_ex* cq) {
  CompletionQueue& ours = *own(cq);
  const NicLock lock(*context_of(ours.context).adapter);
  if (!lock) return refuse_without_nic();
  if (!advance(ours)) return ENOENT;
  ours.armed_since_poll = false;
  return 0;
}

// Moderation: see nic::Cq::moderate().
int modify_cq(struct ibv_cq* cq, struct ibv_modify_cq_attr* attr) {
  if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) return refuse(EINVAL, "attr_mask: a CQ has IBV_CQ_ATTR_MODERATE only");
  const NicLock lock(*context_of(cq->context).adapter);
  if (!lock) return refuse_without_nic();
  lock->moderate_cq(own(cq)->nic_cq, attr->moderate.cq_count, std::chrono::microseconds(attr->moderate.cq_period));
  return 0;
}

}  // namespace impl
}  // namespace uroce::ibv
