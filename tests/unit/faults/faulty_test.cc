// SPDX-License-Identifier: Apache-2.0
// A NIC behind faults, in virtual time: what its peer gets, and when.
#include "engine/faults/faulty.h"

#include <gmock/gmock.h>

#include "engine/sim/world.h"
#include "tests/support/echo_nic.h"

namespace uroce::test {
namespace {

using namespace std::chrono_literals;
using namespace engine::faults;
using engine::sim::World;
using testing::ElementsAre;

/// `a` sends to `b` through faults; the simulated wire itself is perfect.
class FaultyTest : public testing::Test {
 protected:
  void start(std::string_view text) {
    const auto spec = parse_faults(text);
    ASSERT_TRUE(spec) << spec.error();
    const Witness witness{
        .sent = [this](const std::string& comment) { heard.push_back("sent " + comment); },
        .lost = [this](const proto::Path&, Bytes, const std::string& comment) { heard.push_back("lost " + comment); },
        .reason = reason};
    faulty.emplace(
        a, *spec, world.now(),
        [this](const TimedFault& fault) {
          acts.push_back(fault.kind);
          return has_qp || fault.qp.value == 0;
        },
        witness);
    node_a = world.attach(*faulty, {gid_a});
    node_b = world.attach(b, {gid_b});
    b.answers = false;
  }
  void post(std::uint64_t tag) {
    a.post(gid_b, tag);
    world.kick(node_a);
  }
  std::vector<std::uint64_t> arrived() const {
    std::vector<std::uint64_t> tags;
    for (const auto& bytes : b.received) {
      std::uint64_t tag = 0;
      std::memcpy(&tag, bytes.data() + 8, sizeof tag);
      tags.push_back(tag);
    }
    return tags;
  }

