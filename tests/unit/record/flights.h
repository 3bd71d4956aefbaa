// SPDX-License-Identifier: Apache-2.0
// Rings filled by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "proto/icrc.h"
#include "proto/packet.h"
#include "verbs/record/ring.h"

namespace uroce::record::test {

using nic::TraceKind;
using namespace std::chrono_literals;

inline const proto::Gid kHere = proto::Gid::from_v4(127, 0, 0, 1), kPeer = proto::Gid::from_v4(127, 0, 0, 2);
constexpr std::uint32_t kQpn = 0x11, kPeerQpn = 0x22;

struct Flight {
  std::unique_ptr<Ring> ring = std::make_unique<Ring>();
  RingWriter writer{*ring};

  Flight() {
    ring->magic = Ring::kMagic;
    ring->keeps_packets = 1;
  }
  void event(Duration when, TraceKind kind, std::uint64_t a = 0, std::uint64_t b = 0, Phase phase = Phase::kOther,
             std::uint32_t qpn = kQpn) {
    writer.add({.when = Instant(when), .kind = kind, .qpn = qpn, .a = a, .b = b}, phase);
  }
  /// About the packet that came before, at the same time. `qpn`: 0 where the NIC has not looked for the QP yet.
  void drops(Duration when, TraceKind kind, std::uint64_t a, std::uint32_t psn, std::uint32_t qpn = 0) {
    event(when, kind, a, psn, Phase::kReceiving, qpn);
  }
  void sends_write(Duration when, std::uint32_t psn, std::uint32_t length = 100) {
    std::array<std::uint8_t, proto::kMaxPacketSize> frame{};
    proto::PacketBuilder packet(frame, proto::Opcode::kRcWriteOnly);
    packet.bth().set<proto::Bth::DestQp>(kPeerQpn).set<proto::Bth::PsnField>(psn);
    packet.header<proto::Reth>()
        .set<proto::Reth::Va>(0x7F00)
        .set<proto::Reth::RKey>(0x1234)
        .set<proto::Reth::DmaLength>(length);
    packet.payload(length);
    const proto::Path path{.source = kHere, .destination = kPeer};
    const std::uint32_t size = packet.finish(path);
    writer.add_sent(path, Bytes(frame).first(size), kQpn, Instant(when));
  }
  void gets_ack(Duration when, std::uint32_t psn, const proto::Gid& from = kPeer, std::uint32_t qpn = kQpn,
                std::uint8_t transport_version = 0, std::uint8_t syndrome = 0) {
    std::array<std::uint8_t, proto::kMaxPacketSize> frame{};
    proto::PacketBuilder packet(frame, proto::Opcode::kRcAcknowledge);
    packet.bth().set<proto::Bth::DestQp>(qpn).set<proto::Bth::PsnField>(psn).set<proto::Bth::TVer>(transport_version);
    packet.header<proto::Aeth>().set<proto::Aeth::SyndromeField>(syndrome);
    const proto::Path path{.source = from, .destination = kHere};
    const std::uint32_t size = packet.finish(path);
    writer.add_received(path, Bytes(frame).first(size), Instant(when));
  }
  void gets_send(Duration when, std::uint32_t psn, std::uint32_t length) {
    std::array<std::uint8_t, proto::kMaxPacketSize> frame{};
    proto::PacketBuilder packet(frame, proto::Opcode::kRcSendFirst);
    packet.bth().set<proto::Bth::DestQp>(kQpn).set<proto::Bth::PsnField>(psn);
    packet.payload(length);
    const proto::Path path{.source = kPeer, .destination = kHere};
    const std::uint32_t size = packet.finish(path);
    writer.add_received(path, Bytes(frame).first(size), Instant(when));
  }
  void sends_read(Duration when, std::uint32_t psn, std::uint32_t length) {
    std::array<std::uint8_t, proto::kMaxPacketSize> frame{};
    proto::PacketBuilder packet(frame, proto::Opcode::kRcReadRequest);
    packet.bth().set<proto::Bth::DestQp>(kPeerQpn).set<proto::Bth::PsnField>(psn);
    packet.header<proto::Reth>()
        .set<proto::Reth::Va>(0x7F00)
        .set<proto::Reth::RKey>(0x1234)
        .set<proto::Reth::DmaLength>(length);
    const proto::Path path{.source = kHere, .destination = kPeer};
    const std::uint32_t size = packet.finish(path);
    writer.add_sent(path, Bytes(frame).first(size), kQpn, Instant(when));
  }
  void gets_read_response(Duration when, std::uint32_t psn, std::uint32_t length) {
    std::array<std::uint8_t, proto::kMaxPacketSize> frame{};
    proto::PacketBuilder packet(frame, proto::Opcode::kRcReadResponseOnly);
    packet.bth().set<proto::Bth::DestQp>(kQpn).set<proto::Bth::PsnField>(psn);
    packet.header<proto::Aeth>();
    packet.payload(length);
    const proto::Path path{.source = kPeer, .destination = kHere};
    const std::uint32_t size = packet.finish(path);
    writer.add_received(path, Bytes(frame).first(size), Instant(when));
  }
  /// A message to QP 1, of the size that those of the connection manager have. `ip_id`: of its sender.
  void gets_message(Duration when, std::uint8_t byte, std::uint16_t ip_id = 0) {
    std::array<std::uint8_t, proto::kMaxPacketSize> frame{};
    proto::PacketBuilder packet(frame, proto::Opcode::kUdSendOnly);
    packet.bth().set<proto::Bth::DestQp>(1);
    packet.header<proto::Deth>().set<proto::Deth::SourceQp>(1);
    std::ranges::fill(packet.payload(256), byte);
    const proto::Path path{.source = kPeer, .destination = kHere};
    const std::uint32_t size = packet.finish(path);
    proto::store_icrc(MutBytes(frame).subspan(size - 4), proto::icrc(path, Bytes(frame).first(size - 4), ip_id));
    writer.add_received(path, Bytes(frame).first(size), Instant(when));
  }
  Recording read() const { return read_ring(*ring); }
};

}  // namespace uroce::record::test
