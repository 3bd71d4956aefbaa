// SPDX-License-Identifier: Apache-2.0
// What requester and responder of one QP share. They never call each other.
#pragma once

#include "proto/crc32.h"
#include "proto/packet.h"
#include "proto/timing.h"
#include "verbs/nic/model/qp_state.h"
#include "verbs/nic/resources/sges.h"
#include "verbs/nic/resources/work_queues.h"
#include "verbs/nic/transport/base/env.h"

namespace uroce::nic {

struct QpContext {
  QpEnv& env;
  Qp* qp;
  std::uint32_t qpn;
  QpInit init;
  QpAttr attr{};
  /// A WQE failed: the QP must go to ERR, or to SQE where the service has that state. The requester says so.
  bool send_failed = false;
  /// A request, or the receive for it, failed for good: the QP must go to ERR, and its owner learns of it. The
  /// responder says so.
  std::optional<Event::Kind> receive_failed{};
  bool last_of_turn = false;                                     ///< After the next packet it is another QP's turn.
  std::shared_ptr<PeerWindow> window = env.windows.datagrams();  ///< For connected QPs: the one to their peer.

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
    const auto memory = env.mrs.resolve_remote(rkey, va, length, init.pd, qpn, rights);
    if (!memory) note<TraceKind::kRkeyRefused>(static_cast<std::uint64_t>(memory.error()), rkey);
    return memory;
  }
  /// Says which key of a list could not be used, and why; see refused_key().
  void note_refused(const Pd* pd, std::span<const Sge> sges, std::uint32_t rights) const {
    const auto refused = refused_key(env.mrs, pd, sges, rights);
    if (refused) note<TraceKind::kLkeyRefused>(static_cast<std::uint64_t>(refused->why), refused->key);
  }
  /// Takes back a window that belongs to this QP; see MrTable::invalidate().
  bool invalidate(std::uint32_t rkey) const { return env.mrs.invalidate(rkey, init.pd, qpn); }

  /// PSNs that a message, or the response to a READ, of so many bytes takes.
  std::uint32_t packets_for(std::uint32_t length) const { return length == 0 ? 1 : (length + mtu() - 1) / mtu(); }
  /// Part of what a WQE sends.
  struct Payload {
    const SendQueue& queue;
    std::uint64_t index;
    std::size_t offset;
    std::uint32_t size;
  };
  /// Adds it to a packet along `path`, whose headers are final. False: a key or a range is wrong.
  bool add_payload(proto::PacketBuilder& packet, const Path& path, const Payload& part) const {
    const MutBytes out = packet.payload(part.size);
    if (!part.queue.at(part.index).is_inline) {
      std::uint32_t* const crc = part.size >= proto::kOnePassLeast ? &packet.start_icrc(path) : nullptr;
      const auto sges = part.queue.sges(part.index);
      if (gather(env.mrs, init.pd, sges, part.offset, out, crc)) return true;
      note_refused(init.pd, sges, 0);
      return false;
    }
    if (!out.empty()) std::memcpy(out.data(), part.queue.inline_data(part.index).data() + part.offset, out.size());
    return true;
  }
  /// With what the `nth` send WR of this QP is to fail, if a fault wants that.
  std::optional<WcStatus> injected_failure(std::uint64_t nth) const {
    const auto& fail_send = env.config.faults.fail_send;
    return fail_send ? fail_send(qpn, nth) : std::nullopt;
  }

  /// Says what happens to this QP, and counts it.
  template <TraceKind kKind>
  void note(std::uint64_t a = 0, std::uint64_t b = 0) const {
    env.trace.note<kKind>(qpn, a, b);
  }
  void note_received(std::size_t payload) const { env.trace.counters.rcvd_payload_bytes += payload; }
  /// A WRITE of the peer is complete, and gives no completion here.
  void note_written() const { ++env.trace.counters.rcvd_writes; }
  void note_sent(std::size_t payload) const { env.trace.counters.sent_payload_bytes += payload; }

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
  kWindow,  ///< There is something, but the window is full.
};

}  // namespace uroce::nic
