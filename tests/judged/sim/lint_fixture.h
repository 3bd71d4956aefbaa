// SPDX-License-Identifier: Apache-2.0
// Two connected QPs of which only the packets exist: what the tests of the wire lint write by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "proto/icrc.h"
#include "proto/syndrome.h"
#include "tests/judged/sim/violation.h"
#include "tests/judged/sim/wire_lint.h"

namespace uroce::simulator {

/// What `body` is found guilty of; "" when nothing.
inline std::string breach(const std::function<void()>& body) {
  try {
    body();
  } catch (const Violation& violation) {
    return violation.what;
  }
  return "";
}

class LintTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kA = 0x11, kB = 0x12;  ///< QPNs, on nodes 0 and 1.
  static constexpr std::uint32_t kPsn = 0xFFFFFE;       ///< A's first; the wrap is near.
  static constexpr std::uint32_t kMtu = 256;
  static constexpr std::uint64_t kVa = 0x1000;
  static constexpr std::uint32_t kReadDepth = 2;
  using Edit = std::function<void(proto::PacketBuilder&)>;

  LintTest() {
    connect(0);
    connect(1);
    for (int i = 0; i < 100; ++i) lint.receive_posted(1, kB);
    lint.set_memory([](engine::sim::NodeId, std::uint64_t, std::size_t size) {
      static const std::vector<std::uint8_t> zeros(4096);
      return Bytes(zeros).first(size);
    });
  }
  void connect(engine::sim::NodeId node) {
    QpFacts facts;
    facts.node = node;
    facts.peer_node = 1 - node;
    facts.qpn = node == 0 ? kA : kB;
    facts.peer_qpn = node == 0 ? kB : kA;
    facts.path = path(node);
    facts.mtu = kMtu;
    facts.sq_psn = proto::Psn{node == 0 ? kPsn : 0x100};
    facts.max_rd_atomic = kReadDepth;
    lint.connected(facts);
  }
  static proto::Path path(engine::sim::NodeId from) {
    proto::Path p;
    p.source = proto::Gid::from_v4(10, 0, 0, static_cast<std::uint8_t>(from + 1));
    p.destination = proto::Gid::from_v4(10, 0, 0, static_cast<std::uint8_t>(2 - from));
    return p;
  }

  /// A packet of `from` with PSN `kPsn + number`: all of this is about A's requests and B's answers.
  struct Made {
    engine::sim::NodeId from;
    std::vector<std::uint8_t> bytes;
    proto::Path path;
  };
  static Made make(engine::sim::NodeId from, proto::Opcode opcode, std::uint32_t number, std::size_t payload,
                   const Edit& edit) {
    Made made{from, std::vector<std::uint8_t>(proto::kMaxPacketSize), path(from)};
    proto::PacketBuilder b(made.bytes, opcode);
    b.bth().set<proto::Bth::DestQp>(from == 0 ? kB : kA).set<proto::Bth::PsnField>((kPsn + number) & 0xFFFFFF);
    const proto::OpcodeInfo& op = proto::info(opcode);
    if (from == 0) b.bth().set<proto::Bth::AckReq>(op.ends());
    if (op.has(proto::HeaderId::kReth)) b.header<proto::Reth>().set<proto::Reth::Va>(kVa);
    if (edit) edit(b);
    if (op.has_payload) {
      const MutBytes bytes = b.payload(payload);
      std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
    }
    made.bytes.resize(b.finish(made.path));
    return made;
  }
  void send(Made made) {
    lint.sent({.from = made.from, .to = 1 - made.from, .path = made.path, .bytes = made.bytes}, now);
  }
  void deliver(Made made) {
    lint.delivered({.from = made.from, .to = 1 - made.from, .path = made.path, .bytes = made.bytes}, now);
  }

  /// A sends a request; with arrive(), B receives it as well.
  void request(proto::Opcode opcode, std::uint32_t number, std::size_t payload = 0, const Edit& edit = {}) {
    send(make(0, opcode, number, payload, edit));
  }
  void arrive(proto::Opcode opcode, std::uint32_t number, std::size_t payload = 0, const Edit& edit = {}) {
    request(opcode, number, payload, edit);
    deliver(make(0, opcode, number, payload, edit));
  }
  /// B answers; with answered(), A receives that as well.
  void answer(proto::Opcode opcode, std::uint32_t number, const Edit& edit = {}, std::size_t payload = 0) {
    send(make(1, opcode, number, payload, edit));
  }
  void answered(proto::Opcode opcode, std::uint32_t number, const Edit& edit = {}, std::size_t payload = 0) {
    answer(opcode, number, edit, payload);
    deliver(make(1, opcode, number, payload, edit));
  }
  static Edit aeth(proto::Syndrome syndrome, std::uint32_t msn) {
    return [=](proto::PacketBuilder& b) {
      b.header<proto::Aeth>()
          .set<proto::Aeth::SyndromeField>(proto::encode_syndrome(syndrome))
          .set<proto::Aeth::Msn>(msn);
    };
  }
  static Edit ack(std::uint32_t msn) { return aeth(proto::syndrome::Ack{}, msn); }
  static Edit length(std::uint32_t bytes) {
    return [=](proto::PacketBuilder& b) { b.header<proto::Reth>().set<proto::Reth::DmaLength>(bytes); };
  }

  WireLint lint;
  Instant now{std::chrono::seconds(1)};
};

/// Passes when `statement` is found guilty of something that contains `text`.
#define EXPECT_BREACH(statement, text) EXPECT_THAT(breach([&] { statement; }), testing::HasSubstr(text))
#define EXPECT_LEGAL(statement) EXPECT_EQ(breach([&] { statement; }), "")

}  // namespace uroce::simulator
