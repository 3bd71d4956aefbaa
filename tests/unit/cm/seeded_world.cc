// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cm/seeded_world.h"

#include <algorithm>

#include "proto/cm/message.h"

namespace uroce::cm::test {
namespace {

using namespace std::chrono_literals;
using Kind = Event::Kind;
namespace wire = proto::cm;

constexpr std::uint64_t kService = 0x0106'1B58, kUdService = 0x0111'1B58;
constexpr Duration kBegin = 60s;          ///< In which programs begin to connect.
constexpr Duration kThinking = 10s;       ///< The longest that a program takes for anything but ...
constexpr Duration kNeverAnswers = 100s;  ///< ... this.
constexpr std::size_t kMostSends = 16;

constexpr std::uint32_t qpn_of_datagrams(std::uint32_t attempt) { return 0x5000 + attempt; }

PrivateData data_of(std::uint32_t a, std::uint32_t b) {
  PrivateData data;
  data.size = 8;
  store_be<4>(data.bytes.data(), a);
  store_be<4>(data.bytes.data() + 4, b);
  return data;
}
std::uint32_t first_of(const PrivateData& data) { return static_cast<std::uint32_t>(load_be<4>(data.bytes.data())); }
std::uint32_t second_of(const PrivateData& data) {
  return static_cast<std::uint32_t>(load_be<4>(data.bytes.data() + 4));
}

}  // namespace

/// A program and its connection manager; the next program of the host takes its place when it dies.
struct SeededWorld::Host {
  Gid gid{};
  std::uint64_t seed = 0;
  std::unique_ptr<Cm> cm{};
  engine::sim::NodeId node = 0;
  int life = 0;
  std::uint32_t next_qpn = 0x11;
  ListenerId listener = 0;
  bool always_listened = true;

  void start() {
    CmConfig config;
    config.gids = {gid};
    config.guid = gid.raw[15];
    config.seed = seed + static_cast<std::uint64_t>(life) * 1000;
    cm = std::make_unique<Cm>(config);
    next_qpn = 0x11;  // The worst case: the numbers of the former life.
  }
  // engine::SansIoNic
  void on_datagram(const proto::Datagram& datagram, Instant now) { cm->on_datagram(datagram, now); }
  void on_timeout(Instant now) { cm->on_timeout(now); }
  std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame) { return cm->poll_transmit(now, frame); }
  std::optional<Instant> next_deadline() const { return cm->next_deadline(); }
};

bool SeededWorld::End::was_told(Kind kind) const { return std::find(told.begin(), told.end(), kind) != told.end(); }
bool SeededWorld::End::was_told_end() const {
  return was_told(Kind::kDisconnected) || was_told(Kind::kRejected) || was_told(Kind::kUnreachable);
}

SeededWorld::SeededWorld(std::uint64_t seed) : random_(seed), world_({.seed = seed}) {
  auto& faults = world_.link().config().impairments;
  // Some worlds have nothing at all of a kind, so that the others stand out.
  const auto some = [this](double most) {
    return random_.chance(0.5) ? most * static_cast<double>(random_.below(101)) / 100 : 0;
  };
  faults.loss = some(0.2);
  faults.duplicate = some(0.2);
  faults.reorder = some(0.2);
  faults.corrupt = some(0.02);
  faults.reorder_delay = random_.chance(0.5) ? 50ms : 8s;  // Longer than a retransmission takes.
  const std::uint64_t count = 2 + random_.below(3);
  for (std::uint64_t i = 0; i < count; ++i) {
    Host& host = *hosts_.emplace_back(std::make_unique<Host>());
    host.gid = Gid::from_v4(10, 0, 0, static_cast<std::uint8_t>(i + 1));
    host.seed = seed * 16 + i;
    host.start();
    host.node = world_.attach(host, {host.gid});
    listen(host);
  }
  world_.set_on_step([this](engine::sim::NodeId node) { collect(*hosts_[node]); });
  world_.set_tap([this](engine::sim::TapPoint point, const engine::sim::Packet& packet, Instant now) {
    if (point == engine::sim::TapPoint::kSent) judge_sent(packet, now);
    // What is damaged is as good as lost, and what is late may come too late.
    if (point == engine::sim::TapPoint::kLost || point == engine::sim::TapPoint::kImpaired) note_lost(packet);
  });
}
SeededWorld::~SeededWorld() = default;

