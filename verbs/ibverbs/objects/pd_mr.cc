// SPDX-License-Identifier: Apache-2.0
// Protection domains and memory regions.
#include <unistd.h>

#include <algorithm>

#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/host/memory_check.h"
#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/leftovers.h"
#include "verbs/ibverbs/objects/new_object.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {
namespace {

/// What every registration needs of its arguments, before the NIC sees them. Returns the NIC's access bits.
Result<std::uint32_t, int> check_arguments(const void* addr, std::size_t length, std::uint64_t iova,
                                           unsigned int flags) {
  const auto access = from_access(flags);
  if (!access.ok()) return access;
  if (length == 0) return Err{refuse(EINVAL, "a memory region cannot be empty")};
  const bool remote_writes = (*access & (nic::kRemoteWrite | nic::kRemoteAtomic)) != 0;
  if (remote_writes && (*access & nic::kLocalWrite) == 0) {
    return Err{refuse(EINVAL, "remote write and atomic access need IBV_ACCESS_LOCAL_WRITE too")};
  }
  // As the kernel wants it for every device: the page offset is the same under both names.
  const auto in_page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) - 1;
  if (((reinterpret_cast<std::uintptr_t>(addr) ^ iova) & in_page) != 0) {
    return Err{refuse(EINVAL, "iova and address differ in their offset within a page")};
  }
  return access;
}

/// The same for memory that must be there.
Result<std::uint32_t, int> check_region(const void* addr, std::size_t length, std::uint64_t iova, unsigned int flags) {
  const auto access = check_arguments(addr, length, iova, flags);
  if (!access.ok()) return access;
  if (const int error = check_memory(addr, length, (*access & nic::kLocalWrite) != 0)) {
    return Err{refuse(error, "the range is not memory of this process, or lacks the rights asked for")};
  }
  return access;
}

/// Whether anything was made in `pd`. The NIC knows that of protection domains, but not of parent domains.
bool in_use(Context& context, const struct ibv_pd* pd) {
  const std::scoped_lock lock(context.objects_mutex);
  const auto any_of = [pd](const auto& objects) {
    return std::any_of(objects.begin(), objects.end(), [pd](const auto* object) { return object->pd == pd; });
  };
  const bool has_qp =
      std::any_of(context.qps.begin(), context.qps.end(), [pd](const QueuePair* qp) { return qp->qp_base.pd == pd; });
  return has_qp || any_of(context.mrs) || any_of(context.mws) || any_of(context.srqs) || any_of(context.ahs);
}

/// Adds a region to the NIC and to the user's context.
struct ibv_mr* add_region(struct ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, std::uint32_t access,
                          nic::MrKind kind) {
  Context& context = context_of(pd->context);
  NewObject mr(context, &Context::mrs);
  {
    const NicLock lock(*context.adapter);
    auto made = lock ? lock->mrs().add(own(pd)->nic_pd, static_cast<std::uint8_t*>(addr), length, iova, access, kind)
                     : Err{refuse_without_nic()};
    if (!made.ok()) {
      errno = made.error();
      return nullptr;
    }
    mr->nic_mr = *made;
  }
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = addr;
  mr->length = length;
  mr->lkey = mr->rkey = mr->nic_mr->key;
  mr->handle = mr->nic_mr->key >> 8;
  return mr.keep();
}

/// On-demand paging. Nothing is pinned here anyway; what these regions have beyond others is that their memory need not
/// be there yet. All of the address space is one when the program asks for that (implicit).
struct ibv_mr* register_on_demand(struct ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                                  unsigned int flags) {
  const auto access = check_arguments(addr, length, iova, flags & ~static_cast<unsigned int>(IBV_ACCESS_ON_DEMAND));
  if (!access.ok()) {
    errno = access.error();
    return nullptr;
  }
  const bool implicit = length == SIZE_MAX;
  if (implicit && addr != nullptr) return refuse_null(EINVAL, "an implicit on-demand region begins at 0");
  if (!implicit && length > SIZE_MAX - reinterpret_cast<std::uintptr_t>(addr)) {
    return refuse_null(EOVERFLOW, "the range goes beyond the end of the address space");
  }
  return add_region(pd, addr, length, iova, *access, nic::MrKind::kPlain);
}

