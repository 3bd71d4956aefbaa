// SPDX-License-Identifier: Apache-2.0
#include "engine/sim/world.h"

#include <algorithm>

#include "proto/base/check.h"
#include "proto/packet.h"

namespace uroce::engine::sim {

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return "done";
    case Outcome::kTimeLimit:
      return "time limit";
    case Outcome::kStuck:
      return "stuck";
    case Outcome::kEventLimit:
      return "event limit";
  }
  return "?";
}

World::World(WorldConfig config)
    : config_(std::move(config)),
      now_(config_.start),
      link_(config_.link, config_.seed),
      frame_(proto::kMaxPacketSize) {}

NodeId World::add_node(std::unique_ptr<Node> node, std::span<const proto::Gid> gids) {
  for (const proto::Gid& gid : gids) UROCE_ASSERT(owner_of(gid) == kNoNode);
  node->gids.assign(gids.begin(), gids.end());
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

void World::detach(NodeId node) {
  UROCE_ASSERT(node < nodes_.size());
  nodes_[node]->attached = false;
}

void World::join(NodeId node, const proto::Gid& group) {
  UROCE_ASSERT(node < nodes_.size() && group.is_multicast());
  std::vector<proto::Gid>& groups = nodes_[node]->groups;
  if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
}

void World::leave(NodeId node, const proto::Gid& group) {
  UROCE_ASSERT(node < nodes_.size());
  std::erase(nodes_[node]->groups, group);
}

NodeId World::owner_of(const proto::Gid& gid) const {
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const Node& node = *nodes_[id];
    if (node.attached && std::find(node.gids.begin(), node.gids.end(), gid) != node.gids.end()) return id;
  }
  return kNoNode;
}

void World::kick(NodeId node) {
  UROCE_ASSERT(node < nodes_.size());
  if (!nodes_[node]->dirty) {
    nodes_[node]->dirty = true;
    dirty_.push_back(node);
  }
  if (!draining_) drain_dirty();
}

void World::after(Duration delay, std::function<void()> callback) {
  const std::uint32_t index = callbacks_.take();
  callbacks_.all[index] = std::move(callback);
  push(now_ + delay, Event::Kind::kCallback, kNoNode, index);
}

Outcome World::run_until(const std::function<bool()>& done, Duration max_time) {
  const Instant limit = now_ + max_time;
  while (!done()) {
    if (out_of_events()) return Outcome::kEventLimit;
    if (queue_.empty()) return Outcome::kStuck;
    if (!has_event_until(limit)) {
      if (queue_.empty()) return Outcome::kStuck;
      now_ = limit;
      return Outcome::kTimeLimit;
    }
    step();
  }
  return Outcome::kDone;
}

Outcome World::run_for(Duration time) {
  const Instant limit = now_ + time;
  while (has_event_until(limit)) {
    if (out_of_events()) return Outcome::kEventLimit;
    step();
  }
  if (out_of_events()) return Outcome::kEventLimit;
  now_ = limit;
  return Outcome::kDone;
}

Outcome World::run_idle() {
  while (has_event_until(Instant::max())) {
    if (out_of_events()) return Outcome::kEventLimit;
    step();
  }
  return out_of_events() ? Outcome::kEventLimit : Outcome::kDone;
}

void World::push(Instant time, Event::Kind kind, NodeId node, std::uint32_t index) {
  queue_.push({time, next_sequence_++, kind, node, index});
}

/// Throws stale timers away, so that they neither count nor keep the world from being idle.
bool World::has_event_until(Instant limit) {
  while (!queue_.empty()) {
    const Event event = queue_.top();
    if (!is_stale(event)) return event.time <= limit;
    queue_.pop();
    if (event.kind != Event::Kind::kTimer || event.index != nodes_[event.node]->timer_generation) continue;
    nodes_[event.node]->queued.reset();
    if (nodes_[event.node]->attached) arm(event.node);
  }
  return false;
}

/// True for a timer that is not, or not yet, to fire.
bool World::is_stale(const Event& event) {
  if (event.kind != Event::Kind::kTimer) return false;
  const Node& node = *nodes_[event.node];
  return !node.attached || event.index != node.timer_generation || !node.deadline || *node.deadline > event.time;
}

