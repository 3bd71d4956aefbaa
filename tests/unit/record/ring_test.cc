// SPDX-License-Identifier: Apache-2.0
// What a ring keeps, what a reader leaves out, and what is said about a packet.
#include "tests/unit/record/flights.h"
#include "verbs/record/reasons.h"

namespace uroce::record::test {
namespace {

TEST(Ring, KeepsTheLastEvents) {
  Flight flight;
  for (std::uint64_t i = 0; i < kEventsKept + 10; ++i) flight.event(1ms, TraceKind::kNak, i, 7, Phase::kReceiving);
  const Recording recording = flight.read();
  ASSERT_EQ(recording.events.size(), kEventsKept);
  EXPECT_EQ(recording.lost_events, 10u);
  EXPECT_EQ(recording.events.front().event.a, 10u);
  EXPECT_EQ(recording.events.back().event.a, kEventsKept + 9);
  EXPECT_EQ(recording.events.back().event.qpn, kQpn);
  EXPECT_EQ(recording.events.back().event.b, 7u);
  EXPECT_EQ(recording.events.back().phase, Phase::kReceiving);
}

TEST(Ring, AReaderLeavesOutWhatWasOverwrittenMeanwhile) {
  Flight flight;
  for (std::uint64_t i = 0; i < kEventsKept; ++i) flight.event(1ms, TraceKind::kNak, i);
  const Recording recording = read_ring(*flight.ring, flight.ring->events + 5, flight.ring->packets + 1);
  ASSERT_EQ(recording.events.size(), kEventsKept - 5);
  EXPECT_EQ(recording.events.front().event.a, 5u);
}

TEST(Ring, KeepsTheHeadsOfPackets) {
  Flight flight;
  flight.sends_write(1ms, 0x105);
  flight.gets_ack(2ms, 0x105);
  const Recording recording = flight.read();
  ASSERT_EQ(recording.packets.size(), 2u);
  const Recording::Packet& sent = recording.packets[0];
  EXPECT_TRUE(sent.sent);
  EXPECT_EQ(sent.qpn, kQpn);
  EXPECT_EQ(sent.path.destination, kPeer);
  EXPECT_EQ(sent.size, 12u + 16u + 100u + 4u);
  EXPECT_EQ(sent.head.size(), kHeadBytes);
  EXPECT_FALSE(recording.packets[1].sent);
  EXPECT_EQ(recording.packets[1].qpn, kQpn);
  EXPECT_EQ(recording.packets[1].head.size(), 20u);
}

TEST(Ring, KeepsMessagesOfTheConnectionManagerWhole) {
  Flight flight;
  for (int i = 0; i < 70; ++i) {
    flight.gets_message(i * 1ms, static_cast<std::uint8_t>(i));
    flight.sends_write(i * 1ms, 0x105, 300);
  }
  Recording recording = flight.read();
  ASSERT_EQ(recording.packets.size(), 140u);
  // The oldest six are heads only.
  for (std::size_t i = 0; i < recording.packets.size(); ++i) {
    const bool whole = i % 2 == 0 && i / 2 >= 70 - kMessagesKept;
    EXPECT_EQ(recording.packets[i].head.size(), whole ? kMessageBytes : kHeadBytes) << i;
    if (whole) {
      EXPECT_EQ(recording.packets[i].head.at(200), i / 2);
      EXPECT_TRUE(proto::check_icrc(recording.packets[i].path, recording.packets[i].head).ok);
    }
  }
  // An entry that was overwritten while it was read is not taken.
  flight.ring->message.at(69 % kMessagesKept).bytes.at(30) ^= 1;
  recording = flight.read();
  EXPECT_EQ(recording.packets.at(138).head.size(), kHeadBytes);
  EXPECT_EQ(recording.packets.at(136).head.size(), kMessageBytes);
}

TEST(Ring, ForeignOrDamagedMemoryIsNoRecording) {
  Flight flight;
  flight.sends_write(1ms, 0x105);
  flight.sends_write(2ms, 0x106);
  flight.ring->packet[0].source[0] = 0xFD;  // IPv6, while the destination is IPv4.
  EXPECT_EQ(flight.read().packets.size(), 1u);
  flight.event(1ms, TraceKind::kNak);
  flight.ring->event[0].kind = 0xFF;
  EXPECT_TRUE(flight.read().events.empty());
  flight.ring->magic = 1;
  flight.ring->events = ~std::uint64_t{0};
  EXPECT_TRUE(flight.read().events.empty());
}

TEST(Reasons, APacketThatIsSentAgainSaysWhy) {
  Flight flight;
  flight.sends_write(1ms, 0x105);
  flight.event(5ms, TraceKind::kAckTimeout, 0x105, 6);
  flight.event(5ms, TraceKind::kRetransmitted, 0x105, 0, Phase::kSending);
  flight.sends_write(5ms, 0x105);
  flight.gets_ack(6ms, 0x105);
  flight.event(6ms, TraceKind::kGhostAck, 0x11, 0x105, Phase::kReceiving);
  const auto said = comments(flight.read());
  EXPECT_EQ(said,
            (std::vector<std::string>{"", "NIC: sent again because of ack_timeout qpn=0x11 psn=0x105 retries_left=6",
                                      "NIC: ghost_ack qpn=0x11 opcode=17 psn=0x105"}));
}

/// The events of packets that are not kept any more say nothing about the first one that is.
TEST(Reasons, OldEventsAreNotThoseOfTheFirstPacket) {
  Flight flight;
  flight.event(1ms, TraceKind::kRnrNakIn, 0x105, 12);
  flight.event(1ms, TraceKind::kRetransmitted, 0x105, 0, Phase::kSending);
  for (std::uint32_t i = 0; i < kPacketsKept + 1; ++i) flight.sends_write(2ms, 0x105 + i);
  flight.event(3ms, TraceKind::kRetransmitted, 0x106, 0, Phase::kSending);
  flight.sends_write(3ms, 0x106);
  const auto said = comments(flight.read());
  ASSERT_GT(said.size(), 2u);
  EXPECT_EQ(said.front(), "");
  EXPECT_TRUE(said.back().starts_with("NIC: sent again because of rnr_nak_in ")) << said.back();
}

TEST(Reasons, TheNumbersOfEventsAndPacketsCountOver) {
  Flight flight;
  flight.ring->last_number = ~std::uint32_t{0} - 1;
  flight.gets_ack(1ms, 0x104);
  flight.gets_ack(2ms, 0x105);
  flight.event(2ms, TraceKind::kGhostAck, 0x11, 0x105, Phase::kReceiving);
  EXPECT_EQ(comments(flight.read()), (std::vector<std::string>{"", "NIC: ghost_ack qpn=0x11 opcode=17 psn=0x105"}));
}

}  // namespace
}  // namespace uroce::record::test
