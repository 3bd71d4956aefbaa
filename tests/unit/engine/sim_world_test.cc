// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/sim/world.h"
#include "proto/icrc.h"
#include "tests/support/echo_nic.h"

namespace uroce::engine::sim {
namespace {

using namespace std::chrono_literals;
using test::EchoNic;
using testing::ElementsAre;
using testing::SizeIs;

const proto::Gid kA = proto::Gid::from_v4(10, 0, 0, 1);
const proto::Gid kB = proto::Gid::from_v4(10, 0, 0, 2);
const proto::Gid kNobody = proto::Gid::from_v4(10, 0, 0, 3);

static_assert(SansIoNic<EchoNic>);

struct Pair {
  explicit Pair(WorldConfig config = {}) : world(std::move(config)) {}
  void post(std::uint64_t tag) {
    a.post(kB, tag);
    world.kick(id_a);
  }
  EchoNic a{kA}, b{kB};
  World world;
  NodeId id_a = world.attach(a, {kA});
  NodeId id_b = world.attach(b, {kB});
};

TEST(SimWorld, DeliversAfterTheDelayOfTheLink) {
  Pair pair({.link = {.delay = 7us}});
  const Instant start = pair.world.now();
  EXPECT_GT(start, Instant{});
  pair.post(42);
  EXPECT_EQ(pair.world.run_idle(), Outcome::kDone);
  EXPECT_THAT(pair.a.replies, ElementsAre(42));
  EXPECT_EQ(pair.b.last_activity, start + 7us);
  EXPECT_EQ(pair.a.last_activity, start + 14us);
  EXPECT_EQ(pair.b.last_path.source, kA);
  EXPECT_EQ(pair.world.counters().sent, 2u);
  EXPECT_EQ(pair.world.counters().delivered, 2u);
}

TEST(SimWorld, RunsTimersAtTheirDeadlineAndTakesAnEarlierOne) {
  Pair pair;
  const Instant start = pair.world.now();
  pair.a.set_timer(start + 5ms);
  pair.world.kick(pair.id_a);
  pair.a.set_timer(start + 2ms);
  pair.world.kick(pair.id_a);
  EXPECT_EQ(pair.world.run_idle(), Outcome::kDone);
  EXPECT_EQ(pair.a.timeouts, 1);
  EXPECT_EQ(pair.a.last_activity, start + 2ms);
  EXPECT_EQ(pair.world.now(), start + 2ms) << "the stale timer at 5 ms must not count";
  EXPECT_EQ(pair.world.counters().timeouts, 1u);
}

TEST(SimWorld, FilterDropsDuplicatesDelaysAndAlters) {
  Pair pair;
  pair.world.set_filter([](Packet& packet, Instant) {
    switch (packet.number) {
      case 0:
        return Verdict::drop();
      case 1:
        return Verdict::duplicate();
      case 2:
        return Verdict::delay(1ms);
      case 3:
        packet.bytes[0] = 9;
        packet.bytes = packet.bytes.first(12);
        packet.path.tclass = 3;
        return Verdict::pass();
      default:
        return Verdict::pass();
    }
  });
  pair.b.answers = false;
  for (std::uint64_t tag = 0; tag < 5; ++tag) pair.post(tag);
  EXPECT_EQ(pair.world.run_idle(), Outcome::kDone);
  ASSERT_THAT(pair.b.received, SizeIs(5));
  EXPECT_EQ(pair.b.received[0][8], 1);
  EXPECT_EQ(pair.b.received[1][8], 1);
  EXPECT_THAT(pair.b.received[2], SizeIs(12));
  EXPECT_EQ(pair.b.received[2][0], 9);
  EXPECT_EQ(pair.b.received[3][8], 4);
  EXPECT_EQ(pair.b.received[4][8], 2) << "the delayed one is overtaken";
  EXPECT_EQ(pair.world.counters().lost, 1u);
}

TEST(SimWorld, TapSeesEveryPacketOnItsWay) {
  Pair pair;
  std::string seen;
  pair.world.set_tap([&](TapPoint point, const Packet& packet, Instant) {
    seen += "SDLU"[static_cast<int>(point)] + std::to_string(packet.number) + ' ';
  });
  pair.world.set_filter([](Packet& p, Instant) { return p.number == 1 ? Verdict::drop() : Verdict::pass(); });
  pair.post(1);
  pair.world.run_idle();
  pair.a.post(kNobody, 2);
  pair.world.kick(pair.id_a);
  pair.world.run_idle();
  EXPECT_EQ(seen, "S0 D0 S1 L1 S2 U2 ");
}

TEST(SimWorld, DetachedNodesNeitherReceiveNorTick) {
  Pair pair;
  pair.b.set_timer(pair.world.now() + 1ms);
  pair.world.kick(pair.id_b);
  pair.post(1);
  pair.world.detach(pair.id_b);
  pair.post(2);
  EXPECT_EQ(pair.world.run_idle(), Outcome::kDone);
  EXPECT_THAT(pair.b.received, SizeIs(0));
  EXPECT_EQ(pair.b.timeouts, 0);
  EXPECT_EQ(pair.world.counters().unroutable, 2u);
}

TEST(SimWorld, RunUntilSaysWhyItStopped) {
  Pair pair;
  const Instant start = pair.world.now();
  EXPECT_EQ(pair.world.run_until([] { return true; }, 1ms), Outcome::kDone);
  EXPECT_EQ(pair.world.run_until([] { return false; }, 1ms), Outcome::kStuck);
  pair.a.set_timer(start + 1s);
  pair.world.kick(pair.id_a);
  EXPECT_EQ(pair.world.run_until([&] { return pair.a.timeouts == 1; }, 1ms), Outcome::kTimeLimit);
  EXPECT_EQ(pair.world.now(), start + 1ms);
  EXPECT_EQ(pair.world.run_for(1ms), Outcome::kDone);
  EXPECT_EQ(pair.world.now(), start + 2ms);
  EXPECT_EQ(pair.world.run_until([&] { return pair.a.timeouts == 1; }, 2s), Outcome::kDone);
  EXPECT_EQ(pair.world.now(), start + 1s);
}

// Two NICs that answer each other's answers, and one that never stops sending, must end a run, not hang it.
struct Chatterbox {
  void on_datagram(const proto::Datagram&, Instant) {}
  void on_timeout(Instant) {}
  std::optional<proto::Transmit> poll_transmit(Instant, MutBytes) {
    return proto::Transmit{{.source = kA, .destination = kNobody}, 16};
  }
  std::optional<Instant> next_deadline() const { return std::nullopt; }
};
struct StuckTimer {
  void on_datagram(const proto::Datagram&, Instant) {}
  void on_timeout(Instant) {}
  std::optional<proto::Transmit> poll_transmit(Instant, MutBytes) { return std::nullopt; }
  std::optional<Instant> next_deadline() const { return Instant{}; }
};

template <class N>
Outcome run_misbehaving() {
  N nic;
  World world({.max_events = 1000});
  world.kick(world.attach(nic, {kA}));
  return world.run_idle();
}

TEST(SimWorld, BoundsTheNumberOfEvents) {
  EXPECT_EQ(run_misbehaving<Chatterbox>(), Outcome::kEventLimit);
  EXPECT_EQ(run_misbehaving<StuckTimer>(), Outcome::kEventLimit);
}

TEST(SimWorld, CallbacksMayPostAndKick) {
  Pair pair;
  int steps = 0;
  pair.world.set_on_step([&](NodeId id) {
    if (id == pair.id_a && ++steps < 5) pair.post(static_cast<std::uint64_t>(steps));
  });
  pair.world.after(1ms, [&] { pair.post(0); });
  EXPECT_EQ(pair.world.run_idle(), Outcome::kDone);
  EXPECT_THAT(pair.a.replies, ElementsAre(0, 1, 2, 3, 4));
}

/// Everything that a run with heavy impairments does, as text.
std::string trace(std::uint64_t seed, double loss) {
  Pair pair(
      {.seed = seed,
       .link = {.impairments = {
                    .loss = loss, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.1, .ecn_mark = 0.1, .jitter = 3us}}});
  std::string log;
  pair.world.set_tap([&](TapPoint point, const Packet& packet, Instant now) {
    log += std::to_string(static_cast<int>(point)) + ' ' + std::to_string(packet.number) + ' ' +
           std::to_string(now.time_since_epoch().count()) + ' ' +
           std::string(packet.bytes.begin(), packet.bytes.end()) + '\n';
  });
  for (std::uint64_t tag = 0; tag < 200; ++tag) pair.post(tag);
  EXPECT_EQ(pair.world.run_idle(), Outcome::kDone);
  EXPECT_GT(pair.world.counters().lost, 0u);
  return log;
}

TEST(SimWorld, SameSeedSameRun) {
  EXPECT_EQ(trace(3, 0.1), trace(3, 0.1));
  EXPECT_NE(trace(3, 0.1), trace(4, 0.1));
}

TEST(SimWorld, ImpairmentsHappenAboutAsOftenAsAsked) {
  Pair pair({.link = {.impairments = {.loss = 0.25}}});
  pair.b.answers = false;
  for (std::uint64_t tag = 0; tag < 4000; ++tag) pair.post(tag);
  pair.world.run_idle();
  EXPECT_NEAR(static_cast<double>(pair.world.counters().lost), 1000, 150);
}

TEST(SimWorld, BurstsTakePacketsInARow) {
  Pair pair({.link = {.impairments = {.burst = 0.02, .burst_packets = 10}}});
  pair.b.answers = false;
  std::string lost;
  pair.world.set_tap([&](TapPoint point, const Packet&, Instant) {
    if (point == TapPoint::kSent) lost += '.';
    if (point == TapPoint::kLost) lost.back() = 'x';
  });
  for (std::uint64_t tag = 0; tag < 4000; ++tag) pair.post(tag);
  pair.world.run_idle();
  EXPECT_NEAR(static_cast<double>(pair.world.counters().lost), 4000 * 0.1, 120) << "one in 50 loses 5.5 on average";
  EXPECT_NE(lost.find("xxxxx"), std::string::npos);
}

TEST(SimWorld, NoBurstOutlivesTheImpairments) {
  Pair pair({.link = {.impairments = {.burst = 1, .burst_packets = 1000}}});
  pair.b.answers = false;
  pair.post(0);
  pair.world.run_idle();
  ASSERT_EQ(pair.world.counters().lost, 1u);
  pair.world.link().config().impairments = {};
  for (std::uint64_t tag = 1; tag < 100; ++tag) pair.post(tag);
  pair.world.run_idle();
  EXPECT_EQ(pair.world.counters().lost, 1u);
}

TEST(SimWorld, OutagesHaveABeginningAnEndAndADirection) {
  const WorldConfig blank;
  WorldConfig config;
  config.link.delay = 1us;
  config.link.outages = {{blank.start + 10us, blank.start + 20us, 0, 1}, {blank.start + 30us, blank.start + 40us}};
  Pair pair(config);
  pair.a.answers = pair.b.answers = false;
  std::string seen;
  for (int t = 0; t < 50; t += 5) {
    const auto before = pair.world.counters().lost;
    pair.a.post(kB, 1);
    pair.world.kick(pair.id_a);
    const auto there = pair.world.counters().lost;
    pair.b.post(kA, 1);
    pair.world.kick(pair.id_b);
    seen += there != before ? 'x' : '.';
    seen += pair.world.counters().lost != there ? 'x' : '.';
    pair.world.run_for(5us);
  }
  EXPECT_EQ(seen, "....x.x.....xxxx....") << "a to b from 10 to 20 us, both from 30 to 40 us";
}

TEST(SimWorld, AQueueThatIsFullLosesPackets) {
  Pair pair({.link = {.delay = 1us, .spacing = 1us, .queue = 10}});
  pair.b.answers = false;
  const Instant start = pair.world.now();
  for (std::uint64_t tag = 0; tag < 50; ++tag) pair.post(tag);
  EXPECT_EQ(pair.world.link().empty_at(), start + 11us);
  pair.world.run_idle();
  EXPECT_EQ(pair.b.received.size(), 11u);
  EXPECT_EQ(pair.b.last_activity, start + 11us) << "one every microsecond";
}

TEST(SimWorld, DamageIsNeverTakenForAnotherIdentification) {
  Pair pair({.link = {.impairments = {.corrupt = 1}}});
  pair.world.set_tap([&](TapPoint point, const Packet& packet, Instant) {
    if (point != TapPoint::kDelivered) return;
    EXPECT_TRUE(packet.corrupted);
    const auto check = proto::check_icrc(packet.path, packet.bytes);
    EXPECT_TRUE(!check.ok || check.ip_id == 0);
  });
  for (std::uint64_t tag = 0; tag < 1000; ++tag) pair.post(tag);
  pair.world.run_idle();
}

TEST(SimWorld, JitterAloneKeepsTheOrder) {
  Pair pair({.link = {.impairments = {.jitter = 1ms}}});
  for (std::uint64_t tag = 0; tag < 200; ++tag) {
    pair.post(tag);
    pair.world.run_for(10us);
  }
  pair.world.run_idle();
  ASSERT_THAT(pair.a.replies, SizeIs(200));
  EXPECT_TRUE(std::is_sorted(pair.a.replies.begin(), pair.a.replies.end()));
}

TEST(SimWorld, EcnMarksOnlyCapableTransports) {
  Pair pair({.link = {.impairments = {.ecn_mark = 1}}});
  pair.post(1);
  pair.world.run_idle();
  EXPECT_EQ(pair.b.last_path.tclass, 0);
  pair.world.set_filter([](Packet& packet, Instant) {
    packet.path.tclass = 0x1A;  // DSCP 6, ECT(0)
    return Verdict::pass();
  });
  pair.post(2);
  pair.world.run_idle();
  EXPECT_EQ(pair.b.last_path.tclass, 0x1B);
}

TEST(SimWorld, GroupsGetACopyForEachMember) {
  const proto::Gid group = proto::Gid::from_v4(239, 1, 2, 3);
  Pair pair;
  pair.a.answers = pair.b.answers = false;
  std::vector<NodeId> heard;
  pair.world.set_tap([&](TapPoint point, const Packet& packet, Instant) {
    if (point == TapPoint::kSent) {
      EXPECT_EQ(packet.to, kNoNode);
    }
    if (point == TapPoint::kDelivered) heard.push_back(packet.to);
  });
  const auto post = [&] {
    heard.clear();
    pair.a.post(group, 1);
    pair.world.kick(pair.id_a);
    pair.world.run_idle();
    return heard;
  };
  EXPECT_THAT(post(), ElementsAre());
  EXPECT_EQ(pair.world.counters().unroutable, 1u);
  pair.world.join(pair.id_b, group);
  EXPECT_THAT(post(), ElementsAre(pair.id_b)) << "the sender need not be a member";
  pair.world.join(pair.id_a, group);
  EXPECT_THAT(post(), ElementsAre(pair.id_a, pair.id_b));
  pair.world.leave(pair.id_b, group);
  EXPECT_THAT(post(), ElementsAre(pair.id_a));
}

}  // namespace
}  // namespace uroce::engine::sim