std::string SeededWorld::run() {
  const std::uint64_t attempts = 5 + random_.below(30);
  for (std::uint64_t i = 0; i < attempts; ++i) {
    world_.after(up_to(kBegin), [this] { begin_attempt(); });
  }
  if (random_.chance(0.3)) {
    world_.after(up_to(kBegin), [this] { die(*hosts_[random_.below(hosts_.size())]); });
  }
  if (random_.chance(0.3)) {
    world_.after(up_to(kBegin), [this] { stop_listening_for_a_while(*hosts_[random_.below(hosts_.size())]); });
  }
  world_.run_until([this] { return !wrong_.empty(); }, 20min);
  if (wrong_.empty()) judge_rest();
  // Everything ends: nothing may be left, anywhere.
  for (auto& host : hosts_) {
    host->cm->unlisten(host->listener, world_.now());
    world_.kick(host->node);
  }
  for (int round = 0; round < 2; ++round) {  // Requests that were on their way in the first one.
    for (auto& [key, end] : ends_) destroy(*end);
    world_.run_until([this] { return !wrong_.empty(); }, 5min);
  }
  for (auto& host : hosts_) {
    if (host->cm->size() != 0) wrong(std::to_string(host->cm->size()) + " connections are left");
    if (host->cm->next_deadline()) wrong("a timer is left");
  }
  return wrong_;
}

// --- programs
// ---------------------------------------------------------------------------------------------------------

void SeededWorld::listen(Host& host) {
  host.listener = *host.cm->listen({.service_id = kService});
  static_cast<void>(host.cm->listen({.service_id = kUdService, .transport = Transport::kUd}));
}

void SeededWorld::begin_attempt() {
  Host& client = *hosts_[random_.below(hosts_.size())];
  Host& server = *hosts_[random_.below(hosts_.size())];
  const auto number = static_cast<std::uint32_t>(attempts_.size());
  Attempt& attempt = attempts_.emplace_back();
  attempt.client = &client;
  attempt.server = &server;
  attempt.datagrams = random_.chance(0.2);
  ConnectRequest& request = attempt.request;
  request.service_id = kService;
  request.local = {client.gid, static_cast<std::uint16_t>(40000 + number)};
  request.remote = {server.gid, 7000};
  request.params = {.qpn = client.next_qpn++,
                    .responder_resources = static_cast<std::uint8_t>(random_.below(129)),
                    .initiator_depth = static_cast<std::uint8_t>(random_.below(129)),
                    .retry_count = static_cast<std::uint8_t>(random_.below(8)),
                    .rnr_retry_count = static_cast<std::uint8_t>(random_.below(8))};
  request.private_data = data_of(number, 0);
  ++tally_.connects;
  SidrRequest question;
  question.service_id = kUdService;
  question.local = request.local;
  question.remote = request.remote;
  question.private_data = request.private_data;
  const auto id =
      attempt.datagrams ? client.cm->sidr_request(question, world_.now()) : client.cm->connect(request, world_.now());
  attempt.active = &add_end(client, *id, number, true);
  called(*attempt.active);
  // Some programs do not wait for the answer.
  if (random_.chance(0.05)) later(*attempt.active, kThinking, &SeededWorld::destroy);
}

void SeededWorld::fetch(End& end) {
  cm(end).fetched(end.id);
  end.fetched = true;
}

/// A request has come: what the program does with it, and when.
void SeededWorld::serve(End& end) {
  if (random_.chance(0.5)) fetch(end);
  if (random_.chance(0.05)) return later(end, kNeverAnswers, &SeededWorld::destroy);
  later(end, kThinking, &SeededWorld::answer);
}

void SeededWorld::answer(End& end) {
  const Attempt& attempt = attempts_[end.attempt];
  const std::uint64_t dice = random_.below(100);
  fetch(end);
  if (dice < 10) {
    if (!end.was_told_end()) end.refused = true;
    return destroy(end);
  }
  if (attempt.datagrams) {
    cm(end).sidr_reply(end.id, {.qpn = qpn_of_datagrams(end.attempt), .qkey = 7}, world_.now());
    return called(end);
  }
  Errno error = 0;
  if (dice < 25) {
    error = cm(end).reject(end.id, RejectReason::kConsumer, {}, world_.now());
    end.refused = true;
  } else {
    error = cm(end).accept(end.id, {.qpn = end.host->next_qpn++}, data_of(end.attempt, end.id), world_.now());
  }
  if ((error != 0) != end.was_told_end()) wrong(end, "an answer that should or should not be taken");
  called(end);
}

