// Protection domains and memory regions.
#include <unistd.h>

#include "verbs/ibverbs/convert.h"
#include "verbs/ibverbs/errors.h"
#include "verbs/ibverbs/impl.h"
#include "verbs/ibverbs/memory_check.h"
#include "verbs/ibverbs/objects.h"

namespace uroce::ibv {
namespace {

/// What a registration needs of its arguments, before the NIC sees them. Returns the NIC's access bits.
Result<std::uint32_t, int> check_region(const void* addr, std::size_t length, std::uint64_t iova, unsigned int flags) {
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
  if (const int error = check_memory(addr, length, (*access & nic::kLocalWrite) != 0)) {
    return Err{refuse(error, "the range is not memory of this process, or lacks the rights asked for")};
  }
  return access;
}

struct ibv_mr* register_memory(struct ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                               unsigned int flags) {
  const auto access = check_region(addr, length, iova, flags);
  if (!access.ok()) {
    errno = access.error();
    return nullptr;
  }
  Context& context = context_of(pd->context);
  auto* mr = new MemoryRegion{};
  {
    const NicLock lock(*context.adapter);
    auto made = lock ? lock->mrs().add(own(pd)->nic_pd, static_cast<std::uint8_t*>(addr), length, iova, *access)
                     : Err{refuse_without_nic()};
    if (!made.ok()) {
      delete mr;
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
  const std::scoped_lock lock(context.objects_mutex);
  context.mrs.insert(mr);
  return mr;
}

}  // namespace

namespace impl {

struct ibv_pd* ibv_alloc_pd(struct ibv_context* context) {
  Context& owner = context_of(context);
  auto* pd = new ProtectionDomain{};
  pd->context = context;
  if (const NicLock lock(*owner.adapter); lock) pd->nic_pd = lock->alloc_pd();
  if (pd->nic_pd == nullptr) {
    delete pd;
    errno = refuse_without_nic();
    return nullptr;
  }
  const std::scoped_lock lock(owner.objects_mutex);
  owner.pds.insert(pd);
  return pd;
}

int ibv_dealloc_pd(struct ibv_pd* pd) {
  ProtectionDomain* const ours = own(pd);
  Context& context = context_of(pd->context);
  if (const NicLock lock(*context.adapter, NicLock::Purpose::kCleanUp); lock) {
    if (const int error = lock->dealloc_pd(ours->nic_pd)) {
      return refuse(error, "memory regions, SRQs or QPs are in the protection domain");
    }
  }
  const std::scoped_lock lock(context.objects_mutex);
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
  MemoryRegion& ours = *own(mr);
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
  if (const NicLock lock(*context.adapter, NicLock::Purpose::kCleanUp); lock) lock->mrs().remove(ours->nic_mr);
  const std::scoped_lock lock(context.objects_mutex);
  context.mrs.erase(ours);
  delete ours;
  return 0;
}

}  // namespace impl
}  // namespace uroce::ibv
