// SPDX-License-Identifier: Apache-2.0
// Golden traffic as behaviour: every topic of pcaps/rxe, once with our NIC in the place of the requester and once in
// the place of the responder. See replay.h for how, allowed_differences.cc for what may differ.
#include "tests/judged/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "tests/judged/replay/allowed_differences.h"
#include "tests/unit/proto/golden.h"

namespace uroce::replay {
namespace {

struct Case {
  std::string topic;
  Side side;
};
std::string name_of(const Case& c) { return (c.side == Side::kA ? "requester_" : "responder_") + c.topic; }
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << name_of(c); }

/// All topics but those that are excused: a new topic is replayed unless somebody says why not.
std::vector<Case> cases() {
  std::vector<Case> out;
  for (const std::string& topic : proto::test::golden_topics()) {
    for (const Side side : {Side::kA, Side::kB}) {
      if (excused(topic, side) == nullptr) out.push_back({topic, side});
    }
  }
  return out;
}

/// The replay of a case, done once: two tests want all of them.
const Replay& replayed(const Case& c) {
  static std::map<std::pair<std::string, Side>, Replay> done;
  const std::pair key(c.topic, c.side);
  const auto found = done.find(key);
  return found != done.end() ? found->second : done.emplace(key, replay(c.topic, c.side)).first->second;
}

class GoldenReplay : public testing::TestWithParam<Case> {};

TEST_P(GoldenReplay, OnlyAllowedDifferences) {
  const auto& [topic, side] = GetParam();
  for (const Difference& d : replayed(GetParam()).differences) {
    EXPECT_NE(allowed(topic, side, d), nullptr)
        << d.where << ": " << d.aspect << "\n  rxe:  " << d.rxe << "\n  ours: " << d.ours;
  }
}

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name = name_of(info.param);
  std::replace(name.begin(), name.end(), '+', 'p');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Topics, GoldenReplay, testing::ValuesIn(cases()), test_name);

// The lists stay short: a row that no topic needs any more is to be deleted. And nothing is skipped silently.
TEST(AllowedDifferences, AreAllUsed) {
  std::set<const AllowedDifference*> used;
  std::size_t fed = 0, compared = 0;
  for (const Case& c : cases()) {
    const Replay& result = replayed(c);
    for (const Difference& d : result.differences) used.insert(allowed(c.topic, c.side, d));
    fed += result.fed;
    compared += result.compared;
  }
  for (const AllowedDifference& row : allowed_differences()) {
    EXPECT_TRUE(used.contains(&row)) << row.topics << ", " << row.aspect << ": " << row.why;
  }
  // A replay that feeds or compares nothing would be content with anything.
  EXPECT_GE(cases().size(), 283u);
  EXPECT_GE(fed, 1177u);
  EXPECT_GE(compared, 1200u);
}

TEST(NotReplayed, NamesOnlyTopicsThatExist) {
  std::set<const NotReplayed*> used;
  for (const std::string& topic : proto::test::golden_topics()) {
    for (const Side side : {Side::kA, Side::kB}) used.insert(excused(topic, side));
  }
  for (const NotReplayed& row : not_replayed()) EXPECT_TRUE(used.contains(&row)) << row.topics;
}

TEST(AllowedDifferences, AreInTheDocumentation) {
  std::ifstream file(UROCE_SOURCE_DIR "/docs/golden.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str().find(markdown()) != std::string::npos) << "docs/golden.md must have these tables:\n"
                                                                << markdown();
}

TEST(Patterns, StandForAnyText) {
  EXPECT_TRUE(fits("", ""));
  EXPECT_TRUE(fits("*", ""));
  EXPECT_TRUE(fits("rc_*_64k", "rc_send_64k"));
  EXPECT_TRUE(fits("psn=0x10?", "psn=0x102"));
  EXPECT_FALSE(fits("rc_*_64k", "rc_send_64k_mtu1024"));
  EXPECT_FALSE(fits("none", ""));
}

}  // namespace
}  // namespace uroce::replay