/// The REP has come.
void SeededWorld::go_on(End& end) {
  const std::uint64_t dice = random_.below(100);
  if (dice < 10) {
    if (!end.was_told_end()) end.refused = true;
    return destroy(end);
  }
  if (dice < 15) {
    if (cm(end).reject(end.id, RejectReason::kConsumer, {}, world_.now()) == 0) end.refused = true;
    called(end);
    return destroy_soon(end);
  }
  const Errno error = cm(end).establish(end.id, world_.now());
  if ((error != 0) != end.was_told_end()) wrong(end, "establish() that should or should not be taken");
  if (error != 0) return;
  end.established = true;
  called(end);
  end_some_time(end);
}

void SeededWorld::end_some_time(End& end) {
  const std::uint64_t dice = random_.below(100);
  if (dice < 40) return;  // The other one does, or nobody.
  const bool destroys = dice < 60;
  const std::pair key{end.host, end.id};
  const int life = end.life;
  world_.after(up_to(30s), [this, key, life, destroys] {
    const auto it = ends_.find(key);
    if (it == ends_.end() || it->second->life != life || it->second->destroyed) return;
    End& e = *it->second;
    if (destroys) return destroy(e);
    e.closed = true;
    cm(e).disconnect(e.id, world_.now());
    called(e);
  });
}

void SeededWorld::destroy_soon(End& end) { later(end, kThinking, &SeededWorld::destroy); }

void SeededWorld::destroy(End& end) {
  if (end.destroyed) return;
  if (!end.established && !end.was_told_end()) end.refused = true;
  end.closed = end.destroyed = true;
  cm(end).destroy(end.id, world_.now());
  if (cm(end).query(end.id)) wrong(end, "destroyed, and still there");
  called(end);
}

void SeededWorld::die(Host& host) {
  anybody_died_ = true;
  ++tally_.deaths;
  if (random_.chance(0.5)) {
    host.cm->shutdown(world_.now());
    world_.kick(host.node);
  }
  for (auto it = ends_.begin(); it != ends_.end();) {
    const auto current = it++;
    if (current->first.first != &host) continue;
    former_.push_back(std::move(current->second));
    ends_.erase(current);
  }
  ++host.life;
  host.start();
  listen(host);
  world_.kick(host.node);
}

void SeededWorld::stop_listening_for_a_while(Host& host) {
  host.always_listened = false;
  for (auto& [key, end] : ends_) {
    if (end->host != &host || end->active || end->fetched || attempts_[end->attempt].datagrams) continue;
    end->refused = end->destroyed = true;  // The listener takes along what no program has seen.
  }
  host.cm->unlisten(host.listener, world_.now());
  world_.kick(host.node);
  const int life = host.life;
  world_.after(up_to(20s), [&host, life] {
    if (host.life == life) host.listener = *host.cm->listen({.service_id = kService});
  });
}

// --- what they are told
// -----------------------------------------------------------------------------------------------

void SeededWorld::collect(Host& host) {
  while (const auto event = host.cm->poll_event()) on_event(host, *event);
}

void SeededWorld::on_event(Host& host, const Event& event) {
  if (event.kind == Kind::kRequest) return on_request(host, event);
  const auto it = ends_.find({&host, event.id});
  if (it == ends_.end()) return wrong("an event of an ID that nobody has");
  End& end = *it->second;
  if (end.destroyed) return wrong(end, "an event after destroy()");
  judge_order(end, event);
  end.told.push_back(event.kind);
  switch (event.kind) {
    case Kind::kResponse:
      return on_response(end, event);
    case Kind::kEstablished:
      return on_established(end, event);
    case Kind::kRejected:
      ++tally_.rejected;
      judge_rejected(end, event.status);
      return destroy_soon(end);
    case Kind::kUnreachable:
      judge_unreachable(end, event.status);
      return destroy_soon(end);
    case Kind::kDisconnected: {
      ++tally_.disconnected;
      end.told_at = world_.now();
      const bool peer_lives = end.peer != nullptr && is_alive(*end.peer) && !anybody_died_;
      if (event.status != 0 && peer_lives) wrong(end, "its DREQ was not answered");
      if (event.status == 0 && peer_lives && !end.closed && !end.peer->closed && !end.peer->was_told_end()) {
        wrong(end, "disconnected, by nobody");
      }
      return destroy_soon(end);
    }
    case Kind::kTimewaitExit:
      if (world_.now() - end.told_at < 512ms) wrong(end, "timewait is too short");
      return;
    case Kind::kRequest:
      return;
  }
}

