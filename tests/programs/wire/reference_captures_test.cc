// SPDX-License-Identifier: Apache-2.0
// The reference captures in pcaps/: what our NIC sends and receives, one topic each. Made on the simulated wire, so
// every byte and every time stamp is the same each time; the test makes them again and compares. With
// UROCE_WRITE_PCAPS=DIR it writes them instead (tools/make_pcaps.sh).
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "proto/frame.h"
#include "proto/pcap.h"
#include "tests/support/pair.h"

namespace uroce::test {
namespace {

using engine::sim::Packet;
using engine::sim::TapPoint;
using engine::sim::Verdict;
using nic::SendOp;

struct Topic {
  const char* name;
  PairOptions options;
  std::function<void(Pair&)> play;
};

std::ostream& operator<<(std::ostream& os, const Topic& topic) { return os << topic.name; }

void send_to_receive(Pair& pair, SendOp op, std::size_t size) {
  ASSERT_EQ(pair.receive(pair.b, 1, {pair.b.sge(0, size)}), 0);
  nic::SendWr w = wr(1, op);
  w.imm = 0x11223344;
  ASSERT_EQ(pair.send(pair.a, w, {pair.a.sge(0, size)}), 0);
}

void one(Pair& pair, SendOp op, std::size_t size) {
  nic::SendWr w = remote_wr(1, op, pair.b, 4096);
  w.imm = 0x11223344;
  w.compare_add = 5;
  w.swap = 7;
  if (op == SendOp::kWriteImm) {
    ASSERT_EQ(pair.receive(pair.b, 1, {}), 0);
  }
  ASSERT_EQ(pair.send(pair.a, w, {pair.a.sge(0, size)}), 0);
}

/// Loses the first packet with this PSN that A sends.
void lose(Pair& pair, std::uint32_t psn) {
  pair.world.set_filter([psn, node = pair.a.node, lost = false](Packet& p, Instant) mutable {
    if (lost || p.from != node || proto::parse_packet(p.bytes)->psn().value() != psn) return Verdict::pass();
    lost = true;
    return Verdict::drop();
  });
}

const std::vector<Topic>& topics() {
  static const std::vector<Topic> kTopics{
      {"send_0", {}, [](Pair& p) { send_to_receive(p, SendOp::kSend, 0); }},
      {"send_1", {}, [](Pair& p) { send_to_receive(p, SendOp::kSend, 1); }},
      {"send_mtu", {}, [](Pair& p) { send_to_receive(p, SendOp::kSend, 1024); }},
      {"send", {}, [](Pair& p) { send_to_receive(p, SendOp::kSend, 3001); }},
      {"send_imm", {}, [](Pair& p) { send_to_receive(p, SendOp::kSendImm, 3001); }},
      {"write", {}, [](Pair& p) { one(p, SendOp::kWrite, 3001); }},
      {"write_imm", {}, [](Pair& p) { one(p, SendOp::kWriteImm, 100); }},
      {"read", {}, [](Pair& p) { one(p, SendOp::kRead, 3001); }},
      {"compare_swap", {}, [](Pair& p) { one(p, SendOp::kCompareSwap, 8); }},
      {"fetch_add", {}, [](Pair& p) { one(p, SendOp::kFetchAdd, 8); }},
      {"ipv6",
       {.ipv6 = true},
       [](Pair& p) {
         send_to_receive(p, SendOp::kSend, 1500);
         one(p, SendOp::kRead, 1500);
       }},
      {"psn_wrap", {.psn_a = 0xFFFFFE}, [](Pair& p) { one(p, SendOp::kWrite, 5000); }},
      {"lost_packet",
       {},
       [](Pair& p) {
         lose(p, 0x102);
         send_to_receive(p, SendOp::kSend, 5000);
       }},
      {"lost_last_packet",
       {},
       [](Pair& p) {
         lose(p, 0x104);
         send_to_receive(p, SendOp::kSend, 5000);
       }},
      {"rnr",
       {},
       [](Pair& p) {
         ASSERT_EQ(p.send(p.a, wr(1, SendOp::kSend), {p.a.sge(0, 100)}), 0);
         p.world.after(200us, [&p] { p.receive(p.b, 1, {p.b.sge(0, 100)}); });
       }},
      {"remote_access_error",
       {},
       [](Pair& p) {
         nic::SendWr w = remote_wr(1, SendOp::kWrite, p.b, 0);
         w.rkey ^= 1;
         ASSERT_EQ(p.send(p.a, w, {p.a.sge(0, 100)}), 0);
       }},
      {"retry_exceeded",
       {.timeout = 8, .retry_cnt = 2},
       [](Pair& p) {
         p.world.set_filter([](Packet&, Instant) { return Verdict::drop(); });
         one(p, SendOp::kWrite, 100);
       }},
  };
  return kTopics;
}

/// A's view: what it sends, and what reaches it.
void capture(const Topic& topic, const std::filesystem::path& file) {
  auto writer = proto::PcapWriter::create(file);
  ASSERT_TRUE(writer.ok()) << writer.error();
  Pair pair(topic.options);
  pair.on_packet = [&](TapPoint point, const Packet& packet, Instant now) {
    const bool mine = packet.from == pair.a.node;
    if (mine ? point != TapPoint::kSent : point != TapPoint::kDelivered) return;
    std::array<std::uint8_t, proto::kMaxPacketSize + proto::kFrameOverheadMax> frame;
    const std::size_t size = proto::build_frame(proto::frame_fields_for(packet.path), packet.bytes, frame);
    writer->write(now.time_since_epoch().count(), Bytes(frame).first(size));
  };
  topic.play(pair);
  EXPECT_EQ(pair.world.run_idle(), engine::sim::Outcome::kDone);
  EXPECT_EQ(writer->flush(), std::nullopt);
}

std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ReferenceCapture : public testing::TestWithParam<Topic> {};

TEST_P(ReferenceCapture, IsMadeTheSameAgain) {
  const std::string name = std::string(GetParam().name) + ".pcap";
  if (const char* directory = std::getenv("UROCE_WRITE_PCAPS")) {
    capture(GetParam(), std::filesystem::path(directory) / name);
    return;
  }
  const auto again = std::filesystem::path(testing::TempDir()) / ("uroce_again_" + name);
  capture(GetParam(), again);
  const std::string made = contents(again);
  std::filesystem::remove(again);
  ASSERT_GT(made.size(), 100u);
  EXPECT_TRUE(made == contents(std::filesystem::path(UROCE_SOURCE_DIR) / "pcaps" / name))
      << name << " differs from the committed one; if that is meant, run tools/make_pcaps.sh and look at the change";
}

INSTANTIATE_TEST_SUITE_P(Topics, ReferenceCapture, testing::ValuesIn(topics()),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace uroce::test
