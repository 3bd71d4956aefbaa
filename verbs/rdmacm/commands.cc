// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/commands.h"

#include <array>
#include <new>

#include "proto/base/no_cancellation.h"
#include "verbs/rdmacm/call.h"

namespace uroce::rdmacm {
namespace {

using Handler = int (*)(const Call&);

/// By number (enum rdma_ucm_cmd). Null: the kernel has none either.
constexpr std::array<Handler, 25> kHandlers{create_id,    destroy_id,        bind_ip,         resolve_ip, resolve_route,
                                            query_route,  connect,           listen,          accept,     reject,
                                            disconnect,   init_qp_attr,      get_event,       nullptr,    set_option,
                                            notify,       join_ip_multicast, leave_multicast, migrate_id, query,
                                            bind_address, resolve_address,   join_multicast,  nullptr,    write_event};
// Two newer ones: 23 looks services up in InfiniBand's subnet administration, 24 is WRITE_CM_EVENT.
static_assert(kHandlers.size() == RDMA_USER_CM_CMD_JOIN_MCAST + 3);

/// In a child of fork(): programs wait for as many acknowledgements as DESTROY_ID says that there were events.
int run_abandoned(std::uint32_t command, const Call& call) {
  if (command != RDMA_USER_CM_CMD_DESTROY_ID) return ENODEV;
  return answer(call.read<rdma_ucm_destroy_id>().response, rdma_ucm_destroy_id_resp{});
}

int run_alone(Handler handler, const Call& call) {
  const std::scoped_lock lock(call.front.command_mutex());
  try {
    return handler(call);
  } catch (const std::bad_alloc&) {  // Not everything: write() is C.
    return ENOMEM;
  }
}

int run(const std::shared_ptr<Channel>& channel, int descriptor, const void* command, std::size_t size) {
  if (Front::is_inside_call()) return EDEADLK;
  rdma_ucm_cmd_hdr header{};
  std::array<std::uint8_t, sizeof header + Call::kLongest> bytes;
  if (size < sizeof header) return EINVAL;
  if (!copy_of_caller(bytes.data(), command, std::min(size, bytes.size()))) return EFAULT;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.cmd >= kHandlers.size() || header.in + sizeof header > size) return EINVAL;
  const Handler handler = kHandlers[header.cmd];
  if (handler == nullptr) return ENOSYS;
  const std::size_t length = std::min<std::size_t>(header.in, Call::kLongest);
  const Call call{Front::get(), channel, descriptor, Bytes(bytes).subspan(sizeof header, length), header.out};
  if (channel->is_abandoned()) return run_abandoned(header.cmd, call);
  if (handler == get_event) {
    const unsigned closes = call.front.closes();
    const int error = get_event(call);
    const NoCancellation whole;
    // Another thread may have closed it meanwhile; the descriptor was in use then.
    if (call.front.closes() != closes) call.front.release_if_closed(channel);
    return error;
  }
  ::pthread_testcancel();  // write() is a cancellation point; what this does instead can't be left halfway.
  const NoCancellation whole;
  const int error = run_alone(handler, call);
  call.front.look_at_missed_closes();
  return error;
}

}  // namespace

ssize_t execute(const std::shared_ptr<Channel>& channel, int descriptor, const void* command, std::size_t size) {
  const int before = errno;
  const int error = run(channel, descriptor, command, size);
  errno = error == 0 ? before : error;
  return error == 0 ? static_cast<ssize_t>(size) : -1;
}

}  // namespace uroce::rdmacm
