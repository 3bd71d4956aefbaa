// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "engine/os/take_back.h"
#include "proto/quiet_signals.h"

namespace uroce::rdmacm {

std::shared_ptr<Channel> Channel::make(int flags, int& read_end) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return nullptr;
  read_end = ends[0];
  std::shared_ptr<Channel> channel(new Channel);
  channel->write_end_ = engine::KnownFd(engine::Fd(ends[1]));
  channel->inode_ = pipe_behind(read_end).value_or(0);
  if ((flags & O_NONBLOCK) == 0) ::fcntl(read_end, F_SETFL, 0);
  channel->note_whether_it_blocks(read_end);
  if ((flags & O_CLOEXEC) == 0) ::fcntl(read_end, F_SETFD, 0);
  return channel;
}

bool Channel::is_closed() const {
  if (!write_end_.is_there()) return true;
  pollfd end{write_end_.get(), 0, 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & POLLERR) != 0;
}

void Channel::note_whether_it_blocks(int read_end) {
  const int flags = ::fcntl(read_end, F_GETFL);
  if (flags >= 0) blocks_ = (flags & O_NONBLOCK) == 0;
}

void Channel::push(QueuedEvent event) {
  events_.push_back(event);
  add_token();
}

std::optional<QueuedEvent> Channel::pop() {
  if (owed_ > 0) {
    --owed_;
    add_token();
  }
  if (in_hand_ > 0) {
    --in_hand_;  // Or that of another thread, which gets the event then.
    return std::nullopt;
  }
  if (events_.empty()) return std::nullopt;
  const QueuedEvent event = events_.front();
  events_.pop_front();
  return event;
}

void Channel::add_token() {
  const std::array<std::uint8_t, 1> token{};
  // The program may have closed its end, or all descriptors, and ours is another file's.
  if (!write_end_.is_there() || proto::write_quietly(write_end_.get(), token) != 1) ++owed_;
}

void Channel::replace_lost_tokens() {
  int in_pipe = 0;
  // Not ioctl(), which is ours (verbs/preload).
  if (!write_end_.is_there() || ::syscall(SYS_ioctl, write_end_.get(), FIONREAD, &in_pipe) != 0) return;
  for (std::size_t there = owed_ + static_cast<std::size_t>(in_pipe); there < events_.size() + in_hand_; ++there) {
    add_token();
  }
}

void Channel::take_back(int read_end) {
  if (owed_ > 0) {
    --owed_;
    return;
  }
  // The program's descriptor may block.
  if (engine::take_back(read_end, 1) == engine::TakenBack::kNothing) ++in_hand_;
}

std::optional<ino_t> pipe_behind(int descriptor) {
  struct stat status {};
  if (!engine::ask_status(descriptor, status) || !S_ISFIFO(status.st_mode)) return std::nullopt;
  return status.st_ino;
}

}  // namespace uroce::rdmacm
