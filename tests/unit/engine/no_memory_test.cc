// SPDX-License-Identifier: Apache-2.0
// Ports in a program that has taken all the memory that it may have: they send on, and nobody throws.
#include <filesystem>

#include "engine/port/capture_tap.h"
#include "engine/run/runner.h"
#include "proto/pcap_reader.h"
#include "tests/support/operator_new.h"
#include "tests/support/port_fixture.h"
#include "tests/unit/engine/waiting_port.h"

namespace {

thread_local bool is_short = false;

}  // namespace

bool uroce::test::may_allocate() { return !is_short; }

namespace uroce::test {
namespace {

/// While it lives, this thread finds no memory.
struct Shortage {
  Shortage() { is_short = true; }
  ~Shortage() { is_short = false; }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
};

class NoMemory : public PortTest {};
INSTANTIATE_TEST_SUITE_P(Engines, NoMemory, testing::ValuesIn(kPortCases), case_name);

TEST_P(NoMemory, ToSendTakesNone) {
  constexpr std::uint32_t kPackets = 200;
  queue(*a_, path(1, 2), 0);  // Opens the socket.
  a_->flush();
  {
    const Shortage shortage;
    for (std::uint32_t i = 1; i < kPackets; ++i) ASSERT_TRUE(queue(*a_, path(1, 2), i));
    a_->flush();
  }
  Inbox inbox;
  receive(*b_, inbox, kPackets);
}

TEST_P(NoMemory, APacketWhoseSocketCantBeOpenedIsLost) {
  {
    const Shortage shortage;
    queue(*a_, path(1, 2), 1);
    a_->flush();
  }
  EXPECT_EQ(a_->counters().send_errors, 1u);
  EXPECT_EQ(a_->counters().sent_packets, 0u);
  queue(*a_, path(1, 2), 2);
  a_->flush();
  Inbox inbox;
  receive(*b_, inbox, 1);
}

TEST_P(NoMemory, WhatIsNotCapturedIsSentAndReceived) {
  const auto file =
      std::filesystem::path(testing::TempDir()) / ("uroce_short_" + std::to_string(::getpid()) + ".pcapng");
  engine::CaptureTap tap(std::move(a_), std::move(*proto::PcapWriter::create(file)));
  tap.comment_received([](const proto::Datagram&) { return std::string(100, 'x'); });
  queue(tap, path(1, 2), 0);  // Opens the socket.
  tap.flush();
  queue(*b_, path(2, 1), 1);
  b_->flush();
  struct Counter final : engine::DatagramSink {
    void on_datagram(const proto::Datagram&) override { ++packets; }
    int packets = 0;
  } arrived;
  std::uint32_t sent = 1;
  {
    const Shortage shortage;
    for (; tap.missed() < 2; ++sent) ASSERT_TRUE(queue(tap, path(1, 2), sent));
    tap.flush();
    const Instant limit = engine::os_now() + 5s;
    while (arrived.packets == 0 && engine::os_now() < limit) tap.exchange(arrived, 64);
  }
  EXPECT_EQ(arrived.packets, 1);
  EXPECT_EQ(tap.missed(), 3u);
  Inbox inbox;
  receive(*b_, inbox, sent);
  queue(tap, path(1, 2), sent);
  tap.flush();

  // What is there is whole.
  auto reader = proto::PcapReader::open(file);
  ASSERT_TRUE(reader);
  std::uint32_t frames = 0;
  for (auto frame = reader->next();; frame = reader->next()) {
    ASSERT_TRUE(frame) << frame.error();
    if (!frame->has_value()) break;
    ++frames;
  }
  EXPECT_EQ(frames, sent + 1 + 1 - 3);
  std::filesystem::remove(file);
}

/// A NIC that finds none when it is to send, a few times.
struct ShortNic final {
  void on_datagram(const proto::Datagram&, Instant) {}
  void on_timeout(Instant) {}
  std::optional<proto::Transmit> poll_transmit(Instant, MutBytes) {
    if (++polls <= 3) throw std::bad_alloc();
    return std::nullopt;
  }
  std::optional<Instant> next_deadline() const { return std::nullopt; }
  std::uint64_t silent_writes() const { return 0; }
  int polls = 0;
};

/// A port with a frame.
class FramePort final : public WaitingPort {
 public:
  MutBytes tx_frame() override { return frame_; }

 private:
  std::array<std::uint8_t, 64> frame_{};
};

TEST(NoMemoryForACrank, ThePacketsBehindTheLostOnesAreSent) {
  ShortNic nic;
  FramePort port;
  EXPECT_EQ(engine::take_transmits(nic, port, engine::os_now()), 3u);
  EXPECT_EQ(nic.polls, 4);
}

TEST(NoMemoryForARunner, TheBackgroundThreadLivesOn) {
  ShortNic nic;
  std::atomic<int> turns = 0;
  const engine::Runner<ShortNic> runner(nic, std::make_unique<WaitingPort>(), [&] {
    if (++turns <= 3) throw std::bad_alloc();
  });
  const Instant limit = engine::os_now() + 5s;
  while (turns <= 4 && engine::os_now() < limit) std::this_thread::sleep_for(1ms);
  EXPECT_GT(turns, 4);
}

}  // namespace
}  // namespace uroce::test
