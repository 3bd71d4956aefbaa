// SPDX-License-Identifier: Apache-2.0
// Texts for people: complete over the enumerations, harmless beyond.
#include <set>
#include <string>

#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {
namespace {

template <class Function>
void expect_complete(Function text, int first, int last) {
  std::set<std::string> seen;
  for (int value = first; value <= last; ++value) {
    const std::string t = text(value);
    EXPECT_FALSE(t.empty());
    EXPECT_NE(t, "unknown") << value;
    EXPECT_TRUE(seen.insert(t).second) << "twice: " << t;
  }
  for (const int value : {first - 1, last + 1, -1000, 1 << 20}) EXPECT_STREQ(text(value), "unknown") << value;
}

TEST(Strings, CompletionStatuses) {
  expect_complete([](int n) { return v().ibv_wc_status_str(static_cast<enum ibv_wc_status>(n)); }, IBV_WC_SUCCESS,
                  IBV_WC_TM_RNDV_INCOMPLETE);
}
TEST(Strings, Events) {
  expect_complete([](int n) { return v().ibv_event_type_str(static_cast<enum ibv_event_type>(n)); }, IBV_EVENT_CQ_ERR,
                  IBV_EVENT_WQ_FATAL);
}
TEST(Strings, PortStates) {
  expect_complete([](int n) { return v().ibv_port_state_str(static_cast<enum ibv_port_state>(n)); }, IBV_PORT_NOP,
                  IBV_PORT_ACTIVE_DEFER);
}
TEST(Strings, NodeTypes) {
  expect_complete([](int n) { return v().ibv_node_type_str(static_cast<enum ibv_node_type>(n)); }, IBV_NODE_CA,
                  IBV_NODE_UNSPECIFIED);
}

}  // namespace
}  // namespace uroce::ibv::test
