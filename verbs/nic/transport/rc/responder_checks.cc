// SPDX-License-Identifier: Apache-2.0
// The checks of an inbound request, in the order of the specification (IBTA Vol 1, 9.7.4.1): the first one that objects
// decides what the requester hears.
#include "verbs/nic/model/checks.h"
#include "verbs/nic/model/limits.h"
#include "verbs/nic/transport/rc/responder.h"

namespace uroce::nic {

using proto::Kind;
using proto::NakCode;
using proto::PacketView;

namespace {

/// The rights that a FLUSH needs; nothing when it asks for what is reserved (IBTA Annex A19), or for nothing.
std::optional<std::uint32_t> rights_of_flush(const PacketView& packet) {
  const auto feth = packet.header<proto::Feth>();
  const std::uint8_t placement = feth.get<proto::Feth::Placement>();
  if (feth.get<proto::Feth::Selectivity>() > proto::kFlushRegion) return std::nullopt;
  switch (placement) {
    case proto::kGlobalVisibility:
      return kFlushGlobal;
    case proto::kPersistence:
      return kFlushPersistent;
    case proto::kGlobalVisibility | proto::kPersistence:
      return kFlushGlobal | kFlushPersistent;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::span<const Responder::Check> Responder::checks() {
  static constexpr Check kChecks[] = {
      {{"packet sequence number", "duplicate: its answer again, or nothing; behind a gap: one NAK 0x60 for all"},
       &Responder::check_psn},
      {{"opcode sequence", "NAK 0x61, invalid request"}, &Responder::check_sequence},
      {{"opcode supported by the QP", "NAK 0x61, invalid request"}, &Responder::check_opcode},
      {{"receive and replay resources", "no receive: RNR NAK; too many READs and atomics: NAK 0x61"},
       &Responder::check_resources},
      {{"R_Key, bounds and rights", "NAK 0x62, remote access error"}, &Responder::check_access},
      {{"length", "NAK 0x61, invalid request"}, &Responder::check_length},
  };
  static_assert(std::size(kChecks) == static_cast<std::size_t>(RcCheck::kCount));
  return kChecks;
}

std::vector<Responder::CheckFacts> Responder::check_facts() {
  std::vector<CheckFacts> all;
  for (const Check& check : checks()) all.push_back(check.facts);
  return all;
}

/// 9.7.4.1.2: expected, duplicate (the half of the number space before), or out of sequence.
Responder::Verdict Responder::check_psn(const PacketView& packet) {
  const std::int32_t distance = packet.psn() - expected();
  if (distance == 0) {
    nak_sent_ = false;
    return Verdict::go_on();
  }
  if (distance < 0) {
    c_.note<TraceKind::kDuplicate>(packet.bth().get<proto::Bth::Opcode>(), packet.psn().value());
    on_duplicate(packet);
    return Verdict::drop();
  }
  c_.note<TraceKind::kOutOfSequence>(packet.psn().value(), expected().value());
  // 9.7.5.1.4?: one NAK, then silence until the expected packet arrives.
  if (!nak_sent_ || packet.psn() - refused_ > 0) refused_ = packet.psn();
  if (!nak_sent_) schedule(expected(), proto::syndrome::Nak{NakCode::kPsnSequenceError});
  nak_sent_ = true;
  return Verdict::drop();
}

/// 9.7.4.1.3: inside a message only its own MIDDLE and LAST, outside of one only FIRST, ONLY and single requests.
Responder::Verdict Responder::check_sequence(const PacketView& packet) {
  const proto::OpcodeInfo& op = packet.op();
  const bool fits = message_.kind ? !op.starts() && op.kind == *message_.kind : op.starts();
  return fits ? Verdict::go_on() : Verdict::nak(NakCode::kInvalidRequest);
}

/// 9.7.4.1.4: operations that this QP does not offer its peer.
Responder::Verdict Responder::check_opcode(const PacketView& packet) {
  const Kind kind = packet.op().kind;
  if (kind == Kind::kFlush) {
    const auto rights = rights_of_flush(packet);
    return rights && (*rights & ~c_.attr.access) == 0 ? Verdict::go_on() : Verdict::nak(NakCode::kInvalidRequest);
  }
  const bool offered = kind == Kind::kSend || (kind == Kind::kAtomicWrite && (c_.attr.access & kRemoteWrite)) ||
                       (kind == Kind::kWrite && (c_.attr.access & kRemoteWrite)) ||
                       (kind == Kind::kReadRequest && (c_.attr.access & kRemoteRead)) ||
                       ((kind == Kind::kCompareSwap || kind == Kind::kFetchAdd) && (c_.attr.access & kRemoteAtomic));
  return offered ? Verdict::go_on() : Verdict::nak(NakCode::kInvalidRequest);
}

/// 9.7.4.1.6.
Responder::Verdict Responder::check_length(const PacketView& packet) {
  bool right = true;
  if (packet.has<proto::AtomicEth>()) {
    right = packet.header<proto::AtomicEth>().get<proto::AtomicEth::Va>() % 8 == 0;
  } else if (packet.op().kind == Kind::kAtomicWrite) {
    const auto reth = packet.header<proto::Reth>();
    right =
        reth.get<proto::Reth::Va>() % 8 == 0 && reth.get<proto::Reth::DmaLength>() == 8 && packet.payload().size() == 8;
  } else if (packet.op().kind == Kind::kFlush) {
    right = true;  // It moves no byte.
  } else if (packet.op().kind == Kind::kReadRequest) {
    right = packet.header<proto::Reth>().get<proto::Reth::DmaLength>() <= kMaxMessageBytes;
  } else {
    right = message_.has_right_length(packet, c_.mtu());
  }
  return right ? Verdict::go_on() : Verdict::nak(NakCode::kInvalidRequest);
}

/// 9.7.4.1.5: the whole range of a WRITE or READ is judged at its first packet, before a byte moves.
Responder::Verdict Responder::check_access(const PacketView& packet) {
  const Kind kind = packet.op().kind;
  if (kind == Kind::kFlush) return check_flush_access(packet);
  std::uint64_t va = 0;
  std::uint32_t length = 0, rkey = 0, right = 0;
  if (packet.has<proto::Reth>()) {
    const auto reth = packet.header<proto::Reth>();
    va = reth.get<proto::Reth::Va>();
    rkey = reth.get<proto::Reth::RKey>();
    length = reth.get<proto::Reth::DmaLength>();
    right = kind == Kind::kReadRequest ? kRemoteRead : kRemoteWrite;
  } else if (packet.has<proto::AtomicEth>()) {
    const auto atomic = packet.header<proto::AtomicEth>();
    va = atomic.get<proto::AtomicEth::Va>();
    rkey = atomic.get<proto::AtomicEth::RKey>();
    length = 8;
    right = kRemoteAtomic;
  }
  if (length == 0) return Verdict::go_on();  // IBTA C9-88: a request of zero bytes does not check the R_Key.
  return c_.resolve_remote(rkey, va, length, right).ok() ? Verdict::go_on() : Verdict::nak(NakCode::kRemoteAccessError);
}

/// IBTA Annex A19: the R_Key counts even for a range of no bytes; the address and the length only for a range.
Responder::Verdict Responder::check_flush_access(const PacketView& packet) {
  const auto reth = packet.header<proto::Reth>();
  const std::uint32_t rkey = reth.get<proto::Reth::RKey>(), rights = *rights_of_flush(packet);
  const bool of_range = packet.header<proto::Feth>().get<proto::Feth::Selectivity>() == proto::kFlushRange;
  const bool granted =
      of_range ? c_.resolve_remote(rkey, reth.get<proto::Reth::Va>(), reth.get<proto::Reth::DmaLength>(), rights).ok()
               : c_.env.mrs.grants_remote(rkey, c_.init.pd, c_.qpn, rights);
  return granted ? Verdict::go_on() : Verdict::nak(NakCode::kRemoteAccessError);
}

/// 9.7.4.1.7? and 9.7.5.2.8: a receive WQE where one is consumed (else RNR NAK), a place in the replay ring for a READ
/// or atomic.
Responder::Verdict Responder::check_resources(const PacketView& packet) {
  switch (packet.op().kind) {
    case Kind::kReadRequest:
    case Kind::kCompareSwap:
    case Kind::kFetchAdd:
    case Kind::kAtomicWrite:
      // More outstanding than max_dest_rd_atomic allows.
      return responses_.full(false) ? Verdict::nak(NakCode::kInvalidRequest) : Verdict::go_on();
    case Kind::kFlush:
      if (c_.attr.max_dest_rd_atomic == 0) return Verdict::nak(NakCode::kInvalidRequest);
      return responses_.full_of_flushes() ? Verdict::drop() : Verdict::go_on();
    default:
      return packet.op().consumes_receive && !receives_.available_for(packet.psn()) ? Verdict::rnr() : Verdict::go_on();
  }
}

}  // namespace uroce::nic
