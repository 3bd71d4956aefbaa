// What requester and responder of one QP share. They never call each other.
#pragma once

#include "proto/packet.h"
#include "proto/timing.h"
#include "verbs/nic/model/qp_state.h"
#include "verbs/nic/transport/base/env.h"

namespace uroce::nic {

struct QpContext {
  QpEnv& env;
  Qp* qp;
  std::uint32_t qpn;
  QpInit init;
  QpAttr attr{};

  std::uint32_t mtu() const { return proto::mtu_bytes(attr.path_mtu); }

  /// A packet to the peer, its BTH filled but for AckReq and SE.
  proto::PacketBuilder begin(MutBytes frame, proto::Opcode opcode, Psn psn) const {
    proto::PacketBuilder packet(frame, opcode);
    packet.bth().set<proto::Bth::DestQp>(attr.dest_qpn).set<proto::Bth::PsnField>(psn.value());
    return packet;
  }
  proto::Transmit finish(proto::PacketBuilder& packet) const { return {attr.path, packet.finish(attr.path)}; }

  /// Memory that our peer names; see MrTable::resolve_remote().
  Result<std::uint8_t*, AccessError> resolve_remote(std::uint32_t rkey, std::uint64_t va, std::uint64_t length,
                                                    std::uint32_t rights) const {
    return env.mrs.resolve_remote(rkey, va, length, init.pd, qpn, rights);
  }
  /// Takes back a window that belongs to this QP; see MrTable::invalidate().
  bool invalidate(std::uint32_t rkey) const { return env.mrs.invalidate(rkey, init.pd, qpn); }

  void complete(Cq& cq, Completion completion) const {
    completion.qpn = qpn;
    env.complete(cq, completion);
  }
};

/// a - b for PSNs of which a is known not to lie before b, however far apart (a message can have 2^23 packets).
inline std::uint32_t psn_distance(Psn a, Psn b) { return (a.value() - b.value()) & Psn::kMask; }

/// What asking a QP for a packet gave.
enum class TxStatus : std::uint8_t {
  kSent,
  kIdle,    ///< Nothing to send until something happens.
  kWindow,  ///< There is something, but the NIC's window is full.
};

}  // namespace uroce::nic
