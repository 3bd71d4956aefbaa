// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/wire_lint.h"

#include "proto/describe/describe.h"
#include "proto/icrc.h"
#include "proto/syndrome.h"
#include "tests/judged/sim/lint_frame.h"
#include "tests/judged/sim/srq_model.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using engine::sim::NodeId;
using engine::sim::Packet;
using proto::Kind;
using proto::PacketView;

namespace {

/// With a shared queue, no receive can be promised (9.7.7.2), and RNR NAK says that there is none for anybody.
void check_shared(const PacketView& view, const SharedQueue& srq) {
  if (!view.has<proto::Aeth>()) return;
  const proto::Syndrome syndrome = proto::decode_syndrome(view.header<proto::Aeth>().get<proto::Aeth::SyndromeField>());
  const auto* ack = std::get_if<proto::syndrome::Ack>(&syndrome);
  if (ack != nullptr && ack->credit_code != proto::kCreditsUnlimited) incorrect("credits for shared receives");
  if (std::holds_alternative<proto::syndrome::Rnr>(syndrome) && !srq.empty()) {
    incorrect("an RNR NAK although the SRQ has a receive");
  }
}

}  // namespace

WireLint::Qp* WireLint::find(NodeId node, std::uint32_t qpn) {
  const std::uint32_t local = qpn & 0xFFFF;
  if (node >= qps_.size() || local >= qps_[node].size()) return nullptr;
  return qps_[node][local].get();
}

WireLint::Qp& WireLint::make(NodeId node, std::uint32_t qpn) {
  const std::uint32_t local = qpn & 0xFFFF;
  if (node >= qps_.size()) qps_.resize(node + 1);
  if (local >= qps_[node].size()) qps_[node].resize(local + 1);
  if (!qps_[node][local]) qps_[node][local] = std::make_unique<Qp>();
  return *qps_[node][local];
}

void WireLint::connected(const QpFacts& facts) {
  Qp& qp = make(facts.node, facts.qpn);
  qp.facts = facts;
  qp.connected = true;
  qp.silent = false;
  qp.requests.start(facts);
  qp.responses.start();
}

void WireLint::changed(NodeId node, std::uint32_t qpn, const proto::Path& path, std::uint32_t max_rd_atomic,
                       std::uint8_t rnr_timer) {
  Qp& qp = make(node, qpn);
  qp.facts.path = path;
  qp.requests.set_max_rd_atomic(max_rd_atomic);
  qp.responses.set_rnr_timer(rnr_timer);
}

void WireLint::silenced(NodeId node, std::uint32_t qpn) { make(node, qpn).silent = true; }
void WireLint::errored(NodeId node, std::uint32_t qpn) { make(node, qpn).requests.stop(); }
void WireLint::draining(NodeId node, std::uint32_t qpn, bool draining) {
  make(node, qpn).requests.set_draining(draining);
}
void WireLint::drained(NodeId node, std::uint32_t qpn) { make(node, qpn).requests.check_drained(); }
void WireLint::receive_posted(NodeId node, std::uint32_t qpn) { ++make(node, qpn).receives; }
void WireLint::forget(NodeId node, std::uint32_t qpn) {
  Qp& qp = make(node, qpn);
  qp.silent = true;
  qp.receives = 0;
}

std::optional<std::uint32_t> WireLint::takes_receive(NodeId node, const PacketView& view) {
  const Qp* const qp = find(node, view.dest_qp());
  const Qp* const peer = qp == nullptr ? nullptr : find(qp->facts.peer_node, qp->facts.peer_qpn);
  if (peer == nullptr || !qp->connected || !peer->connected) return std::nullopt;
  const std::uint32_t at = peer->requests.index(view.psn());
  const auto& history = peer->requests.history();
  return history.has(at) ? history[at].takes_receive : std::nullopt;
}

std::uint32_t WireLint::rnr_naks(NodeId node, std::uint32_t qpn) const {
  const Qp* qp = const_cast<WireLint*>(this)->find(node, qpn);
  return qp == nullptr ? 0 : qp->responses.rnr_naks();
}

void WireLint::sent(const Packet& packet, Instant now) {
  const auto view = proto::parse_packet(packet.bytes);
  about([&] { return fmt::format("host {} sends \"{}\"", packet.from, proto::one_line(packet.bytes)); },
        [&] {
          if (!view) incorrect("which is no packet");
          Qp* peer = find(packet.to, view->dest_qp());
          if (peer == nullptr || !peer->connected) incorrect("to a QP that was never connected");
          Qp* qp = find(packet.from, peer->facts.peer_qpn);
          if (qp == nullptr || !qp->connected || qp->facts.peer_qpn != view->dest_qp() ||
              qp->facts.peer_node != packet.to) {
            incorrect("to a QP that is connected to another one");
          }
          if (qp->silent) incorrect("from QP 0x{:x}, which may send nothing", qp->facts.qpn);
          if (view->op().service != proto::Service::kRc) incorrect("an opcode of another service");
          if (packet.path != qp->facts.path) incorrect("along another path than the QP's");
          check_frame(*view, packet.path);
          if (!view->op().is_response()) return qp->requests.sent(*view, packet.path, now);
          const NodeId node = packet.from;
          const bool flushed = in_error_ && in_error_(node, qp->facts.qpn);
          const SharedQueue* const srq = qp->facts.srq;
          if (srq != nullptr) check_shared(*view, *srq);
          const auto receives = flushed || srq != nullptr ? std::nullopt : std::optional(qp->receives);
          qp->responses.sent(*view, peer->requests, receives, [&](std::uint64_t va, std::size_t size) {
            return memory_ ? memory_(node, va, size) : Bytes{};
          });
        });
}

void WireLint::delivered(const Packet& packet, Instant now) {
  if (packet.corrupted && !proto::check_icrc(packet.path, packet.bytes).ok) return;
  const auto view = proto::parse_packet(packet.bytes);
  if (!view || view->op().service != proto::Service::kRc) return;
  Qp* qp = find(packet.to, view->dest_qp());
  if (qp == nullptr || !qp->connected || qp->silent) return;
  if (view->op().is_response()) return qp->requests.response(*view, now);
  const Qp* peer = find(qp->facts.peer_node, qp->facts.peer_qpn);
  if (peer != nullptr && peer->connected) qp->responses.request(*view, peer->requests);
}

Forgery WireLint::forged(const Packet& packet) {
  if (packet.corrupted && !proto::check_icrc(packet.path, packet.bytes).ok) return Forgery::kNothing;
  const auto view = proto::parse_packet(packet.bytes);
  if (!view || view->op().service != proto::Service::kRc || view->op().is_response()) return Forgery::kNothing;
  Qp* const qp = find(packet.to, view->dest_qp());
  if (qp == nullptr || !qp->connected || qp->silent) return Forgery::kNothing;
  if (packet.path.source != qp->facts.path.destination) return Forgery::kNothing;
  const Qp* const peer = find(qp->facts.peer_node, qp->facts.peer_qpn);
  return qp->responses.forged(*view, peer->requests) ? Forgery::kNext : Forgery::kOutOfSequence;
}

proto::Psn WireLint::expected(NodeId node, std::uint32_t qpn) {
  const Qp* const qp = find(node, qpn);
  if (qp == nullptr || !qp->connected) return {};
  const Qp* const peer = find(qp->facts.peer_node, qp->facts.peer_qpn);
  return peer->facts.sq_psn + qp->responses.arrived();
}

}  // namespace uroce::simulator
