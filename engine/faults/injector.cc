// SPDX-License-Identifier: Apache-2.0
#include "engine/faults/injector.h"

#include "proto/base/mix.h"
#include "proto/cm/message.h"
#include "proto/headers.h"
#include "proto/opcodes.h"
#include "proto/packet.h"
#include "proto/syndrome.h"

namespace uroce::engine::faults {
namespace {

constexpr std::uint64_t chain(std::uint64_t hash, std::uint64_t value) {
  return mix(hash * 0x9E3779B97F4A7C15u + value + 1);
}
constexpr double unit(std::uint64_t random) { return static_cast<double>(random >> 11) * 0x1.0p-53; }

/// What the conditions look at.
struct Seen {
  bool is_roce = false;
  std::uint8_t opcode = 0;
  std::uint32_t qpn = 0, size = 0;
  proto::Psn psn;
  std::uint32_t read_bytes = 0;             ///< That a READ request asks for.
  std::optional<std::uint32_t> source_qpn;  ///< For datagrams.
  bool is_response = false;
  PacketFault::Answer answer = PacketFault::Answer::kAny;
  std::optional<std::size_t> message;  ///< As in PacketFault::messages.
};

Seen look_at(Bytes packet) {
  using Answer = PacketFault::Answer;
  Seen seen;
  const auto view = proto::parse_packet(packet);
  if (!view) return seen;  // Only what arrives can be like that.
  const auto kind = view->op().kind;
  seen.is_roce = true;
  seen.opcode = static_cast<std::uint8_t>(view->op().code);
  seen.qpn = view->dest_qp();
  seen.psn = view->psn();
  seen.size = static_cast<std::uint32_t>(view->payload().size());
  seen.is_response = view->op().is_response();
  if (kind == proto::Kind::kReadRequest) seen.read_bytes = view->header<proto::Reth>().get<proto::Reth::DmaLength>();
  if (view->op().service == proto::Service::kUd)
    seen.source_qpn = view->header<proto::Deth>().get<proto::Deth::SourceQp>();
  if (seen.source_qpn && seen.qpn == proto::cm::kManagementQpn) {
    using proto::cm::Attribute;
    if (const auto message = proto::cm::parse_message(*view))
      seen.message = static_cast<std::size_t>(message->attribute()) - static_cast<std::size_t>(Attribute::kReq);
  }
  if (kind == proto::Kind::kAcknowledge) {
    const auto syndrome = proto::decode_syndrome(view->header<proto::Aeth>().get<proto::Aeth::SyndromeField>());
    seen.answer = std::holds_alternative<proto::syndrome::Ack>(syndrome)   ? Answer::kAck
                  : std::holds_alternative<proto::syndrome::Rnr>(syndrome) ? Answer::kRnr
                                                                           : Answer::kNak;
  }
  return seen;
}

bool meets(const PsnRange& range, const Seen& seen, const Streams::Found& whose) {
  if (!range.from_first)
    return ((seen.psn.value() - range.first) & proto::Psn::kMask) <= ((range.last - range.first) & proto::Psn::kMask);
  if (whose.nth == 0) return false;  // None of our QPs, which would have a first PSN.
  const std::int64_t distance = whose.stream.distance(seen.psn);
  return distance >= range.first && distance <= range.last;
}

bool meets(const PacketFault& fault, const Seen& seen, const Streams::Found& whose) {
  const bool takes_size = fault.size_min <= seen.size && seen.size <= fault.size_max;
  const bool takes_all = !fault.psn && !fault.qp && fault.opcodes.all() && fault.size_min == 0 && fault.size_max == ~0u;
  if (!seen.is_roce || takes_all) return takes_all;
  return (!fault.psn || meets(*fault.psn, seen, whose)) &&
         (!fault.qp || fault.qp->value == (fault.qp->by_order ? whose.nth : seen.qpn)) && takes_size &&
         fault.opcodes.test(seen.opcode) &&
         (fault.messages.none() || (seen.message && fault.messages.test(*seen.message))) &&
         (fault.answer == PacketFault::Answer::kAny || fault.answer == seen.answer);
}

/// What random() decides, besides packet faults.
constexpr std::uint64_t kRnrConcern = ~std::uint64_t{0};

/// The only byte of a packet that the ICRC does not cover: FECN, BECN, reserved.
constexpr std::size_t kUncoveredByte = 4;

constexpr Traffic traffic_of(Direction direction, bool is_response) {
  if (direction == Direction::kSent) return is_response ? Traffic::kSentResponses : Traffic::kSentRequests;
  return is_response ? Traffic::kReceivedResponses : Traffic::kReceivedRequests;
}

/// The PSN by which a packet goes. A READ goes by the last one that it covers: when its rest is asked for again, it is
/// the same READ.
proto::Psn psn_of(const Seen& seen, std::uint32_t mtu) {
  if (seen.read_bytes == 0 || mtu == 0) return seen.psn;
  return seen.psn + (seen.read_bytes - 1) / mtu;
}

}  // namespace

std::string to_comment(const Fate& fate) {
  std::string text;
  for (const Fate::Cause& cause : fate.causes) {
    text += text.empty() ? "uroce: " : ", ";
    text += std::string(cause.what) + " by " + std::string(cause.fault);
  }
  return text;
}

Injector::Injector(const FaultSpec& spec, Identify identify) : streams_(std::move(identify)) { replace(spec); }

void Injector::replace(const FaultSpec& spec) {
  spec_ = spec;
  spec_.packets.clear();
  states_.clear();
  for (const PacketFault& fault : spec.packets) add_packet_fault(fault);
}

void Injector::add(const FaultSpec& more) {
  forget_spent();
  for (const PacketFault& fault : more.packets) add_packet_fault(fault);
  spec_.wrs.insert(spec_.wrs.end(), more.wrs.begin(), more.wrs.end());
  if (more.rnr != 0) spec_.rnr = 1 - (1 - spec_.rnr) * (1 - more.rnr);  // A request passes if both let it pass.
}

void Injector::add_packet_fault(const PacketFault& fault) {
  // What it does, and how many before it do the same: a fault of another kind more or less changes nothing.
  std::uint64_t concern = static_cast<std::uint64_t>(fault.kind) << 32;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (spec_.packets[i].kind == fault.kind) concern = states_[i].concern + 1;
  }
  spec_.packets.push_back(fault);
  states_.push_back({concern, 0});
}

