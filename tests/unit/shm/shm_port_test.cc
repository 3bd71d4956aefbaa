// SPDX-License-Identifier: Apache-2.0
// Packets through shared memory, between two ports of one process.
#include <poll.h>
#include <sys/resource.h>

#include <thread>

#include "tests/unit/shm/shm_fixture.h"

namespace uroce::test {
namespace {

using testing::SizeIs;

class ShmPortTest : public ShmTest {
 protected:
  void SetUp() override {
    ShmTest::SetUp();
    if (IsSkipped()) return;
    a_ = open(1);
    b_ = open(2);
    ASSERT_TRUE(a_ && b_);
  }
  std::unique_ptr<ShmPort> a_, b_;
};

TEST_F(ShmPortTest, WhoHasItsNameIsNamed) {
  const engine::AbstractName name = engine::wire_name(address(9), 0);
  const engine::Fd taken(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(taken.get(), name.get(), name.size), 0);
  auto udp = open_udp(9);
  const proto::Gid gid = address(9);
  const auto port = ShmPort::open(udp, {&gid, 1}, 0);
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().error, EADDRINUSE);
  EXPECT_THAT(port.error().sentence, ::testing::HasSubstr("user " + std::to_string(::geteuid())));
}

TEST_F(ShmPortTest, PacketsGoThroughSharedMemoryOnceThereIsALink) {
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  const auto before = a_->counters();
  Inbox inbox;
  for (std::uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(queue(*a_, path(1, 2), i, proto::kMaxPacketSize));
  a_->flush();
  receive(*b_, inbox, 100);
  EXPECT_EQ(a_->counters().sent_by_shm, before.sent_by_shm + 100);
  EXPECT_EQ(a_->counters().system_calls, before.system_calls) << "nobody was asleep";
  EXPECT_THAT(a_->info().by_shm, testing::ElementsAre("127.0.0.2"));
  expect_in_order(inbox);
  for (const Inbox::Packet& packet : inbox.packets) {
    EXPECT_EQ(packet.path, path(1, 2));
    EXPECT_THAT(packet.bytes, SizeIs(proto::kMaxPacketSize));
    EXPECT_EQ(packet.bytes.back(), static_cast<std::uint8_t>(number_of(packet)));
  }
}

TEST_F(ShmPortTest, TheReaderBeginsWhileTheWriterGoesOn) {
  if (engine::has_one_processor()) GTEST_SKIP() << "There they take turns.";
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  Inbox inbox;
  for (std::uint32_t i = 0; i < 50; ++i) ASSERT_TRUE(queue(*a_, path(1, 2), i));
  EXPECT_GT(b_->exchange(inbox, 64), 0u) << "small ones, and nobody has flushed";
}

TEST_F(ShmPortTest, WithoutRoomForARingThereIsNoPort) {
  rlimit former{};
  ::getrlimit(RLIMIT_FSIZE, &former);
  const rlimit tight{engine::kRingBytes, former.rlim_max};
  auto udp = open_udp(3);
  const proto::Gid gid = address(3);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto port = ShmPort::open(udp, {&gid, 1}, 0);
  ::setrlimit(RLIMIT_FSIZE, &former);
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().error, EFBIG);
  EXPECT_THAT(port.error().sentence, testing::HasSubstr("ulimit -f"));
  EXPECT_TRUE(udp) << "it is left alone";
}

TEST_F(ShmPortTest, APacketWakesTheProgramThatExpectsItAndNobodyElse) {
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  const auto is_readable = [this] {
    std::vector<pollfd> polled;
    for (const int fd : b_->packet_fds()) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    return ::poll(polled.data(), polled.size(), 0) > 0;
  };
  b_->mask_packets(true);
  while (b_->wait(engine::os_now() + 20ms)) continue;  // What rang while the link was made.
  bool background_woken = true;
  std::thread background([&] { background_woken = b_->wait(engine::os_now() + 200ms); });
  Inbox inbox;
  const auto before = a_->counters().system_calls;
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(b_->expect_packets(true));
    EXPECT_FALSE(is_readable());
    queue(*a_, path(1, 2), i);
    a_->flush();
    EXPECT_TRUE(is_readable());
    b_->expect_packets(false);
    EXPECT_FALSE(is_readable()) << "or the next sleep would be none";
    receive(*b_, inbox, i + 1);
  }
  EXPECT_EQ(a_->counters().system_calls, before + 6) << "two for each sleep";
  background.join();
  EXPECT_FALSE(background_woken);

