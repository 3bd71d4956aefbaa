// SPDX-License-Identifier: Apache-2.0
// Service ID resolution: how UD programs find each other (IBTA Vol 1, 12.11). One question, one answer.
#include <cerrno>

#include "verbs/cm/core.h"
#include "verbs/cm/times.h"

namespace uroce::cm {

using wire::SidrRep;
using wire::SidrReq;

Result<Id, Errno> Cm::Core::sidr_request(const SidrRequest& request, Instant now) {
  if (request.private_data.size > kSidrReqPrivateData) return Err{EINVAL};
  const auto created = create(request.local, request.remote, request.path);
  if (!created) return Err{created.error()};
  Connection& c = **created;
  c.info.transport = Transport::kUd;
  c.info.service_id = request.service_id;
  c.response_time = scaled(time_of(kResponseTimeout));
  enter(c, State::kSidrReqSent);
  const Bytes data = Bytes(request.private_data.bytes).first(request.private_data.size);
  send_until_answered(c, make_sidr_req(c, data), kMaxRetries, now);
  return c.id;
}

void Cm::Core::on_sidr_req(const Incoming& in) {
  const auto req = in.message.as<SidrReq>();
  const std::uint64_t service_id = req.get<SidrReq::ServiceId>();
  const std::uint32_t request_id = req.get<SidrReq::RequestId>();
  const PeerKey key{in.path.source, 0, request_id};
  const auto refuse_with = [&](SidrStatus status) {
    answer(in, make_sidr_rep(request_id, in.tid(), service_id, {.status = status}));
  };
  if (by_request_id.contains(key)) {
    ++counters.duplicates;
    return;
  }
  if (const Mad* const again = sidr_answers.find(key)) {
    ++counters.duplicates;
    return answer(in, *again);
  }
  if (!listeners.has_service(service_id)) {
    if (may_wait(service_id, in)) return;
    return refuse_with(SidrStatus::kUnsupported);
  }
  const auto addresses = wire::parse_addresses(in.message.private_data());
  const bool source_ok = addresses && (!is_improved() || !config.check_source || addresses->source == in.path.source);
  if (addresses && !source_ok) ++counters.wrong_source;
  if (!source_ok || addresses->destination != in.path.destination) return refuse_with(SidrStatus::kReject);
  Listener* const listener = listeners.match(service_id, addresses->destination);
  if (listener == nullptr || listener->what.transport != Transport::kUd) {
    return refuse_with(SidrStatus::kUnsupported);
  }
  if (waits_for_place(*listener, in)) return;

  Connection& c = create();
  c.info.passive = true;
  c.info.transport = Transport::kUd;
  c.info.service_id = service_id;
  c.info.local = {in.path.destination, static_cast<std::uint16_t>(service_id)};
  c.info.remote = {in.path.source, addresses->source_port};
  c.info.path.tclass = static_cast<std::uint8_t>(in.path.tclass & ~proto::kEcnMask);
  if (!take_place(*listener, c)) return erase(c);
  c.info.state = State::kSidrReqReceived;
  c.remote_id = request_id;
  c.request_tid = in.tid();
  by_request_id[key] = c.id;
  Event& event = tell(c, Event::Kind::kRequest);
  event.listener = listener->id;
  event.private_data = whole_field(in.message.private_data().subspan(wire::CmaHeader::kSize));
}

void Cm::Core::sidr_reply(Connection& c, const SidrReply& reply, Instant now) {
  const Mad mad = make_sidr_rep(c.remote_id, c.request_tid, c.info.service_id, reply);
  send(c, mad);
  leave_backlog(c);
  if (is_improved()) sidr_answers.add({c.peer(), 0, c.remote_id}, mad, now + scaled(kSidrMemory));
  enter_idle(c);
}

void Cm::Core::on_sidr_rep(const Incoming& in) {
  const auto rep = in.message.as<SidrRep>();
  Connection* const c = find_from_peer(rep.get<SidrRep::RequestId>(), in);
  if (c == nullptr) return;
  if (c->info.state != State::kSidrReqSent) {
    ++counters.unmatched;
    return;
  }
  const std::uint8_t status = rep.get<SidrRep::Status>();
  enter_idle(*c);
  Event& event = tell(*c, status == 0 ? Event::Kind::kEstablished : Event::Kind::kUnreachable, status);
  if (status == 0) {
    event.datagram = {rep.get<SidrRep::Qpn>(), rep.get<SidrRep::QKey>()};
    c->info.peer_known = true;
    c->info.remote_qpn = event.datagram.qpn;
  }
  event.private_data = whole_field(in.message.private_data());
}

}  // namespace uroce::cm
