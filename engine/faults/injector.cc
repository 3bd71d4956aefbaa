#include "engine/faults/injector.h"

#include "proto/headers.h"
#include "proto/opcodes.h"
#include "proto/packet.h"
#include "proto/syndrome.h"

namespace uroce::engine::faults {
namespace {

using proto::Bth;

constexpr std::uint64_t mix(std::uint64_t z) {  // The finaliser of SplitMix64.
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
constexpr std::uint64_t chain(std::uint64_t hash, std::uint64_t value) {
  return mix(hash * 0x9E3779B97F4A7C15u + value + 1);
}
constexpr double unit(std::uint64_t random) { return static_cast<double>(random >> 11) * 0x1.0p-53; }

/// What the conditions look at.
struct Seen {
  std::uint8_t opcode = 0;
  std::uint32_t qpn = 0, psn = 0;
  bool is_response = false;
  PacketFault::Answer answer = PacketFault::Answer::kAny;
};

Seen look_at(Bytes packet) {
  using Answer = PacketFault::Answer;
  Seen seen;
  const auto view = proto::parse_packet(packet);
  if (!view) return seen;  // Only what arrives can be like that.
  const auto kind = view->op().kind;
  seen.opcode = static_cast<std::uint8_t>(view->op().code);
  seen.qpn = view->dest_qp();
  seen.psn = view->psn().value();
  seen.is_response = kind == proto::Kind::kAcknowledge || kind == proto::Kind::kReadResponse ||
                     kind == proto::Kind::kAtomicAcknowledge;
  if (kind == proto::Kind::kAcknowledge) {
    const auto syndrome = proto::decode_syndrome(view->header<proto::Aeth>().get<proto::Aeth::SyndromeField>());
    seen.answer = std::holds_alternative<proto::syndrome::Ack>(syndrome)   ? Answer::kAck
                  : std::holds_alternative<proto::syndrome::Rnr>(syndrome) ? Answer::kRnr
                                                                           : Answer::kNak;
  }
  return seen;
}

bool meets(const PacketFault& fault, const Seen& seen) {
  return (!fault.psn || *fault.psn == seen.psn) && (!fault.qpn || *fault.qpn == seen.qpn) &&
         fault.opcodes.test(seen.opcode) && (fault.answer == PacketFault::Answer::kAny || fault.answer == seen.answer);
}

constexpr std::size_t kRnrConcern = ~std::size_t{0};

}  // namespace

std::uint32_t Injector::times_seen(std::uint64_t stream, std::uint32_t psn) {
  Stream::Slot& slot = streams_[stream].slots[psn % Stream::kRemembered];
  if (slot.psn != psn) slot = {psn, 0};
  return slot.times++;
}

std::uint64_t Injector::random(std::size_t fault, std::uint64_t stream, std::uint32_t psn, std::uint32_t times) const {
  return chain(chain(chain(chain(mix(spec_.seed + 1), fault), stream), psn), times);
}

Fate Injector::decide(Direction direction, Bytes packet) {
  const Seen seen = look_at(packet);
  const std::uint64_t stream =
      std::uint64_t{seen.qpn} << 2 | (seen.is_response ? 2u : 0u) | (direction == Direction::kReceived ? 1u : 0u);
  const std::uint32_t times = times_seen(stream, seen.psn);
  Fate fate;
  for (std::size_t i = 0; i < spec_.packets.size(); ++i) {
    const PacketFault& fault = spec_.packets[i];
    if (fault.direction != direction || !meets(fault, seen) || !fault.which.includes(++seen_[i])) continue;
    const std::uint64_t drawn = random(i, stream, seen.psn, times);
    if (unit(drawn) >= fault.probability) continue;
    const std::uint64_t more = mix(drawn + 1);
    switch (fault.kind) {
      case Kind::kDrop:
        fate.drop = true;
        break;
      case Kind::kDuplicate:
        fate.duplicate = true;
        break;
      case Kind::kReorder:
        fate.distance = fault.distance;
        break;
      case Kind::kDelay:
        fate.delay +=
            fault.delay_min + Duration{static_cast<Duration::rep>(
                                  unit(more) * static_cast<double>((fault.delay_max - fault.delay_min).count()))};
        break;
      case Kind::kCorrupt:
        fate.corrupt = true;
        fate.bits = more;
        break;
      case Kind::kEcn:
        fate.ecn = true;
        break;
      case Kind::kCount:
        break;
    }
  }
  if (fate.drop) fate = {.drop = true};
  counters_.of(Kind::kDrop) += fate.drop;
  counters_.of(Kind::kDuplicate) += fate.duplicate;
  counters_.of(Kind::kReorder) += fate.distance != 0;
  counters_.of(Kind::kDelay) += fate.delay.count() != 0;
  counters_.of(Kind::kCorrupt) += fate.corrupt;
  counters_.of(Kind::kEcn) += fate.ecn;
  return fate;
}

bool Injector::refuses_receive(std::uint32_t qpn, std::uint32_t psn) {
  if (spec_.rnr == 0) return false;
  const std::uint64_t stream = ~(std::uint64_t{qpn} << 2);  // None of decide()'s.
  if (unit(random(kRnrConcern, stream, psn, times_seen(stream, psn))) >= spec_.rnr) return false;
  ++counters_.rnr;
  return true;
}

std::optional<int> Injector::fails_send(std::uint32_t qpn, std::uint64_t nth) {
  for (const WrFault& fault : spec_.wrs) {
    if (fault.qpn != qpn || !fault.which.includes(nth)) continue;
    ++counters_.wrs;
    return fault.status;
  }
  return std::nullopt;
}

void corrupt(MutBytes packet, std::uint64_t bits) {
  const std::uint64_t flips = 1 + bits % 3;
  for (std::uint64_t i = 0; i < flips && !packet.empty(); ++i) {
    bits = mix(bits + i + 1);
    const std::uint64_t bit = bits % (packet.size() * 8);
    packet[bit / 8] = static_cast<std::uint8_t>(packet[bit / 8] ^ (1u << (bit % 8)));
  }
}

}  // namespace uroce::engine::faults