  queue(*a_, path(1, 2), 3);
  a_->flush();
  EXPECT_EQ(a_->counters().system_calls, before + 6) << "nobody was asleep";
  EXPECT_FALSE(b_->expect_packets(true)) << "the packet came before";
}

TEST_F(ShmPortTest, SendsToItself) { EXPECT_TRUE(link(*a_, *a_, path(1, 1))); }

TEST_F(ShmPortTest, WhatTheReceiverHasNotReadYetIsNotOvertakenByTheLink) {
  Inbox inbox;
  std::uint32_t sent = 0;
  const Instant limit = engine::os_now() + 5s;
  while (a_->counters().sent_by_shm == 0 && engine::os_now() < limit) {
    queue(*a_, path(1, 2), sent++);
    a_->flush();
    std::this_thread::sleep_for(1ms);  // Few: the receiver's socket keeps them all.
  }
  for (int i = 0; i < 10; ++i) queue(*a_, path(1, 2), sent++);
  a_->flush();
  ASSERT_GT(a_->counters().sent_packets, a_->counters().sent_by_shm);
  receive(*b_, inbox, sent);
  expect_in_order(inbox);
}

TEST_F(ShmPortTest, PacketsForManagementAndGroupsGoByUdp) {
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  const auto before = a_->counters().sent_by_shm;
  Inbox inbox;
  for (const std::uint32_t qpn : {0u, 1u}) {
    const MutBytes frame = a_->tx_frame();
    std::memset(frame.data(), 0, 64);
    store_be<3>(frame.data() + 5, qpn);
    a_->tx_commit({path(1, 2), 64});
  }
  a_->flush();
  receive(*b_, inbox, 2);
  EXPECT_EQ(a_->counters().sent_by_shm, before);
}

TEST_F(ShmPortTest, OnlyOfALinkIsItKnownWhetherThereIsRoom) {
  using proto::Room;
  constexpr std::uint32_t kQpn = 0x11;
  EXPECT_EQ(a_->room(path(1, 2), kQpn), Room::kUnknown);
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  EXPECT_EQ(a_->room(path(1, 2), kQpn), Room::kEnough);
  b_->mask_packets(true);
  EXPECT_EQ(a_->room(path(1, 2), kQpn), Room::kRead) << "by its program";
  EXPECT_EQ(a_->room(path(1, 2), 1), Room::kUnknown) << "management goes by UDP";
  EXPECT_EQ(a_->room(path(1, 2), 1 << 16 | kQpn), Room::kUnknown) << "another NIC at that address";
  EXPECT_EQ(a_->room(path(1, 3), kQpn), Room::kUnknown);
  ASSERT_TRUE(queue(*a_, path(1, 3), 0));
  EXPECT_EQ(a_->room(path(1, 2), kQpn), Room::kRead) << "also when the last packet went elsewhere";
}

// UC and UD to a peer that does not read: others need not wait for it, and after a while nobody does.
TEST_F(ShmPortTest, WhatNobodyAcknowledgesFillsAPartOfTheRing) {
  using proto::Room;
  constexpr std::uint32_t kQpn = 0x11, kSize = 4000;
  const auto c = open(3);
  ASSERT_TRUE(c && link(*a_, *b_, path(1, 2)) && link(*a_, *c, path(1, 3)));
  std::uint32_t count = 0;
  for (; a_->room(path(1, 2), kQpn) == Room::kEnough; ++count) ASSERT_TRUE(queue(*a_, path(1, 2), count, kSize));
  a_->flush();
  EXPECT_GT(count, engine::kRingBytes / 8 / kSize);
  EXPECT_LT(count, engine::kRingBytes / 2 / kSize);
  EXPECT_EQ(a_->room(path(1, 2), kQpn), Room::kNone);
  EXPECT_EQ(a_->room(path(1, 3), kQpn), Room::kEnough);

  const Instant limit = engine::os_now() + 5s;
  while (a_->room(path(1, 2), kQpn) == Room::kNone && engine::os_now() < limit) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(a_->room(path(1, 2), kQpn), Room::kUnknown);
  for (std::uint32_t i = 0; i < engine::kRingBytes / kSize; ++i) {
    ASSERT_TRUE(queue(*a_, path(1, 2), count + i, kSize)) << "nobody waits for it";
  }
  EXPECT_GT(a_->counters().send_errors, 0u);

  Inbox inbox;
  while (b_->exchange(inbox, 64) != 0) continue;
  EXPECT_GE(inbox.packets.size(), count);
  expect_in_order(inbox);
  EXPECT_EQ(a_->room(path(1, 2), kQpn), Room::kEnough);
}

