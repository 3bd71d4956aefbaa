// SPDX-License-Identifier: Apache-2.0
// The effects of requests that passed the checks, and answers to duplicates (IBTA Vol 1, 9.4 and 9.7.5).
#include "verbs/nic/resources/sges.h"
#include "verbs/nic/transport/rc/responder.h"

namespace uroce::nic {

using proto::Kind;
using proto::NakCode;
using proto::PacketView;

Responder::Verdict Responder::execute(const PacketView& packet) {
  switch (packet.op().kind) {
    case Kind::kSend:
      return execute_send(packet);
    case Kind::kWrite:
      return execute_write(packet);
    case Kind::kReadRequest:
      return execute_read(packet);
    case Kind::kCompareSwap:
    case Kind::kFetchAdd:
      return execute_atomic(packet);
    case Kind::kAtomicWrite:
      return execute_atomic_write(packet);
    case Kind::kFlush:
      return execute_flush();
    default:
      return Verdict::drop();  // check_opcode() lets nothing else through.
  }
}

Responder::Verdict Responder::execute_send(const PacketView& packet) {
  if (packet.op().starts()) {
    message_ = {Kind::kSend, 0, 0, 0, 0};
    receives_.hold();
  }
  const Bytes payload = packet.payload();
  const auto fail_receive = [&](WcStatus status) {
    receives_.fail_at_flush(status);
    message_ = {};
  };
  if (message_.offset + payload.size() > receives_.front().length) {
    fail_receive(WcStatus::kLocLenErr);  // 9.9.3.1.?: longer than the receive: an invalid request to the peer.
    return Verdict::nak(NakCode::kInvalidRequest);
  }
  if (!scatter(c_.env.mrs, receives_.pd(), receives_.sges(), message_.offset, payload)) {
    c_.note_refused(receives_.pd(), receives_.sges(), kLocalWrite);
    fail_receive(WcStatus::kLocProtErr);
    return Verdict::nak(NakCode::kRemoteOperationalError);
  }
  message_.offset += payload.size();
  if (packet.op().ends()) {
    // IBTA Vol 1, 9.4.1.1 and 10.6.5: before the receive completes. What can't be invalidated is an access violation.
    if (packet.has<proto::Ieth>() && !c_.invalidate(packet.header<proto::Ieth>().get<proto::Ieth::RKey>())) {
      fail_receive(WcStatus::kRemInvReqErr);  // 11.6.2: an operation that the responder could not do.
      return Verdict::nak(NakCode::kRemoteAccessError);
    }
    receives_.complete(receive_of(packet, c_.attr.dest_qpn, message_.offset));
    finish_message();
  }
  ++expected_;
  return Verdict::go_on();
}

Responder::Verdict Responder::execute_write(const PacketView& packet) {
  if (packet.op().starts()) {
    const auto reth = packet.header<proto::Reth>();
    message_ = {Kind::kWrite, 0, reth.get<proto::Reth::Va>(), reth.get<proto::Reth::RKey>(),
                reth.get<proto::Reth::DmaLength>()};
  }
  const Bytes payload = packet.payload();
  if (!payload.empty()) {
    // Again for every packet: the region may have been deregistered since the first one.
    const auto memory = c_.resolve_remote(message_.rkey, message_.va, payload.size(), kRemoteWrite);
    if (!memory) return Verdict::nak(NakCode::kRemoteAccessError);
    if (!c_.env.mrs.memory().write(*memory, payload.data(), payload.size())) {
      return Verdict::nak(NakCode::kRemoteOperationalError);
    }
  }
  message_.va += payload.size();
  message_.offset += payload.size();
  message_.left -= static_cast<std::uint32_t>(payload.size());
  if (packet.op().ends()) {
    if (packet.op().consumes_receive) {
      receives_.hold();
      receives_.complete(receive_of(packet, c_.attr.dest_qpn, message_.offset));
    } else {
      c_.note_written();
    }
    finish_message();
  }
  ++expected_;
  return Verdict::go_on();
}

void Responder::finish_message() {
  message_ = {};
  ++msn_;
}

Responder::Verdict Responder::execute_read(const PacketView& packet) {
  const auto reth = packet.header<proto::Reth>();
  Replay replay;
  replay.first_psn = expected_;
  replay.va = reth.get<proto::Reth::Va>();
  replay.rkey = reth.get<proto::Reth::RKey>();
  replay.length = reth.get<proto::Reth::DmaLength>();
  replay.packets = c_.packets_for(replay.length);
  replay_.add(replay);
  expected_ += replay.packets;
  finish_message();
  enqueue({.psn = short_psn(replay.first_psn),
           .end = expected(),
           .va = replay.va,
           .left = replay.length,
           .rkey = replay.rkey});
  return Verdict::go_on();
}

Responder::Verdict Responder::execute_atomic(const PacketView& packet) {
  const auto atomic = packet.header<proto::AtomicEth>();
  const std::uint64_t va = atomic.get<proto::AtomicEth::Va>();
  const auto memory = c_.resolve_remote(atomic.get<proto::AtomicEth::RKey>(), va, 8, kRemoteAtomic);
  if (!memory) return Verdict::nak(NakCode::kRemoteAccessError);
  // An aligned address of the region need not be an aligned pointer: the region may have an iova of its own.
  if (reinterpret_cast<std::uintptr_t>(*memory) % 8 != 0) return Verdict::nak(NakCode::kRemoteOperationalError);
  void* const address = *memory;
  auto* const word = static_cast<std::uint64_t*>(address);
  const std::uint64_t operand = atomic.get<proto::AtomicEth::SwapAdd>();
  const auto original = packet.op().kind == Kind::kFetchAdd
                            ? c_.env.mrs.memory().fetch_add(word, operand)
                            : c_.env.mrs.memory().compare_swap(word, atomic.get<proto::AtomicEth::Compare>(), operand);
  if (!original) return Verdict::nak(NakCode::kRemoteOperationalError);

  answer_in_one_packet(AnswerKind::kAtomic, *original);
  return Verdict::go_on();
}

/// IBTA Annex A19: all 8 bytes at once, when everything before is in memory.
Responder::Verdict Responder::execute_atomic_write(const PacketView& packet) {
  const auto reth = packet.header<proto::Reth>();
  const std::uint64_t va = reth.get<proto::Reth::Va>();
  const auto memory = c_.resolve_remote(reth.get<proto::Reth::RKey>(), va, 8, kRemoteWrite);
  if (!memory) return Verdict::nak(NakCode::kRemoteAccessError);
  if (reinterpret_cast<std::uintptr_t>(*memory) % 8 != 0) return Verdict::nak(NakCode::kRemoteOperationalError);
  void* const address = *memory;
  std::uint64_t value = 0;
  std::memcpy(&value, packet.payload().data(), sizeof value);
  if (!c_.env.mrs.memory().store(static_cast<std::uint64_t*>(address), value)) {
    return Verdict::nak(NakCode::kRemoteOperationalError);
  }
  answer_in_one_packet(AnswerKind::kAtomicWrite);
  return Verdict::go_on();
}

/// IBTA Annex A19. What was written before is in the caches that all processors share, or in the page cache of the
/// file behind it: nothing is left to do for its global visibility. No region promises persistence.
Responder::Verdict Responder::execute_flush() {
  flushes_.grow(kMaxRdAtomic);
  answer_in_one_packet(AnswerKind::kFlush);
  return Verdict::go_on();
}

/// A request of one packet is done, and its answer is due.
void Responder::answer_in_one_packet(AnswerKind kind, std::uint64_t original) {
  Replay replay;
  replay.kind = kind;
  replay.first_psn = expected_;
  replay.packets = 1;
  replay.original = original;
  (kind == AnswerKind::kFlush ? flushes_ : replay_).add(replay);
  ++expected_;
  finish_message();
  enqueue({.kind = kind, .psn = short_psn(replay.first_psn), .end = expected(), .original = original});
}

/// 9.7.5.1.?: SEND and WRITE are acknowledged again without effect, ATOMIC WRITE and FLUSH answered again; READ is
/// executed again, in whole or from any packet on; an atomic is answered from the saved result. What the replay ring no
/// longer has is met with silence.
void Responder::on_duplicate(const PacketView& packet) {
  const Psn psn = packet.psn();
  const LongPsn at = expected_ - psn_distance(expected(), psn);
  switch (packet.op().kind) {
    case Kind::kSend:
    case Kind::kWrite:
      return acknowledge_again(at);
    case Kind::kReadRequest:
      return read_again(packet, at);
    case Kind::kCompareSwap:
    case Kind::kFetchAdd: {
      const Replay* saved = replay_.find(at);
      if (saved == nullptr || saved->kind != AnswerKind::kAtomic) return;
      enqueue(
          {.kind = AnswerKind::kAtomic, .is_duplicate = true, .psn = psn, .end = psn + 1, .original = saved->original});
      return;
    }
    case Kind::kAtomicWrite: {
      const Replay* saved = replay_.find(at);
      if (saved == nullptr || saved->kind != AnswerKind::kAtomicWrite) return;
      enqueue({.kind = AnswerKind::kAtomicWrite, .is_duplicate = true, .psn = psn, .end = psn + 1});
      return;
    }
    case Kind::kFlush: {
      if (flushes_.find(at) == nullptr) return;
      enqueue({.kind = AnswerKind::kFlush, .is_duplicate = true, .psn = psn, .end = psn + 1});
      return;
    }
    default:
      return;
  }
}

/// Not beyond the next READ or atomic: an ACK past one whose answer was lost would look like another loss.
void Responder::acknowledge_again(LongPsn at) {
  LongPsn newest = expected_ - 1;
  for (const ReplayRing* ring : {&replay_, &flushes_}) {
    for (const Replay& r : ring->all()) {
      if (r.packets != 0 && r.first_psn > at && r.first_psn <= newest) newest = r.first_psn - 1;
    }
  }
  schedule(short_psn(newest), proto::syndrome::Ack{});
}

/// What the READ at `at` asks for must lie in one that was executed.
void Responder::read_again(const PacketView& packet, LongPsn at) {
  const Replay* saved = replay_.find(at);
  if (saved == nullptr || saved->kind != AnswerKind::kRead) return;
  const auto reth = packet.header<proto::Reth>();
  const std::uint64_t offset = (at - saved->first_psn) * c_.mtu();
  const std::uint32_t length = reth.get<proto::Reth::DmaLength>();
  if (reth.get<proto::Reth::Va>() != saved->va + offset || reth.get<proto::Reth::RKey>() != saved->rkey ||
      offset + length > saved->length) {
    return;
  }
  enqueue({.is_duplicate = true,
           .psn = packet.psn(),
           .end = packet.psn() + c_.packets_for(length),
           .va = saved->va + offset,
           .left = length,
           .rkey = saved->rkey});
}

}  // namespace uroce::nic
