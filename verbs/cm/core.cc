// SPDX-License-Identifier: Apache-2.0
#include "verbs/cm/core.h"

#include <algorithm>
#include <cerrno>

#include "proto/base/mix.h"
#include "verbs/cm/times.h"

namespace uroce::cm {
namespace {

/// More than any program has, and little enough that drawing a free ID takes no time.
constexpr std::size_t kMaxConnections = 1u << 20;

/// A permutation of 24 bits that nobody can foresee who does not know `key`: a Feistel network.
std::uint32_t permute24(std::uint32_t value, std::uint64_t key) {
  std::uint32_t left = value >> 12 & 0xFFF, right = value & 0xFFF;
  for (std::uint64_t round = 1; round <= 4; ++round) {
    const auto scrambled = static_cast<std::uint32_t>(mix(key ^ mix(round << 32 | right)) & 0xFFF);
    left = std::exchange(right, left ^ scrambled);
  }
  return left << 12 | right;
}

}  // namespace

PrivateData whole_field(Bytes field) {
  PrivateData data;
  data.size = static_cast<std::uint8_t>(field.size());
  std::copy(field.begin(), field.end(), data.bytes.begin());
  return data;
}

Cm::Core::Core(const CmConfig& the_config, CmCounters& the_counters)
    : config(the_config), counters(the_counters), random_state(mix(the_config.seed + 1)) {
  first_psn = next_psn = proto::Psn{random24()};
}

std::uint32_t Cm::Core::random24() {
  random_state += 0x9E3779B97F4A7C15u;
  return static_cast<std::uint32_t>(mix(random_state) & 0xFF'FFFF);
}

bool Cm::Core::is_ours(const Gid& gid) const {
  return std::find(config.gids.begin(), config.gids.end(), gid) != config.gids.end();
}

Bytes Cm::Core::first_gid() const {
  static constexpr Gid kNone{};
  return Bytes((config.gids.empty() ? kNone : config.gids.front()).raw);
}

// --- connections

Connection& Cm::Core::create() {
  Id id = 0;
  do {
    id = permute24(ids_drawn++, mix(config.seed));
    if (id != 0) id |= Id{config.slot} << 24;
  } while (id == 0 || connections.contains(id));
  Connection& c = connections[id];
  c.id = id;
  c.request_tid = own_tid(id);
  c.info.local_psn = random24();
  return c;
}

Result<Connection*, Errno> Cm::Core::create(const Endpoint& local, const Endpoint& remote, const PathInfo& path) {
  if (!is_ours(local.address) || local.address.is_v4() != remote.address.is_v4()) return Err{EINVAL};
  if (remote.address.is_zero() || remote.address.is_multicast()) return Err{EINVAL};
  if (path.mtu < 1 || path.mtu > config.mtu_max || path.life_time > 31) return Err{EINVAL};
  if (connections.size() >= kMaxConnections) return Err{ENOMEM};
  Connection& c = create();
  c.info.local = local;
  c.info.remote = remote;
  c.info.path = path;
  if (path.flow_label == 0) c.info.path.flow_label = flow_label_between(local.port, remote.port);
  c.info.ack_timeout = ack_timeout(path.life_time);
  c.response_time = scaled(request_time(path.life_time));
  return &c;
}

void Cm::Core::erase(Connection& c) {
  enter(c, State::kIdle);
  leave_backlog(c);
  connections.erase(c.id);
}

Connection* Cm::Core::find(Id id) {
  const auto it = connections.find(id);
  return it == connections.end() ? nullptr : &it->second;
}

Connection* Cm::Core::find_from_peer(Id id, const Incoming& in) {
  Connection* const c = find(id);
  if (c == nullptr) {
    ++counters.unmatched;
    return nullptr;
  }
  if (is_improved() && in.path.source != c->peer()) {
    ++counters.wrong_source;
    return nullptr;
  }
  return c;
}

void Cm::Core::enter(Connection& c, State state) {
  stop(c);
  if (std::exchange(c.half_open, false)) {
    half_open.remove(c.peer());
    place_free(c.listener);
  }
  if (c.info.state == State::kRepSent) {
    const auto it = awaiting_data.find(c.info.local_qpn);
    if (it != awaiting_data.end() && it->second == c.id) awaiting_data.erase(it);
  }
  if (state == State::kIdle || state == State::kTimewait) forget_peer(c);
  c.info.state = state;
  change_last_words(c);
}

void Cm::Core::change_last_words(Connection& c) {
  if (config.last_words) new_last_words.insert(c.id);
}

void Cm::Core::enter_idle(Connection& c) {
  enter(c, State::kIdle);
  if (c.orphan) erase(c);
}

void Cm::Core::enter_timewait(Connection& c, Instant now) {
  enter(c, State::kTimewait);
  set_deadline(c, now + scaled(timewait(c.info.ack_timeout)));
}

void Cm::Core::remember_peer(Connection& c) {
  by_peer_id[{c.peer(), c.remote_guid, c.remote_id}] = c.id;
  by_peer_qp[{c.peer(), c.remote_guid, c.info.remote_qpn}] = c.id;
}

void Cm::Core::forget_peer(Connection& c) {
  const auto forget = [&c](auto& table, const PeerKey& key) {
    const auto it = table.find(key);
    if (it != table.end() && it->second == c.id) table.erase(it);
  };
  forget(by_peer_id, {c.peer(), c.remote_guid, c.remote_id});
  forget(by_peer_qp, {c.peer(), c.remote_guid, c.info.remote_qpn});
  forget(by_request_id, {c.peer(), 0, c.remote_id});
}

bool Cm::Core::may_wait(std::uint64_t service_id, const Incoming& in) {
  if (in.waited != nullptr || !latecomers.may_wait(service_id, in.now)) return false;
  return latecomers.keep(service_id, in.path, in.message.bytes(), in.now + scaled(kListenerGrace));
}

bool Cm::Core::waits_for_place(const Listener& listener, const Incoming& in) {
  if (!is_improved() || (!listener.is_full() && half_open.has_room(in.path.source))) return false;
  if (in.waited == nullptr) {
    const Instant until = in.now + scaled(kBacklogGrace);
    return latecomers.keep(listener.what.service_id, in.path, in.message.bytes(), until);
  }
  if (in.now >= in.waited->until) return false;
  latecomers.keep_again(*in.waited);
  return true;
}

bool Cm::Core::take_place(Listener& listener, Connection& c) {
  if (listener.is_full() || !half_open.add(c.peer())) {
    ++counters.overflows;
    return false;
  }
  c.half_open = true;
  c.listener = listener.id;
  listener.backlog.insert(c.id);
  return true;
}

void Cm::Core::leave_backlog(Connection& c) {
  if (std::exchange(c.fetched, true)) return;
  Listener* const listener = listeners.find(c.listener);
  if (listener != nullptr && listener->backlog.erase(c.id) != 0) place_free(c.listener);
}

void Cm::Core::place_free(ListenerId id) {
  const Listener* const listener = listeners.find(id);
  if (listener == nullptr || listener->is_full()) return;
  latecomers.place_free(listener->what.service_id, [this](const Gid& source) { return half_open.has_room(source); });
}

// --- out

proto::Path Cm::Core::path_of(const Connection& c) const {
  proto::Path path;
  path.source = c.info.local.address;
  path.destination = c.info.remote.address;
  path.source_port = source_port(path.source);
  path.tclass = c.info.path.tclass;
  return path;
}

std::uint16_t Cm::Core::source_port(const Gid& local) const {
  return config.find_source_port ? config.find_source_port(local) : config.source_port;
}

void Cm::Core::send(const Connection& c, const Mad& mad) { outgoing.push_back({path_of(c), mad}); }

void Cm::Core::send_until_answered(Connection& c, const Mad& mad, int retries, Instant now) {
  c.message = mad;
  c.sends_left = static_cast<std::uint8_t>(retries);
  c.wait = c.response_time;
  c.has_mra = false;
  send(c, mad);
  set_deadline(c, now + c.wait);
}

void Cm::Core::set_deadline(Connection& c, std::optional<Instant> deadline) {
  if (c.deadline) timers.erase({*c.deadline, c.id});
  c.deadline = deadline;
  if (deadline) timers.insert({*deadline, c.id});
}

void Cm::Core::answer(const Incoming& in, const Mad& mad) {
  // Loopback addresses are this host's own: a program that asks until its server listens may ask often.
  if (!in.path.source.is_loopback() && !stranger_answers.allow(in.now)) {
    ++counters.suppressed;
    return;
  }
  proto::Path path;
  path.source = in.path.destination;
  path.destination = in.path.source;
  path.source_port = source_port(path.source);
  path.tclass = static_cast<std::uint8_t>(in.path.tclass & ~proto::kEcnMask);
  outgoing.push_back({path, mad});
}

Event& Cm::Core::tell(const Connection& c, Event::Kind kind, int status) {
  Event event;
  event.kind = kind;
  event.id = c.id;
  event.status = status;
  return events.emplace_back(event);
}

void Cm::Core::tell_end(Connection& c, int status) {
  if (!std::exchange(c.told_end, true)) tell(c, Event::Kind::kDisconnected, status);
}

}  // namespace uroce::cm
