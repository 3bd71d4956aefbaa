// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/stranger.h"

#include <algorithm>

#include "proto/icrc.h"

namespace uroce::simulator {

using engine::sim::Packet;
using proto::Bth;
using proto::Gid;
using proto::Kind;
using proto::OpcodeInfo;
using proto::PacketBuilder;
using proto::Psn;

namespace {

/// An address of the network that no host has; `like`: of which family.
Gid other_address(const Gid& like, std::uint8_t last) {
  Gid gid = like;
  gid.raw[15] = last;
  return gid;
}

/// What may be sent in the peer's name with the PSN that is expected: it is refused for its R_Key, or out of place.
bool is_refused(const OpcodeInfo& op) {
  const bool request = op.kind == Kind::kWrite
                           ? op.starts() && !op.consumes_receive
                           : op.kind == Kind::kReadRequest || op.kind == Kind::kCompareSwap ||
                                 op.kind == Kind::kFetchAdd || op.kind == Kind::kAtomicWrite || op.kind == Kind::kFlush;
  return op.service != proto::Service::kRc || request;
}

}  // namespace

Stranger::Stranger(Stage& stage, const std::vector<Connection*>& connections)
    : stage_(stage),
      connections_(connections),
      random_(engine::sim::Random{stage.scenario.seed}.split(0x57A)),
      gid_(other_address(connections.front()->end(0).host().gid(),
                         static_cast<std::uint8_t>(stage.scenario.hosts.size() + 1))),
      node_(stage.world.attach(*this, {gid_})) {}

void Stranger::begin() {
  stage_.world.after(stage_.scenario.stranger.pause, [this] {
    if (stage_.faults_over) return;
    forge();
    begin();
  });
}

void Stranger::delivered(const Packet& packet) {
  const Forgery effect = stage_.lint.forged(packet);
  constexpr const char* kNames[] = {"stranger: packets that mean nothing", "stranger: as the peer, out of sequence",
                                    "stranger: as the peer, its next request"};
  stage_.tally.add(kNames[static_cast<int>(effect)]);
  if (effect == Forgery::kNothing) return;
  const std::uint32_t qpn = proto::parse_packet(packet.bytes)->dest_qp();
  for (Connection* const connection : connections_) {
    for (std::size_t i = 0; i < 2; ++i) {
      End& victim = connection->end(i);
      if (victim.host().node != packet.to || victim.qpn() != qpn) continue;
      victim.note_forgery();
      connection->end(1 - i).note_forgery();
      if (effect == Forgery::kNext) victim.deceived();
    }
  }
}

std::optional<proto::Transmit> Stranger::poll_transmit(Instant, MutBytes frame) {
  if (outbox_.empty()) return std::nullopt;
  const Forged next = std::move(outbox_.front());
  outbox_.pop_front();
  std::copy(next.bytes.begin(), next.bytes.end(), frame.begin());
  return proto::Transmit{next.path, static_cast<std::uint32_t>(next.bytes.size())};
}

void Stranger::forge() {
  Connection& connection = *connections_[random_.below(connections_.size())];
  const std::size_t side = random_.below(2);
  End& victim = connection.end(side);
  End& peer = connection.end(1 - side);
  const bool as_peer = random_.chance(stage_.scenario.stranger.as_peer) && connection.is_up();
  const proto::Path path = draw_path(victim, peer, as_peer);
  outbox_.push_back({path, draw_packet(path, victim, as_peer)});
  stage_.world.kick(node_);
}

proto::Path Stranger::draw_path(End& victim, End& peer, bool as_peer) {
  proto::Path path;
  path.destination = victim.host().gid();
  path.source = peer.host().gid();
  path.source_port = static_cast<std::uint16_t>(0xC000 | random_.next());
  path.tclass = static_cast<std::uint8_t>(random_.next());
  if (as_peer) return path;
  const Gid true_peer = path.source;
  while (path.source == true_peer) {
    const auto hosts = stage_.scenario.hosts.size();
    const auto any = static_cast<std::uint8_t>(1 + random_.below(hosts + 1));
    path.source = random_.chance(0.3) ? gid_ : other_address(gid_, random_.chance(0.5) ? any : std::uint8_t{200});
  }
  return path;
}

/// Mostly opcodes that exist.
std::uint8_t Stranger::draw_opcode(bool& near) {
  const auto any = static_cast<std::uint8_t>(random_.next());
  const OpcodeInfo& known = proto::kOpcodes[random_.below(proto::kOpcodes.size())];
  const std::uint8_t code = random_.chance(0.1) ? any : static_cast<std::uint8_t>(known.code);
  const OpcodeInfo* const op = proto::find_opcode(code);
  near = op == nullptr || is_refused(*op);
  return code;
}

Psn Stranger::draw_psn(Psn expected, bool near) {
  const auto step = static_cast<std::uint32_t>(random_.below(64));
  const auto leap = static_cast<std::uint32_t>((1u << 20) + random_.below(1u << 22));
  if (!near) return random_.chance(0.5) ? expected + leap : expected - leap;
  switch (random_.below(4)) {
    case 0:
      return expected;
    case 1:
      return expected + step;
    case 2:
      return expected - step;
    default:
      return expected + leap;
  }
}

std::vector<std::uint8_t> Stranger::draw_packet(const proto::Path& path, End& victim, bool as_peer) {
  bool near = true;
  const std::uint8_t code = draw_opcode(near);
  const OpcodeInfo* const op = proto::find_opcode(code);
  const Psn psn = draw_psn(stage_.lint.expected(victim.host().node, victim.qpn()), near || !as_peer);
  const bool right_qpn = as_peer || random_.chance(0.8);
  const bool right_pkey = as_peer || random_.chance(0.9);

  std::vector<std::uint8_t> bytes(proto::kMaxPacketSize);
  PacketBuilder packet(bytes, op != nullptr ? op->code : proto::Opcode::kRcSendOnly);
  packet.bth()
      .set<Bth::DestQp>(right_qpn ? victim.qpn() : 0x8000 | (victim.qpn() & 0xFF))
      .set<Bth::PsnField>(psn.value())
      .set<Bth::AckReq>(static_cast<std::uint8_t>(random_.below(2)));
  if (!right_pkey) packet.bth().set<Bth::PKey>(0x1234);
  if (op != nullptr) fill_headers(packet, *op, victim, !as_peer);
  if (op == nullptr || op->has_payload) {
    for (std::uint8_t& byte : packet.payload(random_.below(260))) byte = static_cast<std::uint8_t>(random_.next());
  }
  if (op == nullptr) packet.bth().set<Bth::Opcode>(code);
  const std::uint32_t size = packet.finish(path);
  bytes.resize(size);
  const auto id = static_cast<std::uint16_t>(random_.chance(0.5) ? 0 : random_.next());
  const MutBytes all(bytes);
  const std::size_t covered = size - proto::kIcrcSize;
  proto::store_icrc(all.subspan(covered), proto::icrc(path, all.first(covered), id));
  return bytes;
}

/// `true_key`: with what would be the victim's memory, if the packet were its peer's.
void Stranger::fill_headers(PacketBuilder& packet, const OpcodeInfo& op, End& victim, bool true_key) {
  Host& host = victim.host();
  const auto length = static_cast<std::uint32_t>(1 + random_.below(256));
  const std::uint32_t key =
      true_key ? victim.target_key() : 0xFFFFFF00u | static_cast<std::uint32_t>(random_.below(256));
  if (op.has(proto::HeaderId::kReth)) {
    packet.header<proto::Reth>()
        .set<proto::Reth::Va>(host.va(victim.target().begin))
        .set<proto::Reth::RKey>(key)
        .set<proto::Reth::DmaLength>(length);
  }
  if (op.has(proto::HeaderId::kAtomicEth)) {
    packet.header<proto::AtomicEth>()
        .set<proto::AtomicEth::Va>(host.va(host.word(0).begin))
        .set<proto::AtomicEth::RKey>(true_key ? host.words_mr->key : key)
        .set<proto::AtomicEth::SwapAdd>(random_.next())
        .set<proto::AtomicEth::Compare>(random_.next());
  }
  if (op.has(proto::HeaderId::kAeth)) {
    packet.header<proto::Aeth>()
        .set<proto::Aeth::SyndromeField>(static_cast<std::uint8_t>(random_.next()))
        .set<proto::Aeth::Msn>(static_cast<std::uint32_t>(random_.next()) & Psn::kMask);
  }
  if (op.has(proto::HeaderId::kIeth)) packet.header<proto::Ieth>().set<proto::Ieth::RKey>(key);
}

}  // namespace uroce::simulator
