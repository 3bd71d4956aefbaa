// SPDX-License-Identifier: Apache-2.0
// One command on its way, as the handlers of commands see it.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "proto/bytes.h"
#include "verbs/rdmacm/caller_memory.h"
#include "verbs/rdmacm/channel.h"
#include "verbs/rdmacm/front.h"

namespace uroce::rdmacm {

struct Call {
  Front& front;
  const std::shared_ptr<Channel>& channel;
  int descriptor = -1;
  Bytes body;                ///< Behind the header; at most kLongest.
  std::size_t out_size = 0;  ///< Room for the answer.

  /// More than any command has.
  static constexpr std::size_t kLongest = 1024;

  /// The body as T; what older libraries leave out is zero.
  template <class T>
  T read() const {
    static_assert(sizeof(T) <= kLongest);
    T value{};
    std::memcpy(&value, body.data(), std::min(sizeof value, body.size()));
    return value;
  }
  Result<Id*, int> find(std::uint32_t number) const { return front.find(*channel, number); }
  /// find() for commands that need a NIC: EINVAL without one.
  Result<Id*, int> find_with_nic(std::uint32_t number) const {
    auto id = find(number);
    if (id.ok() && !(*id)->nic) return Err{EINVAL};
    return id;
  }
};

/// Copies an answer to where the program wants it. 0 or EFAULT.
inline int answer(std::uint64_t response, const void* from, std::size_t size) {
  return response != 0 && copy_of_caller(pointer(response), from, size) ? 0 : EFAULT;
}
template <class T>
int answer(std::uint64_t response, const T& value) {
  return answer(response, &value, sizeof value);
}

// Each of them returns 0 or an errno value; it is called with the front's command mutex held.
int create_id(const Call& call);
int destroy_id(const Call& call);
int bind_ip(const Call& call);
int bind_address(const Call& call);
int resolve_ip(const Call& call);
int resolve_address(const Call& call);
int resolve_route(const Call& call);
int listen(const Call& call);
int query_route(const Call& call);
int query(const Call& call);
int set_option(const Call& call);

int connect(const Call& call);
int accept(const Call& call);
int reject(const Call& call);
int disconnect(const Call& call);
int notify(const Call& call);
int init_qp_attr(const Call& call);

int migrate_id(const Call& call);
int join_ip_multicast(const Call& call);
int join_multicast(const Call& call);
int leave_multicast(const Call& call);
int write_event(const Call& call);

/// GET_EVENT; without the mutex.
int get_event(const Call& call);

}  // namespace uroce::rdmacm
