// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/fuzz/nic_script.h"

#include <numeric>

#include "proto/icrc.h"
#include "proto/syndrome.h"

namespace uroce::fuzz {
namespace {

using proto::Kind;
using proto::Position;

constexpr int kMaxSteps = 300;
constexpr std::size_t kMaxPayload = 4200;
constexpr std::uint8_t kAck = 0x1F;  ///< No limit of credits.

bool is_answer(Kind kind) {
  return kind == Kind::kAcknowledge || kind == Kind::kReadResponse || kind == Kind::kAtomicAcknowledge;
}

std::size_t payload_size(const PacketSpec& spec, const proto::OpcodeInfo* op, std::uint32_t mtu) {
  if (spec.size != 0) return std::min<std::size_t>(spec.size - 1u, kMaxPayload);
  if (op == nullptr || !op->has_payload) return 0;
  return op->ends() ? 8 : mtu;
}

std::uint32_t dma_length(const PacketSpec& spec, const proto::OpcodeInfo& op, std::size_t payload, std::uint32_t mtu) {
  if (spec.length != 0) return spec.length - 1;
  if (op.kind == Kind::kReadRequest) return 64;
  return op.position == Position::kOnly ? static_cast<std::uint32_t>(payload) : 2 * mtu;
}

/// Calls `fill` with the header if the opcode has it.
template <class H, class Fill>
void with_header(const proto::OpcodeInfo& op, std::vector<std::uint8_t>& packet, Fill fill) {
  if (!op.has(proto::kHeaderId<H>)) return;
  fill(proto::MutView<H>{packet.data() + op.stack.offset_of(proto::kHeaderId<H>)});
}

}  // namespace

void NicScript::run(Reader in) {
  for (int i = 0; i < kMaxSteps; ++i) {
    const auto record = next_record(in);
    if (!record) return;
    step(static_cast<std::uint8_t>((record->kind & ~kHold) % kCommands), record->body);
    if ((record->kind & kHold) == 0) victim_.drain();
    victim_.check();
  }
}

void NicScript::step(std::uint8_t command, Bytes body) {
  Reader in(body);
  switch (command) {
    case kPacket:
      return packet(in);
    case kRaw:
      return raw(body);
    case kAsIs:
      return deliver(0, {body.begin(), body.end()}, victim_.path_to_victim());
    case kAgain: {
      const auto spec = in.spec<AgainSpec>();
      if (delivered_.empty()) return;
      const Delivered again = delivered_[spec.back % delivered_.size()];
      return deliver(again.qp, again.packet, again.path);
    }
    case kHonest:
      return honest(in.spec<HonestSpec>());
    case kTime: {
      const auto spec = in.spec<TimeSpec>();
      const Duration to_deadline = victim_.next_deadline().value_or(victim_.now()) - victim_.now();
      return victim_.advance(spec.log2_us == 0 ? std::max(to_deadline, Duration{})
                                               : std::chrono::microseconds(1u << spec.log2_us % 26));
    }
    case kPostSend:
      return victim_.post_send(in.spec<SendSpec>());
    case kPostRecv:
      return victim_.post_recv(in.spec<RecvSpec>());
    case kModify:
      return victim_.modify(in.spec<ModifySpec>());
    default:
      return victim_.change_region(in.spec<RegisterSpec>());
  }
}

/// By hand instead of with the packet builder, which refuses to make what is wrong.
void NicScript::packet(Reader in) {
  const auto spec = in.spec<PacketSpec>();
  const proto::OpcodeInfo* op = proto::find_opcode(spec.opcode);
  const VictimQp& qp = victim_.qp(spec.qp);
  const std::uint32_t mtu = victim_.mtu();
  const std::size_t size = payload_size(spec, op, mtu);
  const std::size_t pad = spec.pad != 0 ? (spec.pad - 1u) % 4 : (4 - size % 4) % 4;
  std::vector<std::uint8_t> out(op != nullptr ? op->stack.bytes : proto::Bth::kSize);

  const Psn base = op != nullptr && is_answer(op->kind) ? qp.open : qp.expected;
  using F = PacketSpec;
  const auto has = [&spec](F::Flag flag) { return (spec.flags & flag) != 0; };
  proto::MutView<proto::Bth>{out.data()}
      .set<proto::Bth::Opcode>(spec.opcode)
      .set<proto::Bth::SolicitedEvent>(has(F::kSolicited))
      .set<proto::Bth::PadCount>(static_cast<std::uint8_t>(pad))
      .set<proto::Bth::PKey>(has(F::kWrongPkey) ? 0x1234 : 0xFFFF)
      .set<proto::Bth::DestQp>(has(F::kOtherQpn) ? 0x777777u : qp.qp->qpn())
      .set<proto::Bth::AckReq>(!has(F::kNoAckReq))
      .set<proto::Bth::PsnField>((base + static_cast<std::uint32_t>(std::int32_t{spec.psn})).value());
  if (op != nullptr) {
    const auto region = static_cast<std::uint8_t>(spec.region % kRegions);
    const std::uint64_t va = VictimMemory::place(region).iova + static_cast<std::uint64_t>(std::int64_t{spec.offset});
    const std::uint32_t key = victim_.key(region) + spec.wrong_key;
    const std::uint32_t length = dma_length(spec, *op, size, mtu);
    with_header<proto::Reth>(*op, out, [&](proto::MutView<proto::Reth> h) {
      h.set<proto::Reth::Va>(va).set<proto::Reth::RKey>(key).set<proto::Reth::DmaLength>(length);
    });
    with_header<proto::Feth>(*op, out, [&](proto::MutView<proto::Feth> h) {
      const auto other = static_cast<std::uint8_t>(spec.operand);
      h.set<proto::Feth::Placement>((proto::kGlobalVisibility ^ other) & 0xF)
          .set<proto::Feth::Selectivity>(other >> 4 & 3);
    });
    with_header<proto::Deth>(*op, out, [&](proto::MutView<proto::Deth> h) {
      h.set<proto::Deth::QKey>(Victim::kQkey + spec.wrong_key);
      h.set<proto::Deth::SourceQp>(static_cast<std::uint32_t>(spec.operand & 0xFFFFFF));
    });
    with_header<proto::AtomicEth>(*op, out, [&](proto::MutView<proto::AtomicEth> h) {
      h.set<proto::AtomicEth::Va>(va).set<proto::AtomicEth::RKey>(key);
      h.set<proto::AtomicEth::SwapAdd>(spec.operand).set<proto::AtomicEth::Compare>(spec.compare);
    });
    with_header<proto::Aeth>(*op, out, [&](proto::MutView<proto::Aeth> h) {
      h.set<proto::Aeth::SyndromeField>(spec.syndrome == 0 ? kAck : static_cast<std::uint8_t>(spec.syndrome - 1))
          .set<proto::Aeth::Msn>(static_cast<std::uint32_t>(spec.compare & 0xFFFFFF));
    });
    with_header<proto::AtomicAckEth>(
        *op, out, [&](proto::MutView<proto::AtomicAckEth> h) { h.set<proto::AtomicAckEth::Original>(spec.operand); });
    with_header<proto::ImmDt>(*op, out, [&](proto::MutView<proto::ImmDt> h) { h.set<proto::ImmDt::Data>(key); });
    with_header<proto::Ieth>(*op, out, [&](proto::MutView<proto::Ieth> h) { h.set<proto::Ieth::RKey>(key); });
  }
  out.resize(out.size() + size + pad);
  std::iota(out.end() - static_cast<std::ptrdiff_t>(size + pad), out.end() - static_cast<std::ptrdiff_t>(pad),
            std::uint8_t{0});
  out.resize(out.size() - std::min<std::size_t>(out.size(), spec.cut));
  while (!in.empty() && !out.empty()) {
    const std::size_t at = in.get<std::uint8_t>() % out.size();
    out[at] = in.get<std::uint8_t>();
  }
  proto::Path path = victim_.path_to_victim();
  if (has(F::kStranger)) path.source.raw[15] = 3;
  if (has(F::kMarked)) path.tclass = proto::kEcnMask;
  finish(spec.qp, std::move(out), path, has(F::kBadIcrc), has(F::kIpId) ? 0x1234 : 0);
}

void NicScript::raw(Bytes body) {
  std::vector<std::uint8_t> out(body.begin(), body.end());
  if (out.size() >= proto::Bth::kSize) {
    const proto::MutView<proto::Bth> bth{out.data()};
    if (bth.get<proto::Bth::DestQp>() == 0) bth.set<proto::Bth::DestQp>(victim_.qp(0).qp->qpn());
  }
  finish(0, std::move(out), victim_.path_to_victim(), 0, 0);
}

void NicScript::honest(const HonestSpec& spec) {
  VictimQp& qp = victim_.qp(spec.qp);
  for (unsigned n = 0; n <= spec.more && !qp.requests.empty(); ++n) {
    const VictimQp::Request request = qp.requests.front();
    if (spec.syndrome != 0) return acknowledge(qp, request.psn, static_cast<std::uint8_t>(spec.syndrome - 1));
    answer(qp, request);
    // Delivery has taken it off the list, unless the victim did not count it as outstanding any more.
    if (!qp.requests.empty() && qp.requests.front().psn == request.psn) qp.requests.pop_front();
  }
}

/// What an honest responder sends: also the example of how packets are made when nothing is wrong with them.
void NicScript::answer(VictimQp& qp, const VictimQp::Request& request) {
  if (request.kind != Kind::kReadRequest && request.kind != Kind::kFetchAdd && request.kind != Kind::kCompareSwap) {
    return acknowledge(qp, request.psn, kAck);
  }
  using O = proto::Opcode;
  std::uint32_t left = request.length;
  for (std::uint32_t i = 0; i < request.packets; ++i) {
    const bool first = i == 0, last = i + 1 == request.packets;
    const O opcode = request.kind != Kind::kReadRequest ? O::kRcAtomicAcknowledge
                     : first                            ? (last ? O::kRcReadResponseOnly : O::kRcReadResponseFirst)
                     : last                             ? O::kRcReadResponseLast
                                                        : O::kRcReadResponseMiddle;
    std::vector<std::uint8_t> out(proto::kMaxPacketSize);
    proto::PacketBuilder builder(out, opcode);
    builder.bth().set<proto::Bth::DestQp>(qp.qp->qpn()).set<proto::Bth::PsnField>((request.psn + i).value());
    if (opcode != O::kRcReadResponseMiddle) builder.header<proto::Aeth>().set<proto::Aeth::SyndromeField>(kAck);
    if (request.kind == Kind::kReadRequest) {
      const MutBytes payload = builder.payload(std::min(left, victim_.mtu()));
      std::fill(payload.begin(), payload.end(), std::uint8_t{0x55});
      left -= static_cast<std::uint32_t>(payload.size());
    }
    out.resize(builder.finish(victim_.path_to_victim()));
    deliver(&qp == &victim_.qp(0) ? 0 : 1, std::move(out), victim_.path_to_victim());
  }
}

void NicScript::acknowledge(VictimQp& qp, Psn psn, std::uint8_t syndrome) {
  std::vector<std::uint8_t> out(proto::Bth::kSize + proto::Aeth::kSize + proto::kIcrcSize);
  proto::PacketBuilder builder(out, proto::Opcode::kRcAcknowledge);
  builder.bth().set<proto::Bth::DestQp>(qp.qp->qpn()).set<proto::Bth::PsnField>(psn.value());
  builder.header<proto::Aeth>().set<proto::Aeth::SyndromeField>(syndrome);
  builder.finish(victim_.path_to_victim());
  deliver(&qp == &victim_.qp(0) ? 0 : 1, std::move(out), victim_.path_to_victim());
}

/// Appends the ICRC and delivers. `icrc_error` is what is wrong with it.
void NicScript::finish(std::uint8_t qp, std::vector<std::uint8_t> packet, const proto::Path& path,
                       std::uint32_t icrc_error, std::uint16_t ip_id) {
  const std::uint32_t icrc = packet.size() < proto::Bth::kSize ? 0 : proto::icrc(path, packet, ip_id) ^ icrc_error;
  packet.resize(packet.size() + proto::kIcrcSize);
  proto::store_icrc(MutBytes(packet).last(proto::kIcrcSize), icrc);
  deliver(qp, std::move(packet), path);
}

void NicScript::deliver(std::uint8_t qp, std::vector<std::uint8_t> packet, const proto::Path& path) {
  constexpr std::size_t kRemembered = 16;
  victim_.deliver(qp, packet, path);
  delivered_.push_front({qp, std::move(packet), path});
  if (delivered_.size() > kRemembered) delivered_.pop_back();
}

}  // namespace uroce::fuzz
