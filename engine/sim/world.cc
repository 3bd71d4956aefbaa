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
    : config_(config), now_(config.start), link_(config.link, config.seed), frame_(proto::kMaxPacketSize) {}

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
  Event event;
  event.time = now_ + delay;
  event.callback = std::move(callback);
  push(std::move(event));
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

void World::push(Event event) {
  event.sequence = next_sequence_++;
  queue_.push(std::move(event));
}

/// Throws stale timers away, so that they neither count nor keep the world from being idle.
bool World::has_event_until(Instant limit) {
  while (!queue_.empty()) {
    const Event& event = queue_.top();
    const bool is_timer = event.bytes == nullptr && !event.callback;
    const bool stale =
        is_timer && (!nodes_[event.node]->attached || event.timer_generation != nodes_[event.node]->timer_generation);
    if (!stale) return event.time <= limit;
    queue_.pop();
  }
  return false;
}

void World::step() {
  Event event = queue_.top();
  queue_.pop();
  UROCE_ASSERT(event.time >= now_);
  now_ = event.time;
  ++events_;
  draining_ = true;  // kick() from a callback only marks; the packets are taken below, in a fixed order.
  if (event.callback) {
    event.callback();
  } else if (event.bytes != nullptr) {
    deliver(event);
  } else {
    Node& node = *nodes_[event.node];
    node.armed.reset();
    ++counters_.timeouts;
    node.on_timeout(now_);
    if (on_step_) on_step_(event.node);
    kick(event.node);
  }
  draining_ = false;
  drain_dirty();
}

void World::deliver(Event& event) {
  if (!nodes_[event.node]->attached) {
    ++counters_.unroutable;
    if (tap_) tap_(TapPoint::kUnroutable, event.packet, now_);
    return;
  }
  ++counters_.delivered;
  if (tap_) tap_(TapPoint::kDelivered, event.packet, now_);
  // In a buffer of exactly the packet's size: the sanitizers see a NIC that reads past its end.
  const std::vector<std::uint8_t> bytes(event.packet.bytes.begin(), event.packet.bytes.end());
  nodes_[event.node]->on_datagram(proto::Datagram{event.packet.path, bytes}, now_);
  if (on_step_) on_step_(event.node);
  kick(event.node);
}

void World::drain_dirty() {
  draining_ = true;
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    nodes_[dirty_[i]]->dirty = false;
    drain(dirty_[i]);
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
  auto bytes = std::make_shared<std::vector<std::uint8_t>>(frame_.begin(), frame_.begin() + transmit.size);
  Packet packet{.from = from, .number = counters_.sent++, .path = transmit.path, .bytes = *bytes};
  if (tap_) tap_(TapPoint::kSent, packet, now_);
  const NodeId to = owner_of(packet.path.destination);
  if (to == kNoNode) {
    ++counters_.unroutable;
    if (tap_) tap_(TapPoint::kUnroutable, packet, now_);
    return;
  }
  const std::vector<Instant>& arrivals = link_.transmit(packet, to, now_);
  if (arrivals.empty()) {
    ++counters_.lost;
    if (tap_) tap_(TapPoint::kLost, packet, now_);
  }
  for (const Instant arrival : arrivals) {
    Event event;
    event.time = arrival;
    event.node = to;
    event.bytes = bytes;
    event.packet = packet;
    push(std::move(event));
  }
}

void World::arm(NodeId id) {
  Node& node = *nodes_[id];
  const std::optional<Instant> deadline = node.next_deadline();
  if (deadline == node.armed) return;
  node.armed = deadline;
  ++node.timer_generation;
  if (!deadline) return;
  Event event;
  event.time = std::max(*deadline, now_);
  event.node = id;
  event.timer_generation = node.timer_generation;
  push(std::move(event));
}

}  // namespace uroce::engine::sim
