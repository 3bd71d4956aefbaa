// SPDX-License-Identifier: Apache-2.0
// What extras.cc adds to a scenario, on one quiet connection: it does no harm by itself, and comes up.
#include "tests/judged/sim/extras.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/judged/sim/psn_history.h"
#include "tests/judged/sim/simulation.h"

namespace uroce::simulator {
namespace {

using std::chrono::microseconds;

/// Two hosts, one connection with all kinds of work, a network that does nothing to it.
Scenario quiet_scenario() {
  Scenario scenario;
  scenario.seed = 7;
  scenario.network.faults_end = microseconds{500};
  scenario.hosts.resize(2);
  ConnectionPlan connection;
  connection.ends[1].host = 1;
  for (EndPlan& end : connection.ends) {
    end.mix.fill(1);
    end.ops = 200;
  }
  scenario.connections.push_back(connection);
  return scenario;
}

/// What came up in a run in which nothing is found wrong.
Tally clean_run(const Scenario& scenario, const RunOptions& options = {}) {
  const RunResult result = run(scenario, options);
  EXPECT_FALSE(result.violation) << result.violation->what;
  return result.tally;
}

TEST(Extras, NumberedPacketsAreAsGoodAsOthers) {
  Scenario scenario = quiet_scenario();
  for (HostPlan& host : scenario.hosts) host.numbers_packets = true;
  clean_run(scenario);
}

TEST(Extras, AStrangerFromElsewhereIsNotHeard) {
  Scenario scenario = quiet_scenario();
  scenario.hosts[0].numbers_packets = true;
  scenario.stranger.pause = microseconds{1};
  Tally tally = clean_run(scenario);
  EXPECT_GT(tally.counts["stranger: packets that mean nothing"], 100u);
  EXPECT_EQ(tally.counts["send: RETRY_EXC_ERR"], 0u);
}

TEST(Extras, AStrangerInThePeersNameCanBreakTheConnection) {
  Scenario scenario = quiet_scenario();
  scenario.stranger.pause = microseconds{1};
  scenario.stranger.as_peer = 1;
  Tally tally = clean_run(scenario);
  EXPECT_GT(tally.counts["stranger: as the peer, its next request"], 0u);
}

TEST(Extras, WindowsAreBoundAndGoneThrough) {
  for (const std::uint8_t type : {std::uint8_t{1}, std::uint8_t{2}}) {
    Scenario scenario = quiet_scenario();
    for (EndPlan& end : scenario.connections[0].ends) {
      end.window = type;
      end.windowed = 0.9;
      end.window_change = 0.2;
    }
    Tally tally = clean_run(scenario);
    EXPECT_GT(tally.counts["windows: gone through"], 20u);
    EXPECT_GT(tally.counts[type == 1 ? "windows: bound, type 1" : "windows: bound, type 2"], 4u);
  }
}

/// READs come again when the peer has invalidated the window without a fence, and its owner has not yet seen that. Most
/// are late doubles, and harm nobody; whose answer was lost does not get it any more.
TEST(Extras, AWindowMayBeTakenBackUnderALateRead) {
  std::uint64_t unanswered = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Scenario scenario = quiet_scenario();
    scenario.seed = seed;
    scenario.network.faults_end = std::chrono::milliseconds{5};
    scenario.network.link.impairments = {.loss = 0.03, .reorder = 0.2, .reorder_delay = microseconds{40}};
    for (HostPlan& host : scenario.hosts) host.poll_delay = microseconds{10};
    for (EndPlan& end : scenario.connections[0].ends) {
      end.mix = {};
      for (const Work work : {Work::kSend, Work::kWrite, Work::kReadBack}) end.mix[static_cast<std::size_t>(work)] = 1;
      end.window = 2;
      end.windowed = 0.9;
      end.window_change = 0.3;
    }
    Tally tally = clean_run(scenario);
    EXPECT_EQ(tally.counts["event: QP error"], 0u) << "seed " << seed;
    unanswered += tally.counts["send: RETRY_EXC_ERR"];
  }
  EXPECT_GT(unanswered, 0u);
}

TEST(Extras, NoticesAnInvalidationThatIsNotTold) {
  Scenario scenario = quiet_scenario();
  for (EndPlan& end : scenario.connections[0].ends) {
    end.window = 2;
    end.window_change = 0.1;
  }
  RunOptions options;
  options.tamper = [](nic::Completion& c) { c.flags &= ~std::uint32_t{nic::kWcWithInv}; };
  const RunResult result = run(scenario, options);
  ASSERT_TRUE(result.violation);
  EXPECT_THAT(result.violation->what, testing::HasSubstr("WITH_INV"));
}

/// As allowed in SQD: first one end offers more, then the other one asks for more.
TEST(Extras, MoreReadsAndAtomicsAreUnderWayWhenThePeerAllowsThem) {
  Scenario scenario = quiet_scenario();
  ConnectionPlan& connection = scenario.connections[0];
  for (EndPlan& end : connection.ends) {
    end.max_rd_atomic = end.max_dest_rd_atomic = 1;
    end.mix = {};
    end.mix[static_cast<std::size_t>(Work::kAdd)] = 1;
  }
  for (const int end : {0, 1, 0}) {
    Disturbance d;
    d.kind = Disturbance::Kind::kDeepen;
    d.end = end;
    d.at = static_cast<int>(1 + connection.disturbances.size()) * microseconds{40};
    d.pause = microseconds{20};
    connection.disturbances.push_back(d);
  }
  scenario.answer_loss = 0.02;
  Tally tally = clean_run(scenario);
  EXPECT_GE(tally.counts["attributes: deeper in SQD"], 2u);
  EXPECT_EQ(tally.counts["send: SUCCESS"], 400u);
  EXPECT_GT(tally.counts["network: packets lost"], 0u);
}

TEST(Extras, ASharedReceiveIsGivenBackInMidMessage) {
  for (const auto kind : {Disturbance::Kind::kReset, Disturbance::Kind::kDestroy}) {
    Scenario scenario = quiet_scenario();
    ConnectionPlan& connection = scenario.connections[0];
    connection.message_max = 8000;
    connection.reconnects = 1;
    scenario.hosts[1].srqs.push_back({});
    scenario.hosts[1].srqs[0].length = connection.message_max + 8;
    connection.ends[1].srq = 0;
    Disturbance d;
    d.kind = kind;
    d.end = 1;
    d.in_mid_message = true;
    connection.disturbances.push_back(d);
    Tally tally = clean_run(scenario);
    EXPECT_EQ(tally.counts["SRQ: given back"], 1u);
  }
}

TEST(PsnHistory, KeepsItsNumbersWhenItForgets) {
  PsnHistory history;
  constexpr std::uint32_t kMany = 200'000;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    SentPsn sent;
    sent.bytes = i;
    history.push_back(sent);
  }
  EXPECT_EQ(history.size(), kMany);
  EXPECT_EQ(history[kMany - 1].bytes, kMany - 1);
  EXPECT_FALSE(history.has(0));
  EXPECT_FALSE(history.has(kMany));
}

}  // namespace
}  // namespace uroce::simulator