void World::step() {
  const Event event = queue_.top();
  queue_.pop();
  UROCE_ASSERT(event.time >= now_);
  now_ = event.time;
  ++events_;
  draining_ = true;  // kick() from a callback only marks; the packets are taken below, in a fixed order.
  switch (event.kind) {
    case Event::Kind::kCallback: {
      const std::function<void()> callback = std::move(callbacks_.all[event.index]);
      callbacks_.give_back(event.index);
      callback();
      break;
    }
    case Event::Kind::kPacket:
      deliver(event.node, event.index);
      break;
    case Event::Kind::kTimer:
      nodes_[event.node]->queued.reset();
      ++counters_.timeouts;
      nodes_[event.node]->on_timeout(now_);
      if (on_step_) on_step_(event.node);
      kick(event.node);
      break;
  }
  draining_ = false;
  drain_dirty();
}

void World::deliver(NodeId node, std::uint32_t index) {
  Flight& flight = flights_.all[index];
  Packet packet = flight.packet;
  const bool last = --flight.copies == 0;
  // Out of the pool before the NIC and the hooks run: they may send, and so grow it.
  const std::unique_ptr<std::uint8_t[]> bytes = last ? std::move(flight.bytes) : nullptr;
  if (last) flights_.give_back(index);
  if (!nodes_[node]->attached) {
    ++counters_.unroutable;
    if (tap_) tap_(TapPoint::kUnroutable, packet, now_);
    return;
  }
  ++counters_.delivered;
  if (tap_) tap_(TapPoint::kDelivered, packet, now_);
  nodes_[node]->on_datagram(proto::Datagram{packet.path, packet.bytes}, now_);
  if (on_step_) on_step_(node);
  kick(node);
}

void World::drain_dirty() {
  draining_ = true;
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    const NodeId node = dirty_[i];
    nodes_[node]->dirty = false;
    drain(node);
    if (on_drained_) on_drained_(node);
  }
  dirty_.clear();
  draining_ = false;
}

void World::drain(NodeId id) {
  Node& node = *nodes_[id];
  if (!node.attached) return;
  while (!out_of_events()) {
    const std::optional<proto::Transmit> packet = node.poll_transmit(now_, frame_);
    if (!packet) break;
    transmit(id, *packet);
  }
  arm(id);
}

void World::transmit(NodeId from, const proto::Transmit& transmit) {
  UROCE_ASSERT(transmit.size <= frame_.size());
  ++events_;
  Packet packet{
      .from = from, .number = counters_.sent++, .path = transmit.path, .bytes = MutBytes(frame_).first(transmit.size)};
  packet.to = owner_of(packet.path.destination);
  if (tap_) tap_(TapPoint::kSent, packet, now_);
  if (packet.to != kNoNode) return carry(packet, packet.to);
  bool anybody = false;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const std::vector<proto::Gid>& groups = nodes_[id]->groups;
    if (std::find(groups.begin(), groups.end(), packet.path.destination) == groups.end()) continue;
    anybody = true;
    carry(packet, id);
  }
  if (anybody) return;
  ++counters_.unroutable;
  if (tap_) tap_(TapPoint::kUnroutable, packet, now_);
}

/// A copy of `packet` sets out for `to`.
void World::carry(Packet packet, NodeId to) {
  auto bytes = std::make_unique_for_overwrite<std::uint8_t[]>(packet.bytes.size());
  std::copy(packet.bytes.begin(), packet.bytes.end(), bytes.get());
  packet.bytes = {bytes.get(), packet.bytes.size()};
  packet.to = to;
  const std::vector<Instant>& arrivals = link_.transmit(packet, now_);
  if (arrivals.empty()) {
    ++counters_.lost;
    if (tap_) tap_(TapPoint::kLost, packet, now_);
    return;
  }
  if (tap_ && (packet.corrupted || packet.disordered)) tap_(TapPoint::kImpaired, packet, now_);
  const std::uint32_t index = flights_.take();
  flights_.all[index] = {packet, std::move(bytes), arrivals.size()};
  for (const Instant arrival : arrivals) push(arrival, Event::Kind::kPacket, to, index);
}

/// Takes note of the NIC's deadline. A queued event that is early enough serves: it will find out.
void World::arm(NodeId id) {
  Node& node = *nodes_[id];
  node.deadline = node.next_deadline();
  if (!node.deadline) return;
  const Instant at = std::max(*node.deadline, now_);
  if (node.queued && *node.queued <= at) return;
  node.queued = at;
  push(at, Event::Kind::kTimer, id, ++node.timer_generation);
}

}  // namespace uroce::engine::sim