void SeededWorld::on_request(Host& host, const Event& event) {
  const std::uint32_t number = first_of(event.private_data);
  if (number >= attempts_.size() || attempts_[number].server != &host) return wrong("a request that nobody made");
  Attempt& attempt = attempts_[number];
  End& end = add_end(host, event.id, number, false);
  end.peer = attempt.active;
  for (const End* other : attempt.passive) {
    const bool over = !is_alive(*other) || other->refused || other->closed || other->was_told_end();
    if (!over && !attempt.datagrams) wrong(end, "a second request of one connect()");
  }
  attempt.passive.push_back(&end);
  if (!attempt.datagrams) {
    const ConnectionParams& asked = attempt.request.params;
    if (event.params.qpn != asked.qpn || event.params.responder_resources != asked.initiator_depth ||
        event.params.initiator_depth != asked.responder_resources || event.params.retry_count != asked.retry_count ||
        event.params.rnr_retry_count != asked.rnr_retry_count) {
      wrong(end, "the request is not what was asked for");
    }
  }
  serve(end);
}

void SeededWorld::on_response(End& end, const Event& event) {
  const Id server_id = second_of(event.private_data);
  for (End* passive : attempts_[end.attempt].passive) {
    if (passive->id == server_id) end.peer = passive;
  }
  if (end.peer == nullptr || first_of(event.private_data) != end.attempt) return wrong(end, "a REP of somebody else");
  if (is_alive(*end.peer)) judge_crossing(end, *end.peer);
  later(end, kThinking, &SeededWorld::go_on);
}

void SeededWorld::on_established(End& end, const Event& event) {
  end.established = true;
  if (attempts_[end.attempt].datagrams) {
    if (event.datagram.qpn != qpn_of_datagrams(end.attempt)) wrong(end, "the QPN of another datagram service");
    end.closed = true;
    ++tally_.answers;
    return destroy_soon(end);
  }
  ++tally_.established;
  if (is_alive(*end.peer)) {
    if (!end.peer->established) wrong(end, "established, but not by its peer");
    if (end.peer->peer != &end) wrong(end, "established with somebody who is not");
  }
  end_some_time(end);
}

// --- judges
// -----------------------------------------------------------------------------------------------------------

void SeededWorld::judge_order(End& end, const Event& event) {
  if (end.was_told(event.kind)) return wrong(end, "told twice");
  if (end.was_told(Kind::kRejected) || end.was_told(Kind::kUnreachable)) return wrong(end, "told after the end");
  if (end.was_told(Kind::kDisconnected) != (event.kind == Kind::kTimewaitExit)) wrong(end, "told out of order");
}

void SeededWorld::judge_rejected(const End& end, int reason) {
  const Attempt& attempt = attempts_[end.attempt];
  if (anybody_died_) return;  // REJ 4, 10 and 28 all have a cause then.
  const bool peer_is_open = end.peer != nullptr && end.peer->peer == &end && end.peer->is_open();
  if (peer_is_open) return wrong(end, "rejected, and its peer is open");
  bool explained = false;
  if (end.active) {
    const auto any = [&attempt](auto what) {
      return std::any_of(attempt.passive.begin(), attempt.passive.end(), what);
    };
    if (reason == 28) explained = any([](const End* e) { return e->refused; }) || !attempt.server->always_listened;
    if (reason == 8) explained = !attempt.server->always_listened;
    if (reason == 4) explained = any([](const End* e) { return e->was_told(Kind::kUnreachable); });
  } else {
    if (reason == 28) explained = end.peer->refused;
    if (reason == 4) explained = end.peer->refused || end.peer->was_told(Kind::kUnreachable);
  }
  if (!explained) wrong(end, "rejected for reason " + std::to_string(reason) + ", which nothing explains");
}

void SeededWorld::judge_unreachable(const End& end, int status) {
  if (anybody_died_) return;
  // A question is asked for 65 s; some programs think longer.
  const Attempt& attempt = attempts_[end.attempt];
  if (end.active && attempt.datagrams && (status > 0 || !attempt.passive.empty())) return;
  if (end.active) return wrong(end, "unreachable, though its peer lives");
  if (end.peer->is_open() && end.peer->peer == &end) wrong(end, "its REP was not answered, and its peer is open");
}

void SeededWorld::judge_crossing(const End& active, const End& passive) {
  const auto a = cm(active).query(active.id), b = cm(passive).query(passive.id);
  if (!a || !b) return;
  if (a->remote_qpn != b->local_qpn || b->remote_qpn != a->local_qpn) wrong(active, "QP numbers do not cross");
  if (a->remote_psn != b->local_psn || b->remote_psn != a->local_psn) wrong(active, "PSNs do not cross");
  if (a->path.flow_label != b->path.flow_label || a->path.mtu != b->path.mtu) wrong(active, "paths differ");
}

