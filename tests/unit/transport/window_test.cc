// SPDX-License-Identifier: Apache-2.0
// How much may be under way to a peer: what it learns from round trips, losses and silence; and that peers do not share
// it.
#include "verbs/nic/transport/base/window.h"

#include <random>

#include "tests/support/pair.h"
#include "verbs/nic/transport/base/windows.h"

namespace uroce::test {
namespace {

using nic::PeerWindow;
using nic::SendOp;

constexpr std::uint64_t kPacket = PeerWindow::cost(4096);
constexpr std::uint64_t kQueue = 19 * kPacket, kCrowded = 100 * kPacket, kMost = 2000 * kPacket;

/// A path on which a packet takes `path` there and back, and on which one packet per `slot` gets through.
class WindowOnAPath : public testing::Test {
 protected:
  /// A sender that always has more, until `packets` have been acknowledged.
  void run(Duration path, Duration slot, int packets) {
    while (packets > 0) {
      for (; window.has_room(); window.take(kPacket)) {
        free_at = std::max(free_at, now) + slot;
        if (free_at > pause_at) pause();
        under_way.emplace_back(now, free_at + path);
      }
      window.note_full();
      const auto [sent, answered] = under_way.front();
      under_way.pop_front();
      now = std::max(now, answered);
      window.acknowledged(kPacket);
      window.on_round_trip(now - sent, now);
      --packets;
    }
  }
  /// Now and then another program has the processor of the host that answers.
  void pause() {
    free_at += pauses * std::uniform_int_distribution(2, 18)(random) / 10;
    pause_at = free_at + 10us * std::uniform_int_distribution(0, 600)(random);
  }
  std::vector<PeerWindow*> opened;
  PeerWindow window{kQueue, kMost, kCrowded, opened};
  Duration pauses{};
  Instant pause_at = Instant::max();
  std::mt19937 random{1};
  std::deque<std::pair<Instant, Instant>> under_way;
  Instant now{1s}, free_at{};
};

TEST_F(WindowOnAPath, StaysWhatABufferTakesOnOneHost) {
  run(60us, 3us, 10'000);
  EXPECT_EQ(window.limit(), kQueue);
}

TEST(Windows, APeerOnThisHostMayHaveMore) {
  const auto address = [](std::uint8_t net, std::uint8_t host) { return proto::Gid::from_v4(net, 0, 0, host); };
  const auto limit = [&](std::uint64_t host_window, const proto::Gid& from, const proto::Gid& to,
                         bool is_acked = true) {
    nic::NicConfig config;
    config.window_bytes = kQueue;
    config.host_window_bytes = host_window;
    return nic::Windows(config).along({from, to}, is_acked)->limit();
  };
  EXPECT_EQ(limit(3 * kQueue, address(127, 1), address(127, 2)), 3 * kQueue);
  EXPECT_EQ(limit(3 * kQueue, address(10, 1), address(10, 1)), 3 * kQueue);
  EXPECT_EQ(limit(3 * kQueue, address(10, 1), address(10, 2)), kQueue) << "of its buffers we know nothing";
  EXPECT_EQ(limit(0, address(127, 1), address(127, 2)), kQueue);
  EXPECT_EQ(limit(9 * kQueue, address(127, 1), address(127, 2), /*is_acked=*/false), nic::kUnackedWindowBytes);
  EXPECT_EQ(limit(9 * kQueue, address(10, 1), address(10, 2), /*is_acked=*/false), kQueue);
}

TEST(Windows, OnThisHostUnacknowledgedPacketsHaveOneOfTheirOwn) {
  nic::NicConfig config;
  config.host_window_bytes = nic::kHostWindowBytes;
  nic::Windows windows(config);
  const auto here = proto::Gid::from_v4(127, 0, 0, 1), there = proto::Gid::from_v4(10, 0, 0, 1);
  const auto acked = windows.along({here, here}, true), unacked = windows.along({here, here}, false);
  EXPECT_NE(acked, unacked);
  EXPECT_EQ(windows.along({here, here}, false), unacked);
  const auto elsewhere = windows.along({here, there}, true);
  EXPECT_EQ(windows.along({here, there}, false), elsewhere) << "its buffers may have room for one only";
}

// Processors that have other work make everybody wait for milliseconds.
TEST_F(WindowOnAPath, HasRoomForATurnOfOthersOnACrowdedHost) {
  run(60us, 3us, 1'000);
  ASSERT_EQ(window.limit(), kQueue);
  pauses = 3ms;
  pause_at = now;
  run(60us, 3us, 10'000);
  EXPECT_EQ(window.limit(), kQueue + kCrowded);
  pause_at = Instant::max();
  run(60us, 3us, 30'000);  // Longer than that is remembered.
  EXPECT_EQ(window.limit(), kQueue);
}

TEST_F(WindowOnAPath, LossesOnACrowdedHostTakeThatBack) {
  pauses = 3ms;
  pause_at = now;
  run(60us, 3us, 10'000);
  ASSERT_EQ(window.limit(), kQueue + kCrowded);
  window.on_loss(now);
  EXPECT_LE(window.limit(), kQueue);
  run(60us, 3us, 100'000);
  EXPECT_LE(window.limit(), kQueue + kCrowded / 2);
  for (int i = 0; i < 30; ++i) window.on_loss(now += 100ms);
  run(60us, 3us, 1'000'000);
  EXPECT_EQ(window.limit(), kQueue);
}

TEST_F(WindowOnAPath, GrowsToWhatALongPathHolds) {
  run(1ms, 3us, 6'000);
  EXPECT_GE(window.limit(), 333 * kPacket);
  EXPECT_LE(window.limit(), 333 * 3 / 2 * kPacket);
  run(1ms, 3us, 100'000);
  EXPECT_GE(window.limit(), 333 * kPacket);
  EXPECT_LE(window.limit(), (333 + 60) * kPacket + nic::kPathQueueBytes) << "what is more waits somewhere";
}

TEST_F(WindowOnAPath, GrowsWhenHostsPauseNowAndThen) {
  pause_at = now;
  for (const Duration length : {300us, 1000us}) {
    pauses = length;
    run(1ms, 3us, 50'000);
    EXPECT_GE(window.limit(), 300 * kPacket);
    EXPECT_LE(window.limit(), (333 + 400) * kPacket);
    window.on_silence(now);
  }
}

TEST_F(WindowOnAPath, ItsOwnQueueIsNotTakenForALongPath) {
  run(60us, 40us, 750'000);  // 30 s, three epochs: long enough to forget that it was ever empty.
  EXPECT_LE(window.limit(), kQueue + 10 * kPacket);
}

TEST_F(WindowOnAPath, NeverGrowsBeyondItsBound) {
  run(50ms, 1us, 100'000);
  EXPECT_EQ(window.limit(), kMost);
}

TEST_F(WindowOnAPath, GivesWayWhenThePathBecomesNarrower) {
  run(1ms, 3us, 20'000);
  run(1ms, 30us, 20'000);
  EXPECT_LE(window.limit(), (33 + 60) * kPacket);
}

TEST_F(WindowOnAPath, ALossShortensTheQueueAndALongWhileBringsItBack) {
  window.on_round_trip(60us, now);
  window.on_loss(now);
  EXPECT_EQ(window.limit(), kQueue * 3 / 4);
  window.on_loss(now + 10us);
  EXPECT_EQ(window.limit(), kQueue * 3 / 4) << "one loss, seen twice";
  for (int i = 1; i < 20; ++i) window.on_loss(now + i * 1ms);
  EXPECT_EQ(window.limit(), nic::kLeastWindowBytes);
  now += 20ms;
  run(60us, 3us, 10);
  EXPECT_LE(window.limit(), nic::kLeastWindowBytes + kPacket);
  run(60us, 3us, 1'000'000);
  EXPECT_EQ(window.limit(), kQueue);
}

TEST_F(WindowOnAPath, AfterALossOnlyTheQueueGoesAtOnce) {
  run(1ms, 3us, 20'000);
  ASSERT_GT(window.limit(), 300 * kPacket);
  window.give_back(window.used());
  window.on_loss(now);
  EXPECT_LE(window.limit(), kQueue);
  under_way.clear();
  run(1ms, 3us, 2'000);
  EXPECT_GT(window.limit(), 120 * kPacket) << "as answers come, it opens again";
}

TEST_F(WindowOnAPath, WhatGoesIntoAnEmptyPathWaitsAtItsEnd) {
  run(1ms, 3us, 20'000);
  const std::uint64_t pipe = window.limit() - kQueue;
  window.give_back(window.used());
  window.take(kPacket);
  EXPECT_LE(window.limit(), kQueue + pipe / 2);
}

TEST_F(WindowOnAPath, SilenceCountsOnlyWhenNobodyIsAnswered) {
  window.on_round_trip(60us, now);
  window.on_silence(now - 1ms);
  EXPECT_EQ(window.limit(), kQueue);
  window.on_silence(now + 1ms);
  EXPECT_EQ(window.limit(), nic::kLeastWindowBytes);
}

TEST_F(WindowOnAPath, TellsOnceThatThereIsRoomForThoseWhoWait) {
  window.take(kQueue);
  window.waiting.reserve(1);
  window.waiting.push_back(nullptr);
  EXPECT_TRUE(opened.empty());
  window.give_back(kPacket);
  window.give_back(kPacket);
  EXPECT_EQ(opened, std::vector{&window});
}

/// A QP of side a beside its first one; its peer is at `to`, with the QPN that b's first one has.
nic::Qp* another_qp(Pair& pair, const Gid& to) {
  nic::Qp* const first = std::exchange(pair.a.qp, *pair.a.nic.create_qp(nic::QpInit(pair.a.qp->init())));
  nic::QpAttr attr = pair.attr(pair.a, pair.b, 0x100, 0x200);
  attr.path.destination = to;
  pair.a.bring_up(attr);
  return std::exchange(pair.a.qp, first);
}

/// Packets that side a sends to `to` while `time` passes.
std::size_t sent_to(Pair& pair, const Gid& to, Duration time) {
  std::size_t packets = 0;
  pair.on_packet = [&](engine::sim::TapPoint point, const engine::sim::Packet& packet, Instant) {
    if (point == engine::sim::TapPoint::kSent && packet.from == pair.a.node && packet.path.destination == to) ++packets;
  };
  pair.world.kick(pair.a.node);
  pair.world.run_for(time);
  pair.on_packet = nullptr;
  return packets;
}

void post_write(Pair& pair, nic::Qp* qp, std::uint64_t id, std::size_t length) {
  const nic::Sge sge = pair.a.sge(0, length);
  nic::SendWr wr = remote_wr(id, SendOp::kWrite, pair.b, 0);
  wr.sges = {&sge, 1};
  ASSERT_EQ(pair.a.nic.post_send(qp, wr), 0);
}

TEST(Windows, ADeadPeerTakesNothingFromTheOthers) {
  Pair pair({.timeout = 0});
  const Gid nowhere = Gid::from_v4(10, 0, 0, 99);
  nic::Qp* const dead = another_qp(pair, nowhere);
  post_write(pair, dead, 1, 1'000'000);
  EXPECT_GT(sent_to(pair, nowhere, 1ms), 60u) << "the window to it is full now";
  post_write(pair, pair.a.qp, 2, 1'000'000);
  EXPECT_EQ(sent_to(pair, pair.b.gid, 5ms), 977u);
}

TEST(Windows, ADeadQpGivesWayToItsNeighboursAndSendsLittle) {
  Pair pair({.timeout = 14});  // 67 ms.
  nic::Qp* const dead = another_qp(pair, pair.b.gid);
  const auto of_dead = [&](const engine::sim::Packet& packet) {
    return packet.from == pair.a.node && packet.path.source_port == dead->attr().path.source_port;
  };
  pair.world.set_filter([&](engine::sim::Packet& packet, Instant) {
    return of_dead(packet) ? engine::sim::Verdict::drop() : engine::sim::Verdict::pass();
  });
  post_write(pair, dead, 1, 1'000'000);
  EXPECT_GT(sent_to(pair, pair.b.gid, 5ms), 60u);
  post_write(pair, pair.a.qp, 2, 1'000'000);
  EXPECT_EQ(sent_to(pair, pair.b.gid, 4ms), 0u) << "the window is full";
  EXPECT_EQ(sent_to(pair, pair.b.gid, 30ms), 977u) << "and then what it held counts no longer";
  EXPECT_EQ(sent_to(pair, pair.b.gid, 20ms), 0u) << "a QP that is owed an ACK sends no more";
  EXPECT_EQ(sent_to(pair, pair.b.gid, 8 * 68ms), 7 * nic::kProbePackets) << "and little after each timeout";
  EXPECT_EQ(dead->state(), nic::QpState::kErr);
}

}  // namespace
}  // namespace uroce::test
