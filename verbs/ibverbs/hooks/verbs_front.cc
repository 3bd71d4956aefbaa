// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/catalogue/verbs_front.h"

#include <cerrno>
#include <new>
#include <string_view>

#include "engine/run/turn_lock.h"
#include "proto/base/no_cancellation.h"
#include "verbs/ibverbs/hooks/call_faults.h"

namespace uroce::ibv::front {
namespace {

constexpr bool returns_minus_one(std::string_view verb) {
  for (const std::string_view one : {"ibv_query_gid", "ibv_query_pkey", "ibv_get_pkey_index", "ibv_get_device_index",
                                     "ibv_get_async_event", "ibv_get_cq_event", "ibv_poll_cq", "ibv_read_sysfs_file",
                                     "ibv_dm_export_dmabuf_fd", "ibv_export_buf_dmabuf_fd"}) {
    if (verb == one) return true;
  }
  return false;
}

/// No other verb is a cancellation point.
constexpr bool waits_for_events(std::string_view verb) {
  return verb == "ibv_get_async_event" || verb == "ibv_get_cq_event";
}

/// What a verb that fails on request leaves behind besides its error: which WR it was, a list that has ended.
template <class... Arguments>
void leave_behind(Arguments...) {}
void leave_behind(struct ibv_qp*, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr) { *bad_wr = wr; }
void leave_behind(struct ibv_qp*, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) { *bad_wr = wr; }
void leave_behind(struct ibv_srq*, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) { *bad_wr = wr; }
void leave_behind(struct ibv_qp_ex* qp) { qp->wr_abort(qp); }

/// The errno value with which a verb fails before it has touched anything, or 0.
int obstacle(const char* name) {
  // A signal handler has interrupted a verb, for which this one would wait for ever. No sentence: to store one takes
  // memory, and that is perhaps what was interrupted.
  if (engine::TurnMutex::is_inside()) [[unlikely]]
    return EDEADLK;
  return call_fault(name);
}

/// The program, which may be one in C, learns of missing memory from what the verb returns.
template <class Return, class Verb>
Return without_exceptions(const char* name, Verb verb) {
  if constexpr (can_fail<Return>) {
    try {
      return verb();
    } catch (const std::bad_alloc&) {  // No sentence: to store one takes memory.
      return failed_call<Return>(ENOMEM, returns_minus_one(name));
    }
  } else {
    return verb();
  }
}

template <class Return, class Verb, class Failed>
Return call(const char* name, Verb verb, Failed failed) {
  if constexpr (can_fail<Return>) {
    if (const int error = obstacle(name)) {
      failed();
      return failed_call<Return>(error, returns_minus_one(name));
    }
  }
  return without_exceptions<Return>(name, verb);
}

/// For a verb that may do more than the NIC does under its lock, where no thread is cancelled.
template <class Return, class Verb>
Return call_whole(const char* name, Verb verb) {
  const NoCancellation whole(!waits_for_events(name));
  return call<Return>(name, verb, [] {});
}

}  // namespace

#define UROCE_VERB(ret, name, params, args, version)                \
  ret name params {                                                 \
    return call_whole<ret>(#name, [&] { return impl::name args; }); \
  }
#include "verbs/ibverbs/catalogue/functions.def"
#include "verbs/ibverbs/catalogue/functions_extra.def"
#include "verbs/ibverbs/catalogue/functions_newer.def"
#undef UROCE_VERB

#define UROCE_OP(member, verb, ret, params, args)                             \
  ret member params {                                                         \
    return call<ret>(                                                         \
        verb, [&] { return impl::member args; }, [&] { leave_behind args; }); \
  }
#define UROCE_OF_OBJECT UROCE_OP
#define UROCE_EXTENDED(member, verb, ret, params, args)              \
  ret member params {                                                \
    return call_whole<ret>(verb, [&] { return impl::member args; }); \
  }
#include "verbs/ibverbs/catalogue/slots.def"

}  // namespace uroce::ibv::front
