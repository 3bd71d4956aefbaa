// SPDX-License-Identifier: Apache-2.0
// Packets of one sender that look alike: which sighting at the other end is which one's.
#include "tools/explain/packets/twins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/scripted.h"
#include "tools/explain/capture/reader.h"

namespace uroce::explain::test {
namespace {

constexpr std::int64_t kUs = 1'000;

/// A capture of 10.0.0.1, as tap 0, and one of 10.0.0.2, as tap 1, of SENDs that all have PSN 1 and of answers to them.
class Taps {
 public:
  Taps() {
    auto capture = Capture::open(Input(scripted_pcap({{true, proto::Opcode::kRcSendOnly, 1, 4},
                                                      {false, proto::Opcode::kRcAcknowledge, 1, 0, aeth(1)}})),
                                 "", 0);
    request_ = *(*capture)->next();
    answer_ = *(*capture)->next();
  }
  /// The ways take 20 us at least, of which the twins know from this.
  void learn_ways() {
    add(answer_, 1, Direction::kSent, 0);
    add(answer_, 0, Direction::kReceived, 20 * kUs);
    Packet other = request_;
    other.psn = proto::Psn{0};
    add(other, 0, Direction::kSent, 30 * kUs);
    add(other, 1, Direction::kReceived, 50 * kUs);
    frame_ = 0;
  }
  void sent(std::int64_t time_ns, const std::string& comment = "") {
    add(request_, 0, Direction::kSent, time_ns, comment);
  }
  void arrived(std::int64_t time_ns) { add(request_, 1, Direction::kReceived, time_ns); }
  /// Of those that come now.
  void set_icrc(Icrc icrc) { request_.icrc = icrc; }

  /// Of each SEND, in the order of their sending: the number of the frame at the other end, 0 when it was lost.
  std::vector<std::uint64_t> take() {
    std::vector<std::uint64_t> frames;
    while (const auto packet = twins_.take(true)) {
      if (!packet->is_response() && packet->psn == request_.psn) frames.push_back(packet->other.frame);
    }
    return frames;
  }

 private:
  void add(Packet packet, std::uint32_t tap, Direction direction, std::int64_t time_ns,
           const std::string& comment = "") {
    packet.tap = packet.place.file = tap;
    packet.place.frame = ++frame_;
    packet.direction = direction;
    packet.time_ns = time_ns;
    packet.comment = comment;
    twins_.add(std::move(packet));
  }
  Twins twins_;
  Packet request_, answer_;
  std::uint64_t frame_ = 0;
};

TEST(Twins, OfCopiesTheFirstOneArrivesFirst) {
  Taps taps;
  taps.learn_ways();
  taps.sent(100 * kUs);
  taps.sent(101 * kUs);
  taps.arrived(130 * kUs);
  taps.arrived(131 * kUs);
  EXPECT_THAT(taps.take(), testing::ElementsAre(3, 4));
}

TEST(Twins, WhatIsSentAgainWasLostBefore) {
  Taps taps;
  taps.learn_ways();
  taps.sent(100 * kUs);
  taps.sent(200 * kUs);
  taps.arrived(220 * kUs);
  EXPECT_THAT(taps.take(), testing::ElementsAre(0, 3));
}

TEST(Twins, WhatIsDamagedWhenItIsSentArrivesDamaged) {
  Taps taps;
  taps.learn_ways();
  taps.set_icrc(Icrc::kWrong);
  taps.sent(100 * kUs);
  taps.set_icrc(Icrc::kRight);
  taps.sent(200 * kUs);
  taps.set_icrc(Icrc::kWrong);
  taps.arrived(250 * kUs);
  taps.set_icrc(Icrc::kRight);
  taps.arrived(260 * kUs);
  EXPECT_THAT(taps.take(), testing::ElementsAre(3, 4));
}

/// The clock of the other end is behind.
TEST(Twins, CopiesThatSeemToArriveBeforeTheyAreSent) {
  Taps taps;
  taps.learn_ways();
  taps.arrived(100 * kUs);
  taps.arrived(160 * kUs);
  taps.sent(170 * kUs);
  taps.sent(230 * kUs);
  EXPECT_THAT(taps.take(), testing::ElementsAre(1, 2));
}

/// It was dropped in front of the wire, and is sent again before anybody has missed it.
TEST(Twins, WhatItsOwnNicHasDroppedArrivesNowhere) {
  for (const std::string how : {"uroce: dropped by loss=10%", "uroce: dropped because too many packets are held back",
                                "uroce: dropped by loss=10%; NIC: sent again because of ack_timeout"}) {
    Taps taps;
    taps.learn_ways();
    taps.sent(100 * kUs, how);
    taps.sent(101 * kUs);
    taps.sent(102 * kUs, how);
    taps.arrived(130 * kUs);
    EXPECT_THAT(taps.take(), testing::ElementsAre(0, 4, 0)) << how;
  }
}

}  // namespace
}  // namespace uroce::explain::test
