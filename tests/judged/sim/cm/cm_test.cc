// SPDX-License-Identifier: Apache-2.0
// What connection management in a run does, on scenarios with nothing else in them: everything comes up, and its judges
// notice lies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/cm/message.h"
#include "proto/icrc.h"
#include "tests/judged/sim/cm/mad_lint.h"
#include "tests/judged/sim/simulation.h"

namespace uroce::simulator {
namespace {

using proto::cm::Attribute;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::HasSubstr;

/// Two processes and one connect; the rest is as good as it can be.
Scenario one_connect(cm::Transport transport) {
  Scenario scenario;
  scenario.seed = 7;
  scenario.network.faults_end = milliseconds{20};
  scenario.hosts.resize(1);
  scenario.cm.time_divisor = 1000;
  scenario.cm.processes.resize(2);
  CmAttemptPlan attempt;
  attempt.transport = transport;
  attempt.server = 1;
  attempt.lives = milliseconds{1};
  scenario.cm.attempts.push_back(attempt);
  return scenario;
}

Tally clean_cm_run(const Scenario& scenario) {
  const RunResult result = run(scenario, {});
  EXPECT_FALSE(result.violation) << result.violation->what;
  return result.tally;
}

/// What is found wrong when every message of this kind is changed on its way.
std::string run_with_lies(const Scenario& scenario, Attribute attribute, const std::function<void(MutBytes mad)>& lie) {
  RunOptions options;
  options.filter = [=](engine::sim::Packet& packet, Instant) {
    const auto view = proto::parse_packet(packet.bytes);
    const auto message = proto::cm::parse_message(view->payload());
    if (message && message->attribute() == attribute) {
      const std::size_t covered = packet.bytes.size() - proto::kIcrcSize;
      lie(packet.bytes.subspan(covered - proto::cm::kMadSize, proto::cm::kMadSize));
      proto::store_icrc(packet.bytes.subspan(covered), proto::icrc(packet.path, packet.bytes.first(covered)));
    }
    return engine::sim::Verdict::pass();
  };
  const RunResult result = run(scenario, options);
  return result.violation ? result.violation->what : "";
}

TEST(ConnectionManagement, EveryTransportConnects) {
  Tally rc = clean_cm_run(one_connect(cm::Transport::kRc));
  EXPECT_EQ(rc.counts["CM: connections of which both sides know the same"], 1u);
  EXPECT_EQ(rc.counts["CM: messages over what was connected"], 2u);
  EXPECT_EQ(rc.counts["CM: DISCONNECTED"], 2u);
  Tally uc = clean_cm_run(one_connect(cm::Transport::kUc));
  EXPECT_EQ(uc.counts["CM: connections of which both sides know the same"], 1u);
  Tally ud = clean_cm_run(one_connect(cm::Transport::kUd));
  EXPECT_EQ(ud.counts["CM: datagram services found"], 1u);
}

TEST(ConnectionManagement, RefusalsAndSilence) {
  Scenario scenario = one_connect(cm::Transport::kRc);
  scenario.cm.attempts[0].answer = CmAttemptPlan::Answer::kReject;
  EXPECT_EQ(clean_cm_run(scenario).counts["CM: REJECTED 28"], 1u);
  scenario.cm.attempts[0].answer = CmAttemptPlan::Answer::kIgnore;
  EXPECT_EQ(clean_cm_run(scenario).counts["CM: UNREACHABLE"], 1u);
  scenario.cm.attempts[0].to_nobody = true;
  EXPECT_EQ(clean_cm_run(scenario).counts["CM: REJECTED 8"], 1u);
}

TEST(ConnectionManagement, DeathsAreNoticed) {
  Scenario scenario = one_connect(cm::Transport::kRc);
  scenario.cm.attempts[0].lives = milliseconds{100};
  scenario.cm.processes[1].dies_at = milliseconds{5};
  EXPECT_EQ(clean_cm_run(scenario).counts["CM: DISCONNECTED, the peer is silent"], 1u);
  scenario.cm.processes[1].says_goodbye = true;
  EXPECT_EQ(clean_cm_run(scenario).counts["CM: DISCONNECTED"], 1u);
  scenario.cm.processes[1].dies_at = microseconds{1};  // Before the request arrives.
  EXPECT_EQ(clean_cm_run(scenario).counts["CM: UNREACHABLE"], 1u);
  scenario.cm.processes[1].gone_for = milliseconds{1};
  EXPECT_EQ(clean_cm_run(scenario).counts["CM: established, client"], 1u);
}

TEST(ConnectionManagement, NoticesNumbersThatDoNotCross) {
  const Scenario scenario = one_connect(cm::Transport::kUc);
  const auto change = [](auto field) { return [field](MutBytes mad) { mad[proto::cm::Mad::kSize + field] ^= 1; }; };
  constexpr std::size_t kPsnOfReq = 46, kPsnOfRep = 22, kQpnOfReq = 34, kPrivateOfRep = 36 + 10;
  EXPECT_THAT(run_with_lies(scenario, Attribute::kReq, change(kPsnOfReq)), HasSubstr("PSNs do not cross"));
  EXPECT_THAT(run_with_lies(scenario, Attribute::kRep, change(kPsnOfRep)), HasSubstr("PSNs do not cross"));
  EXPECT_THAT(run_with_lies(scenario, Attribute::kReq, change(kQpnOfReq)), HasSubstr("other parameters"));
  EXPECT_THAT(run_with_lies(scenario, Attribute::kRep, change(kPrivateOfRep)), HasSubstr("of private data"));
}

TEST(ConnectionManagement, NoticesThatAReplyIsNotHeard) {
  Scenario scenario = one_connect(cm::Transport::kUc);
  scenario.cm.attempts[0].lives = milliseconds{200};  // Longer than anything is said again.
  scenario.cm.attempts[0].ends_it = {true, false};
  const auto ruin = [](MutBytes mad) { mad[0] ^= 0xFF; };  // No version that there is.
  EXPECT_THAT(run_with_lies(scenario, Attribute::kRtu, ruin), HasSubstr("without a cause"));
  EXPECT_THAT(run_with_lies(scenario, Attribute::kDrep, ruin), HasSubstr("without a cause"));
}

TEST(ConnectionManagement, AQuestionToASlowProgramMayGetNoAnswer) {
  Scenario scenario = one_connect(cm::Transport::kUd);
  scenario.network.faults_end = milliseconds{100};          // The client asks for 65 ms ...
  scenario.cm.attempts[0].answer_after = milliseconds{13};  // ... and three times in vain, until it gets an answer.
  const auto ruin = [](MutBytes mad) { mad[0] ^= 0xFF; };
  EXPECT_THAT(run_with_lies(scenario, Attribute::kSidrRep, ruin), HasSubstr("without a cause"));
  constexpr engine::sim::NodeId kClient = 1, kServer = 2;
  scenario.network.link.outages.push_back({Instant{}, Instant{} + scenario.network.faults_end, kServer, kClient});
  EXPECT_EQ(clean_cm_run(scenario).counts["CM: UNREACHABLE"], 1u);
}

TEST(MadLint, CountsAndMeasures) {
  CmPlan plan;
  plan.time_divisor = 1;
  std::array<std::uint8_t, proto::cm::kMadSize> mad;
  proto::cm::MessageBuilder builder(mad, Attribute::kDreq, 1);
  builder.as<proto::cm::Dreq>().set<proto::cm::Dreq::LocalId>(5);
  const auto message = *proto::cm::parse_message(mad);
  const auto send = [&](MadLint& lint, Instant at) -> std::string {
    try {
      lint.sent(0, message, at);
    } catch (const Violation& violation) {
      return violation.what;
    }
    return "";
  };
  MadLint lint(plan);
  Instant at{};
  for (int i = 0; i < 16; ++i, at += milliseconds{4096}) EXPECT_EQ(send(lint, at), "");
  EXPECT_THAT(send(lint, at), HasSubstr("17 times"));
  MadLint other(plan);
  EXPECT_EQ(send(other, at), "");
  EXPECT_THAT(send(other, at + milliseconds{3000}), HasSubstr("sent again after"));
}

}  // namespace
}  // namespace uroce::simulator
