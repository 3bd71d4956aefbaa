// SPDX-License-Identifier: Apache-2.0
// Ids and the groups that they are in, from their creation to their end.
#include "engine/os/os_clock.h"
#include "verbs/rdmacm/events.h"
#include "verbs/rdmacm/front.h"

namespace uroce::rdmacm {

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

}  // namespace uroce::rdmacm
