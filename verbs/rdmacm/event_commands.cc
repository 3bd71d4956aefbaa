// SPDX-License-Identifier: Apache-2.0
// GET_EVENT, MIGRATE_ID, and multicast.
#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>

#include <cstddef>
#include <mutex>

#include "proto/base/no_cancellation.h"
#include "verbs/rdmacm/call.h"

namespace uroce::rdmacm {
namespace {

/// The channel behind one of the program's descriptors. ENOENT: it is not open; EINVAL: it is none of ours.
Result<std::shared_ptr<Channel>, int> channel_behind(Front& front, int descriptor) {
  if (::fcntl(descriptor, F_GETFD) < 0) return Err{ENOENT};
  const auto pipe = pipe_behind(descriptor);
  auto channel = pipe ? front.channel_of_command(*pipe) : nullptr;
  if (!channel) return Err{EINVAL};
  return channel;
}

/// Asked before an event is fetched, which would be lost. Leaves the memory as it is.
bool can_be_written(std::uint64_t response, std::size_t size) {
  rdma_ucm_event_resp before;
  return response != 0 && copy_of_caller(&before, pointer(response), size) && answer(response, &before, size) == 0;
}

/// The descriptor was open when write() looked. Another thread has closed it since: before we waited, or after the
/// event that woke us had gone with its id. The kernel's callers have the file: they sleep until a signal comes, or for
/// ever.
int wait_closed(const Channel& channel) {
  if (!channel.blocks()) return EAGAIN;
  ::poll(nullptr, 0, -1);
  return errno;
}

/// Takes the byte of an event, and waits for it as the program's descriptor says. Where the thread's stack is unwound
/// meanwhile, by pthread_cancel() or pthread_exit() in a signal handler, the event waits for others. Returns as
/// readv().
ssize_t take_token(const Call& call) {
  struct Taking {
    const Call& call;
    bool is_over = false;
    ~Taking() {
      if (is_over) return;
      const std::scoped_lock lock(call.front.event_mutex());
      call.channel->replace_lost_tokens();
    }
  } taking{call};
  char token = 0;
  const iovec to{&token, 1};
  // By readv(), since a program's read() of the device fails.
  const ssize_t count = ::readv(call.descriptor, &to, 1);
  taking.is_over = true;
  return count;
}

int join(const Call& call, std::uint64_t response, Id& id, const SocketAddress& group, std::uint64_t uid) {
  const bool ready = id.stage == Stage::kBound || id.stage == Stage::kAddressResolved;
  if (!is_datagram(id) || !ready || group.is_any()) return EINVAL;
  if (response == 0) return EFAULT;  // Nobody would learn the number that it takes to leave.
  const bool is_group = group.address.is_multicast();
  if (is_group) {
    const ibv::NicLock lock(*id.nic.adapter);
    if (!lock) return ENODEV;
    if (const int error = lock.port().join_group(group.address)) return error;
  }
  Multicast& multicast = call.front.add_group(id, group.address, is_group, uid);
  const int error = answer(response, rdma_ucm_create_id_resp{.id = multicast.number});
  error == 0 ? call.front.raise_joined(multicast) : static_cast<void>(call.front.leave(multicast, call.descriptor));
  return error;
}

}  // namespace

int get_event(const Call& call) {
  const auto in = call.read<rdma_ucm_get_event>();
  if (call.out_size < offsetof(rdma_ucm_event_resp, reserved)) return ENOSPC;
  const std::size_t size = std::min(call.out_size, sizeof(rdma_ucm_event_resp));
  call.channel->note_whether_it_blocks(call.descriptor);
  if (!can_be_written(in.response, size)) return EFAULT;
  while (true) {
    const ssize_t count = take_token(call);
    if (count < 0) return errno == EBADF ? wait_closed(*call.channel) : errno;
    if (count == 0) return ENODEV;
    const NoCancellation whole;
    if (const auto event = call.front.fetch(call.channel)) {
      return answer(in.response, &*event, size);
    }
  }
}

int migrate_id(const Call& call) {
  const auto in = call.read<rdma_ucm_migrate_id>();
  if (call.out_size < sizeof(rdma_ucm_migrate_resp)) return ENOSPC;
  const int old_descriptor = static_cast<int>(in.fd);
  const auto old_channel = channel_behind(call.front, old_descriptor);
  if (!old_channel.ok()) return old_channel.error();
  const auto id = call.front.find(**old_channel, in.id);
  if (!id.ok()) return id.error();
  return answer(in.response, rdma_ucm_migrate_resp{call.front.migrate(**id, old_descriptor, call.channel)});
}

int join_ip_multicast(const Call& call) {
  const auto in = call.read<rdma_ucm_join_ip_mcast>();
  if (call.out_size < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  const auto group = read_address(&in.addr, sizeof in.addr);
  if (!group) return EINVAL;
  const auto id = call.find_with_nic(in.id);
  return id.ok() ? join(call, in.response, **id, *group, in.uid) : id.error();
}

int join_multicast(const Call& call) {
  const auto in = call.read<rdma_ucm_join_mcast>();
  if (call.out_size < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  const auto group = read_address(&in.addr, sizeof in.addr);
  const std::size_t needed = group && group->family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (!group || in.addr_size != needed || in.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
  const auto id = call.find_with_nic(in.id);
  return id.ok() ? join(call, in.response, **id, *group, in.uid) : id.error();
}

int write_event(const Call& call) {
  struct WriteCmEvent {  // rdma_ucm_write_cm_event of Linux 6.17, the beginning of it.
    __u32 id, reserved, event, status;
    __aligned_u64 argument;
  };
  const auto in = call.read<WriteCmEvent>();
  const auto event = static_cast<EventType>(in.event);
  if (event != EventType::kUser && event != EventType::kInternal) return EINVAL;
  const auto id = call.find(in.id);
  if (!id.ok()) return id.error();
  call.front.raise(**id, event, static_cast<int>(in.status), in.argument);
  return 0;
}

int leave_multicast(const Call& call) {
  const auto in = call.read<rdma_ucm_destroy_id>();
  if (call.out_size < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  const auto multicast = call.front.find_group(*call.channel, in.id);
  if (!multicast.ok()) return multicast.error();
  return answer(in.response, rdma_ucm_destroy_id_resp{call.front.leave(**multicast, call.descriptor)});
}

}  // namespace uroce::rdmacm