TEST_F(ShmPortTest, APacketThatWasMadeInTheWrongRingIsNotLost) {
  const auto c = open(3);
  const auto plain = open_udp(4);
  ASSERT_TRUE(c && plain && link(*a_, *b_, path(1, 2)) && link(*a_, *c, path(1, 3)));
  constexpr std::uint32_t kSize = 4000;
  const auto is_whole = [](const Inbox::Packet& packet) {
    const auto fill = static_cast<std::uint8_t>(number_of(packet));
    return packet.bytes.size() == kSize &&
           std::all_of(packet.bytes.begin() + 16, packet.bytes.end(), [fill](auto byte) { return byte == fill; });
  };
  struct Other {
    engine::Port& port;
    proto::Path way;
  };
  for (const auto& [other, way] : {Other{*c, path(1, 3)}, Other{*plain, path(1, 4)}}) {
    ASSERT_TRUE(queue(*a_, way, 99, kSize));
    const std::uint8_t* const own = a_->tx_frame().data();
    Inbox at_b, at_other;
    // Where another way was quicker when it was timed, perhaps as a copy was interrupted, that takes a while.
    for (std::uint32_t row = 0; a_->tx_frame().data() == own; ++row) {
      ASSERT_LT(row, 5000u) << "it is never made in the second one's ring";
      ASSERT_TRUE(queue(*a_, path(1, 2), row, kSize));
      if (row % 64 != 63) continue;
      a_->flush();
      receive(*b_, at_b, row + 1);
    }
    ASSERT_TRUE(queue(*a_, way, 100, kSize));
    a_->flush();
    while (b_->exchange(at_b, 64) != 0) continue;
    receive(other, at_other, 2);
    expect_in_order(at_b);
    EXPECT_EQ(number_of(at_other.packets.at(1)), 100u);
    for (const Inbox* inbox : {&at_b, &at_other}) {
      EXPECT_TRUE(std::all_of(inbox->packets.begin(), inbox->packets.end(), is_whole));
    }
  }
}

TEST_F(ShmPortTest, APeerWithoutSharedMemoryIsReachedByUdp) {
  const auto plain = open_udp(3);
  ASSERT_TRUE(plain);
  EXPECT_FALSE(link(*a_, *plain, path(1, 3), 0, 50ms));
  EXPECT_TRUE(link(*a_, *b_, path(1, 2))) << "the others are not concerned";
}

TEST_F(ShmPortTest, UdpIsHeardBesideABusyLink) {
  const auto plain = open_udp(3);
  ASSERT_TRUE(plain && link(*a_, *b_, path(1, 2)));
  ASSERT_TRUE(queue(*plain, path(3, 2), 7));
  plain->flush();
  Inbox inbox;
  const auto came = [&] {
    for (const Inbox::Packet& packet : inbox.packets) {
      if (packet.path.source == address(3)) return true;
    }
    return false;
  };
  const Instant limit = engine::os_now() + 5s;
  while (!came() && engine::os_now() < limit) {
    queue(*a_, path(1, 2), 0);
    a_->flush();
    inbox.packets.clear();
    b_->exchange(inbox, 64);
  }
  EXPECT_TRUE(came());
}

