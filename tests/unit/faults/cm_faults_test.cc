// SPDX-License-Identifier: Apache-2.0
// Which steps of connection management are hit.
#include "engine/faults/cm_faults.h"

#include <gmock/gmock.h>

#include "engine/faults/spec.h"

namespace uroce::test {
namespace {

using namespace engine::faults;
using Kind = CmFault::Kind;

CmFaults faults_of(std::string_view text) { return CmFaults(*parse_faults(text)); }

/// A letter per step: what it was hit with, '.' for nothing.
std::string hits(CmFaults& faults, Kind kind, int steps) {
  std::string out;
  for (int i = 0; i < steps; ++i) {
    const CmFault* const fault = faults.strike(kind);
    out += fault == nullptr ? '.' : static_cast<char>('0' + fault->value);
  }
  return out;
}

TEST(CmFaults, CountEachKindForItself) {
  CmFaults faults = faults_of("cm.reject=1#2,cm.reject=3#3..,cm.rejected=5#1");
  EXPECT_EQ(hits(faults, Kind::kReject, 5), ".1333");
  EXPECT_EQ(hits(faults, Kind::kRejected, 2), "5.");
  EXPECT_EQ(hits(faults, Kind::kUnreachable, 2), "..");
  EXPECT_EQ(faults.injected(), 5u);
}

TEST(CmFaults, ThoseThatAreAddedCountFromThenAndTheOthersGoOn) {
  CmFaults before = faults_of("cm.reject=1#2");
  EXPECT_EQ(hits(before, Kind::kReject, 1), ".");
  CmFaults both(before, *parse_faults("cm.reject=3#2"));
  EXPECT_EQ(hits(both, Kind::kReject, 3), "13.");
  EXPECT_EQ(both.injected(), 2u);
}

TEST(CmFaults, ChanceIsTheSameInEveryRunAndDependsOnTheSeed) {
  const auto run = [](const char* text) {
    CmFaults faults = faults_of(text);
    return hits(faults, Kind::kReject, 400);
  };
  const std::string first = run("cm.reject=1@25%");
  EXPECT_EQ(run("cm.reject=1@25%"), first);
  EXPECT_NE(run("seed=2,cm.reject=1@25%"), first);
  const auto count = std::count(first.begin(), first.end(), '1');
  EXPECT_GT(count, 70);
  EXPECT_LT(count, 130);
}

TEST(CmFaults, ThoseThatMetTooLittleAreNamed) {
  CmFaults faults = faults_of("cm.reject=1#2,cm.rejected=5,cm.disconnect=1s,cm.addr_error=ENODEV#3");
  hits(faults, Kind::kReject, 1);
  hits(faults, Kind::kDisconnect, 1);
  EXPECT_THAT(faults.without_effect(),
              testing::ElementsAre("cm.reject=1#2 met only 1 request to a listener of this process",
                                   "cm.rejected=5 met no rdma_connect of this process",
                                   "cm.addr_error=ENODEV#3 met no rdma_resolve_addr of this process"));
}

}  // namespace
}  // namespace uroce::test
