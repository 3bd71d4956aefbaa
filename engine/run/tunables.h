// SPDX-License-Identifier: Apache-2.0
// The numbers by which the engine is tuned, with their units and reasons: how much is done at once, and who waits for
// how long. The transport's are in verbs/nic/model/tunables.h.
#pragma once

#include <cstdint>

#include "proto/base/clock.h"

namespace uroce::engine {

/// Packets sent before the next look at what has arrived, and the other way round: neither direction, and no thread
/// that waits for the NIC, has to wait for long.
inline constexpr std::size_t kCrankBurst = 64;

/// With a deadline so long past, this process was stopped or had no processor, and packets that came meanwhile may tell
/// that the deadline no longer matters. They are taken first, ...
inline constexpr Duration kHeldUp = std::chrono::milliseconds(1);
/// ... up to so many more bursts.
inline constexpr int kBurstsWhenLate = 16;

/// To take what is here, the crank turns so often at most, or until a turn receives nothing. More than a socket's
/// buffer usually holds.
inline constexpr int kTurnsForArrived = 64;

/// How long a NIC that is closed waits for room in the network, and how often it looks. A peer that lives makes room in
/// a few milliseconds, but on a busy machine it needs tens of them to get a processor.
inline constexpr Duration kLastWait = std::chrono::milliseconds(500);
inline constexpr Duration kLastLook = std::chrono::microseconds(100);
/// How long the end of a process waits for who turns the crank: tens of microseconds, but such a thread may have lost
/// its processor.
inline constexpr Duration kExitWait = std::chrono::milliseconds(50);

/// On a processor that QEMU emulates some of the times below are so many times as long (engine/run/pace.h).
inline constexpr int kEmulatedPace = 5;

/// A thread that polls and does nothing else for longer than this in between has paused.
inline constexpr Duration kPollPause = std::chrono::microseconds(10);
/// Posts further apart than this, and no poll in between: the program does something else. A post takes up to 50 us
/// where it has to wake another processor.
inline constexpr Duration kPostPause = std::chrono::microseconds(100);
/// A post within this time after another one: the program could as well have posted a list. For one that polls when it
/// has posted, ...
inline constexpr Duration kPostRow = std::chrono::microseconds(2);
/// ... so many of them are sent together.
inline constexpr int kPostsTogether = 16;
/// A post under a mask sends so many bursts: nobody else would soon. If that is not all, the background thread goes on.
inline constexpr int kBurstsUnderMask = 4;
/// So many polls without a pause: the thread waits for packets by polling, and will take them itself.
inline constexpr std::uint32_t kPollsToMask = 4;
/// Where packets had to wait because a thread did not poll again after all, so many ...
inline constexpr std::uint32_t kPollsToMaskStrictly = 256;
/// ... for so long.
inline constexpr Duration kStrictFor = std::chrono::milliseconds(200);
/// How long packets wait when a poller that was relied on does not come again.
inline constexpr Duration kPollerTrust = std::chrono::milliseconds(1);
/// While others have taken the packets so many times in a row when the background thread looked, and one of them was
/// there within ...
inline constexpr int kWatchesToRelax = 32;
/// ... this time, ...
inline constexpr Duration kIsThere = std::chrono::microseconds(100);
/// ... it looks later, from then on ...
inline constexpr Duration kRelaxedWatch = std::chrono::microseconds(1900);
/// ... until then, with the kernel's next tick (1 to 4 ms). On some virtual machines to set a timer takes 12 us, and 20
/// to be interrupted by it; the tick interrupts anyway. A poller that has gone is noticed before a peer repeats what it
/// has sent (nic::kAckTimeoutFloor).
inline constexpr Duration kRelaxedWatchMost = std::chrono::milliseconds(4);
/// When nobody has polled for so long, the background thread need not watch over pollers.
inline constexpr Duration kPollsOver = std::chrono::milliseconds(4);

/// The answers to so many packets, a message and the ACK before it, may wait for what a sleeper that was woken by them
/// posts. A stream's do not: its sender may need them.
inline constexpr std::size_t kAnswersKept = 2;
/// A thread that has slept for an event, and sleeps for the next one within this, has come back soon.
inline constexpr Duration kSleeperPause = std::chrono::microseconds(100);

/// Habits are learned (engine/run/habit.h): that a thread polls on when it has found something,
/// that it polls when it has posted something, that it comes back to sleep, and that it posts something before. A point
/// each time that it does, at most so many;
inline constexpr int kLoyaltyMax = 64;
/// so many lost each time that it does not;
inline constexpr int kLoyaltyLost = 2;
/// and so many are needed to rely on it.
inline constexpr int kLoyaltyNeeded = 32;

/// A peer writes to the program's memory so soon after the program has found the completion of its own WRITE: it may be
/// the answer. As the background thread sees it, which has to get a processor first.
inline constexpr Duration kWriteSoon = std::chrono::milliseconds(2);
/// Where that is the rule, ibv_poll_cq looks out for it so long before it returns: longer than a peer needs whose
/// background thread has to wake up. For so long again when another packet comes, or it has slept (kCrowdedSleep), ...
inline constexpr Duration kLookOut = std::chrono::microseconds(50);
/// ... but for no longer than this in all.
inline constexpr Duration kLookOutMost = std::chrono::microseconds(500);
/// One in so many times it does not, to see whether the program would have called meanwhile; half as often when it
/// would not, down to one in so many: the background thread has to be woken then.
inline constexpr std::uint32_t kLookOutsToCheck = 128;
inline constexpr std::uint32_t kLookOutsToCheckMost = 4096;
/// A program may react to so many WRITEs that came together.
inline constexpr std::uint64_t kFewWrites = 2;
/// To have looked out for a packet in vain counts so many times.
inline constexpr int kLookOutsLost = 4;

/// After packets the background thread sleeps no longer than this: more is going to be posted, and it need not be woken
/// for the deadlines of that. The shortest usual ones are later (nic::kAckTimeoutFloor).
inline constexpr Duration kSleepAfterPackets = std::chrono::milliseconds(4);
/// Where others take the packets, and post more, its plan is good for so long: for longer than a watch, and less than
/// the deadlines of what they post next.
inline constexpr Duration kSleepBesideOthers = std::chrono::microseconds(4100);
static_assert(kSleepBesideOthers > kRelaxedWatchMost);

/// How long a thread of the program waits for the NIC's lock before it sleeps. Shorter than to be woken on an idle
/// processor takes (30 us on some virtual machines).
inline constexpr Duration kLockSpin = std::chrono::microseconds(20);

/// After so many wake-ups in a row on the processor on which the program runs without a pause, the background thread
/// moves to another one, ...
inline constexpr int kWakesInTheWay = 8;
/// ... at most once in this time: it takes some 100 us, and the scheduler may want it where it was.
inline constexpr Duration kMovePause = std::chrono::milliseconds(10);

/// A thread that polls time and again, is then kept from doing so for longer than this, and had to leave its processor
/// to others: they want it, too. The background thread works for less at a time.
inline constexpr Duration kPreemptedPause = std::chrono::microseconds(200);
/// So long that is taken for true: a thread that mostly sleeps is not preempted, and would not notice that others still
/// want its processor.
inline constexpr Duration kCrowdedFor = std::chrono::milliseconds(50);
/// Then a thread polls for so long before it sleeps: longer than an answer takes from a peer that runs, ...
inline constexpr Duration kCrowdedSpin = std::chrono::microseconds(30);
/// ... and sleeps for at most so long: the background thread is to see that it is still there (kPollerTrust).
inline constexpr Duration kCrowdedSleep = std::chrono::microseconds(500);
/// It sleeps only when it has been the only thread that uses its NIC for so long, and that NIC the only one that it
/// polls: nothing but packets for this one wakes it.
inline constexpr Duration kAloneFor = std::chrono::milliseconds(50);

/// A thread that sleeps for events, and has left packets unread for so long at least, does not come for them: a signal
/// handler keeps it, or has left it by longjmp(). The background thread looks as often. Peers try for longer: half a
/// second with the usual timeout of 67 ms and 7 retries.
inline constexpr Duration kSleeperTrust = std::chrono::milliseconds(100);

/// So many packets in one go are a stream. A message of 64 KiB is; a request and its answer are not.
inline constexpr std::size_t kStreamPackets = 8;
/// The background thread gets the next packet so soon after it was done with the one before, be it awake or asleep; and
/// a sleeper its event, after it came for it.
inline constexpr Duration kNextSoon = std::chrono::microseconds(100);
/// To give the processor away takes so long where nobody else wants it. Where others do, it can take milliseconds, and
/// the thread does not stay awake, nor ask again, for as long; twice as long the next time, ...
inline constexpr Duration kYieldForNobody = std::chrono::microseconds(10);
/// ... and so on up to so many times as long; ...
inline constexpr int kYieldsCostMost = 32;
/// ... half as long again after so many yields for nobody.
inline constexpr int kYieldsUndisturbed = 32;
/// In a stream, and where the next packet usually comes soon, the background thread looks for more for so long before
/// it sleeps; and a sleeper where its event usually comes soon.
inline constexpr Duration kLinger = std::chrono::microseconds(50);

}  // namespace uroce::engine