struct ibv_mr* register_memory(struct ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                               unsigned int flags) {
  if ((flags & IBV_ACCESS_ON_DEMAND) != 0) return register_on_demand(pd, addr, length, iova, flags);
  const auto access = check_region(addr, length, iova, flags);
  if (!access.ok()) {
    errno = access.error();
    return nullptr;
  }
  return add_region(pd, addr, length, iova, *access, nic::MrKind::kPlain);
}

/// What ibv_advise_mr(3) says of an SGE whose memory can't be fetched; of a bad key, what Soft-RoCE says (mlx5:
/// ENOENT).
int advice_error(const Result<std::uint8_t*, nic::AccessError>& found) {
  if (found.ok()) return EFAULT;
  switch (found.error()) {
    case nic::AccessError::kBadKey:
      return EINVAL;
    case nic::AccessError::kWrongPd:
    case nic::AccessError::kNoRight:
      return EPERM;
    case nic::AccessError::kOutOfBounds:
      return EFAULT;
  }
  return EINVAL;
}

}  // namespace

namespace impl {

struct ibv_pd* ibv_alloc_pd(struct ibv_context* context) {
  Context& owner = context_of(context);
  NewObject pd(owner, &Context::pds);
  pd->context = context;
  const NicLock lock(*owner.adapter);
  if (!lock) return refuse_null(refuse_without_nic(), last_error());
  pd->nic_pd = lock->alloc_pd();
  if (pd->nic_pd == nullptr) {
    return refuse_null(ENOMEM, "the NIC has " + std::to_string(nic::kMaxPd) + " protection domains, and no more");
  }
  return pd.keep();
}

// Also for parent domains, which give back the protection domain that they were made from.
int ibv_dealloc_pd(struct ibv_pd* pd) {
  ProtectionDomain* const ours = own(pd);
  Context& context = context_of(pd->context);
  if (destroy_leftover(context, &Context::pds, ours)) return 0;
  if (ours->is_parent && in_use(context, pd))
    return refuse(EBUSY, "there are objects that were made in the parent domain; destroy them first");
  if (const NicLock lock(*context.adapter, NicLock::Purpose::kCleanUp); lock) {
    if (ours->is_parent) {
      --ours->nic_pd->users;
    } else if (const int error = lock->dealloc_pd(ours->nic_pd)) {
      return refuse(
          error, "memory regions, windows, SRQs, QPs or parent domains use the protection domain; destroy them first");
    }
  }
  const std::scoped_lock lock(context.objects_mutex);
  if (ours->td != nullptr) --ours->td->parents;
  context.pds.erase(ours);
  delete ours;
  return 0;
}

struct ibv_mr* ibv_reg_mr(struct ibv_pd* pd, void* addr, std::size_t length, int access) {
  return register_memory(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr), static_cast<unsigned int>(access));
}

struct ibv_mr* ibv_reg_mr_iova(struct ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
  return register_memory(pd, addr, length, iova, static_cast<unsigned int>(access));
}

struct ibv_mr* ibv_reg_mr_iova2(struct ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                                unsigned int access) {
  return register_memory(pd, addr, length, iova, access);
}

// A region whose lkey reads zeros and swallows what is received into it, wherever it is said to be.
struct ibv_mr* alloc_null_mr(struct ibv_pd* pd) {
  return add_region(pd, nullptr, SIZE_MAX, 0, nic::kLocalWrite, nic::MrKind::kNull);
}

