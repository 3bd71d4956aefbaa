// SPDX-License-Identifier: Apache-2.0
// The side that connects: REQ out, REP in, RTU out (IBTA Vol 1, 12.9.5).
#include <cerrno>
#include <utility>

#include "verbs/cm/core.h"
#include "verbs/cm/times.h"

namespace uroce::cm {

Result<Id, Errno> Cm::Core::connect(const ConnectRequest& request, Instant now) {
  if (request.transport == Transport::kUd || request.private_data.size > kReqPrivateData) return Err{EINVAL};
  const auto created = create(request.local, request.remote, request.path);
  if (!created) return Err{created.error()};
  Connection& c = **created;
  c.info.transport = request.transport;
  c.info.service_id = request.service_id;
  c.request_tid = request_tid(c.id, request.service_id);
  c.info.local_qpn = request.params.qpn;
  c.info.retry_count = std::min<std::uint8_t>(request.params.retry_count, 7);
  enter(c, State::kReqSent);
  send_until_answered(c, make_req(c, config, request), kMaxRetries, now);
  return c.id;
}

void Cm::Core::on_rep(const Incoming& in) {
  using wire::Rep;
  const auto rep = in.message.as<Rep>();
  Connection* const c = find_from_peer(rep.get<Rep::RemoteId>(), in);
  if (c == nullptr) return;
  const std::uint32_t remote_id = rep.get<Rep::LocalId>();
  if (c->info.state != State::kReqSent) {
    const bool again = !c->info.passive && remote_id == c->remote_id;
    ++(again ? counters.duplicates : counters.unmatched);
    if (again && c->info.state == State::kRepReceived) send(*c, make_mra(*c, About::kRep));
    // The repair of a lost RTU.
    if (again && c->info.state == State::kEstablished) send(*c, make_rtu(*c));
    return;
  }
  const std::uint64_t guid = rep.get<Rep::CaGuid>();
  if (by_peer_id.contains({in.path.source, guid, remote_id})) {
    ++counters.unmatched;
    return;
  }
  const auto stale = by_peer_qp.find({in.path.source, guid, rep.get<Rep::Qpn>()});
  if (stale != by_peer_qp.end()) {
    send(*c,
         make_rej(c->id, remote_id, c->request_tid, {.reason = RejectReason::kStaleConnection, .about = About::kRep}));
    return disconnect_stale(stale->second, in.now);
  }
  enter(*c, State::kRepReceived);
  c->remote_id = remote_id;
  c->remote_guid = guid;
  ConnectionInfo& info = c->info;
  info.peer_known = true;
  info.remote_qpn = rep.get<Rep::Qpn>();
  info.remote_psn = rep.get<Rep::StartingPsn>();
  info.rnr_retry_count = rep.get<Rep::RnrRetryCount>();
  info.max_dest_rd_atomic = rep.get<Rep::InitiatorDepth>();
  info.max_rd_atomic = rep.get<Rep::ResponderResources>();
  remember_peer(*c);

  Event& event = tell(*c, Event::Kind::kResponse);
  event.params.qpn = info.remote_qpn;
  event.params.responder_resources = info.max_dest_rd_atomic;
  event.params.initiator_depth = info.max_rd_atomic;
  event.params.flow_control = rep.get<Rep::FlowControl>();
  event.params.rnr_retry_count = info.rnr_retry_count;
  event.params.srq = rep.get<Rep::Srq>();
  event.params.ece.vendor_id = std::uint32_t{rep.get<Rep::VendorHigh>()} << 16 |
                               std::uint32_t{rep.get<Rep::VendorMiddle>()} << 8 | rep.get<Rep::VendorLow>();
  event.params.ece.attr_mod = in.message.mad().get<wire::Mad::Modifier>();
  event.private_data = whole_field(in.message.private_data());
}

void Cm::Core::establish(Connection& c) {
  enter(c, State::kEstablished);
  send(c, make_rtu(c));
}

/// "I need longer": for our REQ, or for our REP.
void Cm::Core::on_mra(const Incoming& in) {
  using wire::Mra;
  const auto mra = in.message.as<Mra>();
  Connection* const c = find_from_peer(mra.get<Mra::RemoteId>(), in);
  if (c == nullptr) return;
  const auto about = static_cast<About>(mra.get<Mra::Message>());
  const bool of_request = about == About::kReq && c->info.state == State::kReqSent;
  const bool of_reply =
      about == About::kRep && c->info.state == State::kRepSent && mra.get<Mra::LocalId>() == c->remote_id;
  if (!of_request && !of_reply) {
    ++counters.unmatched;
    return;
  }
  // One, as the kernel: else a peer could have us wait for ever.
  if (std::exchange(c->has_mra, true)) return void(++counters.duplicates);
  c->wait = scaled(peers_time(mra.get<Mra::ServiceTimeout>()) + timewait(c->info.ack_timeout));
  set_deadline(*c, in.now + c->wait);
}

}  // namespace uroce::cm
