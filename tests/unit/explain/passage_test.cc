// SPDX-License-Identifier: Apache-2.0
// What a capture of all interfaces of a host has several times, and what was sent several times.
#include "tools/explain/packets/passage.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/explain/scripted.h"
#include "tools/explain/packets/both_ends.h"

namespace uroce::explain::test {
namespace {

constexpr std::int64_t kMilli = 1'000'000;

/// Sees one packet on interfaces of its host. Those that are told: "+"; those that are on their way: "-".
class Seen {
 public:
  Seen() {
    packet_ = *(*Capture::open(Input(scripted_pcap({{true, proto::Opcode::kRcSendOnly, 1, 4}})), "", 0))->next();
  }
  Seen& in(std::uint32_t tap, std::int64_t time_ns) { return see(Direction::kReceived, tap, time_ns); }
  Seen& out(std::uint32_t tap, std::int64_t time_ns) { return see(Direction::kSent, tap, time_ns); }
  std::string told;

 private:
  Seen& see(Direction direction, std::uint32_t tap, std::int64_t time_ns) {
    packet_.direction = direction;
    packet_.tap = tap;
    packet_.time_ns = time_ns;
    told += passage_.is_on_its_way(packet_) ? '-' : '+';
    return *this;
  }
  Packet packet_;
  Passage passage_;
};

TEST(Passage, OfARouterOrABridge) {
  EXPECT_EQ(Seen().in(2, 0).out(3, 1).told, "+-");
  EXPECT_EQ(Seen().in(2, 0).in(4, 1).out(3, 2).told, "+--") << "a container's host: veth, bridge, uplink";
  EXPECT_EQ(Seen().in(3, 0).out(4, 1).out(2, 2).told, "+--");
}

TEST(Passage, OfWhatIsSentAgain) {
  EXPECT_EQ(Seen().in(2, 0).out(3, 1).in(2, 67 * kMilli).out(3, 67 * kMilli + 1).told, "+-+-");
  EXPECT_EQ(Seen().in(2, 0).in(2, 67 * kMilli).out(3, 67 * kMilli + 1).told, "++-")
      << "the host has lost the first one";
  EXPECT_EQ(Seen().in(2, 0).in(2, kMilli).out(3, 50 * kMilli).out(3, 51 * kMilli).told, "++--")
      << "it waited in a queue";
  EXPECT_EQ(Seen().in(2, 0).out(3, 5'000 * kMilli).told, "++") << "QPs that begin anew use PSNs again";
}

TEST(Passage, OfInterfacesThatLieOnOthers) {
  EXPECT_EQ(Seen().out(5, 0).out(2, 1).told, "+-");
  EXPECT_EQ(Seen().in(2, 0).in(5, 1).told, "+-");
  EXPECT_EQ(Seen().out(5, 0).out(2, 1).out(5, kMilli).out(2, kMilli + 1).told, "+-+-");
}

TEST(Passage, IsNotTheWayToTheOtherEnd) {
  EXPECT_EQ(Seen().out(1, 0).in(1, 1).told, "++");
  EXPECT_EQ(Seen().out(1, 0).in(1, 1).out(1, kMilli).in(1, kMilli + 1).told, "++++");
  EXPECT_EQ(Seen().out(2, 0).in(3, 1).told, "++") << "two interfaces, and a cable between them";
}

}  // namespace
}  // namespace uroce::explain::test
