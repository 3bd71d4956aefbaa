// SPDX-License-Identifier: Apache-2.0
// The side that listens: REQ in, REP out, RTU in (IBTA Vol 1, 12.9.7).
#include <cerrno>

#include "proto/pkey.h"
#include "proto/timing.h"
#include "verbs/cm/core.h"
#include "verbs/cm/times.h"

namespace uroce::cm {
namespace {

using wire::Req;

constexpr std::uint8_t kTransportRc = 0, kTransportUc = 1;

bool has_alternate_path(proto::ConstView<Req> req) {
  return req.get<Req::AltLocalLid>() != 0 || req.get<Req::AltLocalGidHigh>() != 0 ||
         req.get<Req::AltLocalGidLow>() != 0;
}

bool fits(proto::ConstView<Req> req, Transport transport) {
  const std::uint8_t wanted = transport == Transport::kUc ? kTransportUc : kTransportRc;
  return transport != Transport::kUd && req.get<Req::TransportType>() == wanted &&
         req.get<Req::ExtendedTransport>() == 0;
}

/// What the peer asks for, and says of its QP.
void read_terms(ConnectionInfo& info, proto::ConstView<Req> req) {
  info.peer_known = true;
  info.service_id = req.get<Req::ServiceId>();
  info.path.flow_label = req.get<Req::FlowLabel>();
  info.path.tclass = req.get<Req::TClass>();
  info.path.hop_limit = req.get<Req::HopLimit>();
  info.path.mtu = req.get<Req::PathMtu>();
  info.ack_timeout = req.get<Req::AckTimeout>();
  info.path.life_time = static_cast<std::uint8_t>(std::max(info.ack_timeout - 1, 0));
  info.remote_qpn = req.get<Req::Qpn>();
  info.remote_psn = req.get<Req::StartingPsn>();
  info.retry_count = req.get<Req::RetryCount>();
  info.rnr_retry_count = req.get<Req::RnrRetryCount>();
  info.max_dest_rd_atomic = req.get<Req::InitiatorDepth>();
  info.max_rd_atomic = req.get<Req::ResponderResources>();
}

/// The same for the program. What the peer can have outstanding is what we have to answer.
ConnectionParams params_of(proto::ConstView<Req> req) {
  ConnectionParams params;
  params.qpn = req.get<Req::Qpn>();
  params.responder_resources = req.get<Req::InitiatorDepth>();
  params.initiator_depth = req.get<Req::ResponderResources>();
  params.flow_control = req.get<Req::FlowControl>();
  params.retry_count = req.get<Req::RetryCount>();
  params.rnr_retry_count = req.get<Req::RnrRetryCount>();
  params.srq = req.get<Req::Srq>();
  return params;
}

}  // namespace

void Cm::Core::refuse(const Incoming& in, RejectReason reason, Bytes info, About about) {
  const std::uint32_t remote_id = in.message.as<Req>().get<Req::LocalId>();
  answer(in, make_rej(0, remote_id, in.tid(), {.reason = reason, .about = about, .info = info}));
}

void Cm::Core::on_req(const Incoming& in) {
  const auto req = in.message.as<Req>();
  const Gid local = wire::get_gid<Req::LocalGidHigh, Req::LocalGidLow>(req);
  const auto addresses = wire::parse_addresses(in.message.private_data());
  // A peer that claims another address could make us send to a third party.
  if (is_improved() && config.check_source &&
      (local != in.path.source || (addresses && addresses->source != in.path.source))) {
    ++counters.wrong_source;
    return refuse(in, RejectReason::kInvalidGid, first_gid());
  }
  if (answer_known(in)) return;
  const std::uint64_t service_id = req.get<Req::ServiceId>();
  if (!listeners.has_service(service_id)) {
    if (may_wait(service_id, in)) return;
    return refuse(in, RejectReason::kInvalidServiceId);
  }
  if (refuse_path(in)) return;
  if (!addresses || addresses->destination != in.path.destination || addresses->source.is_multicast() ||
      addresses->source.is_any()) {
    return refuse(in, RejectReason::kConsumer);
  }
  Listener* const listener = listeners.match(service_id, addresses->destination);
  if (listener == nullptr || !fits(req, listener->what.transport)) return refuse(in, RejectReason::kConsumer);
  if (!waits_for_place(*listener, in)) take_in(in, *listener, addresses->source_port);
}

/// A REQ that repeats one, or that has the QP of a connection: its peer has a new life.
bool Cm::Core::answer_known(const Incoming& in) {
  const auto req = in.message.as<Req>();
  const std::uint64_t guid = req.get<Req::CaGuid>();
  if (const auto known = by_peer_id.find({in.path.source, guid, req.get<Req::LocalId>()}); known != by_peer_id.end()) {
    const Connection& c = *find(known->second);
    ++counters.duplicates;
    if (c.info.state == State::kReqReceived) send(c, make_mra(c, About::kReq));
    return true;  // The REP has a timer of its own.
  }
  if (const auto known = by_peer_qp.find({in.path.source, guid, req.get<Req::Qpn>()}); known != by_peer_qp.end()) {
    refuse(in, RejectReason::kStaleConnection);
    disconnect_stale(known->second, in.now);
    return true;
  }
  return false;
}

/// A REQ for a path that we don't have.
bool Cm::Core::refuse_path(const Incoming& in) {
  const auto req = in.message.as<Req>();
  const Gid remote = wire::get_gid<Req::RemoteGidHigh, Req::RemoteGidLow>(req);
  const std::uint8_t mtu = req.get<Req::PathMtu>();
  if (!proto::accepts_pkey(req.get<Req::PKey>()) || !is_ours(remote)) {
    refuse(in, RejectReason::kInvalidGid, first_gid());
  } else if (has_alternate_path(req)) {
    refuse(in, RejectReason::kInvalidAlternateGid, Bytes(in.path.source.raw));
  } else if (is_improved() && (!proto::is_mtu_code(mtu) || mtu > config.mtu_max)) {
    refuse(in, RejectReason::kInvalidMtu);
  } else {
    return false;
  }
  return true;
}

/// A connection for a REQ that the listener takes, if there is a place.
void Cm::Core::take_in(const Incoming& in, Listener& listener, std::uint16_t source_port) {
  const auto req = in.message.as<Req>();
  Connection& c = create();
  c.info.passive = true;
  c.info.local = {in.path.destination, static_cast<std::uint16_t>(req.get<Req::ServiceId>())};
  c.info.remote = {in.path.source, source_port};
  if (!take_place(listener, c)) return erase(c);
  c.info.transport = listener.what.transport;
  c.info.state = State::kReqReceived;
  read_terms(c.info, req);
  c.remote_id = req.get<Req::LocalId>();
  c.remote_guid = req.get<Req::CaGuid>();
  c.request_tid = in.tid();
  c.remote_retries = req.get<Req::MaxRetries>();
  c.response_time = scaled(peers_time(req.get<Req::LocalTimeout>()));
  remember_peer(c);
  change_last_words(c);

  Event& event = tell(c, Event::Kind::kRequest);
  event.listener = listener.id;
  event.params = params_of(req);
  event.params.ece = {req.get<Req::Vendor>(), in.message.mad().get<wire::Mad::Modifier>()};
  event.private_data = whole_field(in.message.private_data().subspan(wire::CmaHeader::kSize));
}

void Cm::Core::accept(Connection& c, const ConnectionParams& params, Bytes private_data, Instant now) {
  leave_backlog(c);
  enter(c, State::kRepSent);
  c.info.local_qpn = params.qpn;
  c.info.max_dest_rd_atomic = params.responder_resources;
  c.info.max_rd_atomic = params.initiator_depth;
  if (is_improved()) awaiting_data[params.qpn] = c.id;
  send_until_answered(c, make_rep(c, config, params, private_data), c.remote_retries, now);
}

void Cm::Core::become_established(Connection& c) {
  enter(c, State::kEstablished);
  tell(c, Event::Kind::kEstablished);
}

void Cm::Core::on_rtu(const Incoming& in) {
  using wire::Rtu;
  const auto rtu = in.message.as<Rtu>();
  Connection* const c = find_from_peer(rtu.get<Rtu::RemoteId>(), in);
  if (c == nullptr) return;
  if (!c->info.passive || rtu.get<Rtu::LocalId>() != c->remote_id) {
    ++counters.unmatched;
  } else if (c->info.state == State::kRepSent) {
    become_established(*c);
  } else {
    ++counters.duplicates;
  }
}

}  // namespace uroce::cm
