// SPDX-License-Identifier: Apache-2.0
// The steps of --trace: every one in both languages, with the same values.
#include "tools/rdma/steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace uroce::tools {
namespace {

TEST(Steps, HaveTheSameValuesInBothLanguages) {
  for (int i = 0; i < static_cast<int>(Step::kCount); ++i) {
    const StepText english = step_text(static_cast<Step>(i), Language::kEnglish);
    const StepText chinese = step_text(static_cast<Step>(i), Language::kChinese);
    for (const StepText& text : {english, chinese}) {
      EXPECT_FALSE(text.name.empty() || text.what.empty() || text.why.empty()) << i;
    }
    EXPECT_EQ(std::count(english.what.begin(), english.what.end(), '{'),
              std::count(chinese.what.begin(), chinese.what.end(), '{'))
        << english.what;
  }
}

TEST(Steps, ChineseMayNameValuesInAnotherOrder) {
  const StepText text = step_text(Step::kReceives, Language::kChinese);
  EXPECT_EQ(fmt::format(fmt::runtime(text.what), 3, 8), "ibv_post_recv：在 8 个 QP 上各提交 3 个接收");
}

}  // namespace
}  // namespace uroce::tools
