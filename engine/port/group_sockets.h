// SPDX-License-Identifier: Apache-2.0
// The sockets of a port that receive what is sent to multicast groups, one each. They are few and seldom busy, and are
// read outside of io_uring.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/port/receive_batch.h"
#include "engine/port/udp_socket.h"

namespace uroce::engine {

class GroupSockets {
 public:
  GroupSockets();

  /// Receives what is sent to `group` on the interfaces of `locals`: those of its IP version, at least one of which
  /// must take it. 0, or an errno value. Balanced by leave(); only the first and the last of several do anything.
  int join(const proto::Gid& group, std::span<const proto::Gid> locals);
  void leave(const proto::Gid& group);
  /// Joins all groups anew, where these addresses are now. What waits in the sockets is lost.
  void rejoin(std::span<const proto::Gid> locals);
  bool empty() const { return groups_.empty(); }

  /// Readable while packets wait for any group; the same descriptor all the time, so that another thread may poll it
  /// while groups come and go. Invalid when the system has no descriptor left; packets wait for the next look then.
  int fd() const { return any_.get(); }

  /// Takes at most `budget` packets; returns how many.
  using Deliver = std::function<void(ReceiveSocket& socket, const msghdr& message, Bytes payload)>;
  std::size_t receive(std::size_t budget, const Deliver& deliver);

  template <class Do>
  void for_each_socket(const Do& what) {
    for (Group& group : groups_) what(group.socket);
  }

  /// In the child of fork().
  void close_all();

 private:
  struct Group {
    ReceiveSocket socket;  ///< Its `local` is the group: the destination of all that it receives.
    std::uint32_t users = 0;
  };
  std::vector<Group> groups_;
  Fd any_;                               ///< An epoll over the sockets.
  std::unique_ptr<ReceiveBatch> batch_;  ///< Once there was a group.
};

}  // namespace uroce::engine
