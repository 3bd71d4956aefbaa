// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/send_model.h"

#include <algorithm>

#include "proto/describe/describe.h"
#include "tests/judged/sim/lint_frame.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using proto::Bth;
using proto::Deth;
using proto::Kind;
using proto::PacketView;
using proto::Reth;

void SendModel::start(const Facts& facts, proto::Psn psn) {
  facts_ = facts;
  psn_ = psn;
  silent_ = draining_ = false;
  abandon();
}

void SendModel::abandon() {
  queue_.clear();
  packet_ = 0;
}

bool SendModel::is_of(const engine::sim::Packet& packet, const PacketView& view) const {
  if (packet.from != facts_.node) return false;
  if (!facts_.connected) return view.has<Deth>() && view.header<Deth>().get<Deth::SourceQp>() == facts_.qpn;
  return !view.has<Deth>() && packet.to == facts_.peer_node && view.dest_qp() == facts_.peer_qpn;
}

void SendModel::sent(const engine::sim::Packet& packet, const PacketView& view) {
  if (silent_) incorrect("from QP 0x{:x}, which may send nothing", facts_.qpn);
  check_frame(view, packet.path);
  if (queue_.empty()) incorrect("from QP 0x{:x}, which has nothing to send", facts_.qpn);
  const Sending wr = queue_.front();
  about([&] { return fmt::format("packet {} of WR {} ({} bytes)", packet_, wr.id, wr.length); },
        [&] {
          if (wr.must_fail) incorrect("sent although the WR must fail");
          if (draining_ && packet_ == 0) incorrect("a new message while the send queue drains");
          if (view.psn() != psn_) incorrect("PSN 0x{:x}, should be 0x{:x}", view.psn().value(), psn_.value());
          check_headers(wr, view);
          check_target(wr, packet, view);
          if (packet_ == 0) {
            bytes_.resize(wr.length);
            fill_pattern(bytes_, wr.seed);
          }
          const std::uint32_t offset = packet_ * facts_.mtu;
          const Bytes due = Bytes(bytes_).subspan(offset, std::min(facts_.mtu, wr.length - offset));
          if (!std::equal(due.begin(), due.end(), view.payload().begin(), view.payload().end())) {
            incorrect("{} bytes of payload that are not the {} that are due", view.payload().size(), due.size());
          }
        });
  ++psn_;
  ++packet_;
  if (!view.op().ends()) return;
  packet_ = 0;
  sent_id_ = wr.id;
  queue_.pop_front();
}

void SendModel::check_headers(const Sending& wr, const PacketView& view) const {
  const proto::OpcodeInfo& op = view.op();
  const std::uint32_t packets = std::max(1u, (wr.length + facts_.mtu - 1) / facts_.mtu);
  const bool first = packet_ == 0, last = packet_ + 1 == packets;
  if (op.service != (facts_.connected ? proto::Service::kUc : proto::Service::kUd)) incorrect("of another service");
  if (op.kind != (wr.is_write ? Kind::kWrite : Kind::kSend) || op.starts() != first || op.ends() != last) {
    incorrect("opcode {}, packet {} of {} is due", op.name, packet_, packets);
  }
  if (view.has<proto::ImmDt>() != (last && wr.has_imm)) incorrect("immediate data is missing, or should be");
  if (view.has<proto::ImmDt>() && view.header<proto::ImmDt>().get<proto::ImmDt::Data>() != wr.imm) {
    incorrect("other immediate data");
  }
  if (first && wr.is_write) {
    const auto reth = view.header<Reth>();
    if (reth.get<Reth::Va>() != wr.va || reth.get<Reth::RKey>() != wr.rkey ||
        reth.get<Reth::DmaLength>() != wr.length) {
      incorrect("RETH is not what the WR says");
    }
  }
  const bool may_solicit = last && (!wr.is_write || wr.has_imm);
  if ((view.bth().get<Bth::SolicitedEvent>() != 0) != (may_solicit && wr.solicited)) incorrect("SE is wrong");
  if (view.bth().get<Bth::AckReq>()) incorrect("asks for an ACK");
}

void SendModel::check_target(const Sending& wr, const engine::sim::Packet& packet, const PacketView& view) const {
  if (packet.path != (facts_.connected ? facts_.path : wr.target.path)) incorrect("along another path");
  if (facts_.connected) return;
  if (view.dest_qp() != wr.target.qpn) incorrect("to QP 0x{:x}, the WR says 0x{:x}", view.dest_qp(), wr.target.qpn);
  // IBTA Vol 1, 10.2.5: a Q_Key with the top bit set stands for the QP's own.
  const std::uint32_t qkey = (wr.target.qkey >> 31) != 0 ? facts_.qkey : wr.target.qkey;
  if (view.header<Deth>().get<Deth::QKey>() != qkey) incorrect("with another Q_Key");
}

void UnackedLint::sent(const engine::sim::Packet& packet, const PacketView& view) {
  about([&] { return fmt::format("host {} sends \"{}\"", packet.from, proto::one_line(packet.bytes)); },
        [&] {
          const auto at =
              std::find_if(models_.begin(), models_.end(), [&](const SendModel* m) { return m->is_of(packet, view); });
          if (at == models_.end()) incorrect("from no QP of that service");
          (*at)->sent(packet, view);
        });
}

}  // namespace uroce::simulator
