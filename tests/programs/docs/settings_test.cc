// SPDX-License-Identifier: Apache-2.0
// Words about the settings come from one table: README's are the same, and the code reads no variable beside it.
#include "verbs/ibverbs/catalogue/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace uroce::ibv {
namespace {

std::string contents(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// The table as README has it.
std::string table() {
  std::string text = "| variable | value | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const SettingFacts& facts : settings()) {
    const std::string more = facts.more.empty() ? "" : " ([more](" + std::string(facts.more) + "))";
    const std::string value = std::regex_replace(std::string(facts.value), std::regex("\\|"), "\\|");
    text += "| `" + std::string(facts.name) + "` | `" + value + "` | " + std::string(facts.fallback) + " | " +
            std::string(facts.meaning) + more + " |\n";
  }
  return text;
}

TEST(Settings, ReadmeHasTheTable) {
  const bool has = contents(UROCE_SOURCE_DIR "/README.md").find(table()) != std::string::npos;
  EXPECT_TRUE(has) << "put this under \"Settings\":\n" << table();
}

TEST(Settings, PagesThatSayMoreExist) {
  for (const SettingFacts& facts : settings()) {
    if (facts.more.empty()) continue;
    const auto page = std::filesystem::path(UROCE_SOURCE_DIR) / facts.more;
    EXPECT_TRUE(std::filesystem::exists(page)) << page;
    EXPECT_THAT(contents(page), ::testing::HasSubstr(facts.name)) << page;
  }
}

TEST(Settings, NothingIsReadBesideTheTable) {
  const std::regex beside("getenv\\(\"UROCE_");
  for (const char* folder : {"engine", "proto", "tools", "verbs"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(UROCE_SOURCE_DIR "/" + std::string(folder))) {
      const auto suffix = entry.path().extension();
      if (suffix != ".cc" && suffix != ".h" && suffix != ".c") continue;
      // Headers for the test programs of others, which are no setting of a NIC.
      if (entry.path().parent_path().filename() == "uroce" && folder == std::string("verbs")) continue;
      EXPECT_FALSE(std::regex_search(contents(entry.path()), beside)) << entry.path() << ": add it to settings.def";
    }
  }
}

TEST(Settings, NothingIsWrongWithNoValue) {
  for (const SettingFacts& facts : settings()) EXPECT_EQ(facts.check(""), "") << facts.name;
}

TEST(Settings, ACaptureThatGoesOnHasAName) {
  const SettingFacts& capture = settings().at(static_cast<std::size_t>(Setting::kPcap));
  EXPECT_THAT(capture.check(">>"), ::testing::HasSubstr("the name of a file"));
  EXPECT_EQ(capture.check(">>all.pcapng"), "");
}

}  // namespace
}  // namespace uroce::ibv