/// Tests may ask for the next packet's loss again and again.
void Injector::forget_spent() {
  for (std::size_t i = spec_.packets.size(); i-- > 0;) {
    if (states_[i].seen < spec_.packets[i].which.last) continue;
    spec_.packets.erase(spec_.packets.begin() + static_cast<std::ptrdiff_t>(i));
    states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::uint64_t Injector::random(std::uint64_t concern, std::uint64_t stream, std::int64_t place,
                               std::uint64_t losses) const {
  return chain(chain(chain(chain(mix(spec_.seed + 1), concern), stream), static_cast<std::uint64_t>(place)), losses);
}

Fate Injector::decide(Direction direction, Bytes packet, const Sender& sender) {
  const Seen seen = look_at(packet);
  const bool sent = direction == Direction::kSent;
  std::optional<Peer> peer;
  if (!sent && seen.source_qpn) peer = Peer{sender.address, *seen.source_qpn};
  const Streams::Found found = streams_.of(traffic_of(direction, seen.is_response),
                                           sent && sender.qpn != 0 ? sender.qpn : seen.qpn, seen.psn, peer);
  // ACK, NAK and RNR NAK of one PSN are three packets.
  const std::int64_t place =
      found.stream.distance(psn_of(seen, found.mtu)) * 4 + static_cast<std::int64_t>(seen.answer);
  const Struck* const before = found.stream.find(place);
  const std::uint64_t losses = before != nullptr ? before->losses : 0;
  const bool arrived = before != nullptr ? before->through : found.stream.is_forgotten(place);

  Fate fate;
  fate.stream = found.id;
  bool by_chance = false;
  const PacketFault* drop = nullptr;
  for (std::size_t i = 0; i < spec_.packets.size(); ++i) {
    const PacketFault& fault = spec_.packets[i];
    const bool takes = fault.direction == direction && meets(fault, seen, found);
    if (!takes || !fault.which.includes(++states_[i].seen)) continue;
    const bool certain = fault.probability == 1;
    if (!certain && arrived) continue;
    const std::uint64_t drawn = random(states_[i].concern, found.name, place, losses);
    if (unit(drawn) >= fault.probability) continue;
    by_chance = by_chance || !certain;
    if (fault.kind == Kind::kDrop && drop == nullptr) drop = &fault;
    strike(fault, mix(drawn + 1), fate);
  }
  if (drop != nullptr) fate = {.drop = true, .stream = fate.stream, .causes = {{"dropped", drop->text}}};
  if (by_chance) found.stream.remember(place, fate.drop || fate.corrupt);
  counters_.of(Kind::kDrop) += fate.drop;
  counters_.of(Kind::kDuplicate) += fate.duplicate;
  counters_.of(Kind::kReorder) += fate.distance != 0;
  counters_.of(Kind::kDelay) += fate.delay.count() != 0;
  counters_.of(Kind::kCorrupt) += fate.corrupt;
  counters_.of(Kind::kEcn) += fate.ecn;
  return fate;
}

/// Does to `fate` what `fault` does to a packet that it hits, but for dropping it.
void Injector::strike(const PacketFault& fault, std::uint64_t bits, Fate& fate) {
  const auto hit = [&](std::string_view what) { fate.causes.push_back({what, fault.text}); };
  switch (fault.kind) {
    case Kind::kDuplicate:
      fate.duplicate = true;
      return hit("duplicated");
    case Kind::kReorder:
      fate.distance = fault.distance;
      return hit("held back");
    case Kind::kDelay: {
      const auto range = static_cast<double>((fault.delay_max - fault.delay_min).count());
      fate.delay += fault.delay_min + Duration{static_cast<Duration::rep>(unit(bits) * range)};
      return hit("delayed");
    }
    case Kind::kCorrupt:
      fate.corrupt = true;
      fate.bits = bits;
      return hit("corrupted");
    case Kind::kEcn:
      fate.ecn = true;
      return hit("marked CE");
    case Kind::kDrop:
    case Kind::kCount:
      return;
  }
}

bool Injector::refuses_receive(std::uint32_t qpn, proto::Psn psn) {
  if (spec_.rnr == 0) return false;
  const Streams::Found found = streams_.of(Traffic::kRefusals, qpn, psn);
  const std::int64_t place = found.stream.distance(psn);
  const Struck* const before = found.stream.find(place);
  if (before == nullptr && found.stream.is_forgotten(place)) return false;
  if (unit(random(kRnrConcern, found.name, place, before != nullptr ? before->losses : 0)) >= spec_.rnr) return false;
  found.stream.remember(place, true);
  ++counters_.rnr;
  return true;
}

std::optional<int> Injector::fails_send(std::uint32_t qpn, std::uint64_t nth) {
  for (const WrFault& fault : spec_.wrs) {
    const bool takes = fault.qp.value == (fault.qp.by_order ? streams_.nth(qpn) : qpn);
    if (!takes || !fault.which.includes(nth)) continue;
    ++counters_.wrs;
    return fault.status;
  }
  return std::nullopt;
}

std::vector<std::string> Injector::without_effect() const {
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < spec_.packets.size(); ++i) {
    const PacketFault& fault = spec_.packets[i];
    const std::uint64_t seen = states_[i].seen;
    if (seen >= fault.which.first) continue;
    const bool sent = fault.direction == Direction::kSent;
    const std::string met =
        seen == 0 ? "no packet" : "only " + std::to_string(seen) + (seen == 1 ? " packet" : " packets");
    std::string sentence = fault.text + " met " + met + " that this side " + (sent ? "sent" : "received");
    if (sent && seen == 0) sentence += "; for packets that it receives: rx." + fault.text;
    sentences.push_back(std::move(sentence));
  }
  return sentences;
}

void corrupt(MutBytes packet, std::uint64_t bits) {
  if (packet.size() <= kUncoveredByte) return;
  std::size_t byte = bits % (packet.size() - 1);
  if (byte >= kUncoveredByte) ++byte;
  // A CRC finds every error that is confined to as many bits as it has.
  packet[byte] = static_cast<std::uint8_t>(packet[byte] ^ (1 + (bits >> 32) % 255));
}

}  // namespace uroce::engine::faults
