// SPDX-License-Identifier: Apache-2.0
#include "engine/port/group_sockets.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "proto/packet.h"

namespace uroce::engine {

GroupSockets::GroupSockets() : any_(::epoll_create1(EPOLL_CLOEXEC)) {}

int GroupSockets::join(const proto::Gid& group, std::span<const proto::Gid> locals) {
  const auto known =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.socket.local == group; });
  if (known != groups_.end()) {
    ++known->users;
    return 0;
  }
  Result<ReceiveSocket, SetupError> opened = open_group_socket(group, locals);
  if (!opened) return opened.error().error;
  epoll_event event{};
  event.events = EPOLLIN;
  if (any_) ::epoll_ctl(any_.get(), EPOLL_CTL_ADD, opened->fd.get(), &event);
  groups_.push_back({std::move(*opened), 1});
  // A byte more than the largest packet, so that longer ones show (and are refused as such).
  buffer_.resize(proto::kMaxPacketSize + 1);
  return 0;
}

void GroupSockets::leave(const proto::Gid& group) {
  std::erase_if(groups_, [&](Group& g) { return g.socket.local == group && --g.users == 0; });
}

std::size_t GroupSockets::receive(std::size_t budget, const Deliver& deliver) {
  std::size_t received = 0;
  for (Group& group : groups_) {
    while (received < budget) {
      SocketAddress from;
      alignas(cmsghdr) std::array<char, kReceiveControlSize> control;
      iovec bytes{.iov_base = buffer_.data(), .iov_len = buffer_.size()};
      msghdr message{};
      message.msg_name = &from.v6;
      message.msg_namelen = sizeof from.v6;
      message.msg_iov = &bytes;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t size = ::recvmsg(group.socket.fd.get(), &message, MSG_DONTWAIT);
      if (size < 0) break;
      deliver(group.socket, message, Bytes(buffer_.data(), static_cast<std::size_t>(size)));
      ++received;
    }
  }
  return received;
}

void GroupSockets::close_all() {
  groups_.clear();
  any_.reset();
}

}  // namespace uroce::engine
