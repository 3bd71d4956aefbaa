// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/story.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "proto/base/mix.h"

namespace uroce::explain {

using proto::Service;

std::string_view to_string(Pairing pairing) {
  constexpr std::array<std::string_view, 4> kNames{"one_sided", "connection_manager", "answers", "guess"};
  return kNames[static_cast<std::size_t>(pairing)];
}

std::size_t Story::FlowHash::operator()(const Flow& flow) const {
  std::uint64_t hash = std::uint64_t{flow.dest_qp} << 32 | flow.source_qp;
  for (const proto::Gid* gid : {&flow.source, &flow.destination}) {
    hash = mix(hash ^ load_be<8>(gid->raw.data()));
    hash = mix(hash ^ load_be<8>(gid->raw.data() + 8));
  }
  return hash;
}

const Connection* Story::connection(std::uint32_t number) const {
  return number == 0 || number > connections_.size() ? nullptr : connections_[number - 1].get();
}

Told Story::tell(const Packet& packet) {
  Told told;
  ++totals_.packets;
  if (totals_.packets == 1) totals_.first_ns = packet.time_ns;
  totals_.last_ns = std::max(totals_.last_ns, packet.time_ns);
  switch (packet.icrc_on_arrival()) {
    case Icrc::kRight:
      ++totals_.icrc_right;
      break;
    case Icrc::kWrong:
      ++totals_.icrc_wrong;
      break;
    case Icrc::kNotCaptured:
      ++totals_.icrc_unknown;
  }
  if (packet.cm) {
    tell_management(packet, told);
  } else if (packet.op->service == Service::kUd) {
    tell_datagram(packet, told);
  } else if (packet.op->service == Service::kCongestion) {
    tell_notification(packet, told);
  } else {
    tell_connected(packet, told);
  }
  icrcs_.tell(packet, packet.cm != nullptr || told.connection != 0);
  if (packet.icrc == Icrc::kWrong && icrcs_.is_never_right(packet.source)) deny_damage(told);
  if (Connection* const connection = told.connection == 0 ? nullptr : connections_[told.connection - 1].get()) {
    ++connection->packets;
    if (connection->packets == 1) connection->first_ns = packet.time_ns;
    connection->last_ns = std::max(connection->last_ns, packet.time_ns);
    if ((packet.tclass & proto::kEcnMask) == proto::kEcnMask) {
      ++connection->marked;
      told.note(Severity::kRemark, "congestion", "marked by the network: congestion experienced");
    }
    if (packet.icrc_on_arrival() == Icrc::kWrong) ++connection->icrc_wrong;
    if (packet.icrc_on_arrival() == Icrc::kRight) ++connection->icrc_right;
  }
  for (const std::string* const comment : {&packet.comment, &packet.receiver_comment}) {
    const bool said = comment == &packet.receiver_comment && *comment == packet.comment;
    if (comment->empty() || said) continue;
    // What a NIC of ours says about a packet: a fault was injected.
    const bool fault = comment->starts_with("uroce: ");
    told.note(fault ? Severity::kProblem : Severity::kRemark, "comment", *comment);
  }
  return told;
}

/// Of a sender whose packets are all so.
void Story::deny_damage(Told& told) {
  constexpr std::string_view kDamage = "damaged on the way";
  for (Note& note : told.notes) {
    const std::size_t at = note.code == "icrc_wrong" ? note.text.find(kDamage) : std::string::npos;
    if (at != std::string::npos) note.text.replace(at, kDamage.size(), "as in all packets of its sender so far");
  }
}

void Story::tell_management(const Packet& packet, Told& told) {
  if (const auto agreed = manager_.tell(packet, told)) seat_agreed(*agreed);
}

void Story::seat_agreed(const Agreed& agreed) {
  const Flow to_passive{agreed.active.gid, agreed.passive.gid, *agreed.passive.qpn, 0};
  const Flow to_active{agreed.passive.gid, agreed.active.gid, *agreed.active.qpn, 0};
  if (const auto known = flows_.find(to_passive); known != flows_.end()) {
    const auto& before = known->second.connection->agreement;
    if (before && before->req == agreed.agreement.req) return;  // The REP came twice.
  }
  if (connections_.size() >= kMostConnections) return;
  connections_.push_back(std::make_unique<Connection>(static_cast<std::uint32_t>(connections_.size() + 1),
                                                      agreed.reliable ? Service::kRc : Service::kUc, *names_));
  Connection& connection = *connections_.back();
  connection.left = agreed.active;
  connection.right = agreed.passive;
  connection.pairing = Pairing::kManager;
  connection.agreement = agreed.agreement;
  connection.to_right.begin_at(agreed.active_psn);
  connection.to_left.begin_at(agreed.passive_psn);
  connection.to_right.set_mtu(agreed.mtu);
  connection.to_left.set_mtu(agreed.mtu);
  flows_[to_passive] = {&connection, true};
  flows_[to_active] = {&connection, false};
}

void Story::tell_datagram(const Packet& packet, Told& told) {
  const Flow flow{packet.source, packet.destination, packet.dest_qp, packet.source_qp};
  auto found = flows_.find(flow);
  if (found == flows_.end()) {
    if (connections_.size() >= kMostConnections) {
      ++totals_.untold;
      return;
    }
    const Flow back{packet.destination, packet.source, packet.source_qp, packet.dest_qp};
    const auto opposite = flows_.find(back);
    Seat seat;
    if (opposite != flows_.end()) {
      seat = {opposite->second.connection, !opposite->second.from_left};
    } else {
      connections_.push_back(
          std::make_unique<Connection>(static_cast<std::uint32_t>(connections_.size() + 1), Service::kUd, *names_));
      seat = {connections_.back().get(), true};
      seat.connection->left = {packet.source, packet.source_qp};
      seat.connection->right = {packet.destination, packet.dest_qp};
      seat.connection->pairing = Pairing::kAnswers;
    }
    found = flows_.emplace(flow, seat).first;
  }
  Connection& connection = *found->second.connection;
  told.connection = connection.number;
  told.from_left = found->second.from_left;
  if (packet.icrc == Icrc::kWrong) {
    told.note(Severity::kProblem, "icrc_wrong", "ICRC wrong: damaged on the way, its receiver drops it");
    return;
  }
  connection.habits(told.from_left).tell(packet, told);
  told.reason = Reason::kFirst;
  ++connection.datagrams.count;
  connection.datagrams.bytes += packet.payload;
  if (packet.is_lost()) {
    ++connection.datagrams.lost;
    told.note(Severity::kProblem, "lost", lost_text(packet));
  }
  told.part = {connection.datagrams.count, 0, packet.payload, packet.payload};
}

/// A CNP goes back to the sender of a packet that met congestion.
void Story::tell_notification(const Packet& packet, Told& told) {
  const auto found = flows_.find({packet.source, packet.destination, packet.dest_qp, 0});
  told.note(Severity::kRemark, "cnp", "congestion notification: the receiver asks for fewer packets per second");
  if (found == flows_.end()) return;
  told.connection = found->second.connection->number;
  told.from_left = found->second.from_left;
  ++found->second.connection->cnps;
}

void Story::tell_connected(const Packet& packet, Told& told) {
  Seat seat = find_seat(packet);
  if (seat.connection == nullptr) {
    ++totals_.untold;
    if (packet.icrc == Icrc::kWrong) {
      told.note(Severity::kProblem, "icrc_wrong", "ICRC wrong: damaged on the way, its receiver drops it");
    }
    return;
  }
  const bool damaged = packet.icrc == Icrc::kWrong;
  if (!damaged && !packet.is_response()) seat = renew_if_new(seat, packet, told);
  Connection& connection = *seat.connection;
  told.connection = connection.number;
  told.from_left = seat.from_left;
  // Both directions have the same path MTU.
  Stream& stream = connection.stream(packet.is_response() ? !seat.from_left : seat.from_left);
  if (damaged) return stream.damaged(packet, told);
  const std::uint32_t known = connection.stream(packet.is_response() ? seat.from_left : !seat.from_left).sure_mtu();
  if (stream.sure_mtu() == 0 && known != 0) stream.set_mtu(known);
  packet.is_response() ? stream.response(packet, told) : stream.request(packet, told);
  told.finished = stream.take_finished();
  for (Finished& message : told.finished) message.by_left = packet.is_response() != seat.from_left;
  connection.habits(seat.from_left).tell(packet, told);
  connection.port(seat.from_left).add(packet.source_port);
}

/// A request that is none of the connection so far begins another one.
Story::Seat Story::renew_if_new(const Seat& seat, const Packet& packet, Told& told) {
  const Stream& stream = seat.connection->stream(seat.from_left);
  const bool moved = seat.connection->port(seat.from_left).is_another(packet.source_port) &&
                     (stream.is_behind_all(packet) || stream.is_behind_failure(packet) || stream.differs(packet));
  std::string why;
  if (stream.is_foreign(packet)) {
    why = "the QP begins anew: its PSN is far from those before";
  } else if (moved) {
    told.sure = stream.differs(packet);  // Some NICs send again from another port.
    why = std::string("the QP ") + (told.sure ? "" : "probably ") +
          "begins anew: from another UDP port, at a PSN that was sent before";
  } else if (stream.begins_anew(packet)) {
    told.sure = false;
    why = "the QP probably begins anew: at its first PSN, with other contents";
  } else {
    return seat;
  }
  told.note(Severity::kRemark, "new_connection", std::move(why));
  return renew(seat, packet);
}

void Story::finish() {
  pair_what_is_left();
  for (const auto& connection : connections_) {
    if (connection->service == Service::kUd || connection->part_of) continue;
    connection->to_right.finish(totals_.last_ns);
    connection->to_left.finish(totals_.last_ns);
  }
}

}  // namespace uroce::explain
