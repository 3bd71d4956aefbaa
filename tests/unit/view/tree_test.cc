// SPDX-License-Identifier: Apache-2.0
// Paths in the tree, as path_resolution(7) has them.
#include "verbs/view/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace uroce::view {
namespace {

using ::testing::ElementsAre;

class TreeTest : public ::testing::Test {
 protected:
  TreeTest() {
    tree_.add_root("/sys/class/thing");
    tree_.add_root("/sys/devices/box");
    tree_.add_file("/sys/devices/box/b0/ports/1/state", [] { return "up\n"; });
    tree_.add_link("/sys/devices/box/b0/device", "../..");
    tree_.add_link("/sys/devices/box/b0/cpus", "/sys/devices/system/cpu");
    tree_.add_link("/sys/class/thing/b0", "../../devices/box/b0");
    tree_.add_link("/sys/class/thing/loop", "loop");
    tree_.add_link("/sys/class/thing/nowhere", "none");
    tree_.add_char_device("/sys/class/thing/node", 231, 192);
  }

  /// "path" of what is found, "-> path" of what is outside, or "errno N".
  std::string where(std::string_view path, bool follow = true) const {
    const Resolution found = tree_.resolve(path, follow);
    switch (found.kind) {
      case Resolution::Kind::kFound:
        EXPECT_EQ(found.node, tree_.find(found.path));
        return found.path;
      case Resolution::Kind::kOutside:
        EXPECT_EQ(found.node, nullptr);
        return (found.through_us ? "-> " : "real ") + found.path;
      case Resolution::Kind::kError:
        return "errno " + std::to_string(found.error);
    }
    return "";
  }

  Tree tree_;
};

TEST_F(TreeTest, OwnsItsRootsAndEverythingBelow) {
  EXPECT_TRUE(tree_.owns("/sys/class/thing"));
  EXPECT_TRUE(tree_.owns("/sys/class/thing/whatever"));
  EXPECT_FALSE(tree_.owns("/sys/class/things"));
  EXPECT_FALSE(tree_.owns("/sys/class"));
}

TEST_F(TreeTest, MakesTheDirectoriesOnTheWay) {
  ASSERT_NE(tree_.find("/sys/devices/box/b0/ports"), nullptr);
  EXPECT_EQ(tree_.find("/sys/devices/box/b0/ports")->kind, Node::Kind::kDirectory);
  EXPECT_EQ(tree_.find("/sys/devices/box/b0/ports/1/state")->contents(), "up\n");
}

TEST_F(TreeTest, ListsADirectoryButNotWhatIsDeeper) {
  std::vector<std::string> names;
  for (const Entry& entry : tree_.list("/sys/devices/box/b0")) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("cpus", "device", "ports"));
  EXPECT_EQ(tree_.list("/sys/devices/box/b0")[0].kind, Node::Kind::kLink);
  EXPECT_TRUE(tree_.list("/sys/devices/box/b").empty()) << "b0 only begins like it";
}

TEST_F(TreeTest, FollowsLinksAsTheKernelDoes) {
  EXPECT_EQ(where("/sys/class/thing/b0"), "/sys/devices/box/b0");
  EXPECT_EQ(where("/sys/class/thing/b0", /*follow=*/false), "/sys/class/thing/b0");
  EXPECT_EQ(where("/sys/class/thing/b0/", /*follow=*/false), "/sys/devices/box/b0") << "a slash follows";
  EXPECT_EQ(where("/sys/class/thing/b0/ports/1/state", /*follow=*/false), "/sys/devices/box/b0/ports/1/state");
  EXPECT_EQ(where("/sys/class/thing/b0/device/b0/ports"), "-> /sys/devices/b0/ports") << ".. of where the link is";
  EXPECT_EQ(where("/sys/class/thing/loop"), "errno " + std::to_string(ELOOP));
  EXPECT_EQ(where("/sys/class/thing/nowhere"), "errno " + std::to_string(ENOENT));
  EXPECT_EQ(where("/sys/class/thing/nowhere", false), "/sys/class/thing/nowhere");
}

TEST_F(TreeTest, SlashesAndDotsDoNotMatter) {
  EXPECT_EQ(where("//sys///class/./thing/../thing/b0/ports/"), "/sys/devices/box/b0/ports");
  EXPECT_EQ(where("/sys/class/thing/.."), "-> /sys/class");
  EXPECT_EQ(where("/sys/class/thing/b0/.."), "/sys/devices/box") << ".. of where the link leads";
  EXPECT_EQ(where("/.."), "real /");
}

TEST_F(TreeTest, LeadsOut) {
  EXPECT_EQ(where("/sys/devices/box/b0/cpus/online"), "-> /sys/devices/system/cpu/online");
  EXPECT_EQ(where("/sys/class/net/lo"), "real /sys/class/net/lo");
  EXPECT_EQ(where("/sys/class/net/../thing"), "/sys/class/thing");
}

TEST_F(TreeTest, OnlyDirectoriesHaveSomethingBehindThem) {
  EXPECT_EQ(where("/sys/class/thing/b0/ports/1/state/"), "errno " + std::to_string(ENOTDIR));
  EXPECT_EQ(where("/sys/class/thing/node/x"), "errno " + std::to_string(ENOTDIR));
  EXPECT_EQ(where("/sys/class/thing/node/.."), "errno " + std::to_string(ENOTDIR));
  EXPECT_EQ(where("/sys/class/thing/none"), "errno " + std::to_string(ENOENT));
  EXPECT_EQ(where("/sys/class/thing/none/.."), "errno " + std::to_string(ENOENT));
}

}  // namespace
}  // namespace uroce::view
