// SPDX-License-Identifier: Apache-2.0
// Events on their way from the connection managers, and from us, to the channels of the program.
#include <cstring>
#include <new>
#include <optional>

#include "engine/os/os_clock.h"
#include "verbs/rdmacm/events.h"
#include "verbs/rdmacm/faults.h"
#include "verbs/rdmacm/front.h"

namespace uroce::rdmacm {

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

}  // namespace uroce::rdmacm
