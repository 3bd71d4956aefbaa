// Everything that a seed decides before the first packet: who is there, how they are connected, what they do, what the
// network does to them. Swarm testing: each seed switches features on or off as a whole, so that rare combinations and
// long undisturbed stretches of each both come up.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/sim/link.h"
#include "engine/sim/random.h"

namespace uroce::simulator {

struct NetworkPlan {
  engine::sim::LinkConfig link;
  Duration faults_end{};  ///< From the start; then impairments and outages stop.
  bool ipv6 = false;
  std::uint8_t tclass = 0;  ///< Of all QPs: with or without ECT(0).
  /// Longest time from sending to arrival.
  Duration latency_max() const;
};

struct HostPlan {
  std::uint64_t window_bytes = 160 * 1024;
  std::uint32_t cqs = 1;
  bool cqs_may_overflow = false;
  Duration poll_delay{};          ///< From the first completion to the poll; 0: at once.
  std::uint32_t poll_batch = 16;  ///< Completions taken at once by a slow consumer.
};

/// How likely each operation is, in parts of their sum.
enum class Work : std::uint8_t { kSend, kSendImm, kWrite, kWriteImm, kRead, kReadBack, kSwap, kAdd, kCount };
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
    kCount
  };
  Kind kind{};
  int end = 0;
  Duration at{};     ///< From the start.
  Duration pause{};  ///< Drain: how long until RTS again.
};

struct ConnectionPlan {
  std::array<EndPlan, 2> ends;
  std::uint8_t mtu_code = 3;
  std::uint32_t message_max = 4096;
  std::uint32_t reconnects = 0;
  Duration mourning{};  ///< From the first sign of an error until the connection is taken down.
  std::vector<Disturbance> disturbances;
};

struct Scenario {
  std::uint64_t seed = 0;
  NetworkPlan network;
  std::vector<HostPlan> hosts;
  std::vector<ConnectionPlan> connections;
};

Scenario draw_scenario(std::uint64_t seed);
/// What is special about it, in a few lines.
std::string describe(const Scenario& scenario);

}  // namespace uroce::simulator