TEST_F(ShmPortTest, WhoLooksWithoutSleepingHearsUdpToo) {
  const auto plain = open_udp(3);
  ASSERT_TRUE(plain && link(*a_, *b_, path(1, 2)));
  Inbox inbox;
  while (b_->wait(engine::os_now() + 20ms)) b_->exchange(inbox, 64);  // Late news.
  ASSERT_TRUE(queue(*plain, path(3, 2), 7));
  plain->flush();
  const Instant limit = engine::os_now() + 5s;
  while (!b_->wait(engine::os_now()) && engine::os_now() < limit) continue;
  EXPECT_LT(engine::os_now(), limit);
  inbox.packets.clear();
  receive(*b_, inbox, 1);
}

TEST_F(ShmPortTest, WhoOnlySendsByARingSeldomLooksAtTheSockets) {
  const auto plain = open_udp(3);
  ASSERT_TRUE(plain && link(*a_, *b_, path(1, 2)));
  ASSERT_EQ(a_->links_in(), 0u);
  const auto before = a_->counters().system_calls;
  constexpr std::uint64_t kTurns = 1000;
  Inbox inbox;
  for (std::uint64_t i = 0; i < kTurns; ++i) a_->exchange(inbox, 64);
  EXPECT_LT(a_->counters().system_calls - before, kTurns / 4);
  EXPECT_TRUE(inbox.packets.empty());
  ASSERT_TRUE(queue(*plain, path(3, 1), 7));
  plain->flush();
  receive(*a_, inbox, 1);
  ASSERT_THAT(inbox.packets, SizeIs(1));
  EXPECT_EQ(inbox.packets[0].path.source, address(3));
}

TEST_F(ShmPortTest, AFullRingHoldsTheSenderBackAndLosesNothing) {
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  constexpr std::uint32_t kPackets = 20'000;
  std::thread sender([this] {
    Inbox nothing;
    for (std::uint32_t i = 0; i < kPackets;) {
      if (queue(*a_, path(1, 2), i, proto::kMaxPacketSize)) {
        ++i;
      } else {
        // A thread that sleeps looks again soon, though no packet wakes it.
        a_->exchange(nothing, 64);
        a_->wait(engine::os_now() + 5s);
      }
    }
    a_->flush();
  });
  Inbox inbox;
  const Instant limit = engine::os_now() + 10s;
  std::uint32_t received = 0;
  while (received < kPackets && engine::os_now() < limit) {
    inbox.packets.clear();
    b_->exchange(inbox, 64);
    for (const Inbox::Packet& packet : inbox.packets) EXPECT_EQ(number_of(packet), received++);
  }
  sender.join();
  EXPECT_EQ(received, kPackets);
  EXPECT_EQ(a_->counters().send_errors, 0u);
}

TEST_F(ShmPortTest, AReaderThatHasStoppedLosesPacketsAndDisturbsNobody) {
  const auto c = open(3);
  ASSERT_TRUE(c && link(*a_, *b_, path(1, 2)) && link(*a_, *c, path(1, 3)));
  const std::size_t room = engine::kRingBytes / engine::kRecordMax;
  const std::uint64_t before = a_->counters().sent_by_shm;
  Duration held{};
  for (std::uint32_t i = 0; i < 2 * room; ++i) {
    const Instant begin = engine::os_now();
    while (!queue(*a_, path(1, 2), i, proto::kMaxPacketSize)) ASSERT_LT(engine::os_now() - begin, 5s) << i;
    held = std::max(held, engine::os_now() - begin);
  }
  a_->flush();
  EXPECT_GE(held, 10ms) << "it may only be slow";
  const std::uint64_t written = a_->counters().sent_by_shm - before;
  EXPECT_LE(written, room);
  EXPECT_EQ(a_->counters().send_errors, 2 * room - written);
  Inbox inbox;
  ASSERT_TRUE(queue(*a_, path(1, 3), 0)) << "nobody waits for it again";
  a_->flush();
  receive(*c, inbox, 1);
  inbox.packets.clear();
  receive(*b_, inbox, written);
  expect_in_order(inbox);
  EXPECT_TRUE(link(*a_, *b_, path(1, 2))) << "there is room again";
}

TEST_F(ShmPortTest, AFullRingMayEnd) {
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  while (queue(*a_, path(1, 2), 0, proto::kMaxPacketSize)) continue;
  b_.reset();
  EXPECT_TRUE(unlinks(*a_, path(1, 2)));
  const auto c = open(3);
  ASSERT_TRUE(c);
  EXPECT_TRUE(link(*a_, *c, path(1, 3))) << "nobody waits for it";
}

