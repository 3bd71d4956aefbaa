// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/objects/leftovers.h"

#include "engine/os/process_mutex.h"
#include "proto/base/made_once.h"

namespace uroce::ibv {
namespace {

/// Here for leak checkers to find. Guarded by engine::process_mutex.
std::unordered_set<Context*>& closed() {
  static constinit std::atomic<std::unordered_set<Context*>*> contexts = nullptr;
  return made_once(contexts);
}

bool is_empty(const Context& c) {
  return c.tds.empty() && c.pds.empty() && c.mrs.empty() && c.mws.empty() && c.channels.empty() && c.cqs.empty() &&
         c.srqs.empty() && c.qps.empty() && c.ahs.empty();
}

template <class Object>
void prepare(Object& /*object*/) {}
void prepare(CompletionQueue& cq) { destroy_ack<struct ibv_cq_ex>(cq); }
void prepare(SharedReceiveQueue& srq) { destroy_ack<struct ibv_srq>(srq); }
void prepare(QueuePair& qp) { destroy_ack(qp.qp_base); }

}  // namespace

void leave(Context* context) {
  if (is_empty(*context)) {
    delete context;
    return;
  }
  const std::scoped_lock lock(engine::process_mutex);
  closed().insert(context);
}

template <class Object>
bool destroy_leftover(Context& context, std::unordered_set<Object*> Context::*kind, Object* object) {
  if (context.adapter != nullptr) return false;
  const std::scoped_lock lock(engine::process_mutex);
  (context.*kind).erase(object);
  prepare(*object);
  delete object;
  if (!is_empty(context)) return true;
  closed().erase(&context);
  delete &context;
  return true;
}

template bool destroy_leftover(Context&, std::unordered_set<ThreadDomain*> Context::*, ThreadDomain*);
template bool destroy_leftover(Context&, std::unordered_set<ProtectionDomain*> Context::*, ProtectionDomain*);
template bool destroy_leftover(Context&, std::unordered_set<MemoryRegion*> Context::*, MemoryRegion*);
template bool destroy_leftover(Context&, std::unordered_set<MemoryWindow*> Context::*, MemoryWindow*);
template bool destroy_leftover(Context&, std::unordered_set<CompChannel*> Context::*, CompChannel*);
template bool destroy_leftover(Context&, std::unordered_set<CompletionQueue*> Context::*, CompletionQueue*);
template bool destroy_leftover(Context&, std::unordered_set<SharedReceiveQueue*> Context::*, SharedReceiveQueue*);
template bool destroy_leftover(Context&, std::unordered_set<QueuePair*> Context::*, QueuePair*);
template bool destroy_leftover(Context&, std::unordered_set<AddressHandle*> Context::*, AddressHandle*);

}  // namespace uroce::ibv
