// SPDX-License-Identifier: Apache-2.0
// Is docs/nic.md what the tables say?
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/unit/nic/reference_page.h"

namespace uroce::test {
namespace {

TEST(NicReference, IsWhatTheTablesSay) {
  std::ifstream file(UROCE_SOURCE_DIR "/docs/nic.md");
  std::ostringstream committed;
  committed << file.rdbuf();
  EXPECT_TRUE(committed.str() == reference_page()) << "docs/nic.md is out of date. Print it anew:\n  " UROCE_BIN_DIR
                                                      "/nic_reference > " UROCE_SOURCE_DIR "/docs/nic.md";
}

}  // namespace
}  // namespace uroce::test
