// SPDX-License-Identifier: Apache-2.0
// How connections end: refused, disconnected, given up, or destroyed by their program (IBTA Vol 1, 12.9.8 and 12.10).
#include <cerrno>

#include "verbs/cm/core.h"
#include "verbs/cm/times.h"

namespace uroce::cm {
namespace {

/// What a REJ is about that we send in this state.
About about(State state) {
  if (state == State::kReqReceived) return About::kReq;
  return state == State::kRepReceived ? About::kRep : About::kOther;
}

}  // namespace

void Cm::Core::on_rej(const Incoming& in) {
  using wire::Rej;
  const auto rej = in.message.as<Rej>();
  const auto reason = rej.get<Rej::Reason>();
  Id id = rej.get<Rej::RemoteId>();
  const std::uint32_t remote_id = rej.get<Rej::LocalId>();
  // A peer that gives up on its REQ does not know our ID. It says instead whose the request was.
  if (reason == static_cast<std::uint16_t>(RejectReason::kTimeout) && id == 0) {
    const std::uint64_t guid = load_be<8>(in.message.additional_info().data());
    const auto known = by_peer_id.find({in.path.source, guid, remote_id});
    if (known != by_peer_id.end()) id = known->second;
    latecomers.withdraw(in.path.source, remote_id);
  }
  Connection* const c = find_from_peer(id, in);
  if (c == nullptr) return;
  const bool knows_us = rej.get<Rej::RemoteId>() != 0;
  switch (c->info.state) {
    case State::kReqSent:  // Its ID is new to us, or 0 if it has refused at once.
      enter_idle(*c);
      break;
    case State::kReqReceived:
    case State::kRepSent:
      if (remote_id != c->remote_id) return void(++counters.unmatched);
      enter_idle(*c);
      break;
    case State::kRepReceived:
    case State::kEstablished:
    case State::kDreqSent:
      // A peer has told us that it has our ID, or has it from our REQ. Who does not say it may be anybody.
      if (!knows_us || remote_id != c->remote_id) return void(++counters.unmatched);
      enter_timewait(*c, in.now);
      break;
    default:
      ++counters.unmatched;
      return;
  }
  if (c->orphan) return;
  tell(*c, Event::Kind::kRejected, reason).private_data = whole_field(in.message.private_data());
}

void Cm::Core::on_dreq(const Incoming& in) {
  using wire::Dreq;
  const auto dreq = in.message.as<Dreq>();
  const Id id = dreq.get<Dreq::RemoteId>();
  const std::uint32_t remote_id = dreq.get<Dreq::LocalId>();
  Connection* c = find(id);
  if (c == nullptr || c->remote_id != remote_id || c->info.transport == Transport::kUd) {
    ++counters.unmatched;
    return answer(in, make_drep(id, remote_id, in.tid()));  // Whatever it was, it is over.
  }
  c = find_from_peer(id, in);
  if (c == nullptr) return;
  if (dreq.get<Dreq::RemoteQpn>() != c->info.local_qpn) {
    ++counters.unmatched;
    return;
  }
  switch (c->info.state) {
    case State::kRepSent:
    case State::kEstablished:
    case State::kDreqSent:
      enter(*c, State::kDreqReceived);
      c->disconnect_tid = in.tid();
      if (c->orphan) return disconnect(*c, in.now);
      return tell_end(*c);
    case State::kDreqReceived:
      ++counters.duplicates;
      return;  // The answer is the program's.
    case State::kTimewait:
      ++counters.duplicates;
      return send(*c, make_drep(c->id, c->remote_id, in.tid()));
    case State::kIdle:
      ++counters.duplicates;
      if (is_improved()) send(*c, make_drep(c->id, c->remote_id, in.tid()));
      return;
    default:
      ++counters.unmatched;
      return;
  }
}

void Cm::Core::on_drep(const Incoming& in) {
  using wire::Drep;
  const auto drep = in.message.as<Drep>();
  Connection* const c = find_from_peer(drep.get<Drep::RemoteId>(), in);
  if (c == nullptr) return;
  const bool ends = c->info.state == State::kDreqSent || c->info.state == State::kDreqReceived;
  if (!ends || drep.get<Drep::LocalId>() != c->remote_id) {
    ++counters.unmatched;
    return;
  }
  enter_timewait(*c, in.now);
  if (!c->orphan) tell_end(*c);
}

Mad Cm::Core::timeout_of(const Connection& c, About about) const {
  std::array<std::uint8_t, 8> guid;
  store_be<8>(guid.data(), config.guid);
  const std::uint32_t peers = about == About::kRep ? c.remote_id : 0;
  return make_rej(c.id, peers, c.request_tid, {.reason = RejectReason::kTimeout, .about = about, .info = guid});
}

std::optional<Mad> Cm::Core::last_words(const Connection& c) const {
  switch (c.info.state) {
    case State::kReqSent:
      return timeout_of(c, About::kOther);
    case State::kReqReceived:
    case State::kRepReceived:
    case State::kRepSent:
      return make_rej(c.id, c.remote_id, c.request_tid,
                      {.reason = RejectReason::kConsumer, .about = about(c.info.state)});
    case State::kEstablished:
      if (c.info.transport == Transport::kUd) return std::nullopt;
      return make_dreq(c);
    case State::kDreqSent:
      return c.message;
    case State::kDreqReceived:
      return make_drep(c.id, c.remote_id, c.disconnect_tid);
    case State::kTimewait:
      // Said already, but it may have been lost; and a process that has ended does not hear the question again.
      if (!c.has_answered_end) return std::nullopt;
      return make_drep(c.id, c.remote_id, c.disconnect_tid);
    case State::kIdle:
    case State::kSidrReqSent:
    case State::kSidrReqReceived:
      return std::nullopt;
  }
  return std::nullopt;
}

bool Cm::Core::is_request_to_nobody(const Connection& c) const {
  return (c.info.state == State::kReqSent || c.info.state == State::kSidrReqSent) && !c.orphan && config.is_deserted &&
         config.is_deserted(c.info.remote.address);
}

void Cm::Core::on_deadline(Connection& c, Instant now) {
  if (c.info.state == State::kTimewait) {
    const bool tell_exit = c.told_end && !c.orphan;
    enter(c, State::kIdle);
    if (tell_exit) tell(c, Event::Kind::kTimewaitExit);
    if (c.orphan) erase(c);
    return;
  }
  if (c.info.state == State::kEstablished) {  // disconnect_at()
    disconnect(c, now);
    return tell_end(c);
  }
  if (is_request_to_nobody(c)) {
    const bool is_datagram = c.info.state == State::kSidrReqSent;
    Event& event = is_datagram ? tell(c, Event::Kind::kUnreachable, static_cast<int>(SidrStatus::kUnsupported))
                               : tell(c, Event::Kind::kRejected, static_cast<int>(RejectReason::kInvalidServiceId));
    event.private_data.size = is_datagram ? kSidrRepPrivateData : kRejPrivateData;
    return enter_idle(c);
  }
  if (c.sends_left > 0) {
    --c.sends_left;
    ++counters.retries;
    send(c, c.message);
    return set_deadline(c, now + c.wait);
  }
  switch (c.info.state) {
    case State::kReqSent:
    case State::kRepSent:
      if (is_improved()) {  // So that the peer does not wait for what never comes.
        send(c, timeout_of(c, c.info.state == State::kReqSent ? About::kOther : About::kRep));
      }
      [[fallthrough]];
    case State::kSidrReqSent:
      tell(c, Event::Kind::kUnreachable, -ETIMEDOUT);
      return enter_idle(c);
    case State::kDreqSent:
      if (!c.orphan) tell_end(c, -ETIMEDOUT);
      return enter_timewait(c, now);
    default:
      return stop(c);
  }
}

Errno Cm::Core::reject(Connection& c, RejectReason reason, Bytes private_data, Instant now) {
  const State state = c.info.state;
  if (state != State::kReqReceived && state != State::kRepReceived && state != State::kRepSent) return EINVAL;
  leave_backlog(c);
  send(c, make_rej(c.id, c.remote_id, c.request_tid,
                   {.reason = reason, .about = about(state), .private_data = private_data}));
  if (state == State::kRepSent) {
    enter_timewait(c, now);
  } else {
    enter_idle(c);
  }
  return 0;
}

void Cm::Core::disconnect(Connection& c, Instant now) {
  if (c.info.transport == Transport::kUd) return;
  if (c.info.state == State::kEstablished) {
    enter(c, State::kDreqSent);
    send_until_answered(c, make_dreq(c), kMaxRetries, now);
  } else if (c.info.state == State::kDreqReceived) {
    send(c, make_drep(c.id, c.remote_id, c.disconnect_tid));
    enter_timewait(c, now);
    c.has_answered_end = true;
  }
}

void Cm::Core::disconnect_stale(Id id, Instant now) {
  Connection& c = *find(id);
  if (c.info.state == State::kEstablished) disconnect(c, now);
}

void Cm::Core::destroy(Connection& c, Instant now) {
  switch (c.info.state) {
    case State::kReqSent:
    case State::kReqReceived:
    case State::kRepReceived:
    case State::kRepSent:
      send(c, *last_words(c));
      return erase(c);
    case State::kSidrReqReceived:
      sidr_reply(c, {.status = SidrStatus::kReject}, now);
      return erase(c);
    case State::kEstablished:
      disconnect(c, now);
      [[fallthrough]];
    case State::kDreqSent:
      // The peer has to learn of it: lives on until it has answered.
      if (!is_improved()) return erase(c);
      c.orphan = true;
      forget_peer(c);  // Its QP may have a new life, in which it connects with us again.
      return;
    case State::kDreqReceived:
      disconnect(c, now);
      [[fallthrough]];
    case State::kTimewait:
      // So that somebody can say it again, should this process end soon.
      if (!config.last_words || !c.has_answered_end) return erase(c);
      c.orphan = true;
      return;
    case State::kIdle:
    case State::kSidrReqSent:
      return erase(c);
  }
}

}  // namespace uroce::cm
