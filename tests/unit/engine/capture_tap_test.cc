// SPDX-License-Identifier: Apache-2.0
#include "engine/port/capture_tap.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/os/fd.h"
#include "engine/port/socket_address.h"
#include "proto/frame.h"
#include "proto/packet.h"
#include "proto/pcap_reader.h"
#include "tests/support/port_fixture.h"

namespace uroce::test {
namespace {

using engine::CaptureTap;
using testing::SizeIs;

class CaptureTapTest : public PortTest {
 protected:
  void SetUp() override {
    PortTest::SetUp();
    file_ = std::filesystem::path(testing::TempDir()) / ("uroce_tap_" + std::to_string(::getpid()) + ".pcap");
  }
  void TearDown() override { std::filesystem::remove(file_); }

  std::unique_ptr<CaptureTap> tap(std::unique_ptr<engine::Port> port) {
    auto writer = proto::PcapWriter::create(file_);
    EXPECT_TRUE(writer);
    return std::make_unique<CaptureTap>(std::move(port), std::move(*writer));
  }

  /// A packet as a NIC would make it; `ip_id` is the Identification that its ICRC is right for.
  static void send(engine::Port& port, const proto::Path& path, std::uint32_t psn) {
    proto::PacketBuilder builder(port.tx_frame(), proto::Opcode::kRcSendOnly);
    builder.bth().set<proto::Bth::PsnField>(psn);
    builder.payload(100);
    port.tx_commit({path, builder.finish(path)});
    port.flush();
  }

  struct Record {
    std::int64_t time_ns;
    std::vector<std::uint8_t> bytes;
  };
  std::vector<Record> records() const {
    std::vector<Record> result;
    auto reader = proto::PcapReader::open(file_);
    EXPECT_TRUE(reader) << reader.error();
    for (;;) {
      auto frame = reader->next();
      EXPECT_TRUE(frame) << frame.error();
      if (!frame || !frame->has_value()) return result;
      result.push_back({(*frame)->time_ns, {(*frame)->bytes.begin(), (*frame)->bytes.end()}});
    }
  }

  std::string file_;
};

INSTANTIATE_TEST_SUITE_P(Engines, CaptureTapTest, testing::ValuesIn(kPortCases), case_name);

TEST_P(CaptureTapTest, RecordsBothDirectionsAsFramesThatAreRight) {
  const std::int64_t start = engine::wall_clock_now().count();
  auto a = tap(std::move(a_));
  send(*a, path(1, 2), 1);
  Inbox inbox;
  receive(*b_, inbox, 1);
  send(*b_, path(2, 1), 2);
  receive(*a, inbox, 2);
  a.reset();

  const std::vector<Record> all = records();
  ASSERT_THAT(all, SizeIs(2));
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto frame = proto::parse_frame(all[i].bytes);
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_EQ(frame->fields.path, i == 0 ? path(1, 2) : path(2, 1));
    EXPECT_TRUE(proto::icrc_ok(*frame));
    const auto packet = proto::parse_packet(frame->packet);
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->psn().value(), i + 1);
    EXPECT_GE(all[i].time_ns, start);
    EXPECT_LE(all[i].time_ns, engine::wall_clock_now().count());
  }
}

TEST_P(CaptureTapTest, RecordsTheIdentificationOfPeersThatNumberTheirPackets) {
  if (GetParam().v6) GTEST_SKIP() << "IPv4 only";
  auto a = tap(std::move(a_));
  // What a peer like rxe sends: an ICRC for an Identification that our socket does not see.
  proto::PacketBuilder builder(b_->tx_frame(), proto::Opcode::kRcSendOnly);
  builder.payload(32);
  const MutBytes frame = b_->tx_frame();
  const std::uint32_t size = builder.finish(path(2, 1));
  const std::uint32_t icrc = proto::icrc(path(2, 1), frame.first(size - 4), 0xBEEF);
  std::memcpy(frame.data() + size - 4, &icrc, 4);
  b_->tx_commit({path(2, 1), size});
  b_->flush();
  Inbox inbox;
  receive(*a, inbox, 1);
  a.reset();
  const std::vector<Record> all = records();
  ASSERT_THAT(all, SizeIs(1));
  const auto recorded = proto::parse_frame(all[0].bytes);
  ASSERT_TRUE(recorded);
  EXPECT_EQ(recorded->fields.ip_id, 0xBEEF);
  EXPECT_TRUE(proto::icrc_ok(*recorded));
}

TEST_P(CaptureTapTest, HasRoomForCommentsInPcapng) {
  file_ += "ng";
  auto a = tap(std::move(a_));
  ASSERT_TRUE(a->takes_comments());
  a->comment_received([](const proto::Datagram& datagram) {
    return "received " + std::to_string(proto::parse_packet(datagram.payload)->psn().value());
  });
  a->comment_next("sent 1");
  send(*a, path(1, 2), 1);
  send(*a, path(1, 2), 2);
  const std::vector<std::uint8_t> lost(32);
  a->record_lost(path(1, 2), lost, "lost 3");
  send(*b_, path(2, 1), 4);
  Inbox inbox;
  receive(*b_, inbox, 2);
  receive(*a, inbox, 3);
  a.reset();
  EXPECT_THAT(records(), SizeIs(4));
  std::ifstream stream(file_, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), {});
  for (const char* comment : {"sent 1", "lost 3", "received 4"}) {
    EXPECT_EQ(content.find(comment), content.rfind(comment)) << "once: " << comment;
    EXPECT_THAT(content, testing::HasSubstr(comment));
  }
}

TEST_P(CaptureTapTest, SaysThatAPacketMayHaveBeenCut) {
  file_ += "ng";
  auto a = tap(std::move(a_));
  const engine::SocketAddress to(address(1), proto::kRocePort);
  const engine::Fd socket(::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::vector<std::uint8_t> bytes(5000);
  ASSERT_EQ(::sendto(socket.get(), bytes.data(), bytes.size(), 0, to.get(), to.size), 5000);
  Inbox inbox;
  receive(*a, inbox, 1);
  a.reset();
  std::ifstream stream(file_, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_THAT(content, testing::HasSubstr("perhaps cut here"));
}

TEST_P(CaptureTapTest, SurvivesSigkillWithWholeRecords) {
  constexpr std::uint32_t kPackets = 3000;  // Some 500 kB: more than any buffer on the way.
  const pid_t child = ::fork();
  if (child == 0) {
    auto a = tap(std::move(a_));
    Inbox inbox;
    for (std::uint32_t i = 0; i < kPackets; ++i) send(*a, path(1, 2), i);
    a->exchange(inbox, 64);  // Idle: all is handed over.
    for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(queue(*a, path(1, 2), i));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(records(), SizeIs(kPackets));
}

}  // namespace
}  // namespace uroce::test
