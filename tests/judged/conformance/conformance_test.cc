// SPDX-License-Identifier: Apache-2.0
// Does every case of the table do what the table says, and is docs/conformance.md printed from it?
#include <fstream>
#include <set>
#include <sstream>

#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/document.h"
#include "tests/judged/conformance/lab.h"
#include "tests/support/own_network.h"

namespace uroce::conformance {

void PrintTo(const Chapter& chapter, std::ostream* out) { *out << chapter.id; }

namespace {

class Conformance : public testing::TestWithParam<Chapter> {};

TEST_P(Conformance, OursDoesWhatTheTableSays) {
  UROCE_NEEDS_OWN_NETWORK();  // For addresses without a route, and to change lo.
  for (const Case& c : GetParam().cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(c.measure(), c.ours);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Conformance, testing::ValuesIn(table()),
                         [](const testing::TestParamInfo<Chapter>& chapter) { return std::string(chapter.param.id); });

TEST(ConformanceTable, HasNoBlankAndNoDoubleRow) {
  std::set<std::string> names;
  for (const Chapter& chapter : table()) {
    for (const Case& c : chapter.cases) {
      SCOPED_TRACE(c.name);
      EXPECT_TRUE(names.insert(c.name).second);
      EXPECT_FALSE(c.name.empty() || c.ours.empty() || c.rxe.empty());
      EXPECT_FALSE(std::string(c.rule.text).empty() || std::string(c.rule.source).empty());
    }
  }
  EXPECT_EQ(names.size(), 222u) << "as many as were asked of rxe";
}

TEST(ConformanceTable, ExplainsDifferencesAndNothingElse) {
  for (const Chapter& chapter : table()) {
    for (const Case& c : chapter.cases) {
      SCOPED_TRACE(c.name);
      const bool same = c.ours == c.rxe;
      EXPECT_EQ(c.why.relation == Relation::kSame, same);
      EXPECT_EQ(std::string(c.why.reason).empty(), same);
    }
  }
}

TEST(ConformanceTable, IsWhatTheDocumentShows) {
  std::ifstream file(UROCE_SOURCE_DIR "/docs/conformance.md");
  std::ostringstream committed;
  committed << file.rdbuf();
  EXPECT_TRUE(committed.str() == document())
      << "docs/conformance.md is not what the table says. Print it anew:\n  " UROCE_BIN_DIR
         "/conformance_document > " UROCE_SOURCE_DIR "/docs/conformance.md";
}

}  // namespace
}  // namespace uroce::conformance