TEST_F(ShmPortTest, WhoHadToWaitForAPeerThatIsGoneSleepsAgain) {
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  while (queue(*a_, path(1, 2), 0, proto::kMaxPacketSize)) continue;
  b_.reset();
  Inbox nothing;
  const Instant limit = engine::os_now() + 5s;
  // No frame is asked for meanwhile: that would tell it that its patience has ended.
  const auto has_link = [&] { return a_->room(path(1, 2), 0x11) != proto::Room::kUnknown; };
  while (has_link() && engine::os_now() < limit) a_->exchange(nothing, 64);
  ASSERT_FALSE(has_link());
  EXPECT_THAT(a_->info().by_shm, testing::ElementsAre("127.0.0.2")) << "as the counters";
  while (a_->wait(engine::os_now() + 1ms)) a_->exchange(nothing, 64);  // Late news.
  const Instant begin = engine::os_now();
  EXPECT_FALSE(a_->wait(begin + 50ms));
  EXPECT_GE(engine::os_now() - begin, 50ms) << "or it looks for room for ever";
}

TEST_F(ShmPortTest, ASleeperIsRungOnce) {
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> woke = false;
    std::thread sleeper([&] { woke = b_->wait(engine::os_now() + 5s); });
    const auto calls = a_->counters().system_calls;
    Inbox inbox;
    // It may not sleep yet: then the packet is there when it wants to.
    queue(*a_, path(1, 2), 0);
    a_->flush();
    sleeper.join();
    EXPECT_TRUE(woke);
    EXPECT_LE(a_->counters().system_calls, calls + 2);
    receive(*b_, inbox, 1);
  }
}

TEST_F(ShmPortTest, PacketsThatAreMaskedWakeNobody) {
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  Inbox inbox;
  while (b_->wait(engine::os_now() + 20ms)) b_->exchange(inbox, 64);  // Late news.
  b_->mask_packets(true);
  const auto calls = a_->counters().system_calls;
  std::atomic<bool> ended = false;
  std::thread sleeper([&] {
    b_->wait(engine::os_now() + 5s);
    ended = true;
  });
  std::this_thread::sleep_for(20ms);
  queue(*a_, path(1, 2), 0);
  a_->flush();
  EXPECT_EQ(a_->counters().system_calls, calls);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(ended);
  const Instant unmasked = engine::os_now();
  b_->mask_packets(false);  // There is one: the sleeper has to know.
  sleeper.join();
  EXPECT_LT(engine::os_now() - unmasked, 2s);
  inbox.packets.clear();
  receive(*b_, inbox, 1);
}

TEST_F(ShmPortTest, ManyPacketsBetweenTwoThreadsThatSleepNowAndThen) {
  ASSERT_TRUE(link(*a_, *b_, path(1, 2)));
  ASSERT_TRUE(link(*b_, *a_, path(2, 1)));
  constexpr std::uint32_t kPackets = 20'000, kAhead = 32;
  std::atomic<std::uint32_t> taken = 0;
  std::thread receiver([&] {
    Inbox inbox;
    for (std::uint32_t next = 0; next < kPackets;) {
      if (b_->exchange(inbox, 16) == 0 && !b_->wait(engine::os_now() + 5s)) return;
      for (const Inbox::Packet& packet : inbox.packets) {
        if (number_of(packet) != next++) return;
        queue(*b_, path(2, 1), next);
      }
      if (!inbox.packets.empty()) b_->flush();
      inbox.packets.clear();
      taken = next;
    }
  });
  Inbox acks;
  std::uint32_t acked = 0;
  for (std::uint32_t sent = 0; acked < kPackets;) {
    for (; sent < kPackets && sent < acked + kAhead; ++sent) queue(*a_, path(1, 2), sent, 64 + sent % 1000);
    if (a_->exchange(acks, 16) == 0 && !a_->wait(engine::os_now() + 5s)) break;
    acked += static_cast<std::uint32_t>(acks.packets.size());
    acks.packets.clear();
  }
  receiver.join();
  EXPECT_EQ(taken, kPackets);
  EXPECT_EQ(acked, kPackets);
}

}  // namespace
}  // namespace uroce::test
