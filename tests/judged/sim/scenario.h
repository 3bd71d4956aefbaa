// SPDX-License-Identifier: Apache-2.0
// Everything that a seed decides before the first packet: who is there, how they are connected, what they do, what the
// network does to them. Swarm testing: each seed switches features on or off as a whole, so that rare combinations and
// long undisturbed stretches of each both come up.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/sim/link.h"
#include "engine/sim/random.h"
#include "tests/judged/sim/cm/plan.h"

namespace uroce::simulator {

struct NetworkPlan {
  engine::sim::LinkConfig link;
  Duration faults_end{};  ///< From the start; then impairments and outages stop.
  bool ipv6 = false;
  std::uint8_t tclass = 0;  ///< For all QPs: with or without ECT(0).
  /// Longest time from sending to arrival.
  Duration latency_max() const;
};

/// A shared receive queue.
struct SrqPlan {
  std::uint32_t max_wr = 16;
  std::uint32_t depth = 16;  ///< Receives that the program keeps posted.
  std::uint32_t length = 0;  ///< For a receive, about.
  std::uint32_t sges_max = 1;
  double short_receive = 0;
  std::uint32_t limit = 0;  ///< Armed up to this; 0: never.
  Duration repost_delay{};  ///< Starvation: how long a receive is missing.
  bool starts_empty = false;
};
inline constexpr std::uint32_t kNoSrq = ~0u;

struct HostPlan {
  std::uint64_t window_bytes = 160 * 1024;
  std::uint32_t cqs = 1;
  bool cqs_may_overflow = false;
  Duration poll_delay{};          ///< From the first completion to the poll; 0: at once.
  std::uint32_t poll_batch = 16;  ///< Completions taken at once by a slow consumer.
  std::vector<SrqPlan> srqs;
  double flicker = 0;            ///< How often the memory of the words is not there when it is asked for.
  bool numbers_packets = false;  ///< IPv4 Identifications that count up, as Soft-RoCE sends them; else 0.
};

/// How likely each operation is, in parts of their sum.
enum class Work : std::uint8_t {
  kSend,
  kSendImm,
  kWrite,
  kWriteImm,
  kRead,
  kReadBack,
  kSwap,
  kAdd,
  kAtomicWrite,
  kFlush,
  kCount
};
using WorkMix = std::array<std::uint32_t, static_cast<std::size_t>(Work::kCount)>;

struct EndPlan {
  std::uint32_t host = 0;
  std::uint32_t send_cq = 0, recv_cq = 0;
  std::uint32_t max_send_wr = 8, max_recv_wr = 8;
  std::uint32_t sges_max = 1;
  std::uint32_t ops = 20;
  std::uint32_t depth = 8;  ///< Send WRs that the program keeps outstanding.
  Duration think{};         ///< Pause of the program between a completion and its next WR.
  WorkMix mix{};
  bool sq_sig_all = false;
  double signaled = 1, fence = 0, solicited = 0, inlined = 0, empty_sge = 0;
  double flaw = 0;           ///< WRs that must fail.
  double short_receive = 0;  ///< Receives that are too small for the largest messages.
  Duration repost_delay{};   ///< Receive starvation: how long a receive is missing.
  std::uint32_t receive_depth = 8;
  std::uint32_t srq = kNoSrq;  ///< The host's: takes its receives from there.
  std::uint8_t window = 0;     ///< Type of the memory window on the target region; 0: none.
  bool zero_based = false;     ///< Type 2: it begins with address 0.
  /// After so many PSNs, WRITEs that take so many more, as fast as it goes and with a network that loses nothing.
  std::uint32_t bulk_after = 0, bulk_psns = 0;
  double windowed = 0;       ///< Operations on the peer's memory that go through its window, if they can.
  double window_flaw = 0;    ///< Binds, invalidations and uses of windows that must fail.
  double window_change = 0;  ///< How often the window is bound anew, when nobody uses it.
  bool on_demand = false;    ///< The region that peers write and read: its memory may come and go.
  // Attributes of the QP.
  std::uint32_t sq_psn = 0;
  std::uint8_t timeout = 12, retry_cnt = 7, rnr_retry = 7, min_rnr_timer = 1;
  std::uint8_t max_rd_atomic = 4, max_dest_rd_atomic = 4;
};

/// Something that happens to one end of a connection in the middle of traffic.
struct Disturbance {
  enum class Kind : std::uint8_t {
    kError,
    kReset,
    kDrain,
    kDestroy,
    kDeregTarget,
    kReregTarget,
    kDeregLocal,
    kDeregReceive,
    kChangeInRts,  ///< Other attributes, in RTS ...
    kChangeInSqd,  ///< ... or in SQD, once it has drained.
    kDeepen,       ///< In SQD: offers the most READs and atomics, and has as many under way as the peer offers.
    kVanish,       ///< The target region, on demand, has no memory for a while.
    kCount
  };
  Kind kind{};
  int end = 0;
  Duration at{};     ///< From the start.
  Duration pause{};  ///< Drain: how long until RTS again. Vanish: how long.
  /// Waits until the end has taken a shared receive for a message of which more is to come.
  bool in_mid_message = false;
};

struct ConnectionPlan {
  std::array<EndPlan, 2> ends;
  std::uint8_t mtu_code = 3;
  std::uint32_t message_max = 4096;
  std::uint32_t reconnects = 0;
  Duration mourning{};  ///< From the first sign of an error until the connection is taken down.
  std::vector<Disturbance> disturbances;
};

/// One end of a UC connection, or one UD QP.
struct UnackedEndPlan : EndPlan {
  Duration resume_delay{};   ///< How long it stays in SQE.
  double post_in_error = 0;  ///< WRs posted in SQE.
  // UD.
  std::uint32_t qkey = 0;
  std::uint32_t groups = 0;  ///< Multicast groups that it is in, as a set of bits.
  double stray = 0;          ///< Datagrams with another Q_Key, or to a QP that does not exist.
  double multicast = 0;
};

/// Something that happens to one end of such traffic.
struct UnackedDisturbance {
  enum class Kind : std::uint8_t {
    kError,
    kReset,
    kDestroy,
    kDrain,
    kDeregLocal,
    kDeregReceive,
    kDeregTarget,  ///< UC.
    kNewQkey,      ///< UD: in RTS.
    kGroups,       ///< UD: joins and leaves.
    kCount
  };
  Kind kind{};
  std::uint32_t end = 0;
  Duration at{};
  Duration pause{};             ///< Drain: how long until RTS again.
  bool in_mid_message = false;  ///< As above.
};

/// A UC connection (two ends), or UD QPs that all know of one another.
struct UnackedPlan {
  bool connected = false;  ///< UC.
  std::vector<UnackedEndPlan> ends;
  std::uint8_t mtu_code = 3;
  std::uint32_t message_max = 4096;
  std::uint32_t restarts = 0;  ///< For the connection, or for each QP.
  Duration mourning{};
  std::vector<UnackedDisturbance> disturbances;
};
inline constexpr std::uint32_t kGroupsMax = 4;

/// Somebody who sees every packet of the network and sends forged ones.
struct StrangerPlan {
  Duration pause{};    ///< Between two of them; 0: there is no stranger.
  double as_peer = 0;  ///< How many bear the address of the QP's true peer.
};

struct Scenario {
  std::uint64_t seed = 0;
  NetworkPlan network;
  std::vector<HostPlan> hosts;
  std::vector<ConnectionPlan> connections;
  std::uint64_t max_events = 10'000'000;  ///< In the world.
  double answer_loss = 0;                 ///< For answers to READs and atomics, at the first time; not during a bulk.
  std::vector<UnackedPlan> unacked;
  StrangerPlan stranger;
  CmPlan cm;
};

Scenario draw_scenario(std::uint64_t seed);
/// What is special about it, in a few lines.
std::string describe(const Scenario& scenario);

}  // namespace uroce::simulator
