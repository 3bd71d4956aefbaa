// SPDX-License-Identifier: Apache-2.0
// The numbers by which the transport is tuned, with their units and reasons. None of them is of the protocol: peers
// work with any. What programs may ask for is in limits.h, what a NIC is made with in config.h, what the engine waits
// for in engine/run/tunables.h.
#pragma once

#include <cstdint>

#include "proto/base/clock.h"

namespace uroce::nic {

/// Bytes of receive buffer that unacknowledged packets of ours may take at a peer, as PeerWindow::cost() counts. An
/// ordinary user's socket has at least net.core.rmem_default, 208 KiB, of which others need some.
inline constexpr std::uint64_t kWindowBytes = 160 * 1024;
/// The same where packets go in trains: one costs the receive buffer half of what it does alone, and trains want room
/// to become long.
inline constexpr std::uint64_t kTrainWindowBytes = 640 * 1024;
/// The same at a peer on this host, whose buffers are taken to be as large as ours: a quarter of them, at most this.
inline constexpr std::uint64_t kHostWindowBytes = 1024 * 1024;
/// And so much more, if a quarter of ours is that large, for kCrowdedFor after an answer that took longer than
/// kElsewhere, or twice that where so much is under way. Processors that have other work do theirs in turns of
/// milliseconds, and who sends must have enough under way for such a turn. (Six or more peers with kHostWindowBytes
/// each make answers take as long; losses then take it back.)
inline constexpr std::uint64_t kCrowdedBytes = 2 * 1024 * 1024;
inline constexpr Duration kElsewhere = std::chrono::milliseconds{2};
inline constexpr Duration kCrowdedFor = std::chrono::milliseconds{50};
/// What is left of that after losses: four packets of 4 KiB.
inline constexpr std::uint64_t kLeastWindowBytes = 34 * 1024;
/// On a path that holds twice that or more, so much may wait before the window no longer grows. Most of it waits in the
/// path, whose buffers are made for what it holds, or for a processor. With room for kWindowBytes only, programs that
/// wait for events got 70 % of what they get with this.
inline constexpr std::uint64_t kPathQueueBytes = 768 * 1024;
/// A loss tells after which round trip packets get lost. Each such time the memory of it fades by a quarter.
inline constexpr Duration kLossFades = std::chrono::milliseconds{50};
/// The most that may be under way to a peer, with what a long path holds: 10 Gb/s over 5 ms.
inline constexpr std::uint64_t kMostWindowBytes = 16 * 1024 * 1024;
/// What hosts take to answer though nothing waits: a wake-up or two. Only the rest of a round trip is the
/// path's.
inline constexpr Duration kHostTime = std::chrono::microseconds{100};
/// The shortest round trip is that of so long, or twice that: routes change.
inline constexpr Duration kRoundTripEpoch = std::chrono::seconds{10};
/// After a timeout so many packets are sent, and no more until the peer answers: it may be slow, not gone.
inline constexpr std::uint32_t kProbePackets = 16;
/// Packets that a QP may send before it is another's turn.
inline constexpr int kTurnPackets = 16;
/// Bytes of the largest READ request on the wire. A longer READ becomes several, all but the last ending on a multiple
/// of this: its responses must not overrun our own receive buffer (ADR 5).
inline constexpr std::uint32_t kReadPieceBytes = 64 * 1024;
/// Inside a long message every so many packets ask for an ACK, so that the window moves on.
inline constexpr std::uint32_t kAckEvery = 16;
/// After so long without progress our packets are out of every receive buffer: read, or lost.
inline constexpr Duration kStallAfter = std::chrono::milliseconds{10};
/// UC and UD: for so long a packet counts against the window. Then it has left the peer's receive buffer, or is lost;
/// nothing tells. With kWindowBytes that is a pace of 0.3 GB/s.
inline constexpr Duration kUnackedHold = std::chrono::microseconds{250};
/// No more of a larger window than this is for them: it comes at once, and receives must be posted for it.
inline constexpr std::uint64_t kUnackedWindowBytes = 480 * 1024;
/// The same where the window is one of kHostWindowBytes: with kUnackedWindowBytes 1.3 GB/s, about as much as RC gets.
inline constexpr Duration kUnackedHostHold = std::chrono::microseconds{170};
/// SENDs that have come count in this part, in percent, when the next packet is sent, but half a window at most. Both
/// ends then send at 0.57 of the pace of one that sends alone (perftest's -b).
inline constexpr std::uint64_t kReadShare = 75;
/// In such a window, a datagram to another host, whose buffers we do not know, counts so many times: that is the pace
/// of kWindowBytes.
inline constexpr std::uint64_t kUnackedElsewhere = 5;
static_assert(kUnackedWindowBytes / kUnackedElsewhere / kUnackedHostHold.count() <=
              kWindowBytes / kUnackedHold.count());
/// Where the program at the end reads packets itself (proto::Room), larger ones than this need no pace: few enough find
/// room at once that receives are posted for them. WRITEs need none, and so no pace where there is known to be room.
inline constexpr std::uint32_t kUnpacedBytes = 2000;
/// Where there is none, it is looked for again after so long.
inline constexpr Duration kLookForRoom = std::chrono::microseconds{10};
/// Out of credits, wait so long for the peer to announce receives before a request is tried that may draw an RNR NAK.
inline constexpr Duration kCreditPatience = std::chrono::milliseconds{1};
/// Local ACK timeouts shorter than this, that of code 11, are raised to it. A peer that nobody polls answers when its
/// background thread has taken over, after one to four milliseconds (engine::kRelaxedWatchMost), and when its host has
/// a core for it, which may take another tick of the kernel. What waits for less than that goes back for nothing. (rxe
/// waits at least a jiffy, 1 to 10 ms.)
inline constexpr Duration kAckTimeoutFloor = std::chrono::nanoseconds{4096 << 11};
/// An ACK timeout that is noticed so late does not count: this process was stopped, or had no processor, and answers
/// may be unread. The timer starts again for as long as it was late, but for no shorter than kAckTimeoutFloor and no
/// longer than the timeout; ...
inline constexpr Duration kHeldUp = std::chrono::milliseconds{1};
/// ... so often at most, for a host can be busy for ever. A timeout may take four times what was set (IBTA Vol 1,
/// 9.7.6.1.3).
inline constexpr std::uint8_t kLateTimeouts = 3;
/// No peer sends to one address faster than a packet in this time, for long: how far its IPv4 Identification may have
/// counted since it was last seen.
inline constexpr Duration kPeerPacketTime = std::chrono::microseconds{2};

}  // namespace uroce::nic
