// SPDX-License-Identifier: Apache-2.0
// Parent domains and thread domains: names under which programs promise what their threads do. Nothing here is faster
// for the promise, and nothing depends on it.
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/convert.h"
#include "verbs/ibverbs/objects/leftovers.h"
#include "verbs/ibverbs/objects/new_object.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv::impl {

struct ibv_td* alloc_td(struct ibv_context* context, struct ibv_td_init_attr* init) {
  if (init->comp_mask != 0) return refuse_null(EINVAL, "comp_mask: a thread domain has no attributes");
  NewObject td(context_of(context), &Context::tds);
  td->context = context;
  return td.keep();
}

int dealloc_td(struct ibv_td* td) {
  ThreadDomain* const ours = own(td);
  Context& context = context_of(td->context);
  if (destroy_leftover(context, &Context::tds, ours)) return 0;
  const std::scoped_lock lock(context.objects_mutex);
  if (ours->parents != 0) return refuse(EBUSY, "parent domains use the thread domain");
  context.tds.erase(ours);
  delete ours;
  return 0;
}

// A protection domain beside another one: what is made in either may be used with what is made in the other. The
// program's allocators are accepted and never called: the NIC has no memory that the program could have to give.
struct ibv_pd* alloc_parent_domain(struct ibv_context* context, struct ibv_parent_domain_init_attr* init) {
  constexpr std::uint32_t kKnown = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (init->pd == nullptr || init->pd->context != context) {
    return refuse_null(EINVAL, "a parent domain needs a protection domain of its own context");
  }
  if (init->td != nullptr && init->td->context != context) {
    return refuse_null(EINVAL, "the thread domain belongs to another context");
  }
  if ((init->comp_mask & ~kKnown) != 0) return refuse_null(EOPNOTSUPP, "comp_mask: an attribute that is unknown");
  Context& owner = context_of(context);
  NewObject parent(owner, &Context::pds);
  parent->context = context;
  parent->nic_pd = own(init->pd)->nic_pd;
  parent->is_parent = true;
  parent->td = init->td == nullptr ? nullptr : own(init->td);
  {
    const NicLock lock(*owner.adapter);
    if (!lock) return refuse_null(refuse_without_nic(), last_error());
    ++parent->nic_pd->users;  // So that the protection domain stays.
  }
  if (parent->td != nullptr) {
    const std::scoped_lock lock(owner.objects_mutex);
    ++parent->td->parents;
  }
  return parent.keep();
}

}  // namespace uroce::ibv::impl
