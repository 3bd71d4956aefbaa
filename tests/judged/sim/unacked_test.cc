// SPDX-License-Identifier: Apache-2.0
// The judges of UC, UD and shared receives inside a whole run, and a NIC that lies about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/judged/sim/simulation.h"
#include "tests/judged/sim/ud_end.h"

namespace uroce::simulator {
namespace {

using nic::Completion;
using nic::WcStatus;
using testing::ElementsAre;
using testing::HasSubstr;

/// Two hosts, one QP on each, nothing that goes wrong; only this kind of work.
Scenario quiet_scenario(bool connected, Work work) {
  Scenario scenario;
  scenario.seed = 7;
  scenario.network.faults_end = std::chrono::microseconds{10};
  scenario.hosts.resize(2);
  UnackedPlan plan;
  plan.connected = connected;
  plan.mtu_code = connected ? 3 : 5;
  for (std::uint32_t host = 0; host < 2; ++host) {
    UnackedEndPlan end;
    end.host = host;
    end.mix[static_cast<std::size_t>(work)] = 1;
    end.ops = 10;
    end.qkey = 0x1234;
    end.receive_depth = end.max_recv_wr = 32;
    plan.ends.push_back(end);
  }
  scenario.unacked.push_back(plan);
  return scenario;
}
std::string judged(const Scenario& scenario, const RunOptions& options = {}) {
  const RunResult result = run(scenario, options);
  return result.violation ? result.violation->what : "";
}
/// Lies about the completions of receives.
RunOptions lying(const std::function<void(Completion&)>& lie) {
  RunOptions options;
  options.tamper = [=](Completion& c) {
    if (c.wr_id >= kFirstReceiveId) lie(c);
  };
  return options;
}
Scenario shared_scenario(Work work) {
  Scenario scenario = quiet_scenario(true, work);
  SrqPlan srq;
  srq.length = 5000;
  srq.limit = 4;
  scenario.hosts[1].srqs.push_back(srq);
  scenario.unacked[0].ends[1].srq = 0;
  return scenario;
}

TEST(Unacked, QuietRunsAreClean) {
  for (const Work work : {Work::kSend, Work::kSendImm, Work::kWrite, Work::kWriteImm}) {
    EXPECT_EQ(judged(quiet_scenario(true, work)), "") << "UC work " << static_cast<int>(work);
    EXPECT_EQ(judged(shared_scenario(work)), "") << "UC work " << static_cast<int>(work);
  }
  for (const Work work : {Work::kSend, Work::kSendImm}) EXPECT_EQ(judged(quiet_scenario(false, work)), "");
}

TEST(Unacked, NoticesWrongCompletions) {
  for (const bool connected : {true, false}) {
    const Scenario scenario = quiet_scenario(connected, Work::kSendImm);
    EXPECT_THAT(judged(scenario, lying([](Completion& c) { c.byte_len ^= 1; })), HasSubstr("byte_len"));
    EXPECT_THAT(judged(scenario, lying([](Completion& c) { c.src_qp ^= 1; })), HasSubstr("src_qp"));
    EXPECT_THAT(judged(scenario, lying([](Completion& c) { c.imm ^= 1; })), HasSubstr("immediate data"));
    EXPECT_THAT(judged(scenario, lying([](Completion& c) { c.flags ^= nic::kWcGrh; })), HasSubstr("wc_flags"));
    EXPECT_THAT(judged(scenario, lying([](Completion& c) { c.wr_id += 1; })), HasSubstr("is due"));
    EXPECT_THAT(judged(scenario, lying([](Completion& c) { c.status = WcStatus::kLocLenErr; })),
                HasSubstr("SUCCESS is due"));
    EXPECT_THAT(judged(scenario, lying([](Completion& c) { c.opcode = nic::WcOpcode::kRecvWithImm; })),
                HasSubstr("opcode"));
  }
}

/// Without acknowledgements, nothing that a peer does can fail a send.
TEST(Unacked, NoticesSendsThatCannotFail) {
  for (const WcStatus status : {WcStatus::kRetryExcErr, WcStatus::kRemAccessErr, WcStatus::kLocProtErr}) {
    RunOptions options;
    options.tamper = [status](Completion& c) { c.status = status; };
    EXPECT_THAT(judged(quiet_scenario(true, Work::kWrite), options), HasSubstr("nothing that happened explains"));
  }
}

/// Bytes of a WRITE that are not where its packet says.
TEST(Unacked, NoticesMemoryThatNobodyMayChange) {
  RunOptions options;
  options.sabotage = Sabotage::kCorrectness;
  EXPECT_THAT(judged(quiet_scenario(true, Work::kWrite), options), HasSubstr("memory that no operation may change"));
}

TEST(Unacked, NoticesHangs) {
  RunOptions options;
  options.sabotage = Sabotage::kLiveness;
  EXPECT_THAT(judged(quiet_scenario(false, Work::kSend), options), HasSubstr("outstanding"));
}

/// RFC 791: the header's checksum makes its sum 0xFFFF.
TEST(Unacked, KnowsTheHeadersBeforeADatagram) {
  proto::Path path;
  path.source = proto::Gid::from_v4(10, 0, 0, 1);
  path.destination = proto::Gid::from_v4(10, 0, 0, 2);
  const auto v4 = grh_of(path, 100);
  EXPECT_THAT(std::vector<std::uint8_t>(v4.begin(), v4.begin() + 20), testing::Each(0));
  EXPECT_EQ(v4[20], 0x45);
  EXPECT_EQ(v4[23], 128) << "20 + 8 + 100";
  std::uint32_t sum = 0;
  for (std::size_t i = 20; i < 40; i += 2) sum += static_cast<std::uint32_t>(v4[i] << 8 | v4[i + 1]);
  EXPECT_EQ((sum & 0xFFFF) + (sum >> 16), 0xFFFFu);
  path.source = path.destination = proto::Gid{{0xFD, 0x77}};
  path.tclass = 0xAB;
  path.flow_label = 0x12345;
  const auto v6 = grh_of(path, 100);
  EXPECT_THAT(std::vector<std::uint8_t>(v6.begin(), v6.begin() + 9),
              ElementsAre(0x6A, 0xB1, 0x23, 0x45, 0, 108, 17, 64, 0xFD));
}

}  // namespace
}  // namespace uroce::simulator
