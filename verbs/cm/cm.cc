// SPDX-License-Identifier: Apache-2.0
#include "verbs/cm/cm.h"

#include <algorithm>
#include <cerrno>

#include "proto/icrc.h"
#include "proto/pkey.h"
#include "verbs/cm/core.h"
#include "verbs/cm/times.h"

namespace uroce::cm {
namespace {

bool fits(const PrivateData& data, std::size_t most) { return data.size <= most; }
Bytes bytes(const PrivateData& data) { return Bytes(data.bytes).first(data.size); }

}  // namespace

const char* to_string(State state) {
  switch (state) {
    case State::kIdle:
      return "idle";
    case State::kReqSent:
      return "REQ sent";
    case State::kRepReceived:
      return "REP received";
    case State::kReqReceived:
      return "REQ received";
    case State::kRepSent:
      return "REP sent";
    case State::kEstablished:
      return "established";
    case State::kDreqSent:
      return "DREQ sent";
    case State::kDreqReceived:
      return "DREQ received";
    case State::kTimewait:
      return "timewait";
    case State::kSidrReqSent:
      return "SIDR_REQ sent";
    case State::kSidrReqReceived:
      return "SIDR_REQ received";
  }
  return "";
}

Cm::Cm(CmConfig config) : config_(std::move(config)), core_(std::make_unique<Core>(config_, counters_)) {}
Cm::~Cm() = default;

// --- sans-I/O

void Cm::on_datagram(const proto::Datagram& datagram, Instant now) {
  const auto packet = proto::parse_packet(datagram.payload);
  if (!packet || packet->op().code != proto::Opcode::kUdSendOnly || !proto::check_icrc(datagram).ok) {
    ++counters_.malformed;
    return;
  }
  const std::uint16_t pkey = packet->bth().get<proto::Bth::PKey>();
  const std::uint32_t qkey = packet->header<proto::Deth>().get<proto::Deth::QKey>();
  if (!proto::accepts_pkey(pkey) || qkey != wire::kManagementQkey) {
    ++counters_.wrong_key;
    return;
  }
  const auto message = wire::parse_message(packet->payload());
  if (!message || !core_->is_ours(datagram.path.destination)) {
    ++counters_.malformed;
    return;
  }
  core_->memory.set_aside();
  ++counters_.received;
  const Incoming in{*message, datagram.path, now};
  switch (message->attribute()) {
    case wire::Attribute::kReq:
      return core_->on_req(in);
    case wire::Attribute::kMra:
      return core_->on_mra(in);
    case wire::Attribute::kRej:
      return core_->on_rej(in);
    case wire::Attribute::kRep:
      return core_->on_rep(in);
    case wire::Attribute::kRtu:
      return core_->on_rtu(in);
    case wire::Attribute::kDreq:
      return core_->on_dreq(in);
    case wire::Attribute::kDrep:
      return core_->on_drep(in);
    case wire::Attribute::kSidrReq:
      return core_->on_sidr_req(in);
    case wire::Attribute::kSidrRep:
      return core_->on_sidr_rep(in);
    case wire::Attribute::kLap:
    case wire::Attribute::kApr:
      ++counters_.unmatched;  // RoCE has no path migration by LIDs; kernels are silent too.
      return;
  }
}

void Cm::on_timeout(Instant now) {
  core_->sidr_answers.expire(now);
  core_->memory.set_aside();
  while (const auto request = core_->latecomers.take_due(now)) {
    const auto message = wire::parse_message(request->mad);
    const Incoming in{*message, request->path, now, &*request};
    message->attribute() == wire::Attribute::kReq ? core_->on_req(in) : core_->on_sidr_req(in);
    core_->memory.set_aside();
  }
  while (!core_->timers.empty() && core_->timers.begin()->first <= now) {
    core_->memory.set_aside();
    core_->on_deadline(*core_->find(core_->timers.begin()->second), now);
  }
}

std::optional<proto::Transmit> Cm::poll_transmit(Instant, MutBytes frame) {
  if (core_->outgoing.empty()) return std::nullopt;
  const Core::Outgoing& next = core_->outgoing.front();
  proto::Transmit out;
  out.path = next.path;
  out.size = wire::build_packet(next.mad, core_->next_psn, next.path, frame);
  out.sender = wire::kManagementQpn;
  core_->next_psn = core_->next_psn + 1;
  core_->outgoing.pop_front();
  ++counters_.sent;
  return out;
}

std::optional<Instant> Cm::next_deadline() const {
  std::optional<Instant> first = core_->sidr_answers.next_deadline();
  const auto consider = [&first](Instant deadline) { first = first ? std::min(*first, deadline) : deadline; };
  if (const auto latecomer = core_->latecomers.next_deadline()) consider(*latecomer);
  if (!core_->timers.empty()) consider(core_->timers.begin()->first);
  return first;
}

// --- calls

Result<ListenerId, Errno> Cm::listen(const Listen& listen) {
  core_->memory.set_aside();
  Listen what = listen;
  if (what.backlog == 0 || what.backlog > kMaxBacklog) what.backlog = kMaxBacklog;
  const Listener* const listener = core_->listeners.add(what);
  if (listener == nullptr) return Err{EADDRINUSE};
  core_->latecomers.listener_back(what.service_id);
  return listener->id;
}

void Cm::unlisten(ListenerId id, Instant now) {
  Listener* const listener = core_->listeners.find(id);
  if (listener == nullptr) return;
  core_->memory.set_aside();
  while (!listener->backlog.empty()) {
    core_->destroy(*core_->find(*listener->backlog.begin()), now);
    core_->memory.set_aside();
  }
  const std::uint64_t service_id = listener->what.service_id;
  core_->listeners.remove(id);
  if (core_->is_improved() && !core_->listeners.has_service(service_id)) {
    core_->latecomers.listener_gone(service_id, now + core_->scaled(kListenerMemory),
                                    now + core_->scaled(kListenerGrace));
  }
}

void Cm::fetched(Id id) {
  if (Connection* const c = core_->find(id)) core_->leave_backlog(*c);
}

Errno Cm::accept(Id id, const ConnectionParams& params, const PrivateData& private_data, Instant now) {
  Connection* const c = find(id);
  if (c == nullptr || c->info.state != State::kReqReceived || !fits(private_data, kRepPrivateData)) return EINVAL;
  core_->memory.set_aside();
  core_->accept(*c, params, bytes(private_data), now);
  return 0;
}

Errno Cm::sidr_reply(Id id, const SidrReply& reply, Instant now) {
  Connection* const c = find(id);
  const bool fits_field = fits(reply.private_data, kSidrRepPrivateData);
  if (c == nullptr || c->info.state != State::kSidrReqReceived || !fits_field) return EINVAL;
  core_->memory.set_aside();
  core_->sidr_reply(*c, reply, now);
  return 0;
}

Errno Cm::notify_established(Id id, Instant) {
  Connection* const c = find(id);
  if (c == nullptr) return EINVAL;
  if (c->info.state == State::kEstablished) return EISCONN;
  if (c->info.state != State::kRepSent) return EINVAL;
  core_->memory.set_aside();
  core_->become_established(*c);
  return 0;
}

proto::Psn Cm::first_psn() const { return core_->first_psn; }

void Cm::on_data(std::uint32_t dest_qpn, const Gid& source, std::uint32_t psn, Instant) {
  const auto awaiting = core_->awaiting_data.find(dest_qpn);
  if (awaiting == core_->awaiting_data.end()) return;
  Connection& c = *core_->find(awaiting->second);
  // Only who has had our REP knows with which PSN to begin.
  if (c.peer() != source || c.info.local_psn != psn) return;
  core_->memory.set_aside();
  core_->become_established(c);
}

bool Cm::awaits_data(std::uint32_t dest_qpn) const {
  return !core_->awaiting_data.empty() && core_->awaiting_data.contains(dest_qpn);
}

Result<Id, Errno> Cm::connect(const ConnectRequest& request, Instant now) {
  core_->memory.set_aside();
  return core_->connect(request, now);
}

Errno Cm::establish(Id id, Instant) {
  Connection* const c = find(id);
  if (c == nullptr || c->info.state != State::kRepReceived) return EINVAL;
  core_->memory.set_aside();
  core_->establish(*c);
  return 0;
}

Result<Id, Errno> Cm::sidr_request(const SidrRequest& request, Instant now) {
  core_->memory.set_aside();
  return core_->sidr_request(request, now);
}

Errno Cm::reject(Id id, RejectReason reason, const PrivateData& private_data, Instant now) {
  Connection* const c = find(id);
  if (c == nullptr || !fits(private_data, kRejPrivateData)) return EINVAL;
  core_->memory.set_aside();
  return core_->reject(*c, reason, bytes(private_data), now);
}

Errno Cm::disconnect(Id id, Instant now) {
  Connection* const c = find(id);
  if (c == nullptr) return EINVAL;
  core_->memory.set_aside();
  core_->disconnect(*c, now);
  return 0;
}

void Cm::disconnect_at(Id id, Instant when) {
  Connection* const c = find(id);
  const bool can = c != nullptr && c->info.state == State::kEstablished && c->info.transport != Transport::kUd;
  if (!can) return;
  core_->memory.set_aside();
  core_->set_deadline(*c, when);
}

void Cm::destroy(Id id, Instant now) {
  Connection* const c = find(id);
  if (c == nullptr) return;
  core_->memory.set_aside();
  core_->destroy(*c, now);
}

void Cm::shutdown(Instant now) {
  const auto for_each = [this](const auto& what) {
    for (auto next = core_->connections.begin(); next != core_->connections.end();) {
      core_->memory.set_aside();
      what((next++)->second);
    }
  };
  for_each([&](Connection& c) {
    if (!c.orphan) core_->destroy(c, now);
  });
  for_each([&](Connection& c) { core_->erase(c); });
  core_->events.clear();
}

std::optional<Cm::LastWords> Cm::poll_last_words(MutBytes frame) {
  if (core_->new_last_words.empty()) return std::nullopt;
  LastWords words;
  words.id = core_->new_last_words.extract(core_->new_last_words.begin()).value();
  Connection* const c = core_->find(words.id);
  if (c == nullptr) return words;
  const auto mad = core_->last_words(*c);
  if (!mad) return words;
  proto::Transmit& packet = words.packet.emplace();
  packet.path = core_->path_of(*c);
  packet.size = wire::build_packet(*mad, core_->next_psn, packet.path, frame);
  packet.sender = wire::kManagementQpn;
  return words;
}

std::optional<ConnectionInfo> Cm::query(Id id) const {
  const Connection* const c = find(id);
  return c == nullptr ? std::nullopt : std::optional(c->info);
}

std::optional<Event> Cm::poll_event() {
  const Event* const next = next_event();
  if (next == nullptr) return std::nullopt;
  const Event event = *next;
  pop_event();
  return event;
}

const Event* Cm::next_event() {
  auto& events = core_->events;
  while (!events.empty() && find(events.front().id) == nullptr) events.pop_front();  // It was destroyed meanwhile.
  return events.empty() ? nullptr : &events.front();
}

void Cm::pop_event() { core_->events.pop_front(); }

std::size_t Cm::size() const { return core_->connections.size(); }

Connection* Cm::find(Id id) const {
  Connection* const c = core_->find(id);
  return c == nullptr || c->orphan ? nullptr : c;
}

}  // namespace uroce::cm
