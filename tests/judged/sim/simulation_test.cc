// SPDX-License-Identifier: Apache-2.0
// The judges inside a whole run: one quiet connection, and a network or a NIC that lies about it.
#include "tests/judged/sim/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/icrc.h"
#include "proto/packet.h"

namespace uroce::simulator {
namespace {

using engine::sim::Packet;
using nic::Completion;
using nic::WcStatus;
using testing::HasSubstr;

/// Two hosts, one connection, nothing that goes wrong; only this kind of work.
Scenario quiet_scenario(Work work) {
  Scenario scenario;
  scenario.seed = 7;
  scenario.network.faults_end = std::chrono::microseconds{10};
  scenario.hosts.resize(2);
  ConnectionPlan connection;
  connection.ends[1].host = 1;
  for (EndPlan& end : connection.ends) {
    end.mix[static_cast<std::size_t>(work)] = 1;
    end.ops = 10;
  }
  scenario.connections.push_back(connection);
  return scenario;
}

std::string run_with(Work work, const RunOptions& options, Breach* breach = nullptr) {
  const RunResult result = run(quiet_scenario(work), options);
  if (!result.violation) return "";
  if (breach != nullptr) *breach = result.violation->breach;
  return result.violation->what;
}

/// Changes the packets with `opcode`, and makes their ICRC right again.
RunOptions lying_about(proto::Opcode opcode, const std::function<void(MutBytes)>& lie) {
  RunOptions options;
  options.filter = [=](Packet& packet, Instant) {
    const auto view = proto::parse_packet(packet.bytes);
    if (view->op().code == opcode) {
      lie(packet.bytes);
      const std::size_t covered = packet.bytes.size() - proto::kIcrcSize;
      proto::store_icrc(packet.bytes.subspan(covered), proto::icrc(packet.path, packet.bytes.first(covered)));
    }
    return engine::sim::Verdict::pass();
  };
  return options;
}
/// Changes the last byte of the payload.
RunOptions damaging(proto::Opcode opcode) {
  return lying_about(opcode, [](MutBytes bytes) {
    const auto view = proto::parse_packet(bytes);
    if (!view->payload().empty()) bytes[view->op().stack.bytes + view->payload().size() - 1] ^= 0xFF;
  });
}

TEST(Simulation, QuietRunsAreClean) {
  for (std::size_t work = 0; work < static_cast<std::size_t>(Work::kCount); ++work) {
    EXPECT_EQ(run_with(static_cast<Work>(work), {}), "") << "work " << work;
  }
}

TEST(Simulation, NoticesWrongBytes) {
  EXPECT_THAT(run_with(Work::kSend, damaging(proto::Opcode::kRcSendOnly)), HasSubstr("the bytes of a SEND"));
  EXPECT_THAT(run_with(Work::kWrite, damaging(proto::Opcode::kRcWriteOnly)), HasSubstr("the bytes of a WRITE"));
  EXPECT_THAT(run_with(Work::kAtomicWrite, damaging(proto::Opcode::kRcAtomicWrite)), HasSubstr("the bytes of a WRITE"));
  EXPECT_THAT(run_with(Work::kWriteImm, damaging(proto::Opcode::kRcWriteOnlyImm)),
              HasSubstr("a WRITE before a message that has arrived"));
  EXPECT_THAT(run_with(Work::kRead, damaging(proto::Opcode::kRcReadResponseOnly)), HasSubstr("the bytes of a READ"));
}

TEST(Simulation, NoticesWrongPlaces) {
  const auto lie = lying_about(proto::Opcode::kRcWriteOnly, [](MutBytes bytes) {
    proto::MutView<proto::Reth> reth(bytes.data() + proto::Bth::kSize);
    reth.set<proto::Reth::Va>(reth.get<proto::Reth::Va>() - 1);
  });
  EXPECT_NE(run_with(Work::kWrite, lie), "");
}

TEST(Simulation, NoticesWrongAtomics) {
  const auto lie = lying_about(proto::Opcode::kRcFetchAdd, [](MutBytes bytes) { bytes[12 + 12 + 7] ^= 1; });
  EXPECT_THAT(run_with(Work::kAdd, lie), HasSubstr("word"));
}

TEST(Simulation, NoticesWrongImmediateData) {
  RunOptions options;
  options.tamper = [](Completion& c) { c.imm ^= 1; };
  EXPECT_THAT(run_with(Work::kSendImm, options), HasSubstr("immediate data"));
}

TEST(Simulation, NoticesStatusesWithoutACause) {
  for (const WcStatus status : {WcStatus::kRetryExcErr, WcStatus::kRnrRetryExcErr, WcStatus::kRemAccessErr,
                                WcStatus::kRemInvReqErr, WcStatus::kRemOpErr, WcStatus::kBadRespErr,
                                WcStatus::kLocProtErr, WcStatus::kLocQpOpErr, WcStatus::kLocLenErr}) {
    RunOptions options;
    options.tamper = [status](Completion& c) { c.status = status; };
    EXPECT_THAT(run_with(Work::kSend, options), HasSubstr("nothing that happened explains"))
        << static_cast<int>(status);
  }
}

TEST(Simulation, NoticesFlushesWithoutACause) {
  RunOptions options;
  options.tamper = [](Completion& c) { c.status = WcStatus::kWrFlushErr; };
  EXPECT_THAT(run_with(Work::kWrite, options), HasSubstr("flushed although nothing failed"));
}

TEST(Simulation, NoticesCompletionsOfOtherQps) {
  RunOptions options;
  options.tamper = [](Completion& c) { c.qpn ^= 0x40; };
  EXPECT_THAT(run_with(Work::kSend, options), HasSubstr("which does not exist"));
}

/// A WR that must fail, and a NIC that says it did not.
TEST(Simulation, NoticesSuccessThatCannotBe) {
  Scenario scenario = quiet_scenario(Work::kWrite);
  scenario.connections[0].ends[0].flaw = 1;
  RunOptions options;
  options.tamper = [](Completion& c) { c.status = WcStatus::kSuccess; };
  const RunResult result = run(scenario, options);
  ASSERT_TRUE(result.violation);
  EXPECT_THAT(result.violation->what, HasSubstr("completed SUCCESS, which nothing"));
}

TEST(Simulation, NoticesHangs) {
  RunOptions options;
  options.sabotage = Sabotage::kLiveness;
  Breach breach{};
  EXPECT_THAT(run_with(Work::kSend, options, &breach), HasSubstr("oldest WR"));
  EXPECT_EQ(breach, Breach::kLiveness);
}

/// A peer that acknowledges nothing new but never lets the network rest, either.
TEST(Simulation, TheBoundOfLivenessIsFinite) {
  Scenario scenario = quiet_scenario(Work::kSend);
  for (EndPlan& end : scenario.connections[0].ends) {
    end.rnr_retry = 7;
    end.repost_delay = std::chrono::hours{1};
    end.receive_depth = 0;
  }
  const RunResult result = run(scenario, {});
  ASSERT_TRUE(result.violation);
  EXPECT_EQ(result.violation->breach, Breach::kLiveness);
  EXPECT_THAT(result.violation->what, HasSubstr("not done after"));
}

TEST(Simulation, SameSeedSamePackets) {
  const auto trace = [](std::uint64_t seed) {
    std::vector<std::uint8_t> bytes;
    RunOptions options;
    options.on_packet = [&](engine::sim::TapPoint point, const Packet& packet, Instant now) {
      bytes.push_back(static_cast<std::uint8_t>(point));
      bytes.push_back(static_cast<std::uint8_t>(now.time_since_epoch().count()));
      bytes.insert(bytes.end(), packet.bytes.begin(), packet.bytes.end());
    };
    run(draw_scenario(seed), options);
    return bytes;
  };
  for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(trace(seed), trace(seed)) << seed;
  EXPECT_NE(trace(1), trace(2));
}

}  // namespace
}  // namespace uroce::simulator
