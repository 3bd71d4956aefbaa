// SPDX-License-Identifier: Apache-2.0
#include "verbs/rdmacm/front.h"

#include <atomic>
#include <cerrno>

#include "engine/os/bounded_lock.h"
#include "engine/os/end_of_exit.h"
#include "engine/os/left_to_parent.h"
#include "engine/os/os_clock.h"
#include "proto/base/made_once.h"
#include "verbs/ibverbs/host/fork.h"
#include "verbs/ibverbs/host/nic_source.h"
#include "verbs/rdmacm/events.h"
#include "verbs/rdmacm/faults.h"
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

// --- channels -------------------------------------------------------------------------------------------------------

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
  const auto found = channels_.find(pipe);
  return found == channels_.end() ? nullptr : found->second;
}

void Front::release_if_closed(const std::shared_ptr<Channel>& channel) {
  if (channel->is_abandoned() || !channel->is_closed()) return;
  const std::scoped_lock lock(commands_);
  release(channel);
}

void Front::copy_closed(const std::shared_ptr<Channel>& channel) {
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

// --- ids ------------------------------------------------------------------------------------------------------------

Result<Id*, int> Front::find(const Channel& channel, std::uint32_t number) {
  const std::scoped_lock lock(events_);
  Id* const id = ids_.find(number);
  if (id == nullptr) return Err{ENOENT};
  if (id->channel.get() != &channel) return Err{EINVAL};
  return id;
}

Id& Front::create(const std::shared_ptr<Channel>& channel, std::uint16_t space, enum ibv_qp_type qp_type,
                  std::uint64_t uid) {
  const std::scoped_lock lock(events_);
  Id& id = ids_.add();
  id.space = id.source.space = space;
  id.qp_type = qp_type;
  id.uid = uid;
  id.channel = channel;
  return id;
}

std::uint32_t Front::destroy(Id& id, int read_end) {
  stop_listening(id, read_end);
  end_connection(id);
  while (!id.groups.empty()) leave(*id.groups.front(), read_end);
  drop_events(id, read_end);
  ports_.release(id.source);
  const std::scoped_lock lock(events_);
  const std::uint32_t reported = id.events_reported;
  ids_.remove(id.number);
  return reported;
}

void Front::place(Id& id, Nic nic) {
  const std::scoped_lock lock(events_);
  id.nic = std::move(nic);
}

void Front::stop_listening(Id& id, int read_end) {
  if (id.listening.empty()) return;
  std::vector<Id*> unfetched;
  for (const Listening& one : id.listening) {
    ibv::NicLock lock(*one.adapter);
    {
      const std::scoped_lock events(events_);
      listeners_.erase({one.adapter.get(), one.listener});
      const auto is_request = [&id](const QueuedEvent& event) { return event.id == &id && event.child != nullptr; };
      for (const QueuedEvent& event : id.channel->remove_if(read_end, is_request)) unfetched.push_back(event.child);
    }
    if (!lock) continue;
    lock.cm().unlisten(one.listener, engine::os_now());
    lock.posted_now();
  }
  id.listening.clear();
  for (Id* const request : unfetched) destroy(*request, read_end);
}

void Front::end_connection(Id& id) {
  if (id.connection == 0) return;
  ibv::NicLock lock(*id.nic.adapter);
  {
    const std::scoped_lock events(events_);
    connections_.erase({id.nic.adapter.get(), id.connection});
  }
  if (!lock) return;
  lock.cm().destroy(id.connection, engine::os_now());
  lock.posted_now();
}

void Front::drop_events(Id& id, int read_end) {
  const std::scoped_lock lock(events_);
  id.uid = 0;  // No further events: a removal may come before it is forgotten.
  // A request may end before its listener hears of it.
  id.channel->remove_if(read_end, [&id](const QueuedEvent& event) { return event.id == &id || event.child == &id; });
}

std::uint32_t Front::migrate(Id& id, int read_end, const std::shared_ptr<Channel>& to) {
  const std::scoped_lock lock(events_);
  for (const QueuedEvent& event :
       id.channel->remove_if(read_end, [&id](const QueuedEvent& queued) { return queued.id == &id; })) {
    if (event.child != nullptr) event.child->channel = to;  // It must not end with the old one.
    to->push(event);
  }
  id.channel = to;
  return id.events_reported;
}

std::shared_ptr<ibv::Adapter> Front::nic_of_next_request(const Channel& channel) {
  const std::scoped_lock lock(events_);
  const QueuedEvent* const next = channel.next();
  return next == nullptr || next->child == nullptr ? nullptr : next->child->nic.adapter;
}

std::optional<rdma_ucm_event_resp> Front::fetch(const std::shared_ptr<Channel>& channel) {
  while (true) {
    const auto nic = nic_of_next_request(*channel);
    // Another thread may end the listener, which takes along what nobody has fetched: before this, or not at all.
    std::optional<ibv::NicLock> lock;
    if (nic) lock.emplace(*nic);
    const std::scoped_lock events(events_);
    const QueuedEvent* const next = channel->next();
    if (next != nullptr && next->child != nullptr && next->child->nic.adapter != nic) continue;
    const auto fetched = channel->pop();
    if (!fetched) return std::nullopt;
    ++fetched->id->events_reported;
    if (fetched->multicast != nullptr) ++fetched->multicast->events_reported;
    if (Id* const child = fetched->child) {
      child->channel = channel;
      if (*lock) lock->cm().fetched(child->connection);
    }
    return fetched->event;
  }
}

void Front::raise(Id& id, EventType event, int status) {
  const std::scoped_lock lock(events_);
  id.channel->push({.id = &id, .event = plain_event(id, event, status)});
}

void Front::raise(Id& id, EventType event, int status, std::uint64_t argument) {
  const std::scoped_lock lock(events_);
  rdma_ucm_event_resp out = plain_event(id, event, status);
  std::memcpy(&out.param, &argument, sizeof argument);
  id.channel->push({.id = &id, .event = out});
}

// --- multicast ------------------------------------------------------------------------------------------------------

Result<Multicast*, int> Front::find_group(const Channel& channel, std::uint32_t number) {
  const std::scoped_lock lock(events_);
  Multicast* const multicast = groups_.find(number);
  if (multicast == nullptr) return Err{ENOENT};
  if (multicast->id->channel.get() != &channel) return Err{EINVAL};
  return multicast;
}

Multicast& Front::add_group(Id& id, const proto::Gid& group, bool joined, std::uint64_t uid) {
  const std::scoped_lock lock(events_);
  Multicast& multicast = groups_.add();
  multicast.id = &id;
  multicast.group = group;
  multicast.joined = joined;
  multicast.uid = uid;
  id.groups.push_back(&multicast);
  return multicast;
}

void Front::raise_joined(Multicast& multicast) {
  const std::scoped_lock lock(events_);
  multicast.id->channel->push({.id = multicast.id, .multicast = &multicast, .event = join_event(multicast)});
}

std::uint32_t Front::leave(Multicast& multicast, int read_end) {
  if (multicast.joined) {
    if (const ibv::NicLock lock(*multicast.id->nic.adapter); lock) lock.port().leave_group(multicast.group);
  }
  const std::scoped_lock lock(events_);
  multicast.id->channel->remove_if(read_end,
                                   [&multicast](const QueuedEvent& event) { return event.multicast == &multicast; });
  std::erase(multicast.id->groups, &multicast);
  const std::uint32_t reported = multicast.events_reported;
  groups_.remove(multicast.number);
  return reported;
}

// --- from the connection managers -----------------------------------------------------------------------------------

void Front::expect(Id& id, const ibv::Adapter& adapter, cm::Id connection) {
  const std::scoped_lock lock(events_);
  connections_[{&adapter, connection}] = &id;
}

void Front::expect_requests(Id& id, const ibv::Adapter& adapter, cm::ListenerId listener) {
  const std::scoped_lock lock(events_);
  listeners_[{&adapter, listener}] = &id;
}

void Front::on_cm_events(ibv::Adapter& adapter, cm::Cm& cm) {
  while (const cm::Event* const next = cm.next_event()) {
    const std::scoped_lock lock(events_);
    try {
      next->kind == cm::Event::Kind::kRequest ? on_request(adapter, cm, *next) : on_event(adapter, cm, *next);
    } catch (const std::bad_alloc&) {
      return;  // It stays the next one, for another turn.
    }
    cm.pop_event();
  }
}

void Front::on_event(ibv::Adapter& adapter, cm::Cm& cm, const cm::Event& event) {
  const auto found = connections_.find({&adapter, event.id});
  // Without a uid, the program does not know the id yet: accept() will fail, and tell it enough.
  if (found == connections_.end() || found->second->uid == 0) return;
  Id& id = *found->second;
  if (event.kind == cm::Event::Kind::kEstablished && !is_datagram(id)) faults::limit_life(cm, event.id);
  const auto info = cm.query(event.id);
  id.channel->push({.id = &id, .event = connection_event(id, event, info ? info->path : cm::PathInfo{})});
}

/// As of a device that is pulled out: every id on it learns of it, whatever it is doing. Those that listen everywhere
/// go on elsewhere.
void Front::on_removal(ibv::Adapter& adapter) {
  const std::scoped_lock lock(events_);
  ids_.for_each([&adapter](Id& id) {
    const bool is_known = id.uid != 0 && id.nic.adapter.get() == &adapter;
    if (is_known) id.channel->push({.id = &id, .event = plain_event(id, EventType::kDeviceRemoval, 0)});
  });
}

void Front::on_request(ibv::Adapter& adapter, cm::Cm& cm, const cm::Event& event) {
  const auto found = listeners_.find({&adapter, event.listener});
  const auto info = cm.query(event.id);
  if (found == listeners_.end() || !info) return cm.destroy(event.id, engine::os_now());
  if (faults::rejects(cm, event.id)) return;
  Id& listener = *found->second;
  Id& child = ids_.add();
  try {
    child.space = child.source.space = listener.space;
    child.qp_type = listener.qp_type;
    child.stage = Stage::kConnecting;
    child.source.address = socket_address(info->local.address, info->local.port);
    child.destination = socket_address(info->remote.address, info->remote.port);
    child.nic = {.adapter = adapter.shared_from_this(), .gid_index = gid_index_of(adapter, info->local.address)};
    child.options.tos = info->path.tclass;
    child.connection = event.id;
    child.channel = listener.channel;
    connections_[{&adapter, event.id}] = &child;
    rdma_ucm_event_resp out = connection_event(listener, event, info->path);
    out.id = child.number;
    listener.channel->push({.id = &listener, .child = &child, .event = out});
  } catch (...) {
    connections_.erase({&adapter, event.id});
    ids_.remove(child.number);
    throw;
  }
}

}  // namespace uroce::rdmacm