  const proto::Gid gid_a = proto::Gid::from_v4(10, 0, 0, 1), gid_b = proto::Gid::from_v4(10, 0, 0, 2);
  World world;
  EchoNic a{gid_a}, b{gid_b};
  std::optional<Faulty<EchoNic>> faulty;
  engine::sim::NodeId node_a{}, node_b{};
  std::vector<TimedFault::Kind> acts;
  bool has_qp = true;
  std::vector<std::string> heard;
  std::function<std::string(Bytes)> reason;  ///< What the NIC says; set before start().
};

TEST_F(FaultyTest, WithoutFaultsEverythingPasses) {
  start("");
  for (std::uint64_t tag = 0; tag < 5; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(FaultyTest, TheNthPacketIsLost) {
  start("drop=100%#2");
  for (std::uint64_t tag = 1; tag <= 4; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(1, 3, 4));
  EXPECT_EQ(faulty->counters().of(Kind::kDrop), 1u);
}

TEST_F(FaultyTest, ADuplicateArrivesTwice) {
  start("dup=100%#1");
  post(1);
  post(2);
  world.run_idle();
  EXPECT_THAT(arrived(), testing::UnorderedElementsAre(1, 1, 2));
}

TEST_F(FaultyTest, AReorderedPacketIsOvertakenByThatMany) {
  start("reorder=100%:2#1");
  for (std::uint64_t tag = 1; tag <= 5; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(2, 3, 1, 4, 5));
}

TEST_F(FaultyTest, AReorderedPacketThatNobodyOvertakesGoesOnAllTheSame) {
  start("reorder=100%:2#1");
  post(1);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(1));
}

TEST_F(FaultyTest, ADelayedPacketArrivesLaterAndOthersOvertakeIt) {
  start("delay=1ms@100%#1");
  const Instant begin = world.now();
  post(1);
  post(2);
  world.run_until([&] { return b.received.size() == 2; }, 1s);
  EXPECT_THAT(arrived(), ElementsAre(2, 1));
  EXPECT_GE(world.now() - begin, 1ms);
  EXPECT_LT(world.now() - begin, 1100us);
}

TEST_F(FaultyTest, WhatIsReceivedCanBeHitToo) {
  start("rx.drop=100%#1,rx.delay=1ms@100%#2");
  b.answers = true;
  for (std::uint64_t tag = 1; tag <= 3; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(a.replies, ElementsAre(3, 2));
}

TEST_F(FaultyTest, NothingPassesInABlackout) {
  start("blackout=1ms..2ms/10ms");
  for (int i = 0; i < 24; ++i) {
    world.run_for(500us);
    post(static_cast<std::uint64_t>(i));
  }
  world.run_idle();
  // Sent at 0.5 ms, 1 ms, ...: those at 1, 1.5, 11 and 11.5 ms are gone.
  EXPECT_EQ(b.received.size(), 20u);
  EXPECT_EQ(faulty->counters().blackout, 4u);
}

TEST_F(FaultyTest, FaultsOfTheNicComeInTheirTime) {
  using What = TimedFault::Kind;
  start("port=down@1ms..2ms,qp_fatal=qp:0x11@1500us,cq_overflow=qp:0x11@3ms,device_fatal=4ms");
  world.kick(node_a);
  EXPECT_TRUE(acts.empty());
  world.run_for(1ms);
  EXPECT_THAT(acts, ElementsAre(What::kPortDown));
  EXPECT_TRUE(faulty->is_port_down(world.now()));
  world.run_idle();
  EXPECT_THAT(acts, ElementsAre(What::kPortDown, What::kQpFatal, What::kPortUp, What::kCqOverflow, What::kDeviceFatal));
  EXPECT_EQ(faulty->counters().events, 5u);
}

TEST_F(FaultyTest, AFaultOfAQpThatIsNotThereDidNotHappen) {
  has_qp = false;
  start("qp_fatal=qp:9th@1ms,port=down@2ms..3ms");
  world.kick(node_a);
  world.run_for(1ms);
  EXPECT_EQ(faulty->counters().events, 0u);
  EXPECT_THAT(faulty->without_effect(), ElementsAre("qp_fatal=qp:9th@1ms found no such QP"));
  world.run_idle();
  EXPECT_EQ(faulty->counters().events, 2u);
  faulty->replace_faults(*parse_faults("cq_overflow=qp:0x99@1ms"), world.now());
  EXPECT_THAT(faulty->without_effect(), ElementsAre());
  world.kick(node_a);
  world.run_idle();
  EXPECT_THAT(faulty->without_effect(), ElementsAre("cq_overflow=qp:0x99@1ms found no such QP"));
}

TEST_F(FaultyTest, WhatIsHeldBackInReceptionIsLostInABlackout) {
  start("rx.delay=1ms@#1..2,blackout=500us..1500us,port=down@10500us..12ms");
  b.answers = true;
  post(1);
  world.run_for(10ms);
  EXPECT_THAT(a.replies, ElementsAre());
  EXPECT_EQ(faulty->counters().blackout, 1u);
  post(2);
  world.run_idle();
  EXPECT_THAT(a.replies, ElementsAre());
  EXPECT_EQ(faulty->counters().blackout, 2u);
}

TEST(FaultSchedule, TheFirstFatalErrorOfADeviceIsNotPutOffByALaterOne) {
  Schedule schedule(*parse_faults("device_fatal=1s"), Instant{});
  schedule.add(*parse_faults("device_fatal=1h"), Instant{});
  EXPECT_EQ(schedule.next(), Instant{1s});
  schedule.add(*parse_faults("device_fatal=1ms"), Instant{});
  EXPECT_LT(schedule.next(), Instant{2ms});
}

TEST(FaultSchedule, TellsWhenThePortChangesAndNotWhenAnIntervalInsideAnotherEnds) {
  using What = TimedFault::Kind;
  const auto spec = parse_faults("port=down@1ms..9ms,port=down@2ms..4ms,port=down@8ms..10ms");
  ASSERT_TRUE(spec);
  Schedule schedule(*spec, Instant{});
  std::vector<std::pair<What, Instant>> told;
  for (Duration at{}; at <= 20ms; at += 1ms) {
    schedule.run(Instant{at}, [&](const TimedFault& fault) { told.emplace_back(fault.kind, Instant{at}); });
  }
  EXPECT_THAT(told, ElementsAre(std::pair(What::kPortDown, Instant{1ms}), std::pair(What::kPortUp, Instant{10ms})));
}

TEST(FaultSchedule, AProcessThatWasStoppedForLongIsNotToldOfEveryPeriodThatItMissed) {
  using What = TimedFault::Kind;
  const auto spec = parse_faults("port=down@1ms..2ms/3ms,port=down@5ms..6ms,qp_fatal=qp:0x11@7ms");
  ASSERT_TRUE(spec);
  Schedule schedule(*spec, Instant{});
  std::vector<What> told;
  const auto tell = [&](const TimedFault& fault) { told.push_back(fault.kind); };
  schedule.run(Instant{1h}, tell);
  EXPECT_GE(std::count(told.begin(), told.end(), What::kPortUp), 1);
  EXPECT_EQ(std::count(told.begin(), told.end(), What::kQpFatal), 1) << "what happens once is not forgotten";
  EXPECT_LT(told.size(), 100u) << "memory for events does not grow with the time that was missed";
  EXPECT_EQ(told.back(), What::kPortUp);
  EXPECT_EQ(schedule.next(), Instant{1h + 1ms}) << "and goes on from now";
}

TEST(FaultSchedule, IntervalsThatAreAddedOneAfterTheOtherAreToldOnceEach) {
  const auto spec = parse_faults("port=down@0s..1ms");
  ASSERT_TRUE(spec);
  Schedule schedule(FaultSpec{}, Instant{});
  int added = 0, told = 0;
  for (Duration at{1ms}; at <= 100ms; at += 1ms) {
    schedule.run(Instant{at}, [&](const TimedFault&) { ++told; });
    if (schedule.next()) continue;
    schedule.add(*spec, Instant{at});
    ++added;
  }
  EXPECT_GT(added, 20);
  EXPECT_EQ(told, 2 * added - (schedule.next() ? 2 : 0)) << "that it is down, and that it is up";
}

TEST_F(FaultyTest, AfterAFatalErrorTheNicIsSilent) {
  start("device_fatal=1ms");
  a.set_timer(world.now() + 3ms);
  post(1);
  world.run_for(2ms);
  post(2);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(1));
  EXPECT_EQ(a.timeouts, 0);
}

TEST_F(FaultyTest, WhatIsHeldBackGoesOutAtTheEnd) {
  start("delay=10s");
  for (std::uint64_t tag = 1; tag <= 3; ++tag) post(tag);
  world.run_for(1ms);
  EXPECT_THAT(arrived(), ElementsAre());
  faulty->release_held();
  world.kick(node_a);
  world.run_for(1ms);
  EXPECT_THAT(arrived(), ElementsAre(1, 2, 3));
}

TEST_F(FaultyTest, WhatIsLateMeetsTheBlackoutToo) {
  start("delay=1ms,blackout=500us..2ms");
  post(1);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre());
  EXPECT_EQ(faulty->counters().blackout, 1u);
  EXPECT_THAT(heard, ElementsAre("lost uroce: dropped by blackout=500us..2ms"));
}

TEST_F(FaultyTest, AWitnessHearsWhatHappensToWhichPacket) {
  start("drop=#1,dup=#2,delay=1ms@100%#4,ecn=100%#4");
  for (std::uint64_t tag = 1; tag <= 4; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(heard, ElementsAre("lost uroce: dropped by drop=#1", "sent uroce: duplicated by dup=#2",
                                 "sent uroce: duplicated by dup=#2",
                                 "sent uroce: delayed by delay=1ms@100%#4, marked CE by ecn=100%#4, 1000 us late"));
  EXPECT_THAT(arrived(), ElementsAre(2, 2, 3, 4));
}

/// What the NIC says of a packet stays with it, wherever the packet goes.
TEST_F(FaultyTest, AWitnessHearsTheNicsReasonToo) {
  int asked = 0;
  reason = [&asked](Bytes) { return ++asked % 2 == 1 ? "NIC: " + std::to_string(asked) : std::string(); };
  start("drop=#1,dup=#2..3,delay=1ms@100%#4..5");
  for (std::uint64_t tag = 1; tag <= 6; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(heard, ElementsAre("lost uroce: dropped by drop=#1; NIC: 1", "sent uroce: duplicated by dup=#2..3",
                                 "sent uroce: duplicated by dup=#2..3", "sent uroce: duplicated by dup=#2..3; NIC: 3",
                                 "sent uroce: duplicated by dup=#2..3; NIC: 3",
                                 "sent uroce: delayed by delay=1ms@100%#4..5, 1000 us late",
                                 "sent uroce: delayed by delay=1ms@100%#4..5, 1000 us late; NIC: 5"));
  EXPECT_EQ(asked, 5) << "not about the packet without a fault";
}

TEST_F(FaultyTest, NewFaultsCountFromTheChange) {
  start("");
  post(1);
  world.run_idle();
  faulty->replace_faults(*parse_faults("drop=#2"), world.now());
  for (std::uint64_t tag = 2; tag <= 4; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(1, 2, 4));
  faulty->replace_faults(*parse_faults(""), world.now());
  for (std::uint64_t tag = 5; tag <= 6; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(1, 2, 4, 5, 6));
  EXPECT_EQ(faulty->counters().of(Kind::kDrop), 1u) << "what has happened stays counted";
}

TEST_F(FaultyTest, AddedFaultsLeaveTheOthersAsTheyAre) {
  start("drop=#3");
  post(1);
  world.run_idle();
  faulty->add_faults(*parse_faults("drop=#1"), world.now());
  for (std::uint64_t tag = 2; tag <= 4; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(1, 4)) << "2 is the next, 3 is the third";
  for (int i = 0; i < 100; ++i) faulty->add_faults(*parse_faults("drop=#1"), world.now());
  for (std::uint64_t tag = 5; tag <= 6; ++tag) post(tag);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(1, 4, 6)) << "one packet, though many times";
}

TEST_F(FaultyTest, WhatIsHeldBackArrivesAlsoWithoutTheFault) {
  start("delay=1ms");
  post(1);
  world.run_for(100us);
  faulty->replace_faults(*parse_faults(""), world.now());
  post(2);
  world.run_idle();
  EXPECT_THAT(arrived(), ElementsAre(2, 1));
}

TEST_F(FaultyTest, TimesCountFromTheChange) {
  start("");
  world.run_for(5ms);
  faulty->add_faults(*parse_faults("blackout=0s..1ms,port=down@2ms..3ms,qp_fatal=qp:1st@0s"), world.now());
  faulty->on_timeout(world.now());
  post(1);
  world.run_for(1500us);
  post(2);
  world.run_for(1ms);
  EXPECT_THAT(acts, ElementsAre(TimedFault::Kind::kQpFatal, TimedFault::Kind::kPortDown));
  EXPECT_TRUE(faulty->is_port_down(world.now()));
  post(3);
  world.run_for(100us);
  faulty->replace_faults(*parse_faults("device_fatal=1ms"), world.now());
  EXPECT_EQ(acts.back(), TimedFault::Kind::kPortUp) << "nothing keeps it down any longer";
  post(4);
  world.run_for(2ms);
  post(5);
  world.run_for(1ms);
  EXPECT_THAT(arrived(), ElementsAre(2, 4));
  EXPECT_EQ(acts.back(), TimedFault::Kind::kDeviceFatal);
}

TEST_F(FaultyTest, AFaultAtTheVeryMomentOfAnotherIsCarriedOut) {
  start("");
  for (int i = 1; i <= 3; ++i) {
    faulty->add_faults(*parse_faults("qp_fatal=qp:1st@0s"), world.now());
    world.run_for(1ms);
    faulty->add_faults(*parse_faults("qp_fatal=qp:2nd@0s"), world.now());
    faulty->on_timeout(world.now());
  }
  world.run_for(1ms);
  EXPECT_EQ(acts.size(), 6u);
}

TEST_F(FaultyTest, WhatIsForeseenHappens) {
  start("rx.drop=50%");
  int dropped = 0;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const std::vector<std::uint8_t> bytes(32, static_cast<std::uint8_t>(i));
    const std::size_t before = a.received.size();
    const std::string comment = faulty->foresee({.path = {}, .payload = bytes}, world.now());
    faulty->on_datagram({.path = {}, .payload = bytes}, world.now());
    EXPECT_EQ(a.received.size() - before, comment.empty() ? 1u : 0u);
    dropped += comment.empty() ? 0 : 1;
  }
  EXPECT_GT(dropped, 0);
  EXPECT_LT(dropped, 40);
  EXPECT_EQ(faulty->counters().of(Kind::kDrop), static_cast<std::uint64_t>(dropped)) << "counted once";
}

TEST_F(FaultyTest, AFloodOfLatePacketsTakesBoundedMemoryInEitherDirection) {
  start("delay=3600s,rx.delay=3600s");
  constexpr std::uint64_t kFlood = 3 * HeldPackets::kMost;
  const std::vector<std::uint8_t> stranger(64, 0x55);
  for (std::uint64_t tag = 0; tag < kFlood; ++tag) {
    post(tag);
    faulty->on_datagram({.path = {}, .payload = stranger}, world.now());
  }
  world.run_for(1ms);
  EXPECT_EQ(faulty->counters().overfull, 2 * (kFlood - HeldPackets::kMost));
  ASSERT_EQ(heard.size(), kFlood - HeldPackets::kMost);
  EXPECT_EQ(heard.back(), "lost uroce: dropped because too many packets are held back");
  faulty->release_held();
  world.kick(node_a);
  world.run_for(10s);
  EXPECT_EQ(b.received.size(), HeldPackets::kMost);
}

TEST_F(FaultyTest, ADuplicateForWhichThereIsNoRoomIsNotMade) {
  start("delay=3600s@100%#1..16384,dup=100%#16385");
  for (std::uint64_t tag = 0; tag <= HeldPackets::kMost; ++tag) post(tag);
  world.run_for(1ms);
  EXPECT_THAT(arrived(), ElementsAre(HeldPackets::kMost));
  EXPECT_EQ(faulty->counters().overfull, 1u);
}

TEST(FaultHeldPackets, AreOvertakenByTheirOwnStreamOnly) {
  HeldPackets held;
  ASSERT_TRUE(held.hold(Instant{10ms}, {.path = {}, .bytes = {1}, .since = {}, .stream = 1, .distance = 1}));
  held.overtake(2);
  EXPECT_FALSE(held.take_due(Instant{1ms}).has_value());
  held.overtake(1);
  EXPECT_TRUE(held.take_due(Instant{1ms}).has_value());
  EXPECT_EQ(held.next(), std::nullopt);
}

TEST(FaultHeldPackets, GoOnInTheOrderOfTheirTimes) {
  HeldPackets held;
  for (const int ms : {3, 1, 2}) {
    ASSERT_TRUE(
        held.hold(Instant{Duration(ms * 1ms)}, {.path = {}, .bytes = {static_cast<std::uint8_t>(ms)}, .since = {}}));
  }
  EXPECT_EQ(held.next(), Instant{1ms});
  for (const int ms : {1, 2, 3}) EXPECT_EQ(held.take_due(Instant{1s})->bytes.front(), ms);
}

TEST(FaultHeldPackets, OfOneTimeGoOnInTheOrderInWhichTheyCame) {
  constexpr int kCount = 100;
  const auto fill = [](HeldPackets& held, auto until) {
    for (int i = 0; i < kCount; ++i) {
      ASSERT_TRUE(held.hold(until(i), {.path = {}, .bytes = {static_cast<std::uint8_t>(i)}, .since = {}}));
    }
  };
  const auto expect_in_order = [](HeldPackets& held, Instant now) {
    for (int i = 0; i < kCount; ++i) {
      const auto packet = held.take_due(now);
      ASSERT_TRUE(packet.has_value());
      ASSERT_EQ(packet->bytes.front(), i);
    }
    EXPECT_FALSE(held.take_due(now).has_value());
  };
  HeldPackets held;
  for (int round = 0; round < 2; ++round) {  // Places are used again.
    fill(held, [](int) { return Instant{1ms}; });
    EXPECT_FALSE(held.take_due(Instant{999us}).has_value());
    expect_in_order(held, Instant{1ms});
  }
  fill(held, [](int i) { return Instant{Duration(1s - i * 1ms)}; });
  held.hurry();
  expect_in_order(held, Instant{});
}

}  // namespace
}  // namespace uroce::test