/// Nothing moves any more: both ends agree.
void SeededWorld::judge_rest() {
  for (const Attempt& attempt : attempts_) {
    const End* const active = attempt.active;
    if (active == nullptr || attempt.datagrams || !is_alive(*active)) continue;
    if (!active->destroyed && active->told.empty()) wrong(*active, "nobody ever told it anything");
    if (!active->established || active->peer == nullptr || !is_alive(*active->peer) || anybody_died_) continue;
    const End& passive = *active->peer;
    if (passive.reject_lost || active->reject_lost) continue;
    if (active->is_open() != passive.is_open()) wrong(*active, "open at one end only");
  }
}

void SeededWorld::judge_sent(const engine::sim::Packet& packet, Instant now) {
  const auto parsed = proto::parse_packet(packet.bytes);
  const auto message = wire::parse_message(*parsed);
  if (!message) return wrong("sent what is no message");
  switch (message->attribute()) {
    case wire::Attribute::kReq:
    case wire::Attribute::kRep:
    case wire::Attribute::kDreq:
    case wire::Attribute::kSidrReq:
      break;
    default:
      return;
  }
  const Bytes bytes = message->bytes();
  std::vector<Instant>& times = sent_[std::string(bytes.begin(), bytes.end())];
  if (!times.empty() && now - times.back() < 4096ms)
    wrong("sent again too early: " + std::string(message->info().name));
  const bool again = !times.empty();
  times.push_back(now);
  if (again && tally_.lost == 0 && message->attribute() == wire::Attribute::kDreq) {
    // On a good wire an answer that was given has arrived.
    const auto peer = ends_.find({hosts_[packet.to].get(), message->as<wire::Dreq>().get<wire::Dreq::RemoteId>()});
    if (peer != ends_.end() && peer->second->destroyed) wrong("a DREQ again that must have been answered");
  }
  if (times.size() > kMostSends) wrong("sent more than 16 times: " + std::string(message->info().name));
}

void SeededWorld::note_lost(const engine::sim::Packet& packet) {
  ++tally_.lost;
  const auto parsed = proto::parse_packet(packet.bytes);
  if (!parsed || packet.from >= hosts_.size()) return;
  const auto message = wire::parse_message(*parsed);
  if (!message || message->attribute() != wire::Attribute::kRej) return;
  const auto end = ends_.find({hosts_[packet.from].get(), message->as<wire::Rej>().get<wire::Rej::LocalId>()});
  if (end != ends_.end()) end->second->reject_lost = true;
}

// --- helpers
// ----------------------------------------------------------------------------------------------------------

SeededWorld::End& SeededWorld::add_end(Host& host, Id id, std::uint32_t attempt, bool active) {
  auto& end = ends_[{&host, id}];
  if (end) wrong("an ID that is in use");
  end = std::make_unique<End>();
  end->host = &host;
  end->life = host.life;
  end->id = id;
  end->attempt = attempt;
  end->active = active;
  return *end;
}

void SeededWorld::later(End& end, Duration most, void (SeededWorld::*what)(End&)) {
  const std::pair key{end.host, end.id};
  const int life = end.life;
  world_.after(random_.chance(0.5) ? Duration{} : up_to(most), [this, key, life, what] {
    const auto it = ends_.find(key);
    if (it != ends_.end() && it->second->life == life && !it->second->destroyed) (this->*what)(*it->second);
  });
}

bool SeededWorld::is_alive(const End& end) const { return end.life == end.host->life; }
Cm& SeededWorld::cm(const End& end) const { return *end.host->cm; }

void SeededWorld::called(const End& end) {
  world_.kick(end.host->node);
  collect(*end.host);
}

void SeededWorld::wrong(const End& end, const std::string& what) {
  std::string told;
  for (const Kind kind : end.told) told += ' ' + std::to_string(static_cast<int>(kind));
  wrong("attempt " + std::to_string(end.attempt) + (end.active ? " active" : " passive") + " (told:" + told +
        "): " + what);
}

void SeededWorld::wrong(const std::string& what) {
  if (!wrong_.empty()) return;
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(world_.now() - Instant(1000s)).count();
  wrong_ = "at " + std::to_string(us) + " us: " + what;
}

Duration SeededWorld::up_to(Duration most) {
  return Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most.count()) + 1)));
}

}  // namespace uroce::cm::test