// EINVAL: advice or flags that do not exist, a bad lkey; EPERM: another PD's, or one that can't be written; EFAULT: a
// bad range, or the memory is not there.
int advise_mr(struct ibv_pd* pd, enum ibv_advise_mr_advice advice, std::uint32_t flags, struct ibv_sge* list,
              std::uint32_t count) {
  const int kind = raw(advice);
  if (kind < IBV_ADVISE_MR_ADVICE_PREFETCH || kind > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ||
      (flags & ~static_cast<std::uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0 || count == 0) {
    return refuse(EINVAL, "there is no such advice or flag, or nothing to advise about");
  }
  const std::uint32_t rights = kind == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ? std::uint32_t{nic::kLocalWrite} : 0;
  const NicLock lock(*context_of(pd->context).adapter);
  if (!lock) return refuse_without_nic();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (lock->mrs().is_null(list[i].lkey, own(pd)->nic_pd)) continue;  // There is nothing to fetch.
    const auto found = lock->mrs().resolve(list[i].lkey, list[i].addr, list[i].length, own(pd)->nic_pd, rights);
    const bool is_there = found.ok() && touch_memory(*found, list[i].length, rights != 0);
    if (is_there || kind == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) continue;
    return refuse(advice_error(found), "SGE " + std::to_string(i) +
                                           " names memory that is not registered, or lacks the rights for this advice");
  }
  return 0;
}

// 0, or one of ibv_rereg_mr_err_code with errno set; the region stays valid as it was.
int ibv_rereg_mr(struct ibv_mr* mr, int flags, struct ibv_pd* pd, void* addr, std::size_t length, int access) {
  const auto fail = [](int error) {
    errno = error;
    return IBV_REREG_MR_ERR_INPUT;
  };
  constexpr int kKnown = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  if ((flags & ~kKnown) != 0 || flags == 0) return fail(refuse(EINVAL, "flags must name what changes, and no more"));
  const bool move = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool change_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  if (change_pd && (pd == nullptr || pd->context != mr->context)) {
    return fail(refuse(EINVAL, "the new protection domain belongs to another context"));
  }
  // As libibverbs has it for all devices.
  if (move && (addr == nullptr || length == 0)) return fail(refuse(EINVAL, "the new memory has no address or length"));
  if (access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0) {
    return fail(refuse(EINVAL, "access is given, but IBV_REREG_MR_CHANGE_ACCESS is not"));
  }
  MemoryRegion& ours = *own(mr);
  if (move && ours.nic_mr->kind == nic::MrKind::kNull) {
    return fail(refuse(EOPNOTSUPP, "a null region has no memory that could move; register a region instead"));
  }
  nic::MrTable::Change change;
  change.change_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  change.access = ours.nic_mr->access;
  if (change.change_access || move) {
    // The memory must bear the rights that the region will have, whichever of the two changes.
    void* const memory = move ? addr : mr->addr;
    const auto checked = check_region(memory, move ? length : mr->length, reinterpret_cast<std::uintptr_t>(memory),
                                      change.change_access ? static_cast<unsigned int>(access) : change.access);
    if (!checked.ok()) return fail(checked.error());
    change.access = *checked;
  }
  if (change_pd) change.pd = own(pd)->nic_pd;
  change.change_memory = move;
  change.memory = static_cast<std::uint8_t*>(addr);
  change.length = length;
  change.iova = reinterpret_cast<std::uintptr_t>(addr);
  const NicLock lock(*context_of(mr->context).adapter);
  if (!lock) return fail(refuse_without_nic());
  if (const int error = lock->mrs().change(ours.nic_mr, change))
    return fail(refuse(error, "the NIC refused the change"));
  if (move) {
    mr->addr = addr;
    mr->length = length;
  }
  if (change_pd) mr->pd = pd;
  mr->lkey = mr->rkey = ours.nic_mr->key;
  return 0;
}

int ibv_dereg_mr(struct ibv_mr* mr) {
  MemoryRegion* const ours = own(mr);
  Context& context = context_of(mr->context);
  if (destroy_leftover(context, &Context::mrs, ours)) return 0;
  if (const NicLock lock(*context.adapter, NicLock::Purpose::kCleanUp); lock) {
    if (const int error = lock->mrs().remove(ours->nic_mr))
      return refuse(error, "memory windows are bound to the region");
  }
  const std::scoped_lock lock(context.objects_mutex);
  context.mrs.erase(ours);
  delete ours;
  return 0;
}

}  // namespace impl
}  // namespace uroce::ibv
