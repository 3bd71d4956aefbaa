// SPDX-License-Identifier: Apache-2.0
// A NIC and its connection manager as one NIC (engine::SansIoNic): packets for QP 1 go to the manager, all others to
// the NIC; both send. Engine, faults and captures see one.
#pragma once

#include <algorithm>
#include <optional>

#include "proto/cm/mad.h"
#include "proto/icrc.h"
#include "proto/packet.h"
#include "proto/qp_identity.h"
#include "verbs/cm/cm.h"

namespace uroce::cm {

template <class N>
class NicWithCm {
 public:
  /// Both must outlive this.
  NicWithCm(N& nic, Cm& cm) : nic_(nic), cm_(cm) {}

  void on_datagram(const proto::Datagram& datagram, Instant now) {
    const std::uint32_t qpn = dest_qpn(datagram.payload);
    if (qpn == proto::cm::kManagementQpn) return cm_.on_datagram(datagram, now);
    if (cm_.awaits_data(qpn)) tell_first_data(datagram, now);
    nic_.on_datagram(datagram, now);
  }
  void on_timeout(Instant now) {
    nic_.on_timeout(now);
    if (const auto deadline = cm_.next_deadline(); deadline && *deadline <= now) cm_.on_timeout(now);
  }
  void answer_first() { nic_.answer_first(); }  ///< As the NIC has it.
  std::uint64_t silent_writes() const { return nic_.silent_writes(); }
  std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame) {
    // Management first: it is rare, and must not wait behind a stream.
    if (auto out = cm_.poll_transmit(now, frame)) return out;
    return nic_.poll_transmit(now, frame);
  }
  std::optional<Instant> next_deadline() const {
    const auto a = nic_.next_deadline();
    const auto b = cm_.next_deadline();
    return a && b ? std::min(*a, *b) : a ? a : b;
  }

  /// For engine/faults, of NICs that have it. QP 1 is none of those that programs create.
  auto identify(std::uint32_t qpn) const {
    return qpn == proto::cm::kManagementQpn ? std::optional(proto::QpIdentity{.first_sent = cm_.first_psn()})
                                            : nic_.identify(qpn);
  }

 private:
  static std::uint32_t dest_qpn(Bytes packet) {
    if (packet.size() < proto::Bth::kSize) return 0;
    return proto::ConstView<proto::Bth>{packet.data()}.template get<proto::Bth::DestQp>();
  }
  /// A request that reaches a QP whose REP is out says that the peer has had the REP.
  void tell_first_data(const proto::Datagram& datagram, Instant now) {
    const auto packet = proto::parse_packet(datagram.payload);
    if (!packet || !is_connected_request(packet->op()) || !proto::check_icrc(datagram).ok) return;
    cm_.on_data(packet->dest_qp(), datagram.path.source, packet->psn().value(), now);
  }
  static bool is_connected_request(const proto::OpcodeInfo& op) {
    return (op.service == proto::Service::kRc || op.service == proto::Service::kUc) && !op.is_response();
  }

  N& nic_;
  Cm& cm_;
};

}  // namespace uroce::cm
