// SPDX-License-Identifier: Apache-2.0
// What the packets of both engines look like on the wire, seen by a packet socket on loopback.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>

#include <array>

#include "engine/os/fd.h"
#include "proto/frame.h"
#include "proto/packet.h"
#include "tests/support/port_fixture.h"

namespace uroce::test {
namespace {

class PortWireTest : public PortTest {
 protected:
  void SetUp() override {
    PortTest::SetUp();
    if (IsSkipped()) return;
    capture_ = engine::Fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)));
    if (!capture_) GTEST_SKIP() << "no packet socket: " << std::strerror(errno);
    // An IGMP report of an earlier case takes 64 KiB on loopback, twice: all of the usual buffer.
    const int bytes = 4 << 20;
    ASSERT_EQ(::setsockopt(capture_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes), 0);
    sockaddr_ll loopback{};
    loopback.sll_family = AF_PACKET;
    loopback.sll_protocol = htons(ETH_P_ALL);
    loopback.sll_ifindex = static_cast<int>(::if_nametoindex("lo"));
    ASSERT_EQ(::bind(capture_.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback), 0);
  }

  /// The next frame to UDP port 4791, as its receiver gets it (loopback shows every frame twice).
  Result<proto::FrameView, proto::FrameError> next_frame() {
    for (;;) {
      pollfd ready{.fd = capture_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 5000) != 1) return Err{proto::FrameError::kEthernetTruncated};
      sockaddr_ll from{};
      socklen_t size = sizeof from;
      const ssize_t got =
          ::recvfrom(capture_.get(), frame_.data(), frame_.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
      if (got < 0 || from.sll_pkttype != PACKET_HOST) continue;
      auto frame = proto::parse_frame(Bytes(frame_).first(static_cast<std::size_t>(got)));
      if (frame) return frame;
    }
  }

  /// Sends one real RoCE packet and returns its frame.
  Result<proto::FrameView, proto::FrameError> send(const proto::Path& path, std::size_t payload) {
    proto::PacketBuilder builder(a_->tx_frame(), proto::Opcode::kRcSendOnly);
    builder.bth().set<proto::Bth::DestQp>(0x11);
    const MutBytes bytes = builder.payload(payload);
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0x5A});
    a_->tx_commit({path, builder.finish(path)});
    a_->flush();
    return next_frame();
  }

  engine::Fd capture_;
  std::array<std::uint8_t, 65536> frame_{};
};

INSTANTIATE_TEST_SUITE_P(Engines, PortWireTest, testing::ValuesIn(kStrictPortCases.begin(), kStrictPortCases.end()),
                         case_name);

TEST_P(PortWireTest, IcrcIsRightForTheHeadersOnTheWire) {
  // Twice from one socket, then with other header fields: by control message.
  for (const int value : {0x6A, 0x6A, 0x01}) {
    proto::Path path = this->path(1, 2);
    path.tclass = static_cast<std::uint8_t>(value);
    path.hop_limit = static_cast<std::uint8_t>(value + 1);
    const auto frame = send(path, 4096);
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_EQ(frame->fields.path, path);
    EXPECT_EQ(frame->fields.udp_checksum, 0);
    EXPECT_EQ(frame->fields.ip_id, 0);
    EXPECT_TRUE(GetParam().v6 || frame->fields.ip_flags == proto::kDontFragment);
    EXPECT_TRUE(proto::icrc_ok(*frame));
  }
}

TEST_P(PortWireTest, NoPacketOfABatchIsNumbered) {
  constexpr int kPackets = 50;
  for (std::uint32_t i = 0; i < kPackets; ++i) ASSERT_TRUE(queue(*a_, path(1, 2), i));
  a_->flush();
  for (int i = 0; i < kPackets; ++i) {
    const auto frame = next_frame();
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_EQ(frame->fields.ip_id, 0);
    EXPECT_EQ(frame->fields.udp_checksum, 0);
    EXPECT_EQ(frame->fields.path.flow_label, 0u);
  }
}

}  // namespace
}  // namespace uroce::test
