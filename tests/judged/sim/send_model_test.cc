// SPDX-License-Identifier: Apache-2.0
// The wire lint of services without acknowledgements, with packets written by hand.
#include "tests/judged/sim/send_model.h"

#include "tests/judged/sim/lint_fixture.h"

namespace uroce::simulator {
namespace {

using proto::Opcode;
using testing::HasSubstr;

constexpr std::uint32_t kMtu = 256, kPsn = 0xFFFFFF;

class SendLint : public testing::Test {
 protected:
  using Edit = std::function<void(proto::PacketBuilder&)>;

  SendLint() {
    facts.path.source = proto::Gid::from_v4(10, 0, 0, 1);
    facts.path.destination = proto::Gid::from_v4(10, 0, 0, 2);
    facts.node = 0;
    facts.peer_node = 1;
    facts.qpn = 0x11;
    facts.peer_qpn = 0x12;
    facts.connected = true;
    facts.mtu = kMtu;
    lint.add(model);
  }
  void start(bool connected) {
    facts.connected = connected;
    facts.mtu = connected ? kMtu : 4096;
    facts.qkey = 0x80000001;
    model.start(facts, proto::Psn{kPsn});
  }
  void post(std::uint32_t length, const std::function<void(Sending&)>& edit = {}) {
    Sending wr;
    wr.id = ++id;
    wr.seed = 5;
    wr.length = length;
    wr.target.path = facts.path;
    wr.target.qpn = 0x12;
    wr.target.qkey = 0x22;
    if (edit) edit(wr);
    model.posted(wr);
  }
  /// The packet of a SEND of the bytes that the WR has from `offset` on.
  std::string send(Opcode opcode, std::uint32_t number, std::size_t offset, std::size_t size, const Edit& edit = {}) {
    std::vector<std::uint8_t> frame(proto::kMaxPacketSize), bytes(offset + size);
    fill_pattern(bytes, 5);
    proto::PacketBuilder b(frame, opcode);
    b.bth().set<proto::Bth::DestQp>(0x12).set<proto::Bth::PsnField>((kPsn + number) & 0xFFFFFF);
    if (proto::info(opcode).has(proto::HeaderId::kDeth)) {
      b.header<proto::Deth>().set<proto::Deth::QKey>(0x22).set<proto::Deth::SourceQp>(0x11);
    }
    if (edit) edit(b);
    const MutBytes payload = b.payload(size);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), size, payload.begin());
    frame.resize(b.finish(facts.path));
    const auto view = proto::parse_packet(frame);
    return breach([&] { lint.sent({.from = 0, .to = 1, .path = facts.path, .bytes = frame}, *view); });
  }

  SendModel::Facts facts;
  SendModel model;
  UnackedLint lint;
  std::uint64_t id = 0;
};

TEST_F(SendLint, LegalPackets) {
  start(true);
  post(kMtu + 1);
  post(0);
  EXPECT_EQ(send(Opcode::kUcSendFirst, 0, 0, kMtu), "");
  EXPECT_TRUE(model.in_message());
  EXPECT_FALSE(model.has_sent(1));
  EXPECT_EQ(send(Opcode::kUcSendLast, 1, kMtu, 1), "");
  EXPECT_TRUE(model.has_sent(1));
  EXPECT_EQ(send(Opcode::kUcSendOnly, 2, 0, 0), "");
  start(false);
  post(1000);
  EXPECT_EQ(send(Opcode::kUdSendOnly, 0, 0, 1000), "");
}

TEST_F(SendLint, SequenceAndNumbers) {
  start(true);
  EXPECT_THAT(send(Opcode::kUcSendOnly, 0, 0, 1), HasSubstr("nothing to send"));
  post(kMtu + 1);
  EXPECT_THAT(send(Opcode::kUcSendFirst, 1, 0, kMtu), HasSubstr("PSN"));
  EXPECT_THAT(send(Opcode::kUcSendOnly, 0, 0, kMtu), HasSubstr("packet 0 of 2 is due"));
  EXPECT_THAT(send(Opcode::kUcSendLast, 0, 0, kMtu), HasSubstr("packet 0 of 2 is due"));
  EXPECT_THAT(send(Opcode::kUcSendFirst, 0, 0, kMtu - 1), HasSubstr("payload"));
  EXPECT_THAT(send(Opcode::kUcSendFirst, 0, 1, kMtu), HasSubstr("payload"));
  model.silence();
  EXPECT_THAT(send(Opcode::kUcSendFirst, 0, 0, kMtu), HasSubstr("may send nothing"));
}

TEST_F(SendLint, NobodyAnswers) {
  start(true);
  post(1);
  EXPECT_THAT(send(Opcode::kUcSendOnly, 0, 0, 1, [](auto& b) { b.bth().template set<proto::Bth::AckReq>(1); }),
              HasSubstr("asks for an ACK"));
  EXPECT_THAT(send(Opcode::kUcSendOnly, 0, 0, 1, [](auto& b) { b.bth().template set<proto::Bth::SolicitedEvent>(1); }),
              HasSubstr("SE is wrong"));
  EXPECT_THAT(send(Opcode::kUcSendOnlyImm, 0, 0, 1), HasSubstr("immediate data"));
  EXPECT_THAT(send(Opcode::kUdSendOnly, 0, 0, 1), HasSubstr("from no QP of that service"));
}

TEST_F(SendLint, DatagramHeaders) {
  start(false);
  post(1, [](Sending& wr) { wr.target.qkey = 0x80000000; });
  EXPECT_THAT(send(Opcode::kUdSendOnly, 0, 0, 1), HasSubstr("another Q_Key"));
  EXPECT_EQ(send(Opcode::kUdSendOnly, 0, 0, 1,
                 [](auto& b) { b.template header<proto::Deth>().template set<proto::Deth::QKey>(0x80000001); }),
            "")
      << "a controlled Q_Key stands for the QP's own";
  post(1, [](Sending& wr) { wr.target.qpn = 0x13; });
  EXPECT_THAT(send(Opcode::kUdSendOnly, 1, 0, 1), HasSubstr("the WR says 0x13"));
}

TEST_F(SendLint, WhatMustFailAndWhatMustWait) {
  start(true);
  post(1, [](Sending& wr) { wr.must_fail = true; });
  EXPECT_THAT(send(Opcode::kUcSendOnly, 0, 0, 1), HasSubstr("must fail"));
  model.abandon();
  post(1);
  model.set_draining(true);
  EXPECT_THAT(send(Opcode::kUcSendOnly, 0, 0, 1), HasSubstr("drains"));
}

}  // namespace
}  // namespace uroce::simulator
