// SPDX-License-Identifier: Apache-2.0
// The one Front of a process, what fork and exit do to it, and its channels.
#include "verbs/rdmacm/front.h"

#include <atomic>
#include <cerrno>

#include "engine/os/bounded_lock.h"
#include "engine/os/end_of_exit.h"
#include "engine/os/left_to_parent.h"
#include "proto/base/made_once.h"
#include "verbs/ibverbs/host/fork.h"
#include "verbs/ibverbs/host/nic_source.h"
#include "verbs/rdmacm/host.h"

namespace uroce::rdmacm {
namespace {

constinit std::atomic<Front*> current = nullptr;

/// How long exit() waits for a lock that others hold for microseconds.
constexpr Duration kExitWait = std::chrono::milliseconds(100);
/// How long fork() waits for commands of other threads, of which some open NICs.
constexpr Duration kForkWait = std::chrono::seconds(15);

}  // namespace

/// A child of fork() has copies of the channels, and nothing behind them.
struct ForkHandlers {
  static inline Front* front = nullptr;
  static inline ibv::MutexHeldAcrossFork<FrontMutex> commands, events;

  static void before_nics() {
    front = current.load();
    if (front != nullptr) commands.take(front->commands_, kForkWait);
  }
  static void after_nics() {
    if (front != nullptr) events.take(front->events_, kForkWait);
  }
  static void in_parent() {
    events.give_back();
    commands.give_back();
  }
  static void in_child() {
    const bool is_whole = commands && events;
    in_parent();
    if (front != nullptr) engine::leave_to_parent(*front);
    // What may be in the middle of anything is left alone: the child makes its own.
    if (!is_whole) return current.store(nullptr);
    auto* const own = new Front;
    own->channels_ = front->channels_;
    for (const auto& [inode, channel] : own->channels_) {
      own->pipes_.add(inode);
      channel->abandon();
    }
    front->ids_.for_each([](Id& id) {
      for (Listening& one : id.listening) one.claims.clear();  // They are the parent's, and end with it.
    });
    current.store(own);
  }
};

Front::Front() : nics_(*this), ports_(port_config()) {}

namespace {

void release_before_exit() {
  if (Front* const front = current.load()) front->release_all();
}

// Front::get() is in this file, so that who has a Front has these.
[[maybe_unused]] const int kHooked = [] {
  ibv::set_fork_hooks({.is_inside = FrontMutex::is_inside,
                       .before_nics = ForkHandlers::before_nics,
                       .after_nics = ForkHandlers::after_nics,
                       .in_parent = ForkHandlers::in_parent,
                       .in_child = ForkHandlers::in_child});
  return engine::at_end_of_exit<release_before_exit>();
}();

}  // namespace

Front& Front::get() {
  return made_once(current, [] { return std::unique_ptr<Front>(new Front); });
}

bool Front::is_inside_call() {
  return FrontMutex::is_inside() || engine::TurnMutex::is_inside() || ibv::is_inside_device();
}

int Front::open_channel(int flags) {
  if (is_inside_call()) return errno = EDEADLK, -1;
  look_at_half_closed();  // The program may want their ports now.
  int read_end = -1;
  auto channel = Channel::make(flags, read_end);
  if (!channel) return -1;
  const std::scoped_lock lock(events_);
  pipes_.add(channel->inode());
  channels_[channel->inode()] = std::move(channel);
  return read_end;
}

std::shared_ptr<Channel> Front::channel_with(ino_t pipe) {
  if (!pipes_.may_have(pipe)) return nullptr;
  std::unique_lock lock(events_, std::defer_lock);
  if (!FrontMutex::is_inside()) {
    lock.lock();
  } else if (!lock.try_lock()) {
    missed_close_ = true;  // Perhaps it is one.
    return nullptr;
  }
  return find_channel(pipe);
}

std::shared_ptr<Channel> Front::channel_of_command(ino_t pipe) {
  const std::scoped_lock lock(events_);
  return find_channel(pipe);
}

std::shared_ptr<Channel> Front::find_channel(ino_t pipe) const {
  const auto found = channels_.find(pipe);
  return found == channels_.end() ? nullptr : found->second;
}

void Front::release_if_closed(const std::shared_ptr<Channel>& channel) {
  if (channel->is_abandoned() || !channel->is_closed()) return;
  const std::scoped_lock lock(commands_);
  release(channel);
}

void Front::copy_closed(const std::shared_ptr<Channel>& channel) {
  ++closes_;
  if (channel->is_abandoned()) return;
  if (is_inside_call()) {
    missed_close_ = true;
    return;
  }
  {
    const std::scoped_lock lock(events_);
    half_closed_.insert(channel);
  }
  look_at_half_closed();
}

void Front::look_at_missed_closes() {
  if (missed_close_ && missed_close_.exchange(false)) release_closed();
}

void Front::look_at_half_closed() {
  look_at_missed_closes();
  std::unordered_set<std::shared_ptr<Channel>> those;
  {
    const std::scoped_lock lock(events_);
    those = half_closed_;
  }
  for (const auto& channel : those) release_if_closed(channel);
}

void Front::release_closed() {
  ++closes_;
  if (is_inside_call()) {
    missed_close_ = true;
    return;
  }
  for (const auto& channel : channels()) release_if_closed(channel);
}

std::vector<std::shared_ptr<Channel>> Front::channels() {
  std::vector<std::shared_ptr<Channel>> all;
  const std::scoped_lock lock(events_);
  for (const auto& [inode, channel] : channels_) {
    if (!channel->is_abandoned()) all.push_back(channel);
  }
  return all;
}

void Front::release_all() {
  // A child by clone() or _Fork(), of which nobody has told us, has its parent's connections.
  if (process_ != ::getpid()) return;
  // Their owner may never give them back.
  if (!engine::try_lock_for(commands_, kExitWait)) return;
  const std::scoped_lock lock(std::adopt_lock, commands_);
  if (!engine::try_lock_for(events_, kExitWait)) return;
  events_.unlock();
  for (const auto& channel : channels()) release(channel);
  nics_.send_before_exit();
}

void Front::release(const std::shared_ptr<Channel>& channel) {
  std::vector<std::uint32_t> numbers;
  {
    const std::scoped_lock lock(events_);
    ids_.for_each([&](const Id& id) {
      if (id.channel == channel) numbers.push_back(id.number);
    });
  }
  for (const std::uint32_t number : numbers) {
    const auto id = find(*channel, number);  // A listener takes its requests with it.
    if (id.ok()) destroy(**id, -1);
  }
  const std::scoped_lock lock(events_);
  half_closed_.erase(channel);
  if (channels_.erase(channel->inode()) != 0) pipes_.remove(channel->inode());
}

}  // namespace uroce::rdmacm
