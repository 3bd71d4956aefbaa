// SPDX-License-Identifier: Apache-2.0
// An open /dev/infiniband/rdma_cm: a queue of events, and a pipe whose read end the program holds. In the pipe is one
// byte per event, so that poll(), epoll, O_NONBLOCK, dup() and fork() do by themselves what they do with the kernel's.
#pragma once

#include <rdma/rdma_user_cm.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>

#include "engine/os/known_fd.h"

namespace uroce::rdmacm {

struct Id;
struct Multicast;

/// The values of enum rdma_cm_event_type that no connection manager tells about (cm::Event::Kind has the rest). Its
/// header can't be included beside <rdma/rdma_user_cm.h>.
enum class EventType : std::uint32_t {
  kAddrResolved = 0,
  kAddrError = 1,
  kRouteResolved = 2,
  kRouteError = 3,
  kUnreachable = 7,
  kRejected = 8,
  kDeviceRemoval = 11,
  kMulticastJoin = 12,
  // Since Linux 6.17, written by programs themselves:
  kUser = 18,
  kInternal = 19
};

struct QueuedEvent {
  Id* id = nullptr;                ///< It is counted for this one: the listener's, when it is a request.
  Multicast* multicast = nullptr;  ///< And for this one, if any.
  Id* child = nullptr;             ///< CONNECT_REQUEST: the new one.
  rdma_ucm_event_resp event{};
};

/// All members but the descriptors' are guarded by the front's event mutex.
class Channel {
 public:
  /// `read_end` is for the program: open(2) has returned it. Null and errno when there are no descriptors left.
  static std::shared_ptr<Channel> make(int flags, int& read_end);

  ino_t inode() const { return inode_; }
  /// Whether the program has closed its last copy of the descriptor, and so have its children; or all descriptors, with
  /// ours.
  bool is_closed() const;
  /// In a child of fork(): there is nothing behind it any more.
  void abandon() { is_abandoned_ = true; }
  bool is_abandoned() const { return is_abandoned_; }

  /// Remembers it, for callers whose descriptor is closed under them. Without the mutex, as blocks().
  void note_whether_it_blocks(int read_end);
  bool blocks() const { return blocks_; }

  void push(QueuedEvent event);
  /// The oldest. Call it after taking a byte out of the pipe; nothing when somebody has removed the event
  /// meanwhile.
  std::optional<QueuedEvent> pop();
  /// The oldest, which stays.
  const QueuedEvent* next() const { return events_.empty() ? nullptr : &events_.front(); }
  /// Takes out the events that `which` is true for, and their bytes. `read_end`: any copy of the program's descriptor.
  template <class Which>
  std::deque<QueuedEvent> remove_if(int read_end, Which which) {
    std::deque<QueuedEvent> removed;
    std::copy_if(events_.begin(), events_.end(), std::back_inserter(removed), which);
    if (!removed.empty()) std::erase_if(events_, which);
    for (std::size_t i = 0; i < removed.size(); ++i) take_back(read_end);
    return removed;
  }
  std::size_t size() const { return events_.size(); }
  /// A thread that is gone may have taken a byte and not fetched its event: that gets another one.
  void replace_lost_tokens();

 private:
  Channel() = default;
  void add_token();
  void take_back(int read_end);

  engine::KnownFd write_end_;
  ino_t inode_ = 0;
  std::deque<QueuedEvent> events_;
  bool is_abandoned_ = false;
  std::atomic<bool> blocks_ = true;
  std::size_t owed_ = 0;     ///< Bytes for which there was no room in the pipe.
  std::size_t in_hand_ = 0;  ///< Bytes that threads have read whose events are gone since.
};

/// The pipe behind a descriptor; nothing when it is no pipe. What the kernel says, not what the view does.
std::optional<ino_t> pipe_behind(int descriptor);

}  // namespace uroce::rdmacm
