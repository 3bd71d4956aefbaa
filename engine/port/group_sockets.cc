// SPDX-License-Identifier: Apache-2.0
#include "engine/port/group_sockets.h"

#include <algorithm>
#include <cerrno>

#include "engine/os/epoll.h"
#include "engine/port/frame_pool.h"

namespace uroce::engine {
namespace {

constexpr std::size_t kBatch = 8;

}  // namespace

GroupSockets::GroupSockets() : any_(make_epoll()) {}

int GroupSockets::join(const proto::Gid& group, std::span<const proto::Gid> locals) {
  const auto known =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.socket.local == group; });
  if (known != groups_.end()) {
    ++known->users;
    return 0;
  }
  Result<ReceiveSocket, SetupError> opened = open_group_socket(group, locals);
  if (!opened) return opened.error().error;
  if (batch_ == nullptr) batch_ = std::make_unique<ReceiveBatch>(kBatch, FramePool::kStride);
  if (any_) control_epoll(any_, EPOLL_CTL_ADD, opened->fd.get(), EPOLLIN);
  groups_.push_back({std::move(*opened), 1});
  return 0;
}

void GroupSockets::leave(const proto::Gid& group) {
  std::erase_if(groups_, [&](Group& g) { return g.socket.local == group && --g.users == 0; });
}

void GroupSockets::rejoin(std::span<const proto::Gid> locals) {
  for (Group& group : groups_) {
    Result<ReceiveSocket, SetupError> opened = open_group_socket(group.socket.local, locals);
    if (!opened) continue;  // No interface has such an address: later, perhaps.
    if (any_) control_epoll(any_, EPOLL_CTL_ADD, opened->fd.get(), EPOLLIN);
    group.socket = std::move(*opened);
  }
}

std::size_t GroupSockets::receive(std::size_t budget, const Deliver& deliver) {
  std::size_t received = 0;
  for (Group& group : groups_) {
    std::size_t got = kBatch;
    while (got == kBatch && received < budget) {
      got = batch_->receive(group.socket.fd.get(), budget - received,
                            [&](const msghdr& message, Bytes payload) { deliver(group.socket, message, payload); });
      received += got;
    }
  }
  return received;
}

void GroupSockets::close_all() {
  groups_.clear();
  any_.reset();
}

}  // namespace uroce::engine
