// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/scenario_unacked.h"

#include <fmt/core.h>

#include <algorithm>

#include "proto/headers.h"
#include "proto/timing.h"
#include "tests/judged/sim/dice.h"

namespace uroce::simulator {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint32_t kGrhSize = 40;
constexpr std::uint32_t kControlled = 1u << 31;

/// What the whole run has or has not.
struct UnackedFeatures {
  bool uc, ud, srqs, starvation, flaws, short_receives, inlined, unsignaled, scattered, thinking, disturbances,
      restarts, psn_wrap, multicast, strays, limits;
  explicit UnackedFeatures(Dice dice)
      : uc(dice.chance(0.4)),
        ud(dice.chance(0.4)),
        srqs(dice.chance(0.4)),
        starvation(dice.chance(0.4)),
        flaws(dice.chance(0.3)),
        short_receives(dice.chance(0.4)),
        inlined(dice.chance(0.4)),
        unsignaled(dice.chance(0.5)),
        scattered(dice.chance(0.5)),
        thinking(dice.chance(0.3)),
        disturbances(dice.chance(0.4)),
        restarts(dice.chance(0.6)),
        psn_wrap(dice.chance(0.5)),
        multicast(dice.chance(0.5)),
        strays(dice.chance(0.4)),
        limits(dice.chance(0.6)) {}
};

UnackedEndPlan draw_end(Dice& dice, const UnackedFeatures& on, const std::vector<HostPlan>& hosts, bool connected) {
  UnackedEndPlan plan;
  plan.host = dice.u32(0, static_cast<std::uint32_t>(hosts.size() - 1));
  plan.send_cq = dice.u32(0, hosts[plan.host].cqs - 1);
  plan.recv_cq = dice.chance(0.5) ? plan.send_cq : dice.u32(0, hosts[plan.host].cqs - 1);
  plan.max_send_wr = dice.u32(1, 32);
  plan.max_recv_wr = dice.u32(1, 32);
  plan.depth = dice.chance(0.5) ? plan.max_send_wr : dice.u32(1, plan.max_send_wr);
  plan.receive_depth = dice.chance(0.5) ? plan.max_recv_wr : dice.u32(1, plan.max_recv_wr);
  plan.ops = dice.chance(0.5) ? dice.u32(5, 60) : dice.u32(60, 300);
  plan.sges_max = on.scattered ? dice.u32(1, 8) : 1;
  plan.empty_sge = on.scattered ? 0.2 : 0;
  if (on.thinking && dice.chance(0.5)) plan.think = dice.spread(microseconds{1}, microseconds{200});
  for (const Work work : {Work::kSend, Work::kSendImm, Work::kWrite, Work::kWriteImm}) {
    const bool offered = connected || work == Work::kSend || work == Work::kSendImm;
    plan.mix[static_cast<std::size_t>(work)] = !offered || dice.chance(0.3) ? 0 : dice.u32(1, 10);
  }
  plan.mix[0] += 1;  // Never nothing at all.
  plan.sq_sig_all = dice.chance(0.2);
  plan.signaled = on.unsignaled ? dice.pick({0.05, 0.3, 0.7}) : 1;
  plan.solicited = dice.pick({0.0, 0.2});
  plan.inlined = on.inlined ? 0.4 : 0;
  if (on.flaws && dice.chance(0.5)) plan.flaw = 0.03;
  if (on.short_receives && dice.chance(0.5)) plan.short_receive = dice.pick({0.05, 0.3});
  if (on.starvation && dice.chance(0.6)) plan.repost_delay = dice.spread(microseconds{5}, milliseconds{3});
  plan.sq_psn = on.psn_wrap ? (0x1000000 - dice.u32(0, 64)) & 0xFFFFFF : dice.u32(0, 0xFFFFFF);
  plan.resume_delay = dice.spread(microseconds{1}, milliseconds{1});
  plan.post_in_error = dice.pick({0.0, 0.5});
  return plan;
}

std::vector<UnackedDisturbance> draw_disturbances(Dice& dice, Duration until, std::size_t ends) {
  std::vector<UnackedDisturbance> all;
  for (std::uint32_t n = dice.u32(1, 4); n > 0; --n) {
    UnackedDisturbance d;
    d.kind = static_cast<UnackedDisturbance::Kind>(
        dice.between(0, static_cast<std::uint64_t>(UnackedDisturbance::Kind::kCount) - 1));
    d.end = static_cast<std::uint32_t>(dice.between(0, ends - 1));
    d.at = dice.moment(until);
    d.pause = dice.spread(microseconds{1}, milliseconds{1});
    all.push_back(d);
  }
  return all;
}

UnackedPlan draw_traffic(Dice dice, const UnackedFeatures& on, const Scenario& so_far, bool connected) {
  UnackedPlan plan;
  plan.connected = connected;
  const std::uint32_t ends = connected ? 2 : dice.u32(2, 8);
  // A Q_Key for all, or for some of them another one.
  const std::uint32_t qkeys[] = {dice.u32(1, 0x7FFFFFFF), dice.u32(1, 0x7FFFFFFF), kControlled | dice.u32(0, 0xFFFF)};
  const bool same = dice.chance(0.6);
  for (std::uint32_t i = 0; i < ends; ++i) {
    UnackedEndPlan end = draw_end(dice, on, so_far.hosts, connected);
    end.qkey = same ? qkeys[0] : dice.pick({qkeys[0], qkeys[0], qkeys[1], qkeys[2]});
    // The oracle foresees a packet for all members at once. The NIC serves one after the other, and moves the QPs of a
    // CQ that overflows to ERR in between, as it should: of this the oracle would know too late.
    const bool may_join = on.multicast && !so_far.hosts[end.host].cqs_may_overflow;
    end.groups = may_join ? dice.u32(0, (1u << kGroupsMax) - 1) : 0;
    end.multicast = on.multicast ? dice.pick({0.1, 0.5}) : 0;
    end.stray = on.strays ? 0.1 : 0;
    plan.ends.push_back(end);
  }
  plan.mtu_code = connected ? dice.u8(1, 5) : std::uint8_t{5};
  const std::uint32_t mtu = proto::mtu_bytes(plan.mtu_code);
  plan.message_max =
      connected ? std::min(dice.pick({1u, 2u, 5u, 16u}) * mtu + 3, 33'000u) : dice.pick({64u, 1024u, mtu});
  plan.restarts = on.restarts ? dice.u32(1, 3) : 0;
  plan.mourning = dice.spread(microseconds{1}, milliseconds{1});
  if (on.disturbances && dice.chance(0.7)) plan.disturbances = draw_disturbances(dice, so_far.network.faults_end, ends);
  return plan;
}

/// A UC QP keeps the receive of a message whose end was lost, for ever if that was the last one. So does an RC QP when
/// its peer, with timeout 0, never repeats it. So that others go on, there are more receives than such QPs.
void leave_some_to_others(Scenario& scenario) {
  for (std::uint32_t host = 0; host < scenario.hosts.size(); ++host) {
    for (std::uint32_t n = 0; n < scenario.hosts[host].srqs.size(); ++n) {
      std::uint32_t keepers = 0;
      for (const UnackedPlan& traffic : scenario.unacked) {
        keepers += static_cast<std::uint32_t>(std::count_if(
            traffic.ends.begin(), traffic.ends.end(),
            [&](const UnackedEndPlan& end) { return traffic.connected && end.host == host && end.srq == n; }));
      }
      for (const ConnectionPlan& connection : scenario.connections) {
        for (std::size_t side = 0; side < connection.ends.size(); ++side) {
          const EndPlan& end = connection.ends[side];
          if (end.host == host && end.srq == n && connection.ends[1 - side].timeout == 0) ++keepers;
        }
      }
      SrqPlan& srq = scenario.hosts[host].srqs[n];
      srq.depth = std::max(srq.depth, keepers + 1);
      srq.max_wr = std::max(srq.max_wr, srq.depth);
    }
  }
}

/// Gives each host a queue or two, and some of its QPs one of them.
void draw_srqs(Dice dice, const UnackedFeatures& on, Scenario& scenario) {
  for (HostPlan& host : scenario.hosts) {
    for (std::uint32_t n = dice.u32(1, 2); n > 0; --n) {
      SrqPlan srq;
      srq.depth = dice.u32(1, 24);
      srq.max_wr = srq.depth + dice.u32(0, 8);
      srq.sges_max = on.scattered ? dice.u32(1, 8) : 1;
      if (on.short_receives && dice.chance(0.5)) srq.short_receive = 0.1;
      if (on.limits) srq.limit = dice.u32(1, srq.max_wr);
      if (on.starvation && dice.chance(0.6)) {
        srq.repost_delay = dice.spread(microseconds{5}, milliseconds{3});
        srq.starts_empty = dice.chance(0.3);
      }
      host.srqs.push_back(srq);
    }
  }
  const auto share = [&](EndPlan& end, std::uint32_t length) {
    if (!dice.chance(0.6)) return;
    std::vector<SrqPlan>& srqs = scenario.hosts[end.host].srqs;
    end.srq = dice.u32(0, static_cast<std::uint32_t>(srqs.size() - 1));
    srqs[end.srq].length = std::max(srqs[end.srq].length, length + 8);
  };
  for (ConnectionPlan& connection : scenario.connections) {
    if (connection.message_max > 40'000) continue;
    for (EndPlan& end : connection.ends) share(end, connection.message_max);
  }
  for (UnackedPlan& traffic : scenario.unacked) {
    for (UnackedEndPlan& end : traffic.ends) share(end, traffic.message_max + kGrhSize);
  }
  leave_some_to_others(scenario);
}

}  // namespace

void add_unacked(const engine::sim::Random& random, Scenario& scenario) {
  const UnackedFeatures on(Dice(random.split(20)));
  Dice dice(random.split(21));
  if (on.uc) {
    for (std::uint32_t n = dice.u32(1, 4); n > 0; --n) {
      scenario.unacked.push_back(draw_traffic(Dice(random.split(3000 + n)), on, scenario, true));
    }
  }
  if (on.ud) {
    for (std::uint32_t n = dice.u32(1, 2); n > 0; --n) {
      scenario.unacked.push_back(draw_traffic(Dice(random.split(4000 + n)), on, scenario, false));
    }
  }
  if (on.srqs) draw_srqs(Dice(random.split(22)), on, scenario);
}

std::string describe_unacked(const Scenario& scenario) {
  std::string text;
  const auto us = [](Duration d) { return static_cast<double>(d.count()) / 1000.0; };
  for (std::size_t i = 0; i < scenario.hosts.size(); ++i) {
    for (const SrqPlan& srq : scenario.hosts[i].srqs) {
      text += fmt::format("host {} SRQ: {} receives of about {} bytes, missing for {} us, limit up to {}\n", i,
                          srq.depth, srq.length, us(srq.repost_delay), srq.limit);
    }
  }
  for (const UnackedPlan& traffic : scenario.unacked) {
    text += fmt::format("{}: MTU {}, messages up to {}, {} restarts, {} disturbances\n",
                        traffic.connected ? "UC" : "UD", proto::mtu_bytes(traffic.mtu_code), traffic.message_max,
                        traffic.restarts, traffic.disturbances.size());
    for (const UnackedEndPlan& e : traffic.ends) {
      text += fmt::format("  host {}: {} ops, depth {}/{}, ", e.host, e.ops, e.depth, e.max_send_wr);
      text += e.srq != kNoSrq
                  ? fmt::format("receives of SRQ {}", e.srq)
                  : fmt::format("receives {}/{} missing for {} us", e.receive_depth, e.max_recv_wr, us(e.repost_delay));
      text += traffic.connected ? fmt::format(", psn 0x{:06x}\n", e.sq_psn)
                                : fmt::format(", Q_Key 0x{:x}, groups 0x{:x}\n", e.qkey, e.groups);
    }
  }
  return text;
}

}  // namespace uroce::simulator
