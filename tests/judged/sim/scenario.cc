// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/scenario.h"

#include <fmt/core.h>

#include <algorithm>

#include "proto/timing.h"
#include "tests/judged/sim/dice.h"
#include "tests/judged/sim/extras.h"
#include "tests/judged/sim/scenario_unacked.h"

namespace uroce::simulator {
namespace {

using engine::sim::Impairments;
using engine::sim::Outage;
using engine::sim::Random;
using std::chrono::microseconds;
using std::chrono::milliseconds;

NetworkPlan draw_network(Dice dice, std::uint32_t hosts) {
  NetworkPlan plan;
  engine::sim::LinkConfig& link = plan.link;
  link.delay = dice.spread(microseconds{1}, microseconds{100});
  if (dice.chance(0.3)) {
    link.spacing = Duration{dice.pick({50, 200, 1000})};
    link.queue = dice.u32(50, 500);
  }
  plan.faults_end = dice.spread(microseconds{300}, milliseconds{20});
  plan.ipv6 = dice.chance(0.2);
  plan.tclass = dice.chance(0.3) ? 0x2 : 0;
  Impairments& faults = link.impairments;
  if (dice.chance(0.4)) faults.jitter = dice.spread(microseconds{1}, microseconds{50});
  faults.reorder_delay = dice.spread(microseconds{2}, microseconds{400});
  if (dice.chance(0.2)) return plan;  // A network without faults finds what faults would hide.
  if (dice.chance(0.6)) faults.loss = dice.rate(0.2);
  if (dice.chance(0.5)) faults.duplicate = dice.rate(0.2);
  if (dice.chance(0.5)) faults.reorder = dice.rate(0.3);
  if (dice.chance(0.3)) faults.corrupt = dice.rate(0.1);
  if (dice.chance(0.3)) faults.ecn_mark = dice.rate(0.5);
  if (dice.chance(0.25)) {
    faults.burst = dice.rate(0.02);
    faults.burst_packets = dice.u32(2, 40);
  }
  const auto outage = [&](bool partition) {
    const Duration begin =
        Duration{static_cast<Duration::rep>(dice.between(0, static_cast<std::uint64_t>(plan.faults_end.count())))};
    Outage o{Instant{begin}, Instant{begin + dice.spread(microseconds{20}, milliseconds{5})}};
    if (partition) {
      o.from = dice.u32(0, hosts - 1);
      o.to = dice.u32(0, hosts - 1);
    }
    link.outages.push_back(o);
  };
  if (dice.chance(0.2)) outage(false);
  if (dice.chance(0.25)) {
    for (std::uint32_t n = dice.u32(1, 3); n > 0; --n) outage(true);
  }
  return plan;
}

HostPlan draw_host(Dice dice) {
  HostPlan plan;
  plan.window_bytes = dice.pick<std::uint64_t>({2048, 16 * 1024, 64 * 1024, 160 * 1024, 160 * 1024});
  plan.cqs = dice.chance(0.2) ? 16 : dice.u32(1, 4);  // About one for each QP, or shared.
  plan.cqs_may_overflow = dice.chance(0.04);
  if (dice.chance(0.4)) {
    plan.poll_delay = dice.spread(microseconds{1}, microseconds{500});
    plan.poll_batch = dice.pick({1u, 4u, 64u});
  }
  return plan;
}

WorkMix draw_mix(Dice& dice) {
  WorkMix mix{};
  for (std::uint32_t& weight : mix) weight = dice.chance(0.4) ? 0 : dice.u32(1, 10);
  mix[static_cast<std::size_t>(dice.between(0, mix.size() - 1))] += 2;  // Never nothing at all.
  return mix;
}

/// What the whole run has or has not.
struct RcFeatures {
  bool starvation, flaws, short_receives, few_retries, inlined, fences, unsignaled, scattered, thinking, disturbances,
      reconnects, psn_wrap, depth_mismatch, no_timeout;
  explicit RcFeatures(Dice dice)
      : starvation(dice.chance(0.35)),
        flaws(dice.chance(0.25)),
        short_receives(dice.chance(0.1)),
        few_retries(dice.chance(0.3)),
        inlined(dice.chance(0.4)),
        fences(dice.chance(0.4)),
        unsignaled(dice.chance(0.5)),
        scattered(dice.chance(0.5)),
        thinking(dice.chance(0.3)),
        disturbances(dice.chance(0.35)),
        reconnects(dice.chance(0.5)),
        psn_wrap(dice.chance(0.6)),
        depth_mismatch(dice.chance(0.06)),
        no_timeout(dice.chance(0.03)) {}
};

std::uint32_t draw_psn(Dice& dice, bool near_wrap) {
  return near_wrap ? (0x1000000 - dice.u32(0, 64)) & 0xFFFFFF : dice.u32(0, 0xFFFFFF);
}

EndPlan draw_end(Dice& dice, const RcFeatures& on, const std::vector<HostPlan>& hosts, Duration latency) {
  EndPlan plan;
  plan.host = dice.u32(0, static_cast<std::uint32_t>(hosts.size() - 1));
  plan.send_cq = dice.u32(0, hosts[plan.host].cqs - 1);
  plan.recv_cq = dice.chance(0.5) ? plan.send_cq : dice.u32(0, hosts[plan.host].cqs - 1);
  plan.max_send_wr = dice.u32(1, 32);
  plan.max_recv_wr = dice.u32(1, 32);
  plan.depth = dice.chance(0.5) ? plan.max_send_wr : dice.u32(1, plan.max_send_wr);
  plan.receive_depth = dice.chance(0.5) ? plan.max_recv_wr : dice.u32(1, plan.max_recv_wr);
  plan.ops = dice.chance(0.5) ? dice.u32(5, 60) : dice.u32(60, 500);
  plan.sges_max = on.scattered ? dice.u32(1, 8) : 1;
  plan.empty_sge = on.scattered ? 0.2 : 0;
  if (on.thinking && dice.chance(0.5)) plan.think = dice.spread(microseconds{1}, microseconds{200});
  plan.mix = draw_mix(dice);
  plan.sq_sig_all = dice.chance(0.2);
  plan.signaled = on.unsignaled ? dice.pick({0.05, 0.3, 0.7}) : 1;
  plan.fence = on.fences ? dice.pick({0.1, 0.5}) : 0;
  plan.solicited = dice.pick({0.0, 0.2});
  plan.inlined = on.inlined ? 0.4 : 0;
  if (on.flaws && dice.chance(0.5)) plan.flaw = 0.02;
  if (on.short_receives && dice.chance(0.5)) plan.short_receive = 0.05;
  if (on.starvation && dice.chance(0.6)) plan.repost_delay = dice.spread(microseconds{5}, milliseconds{3});

  plan.sq_psn = draw_psn(dice, on.psn_wrap);
  // The shortest timeout is well above a round trip: what fires earlier would be no fault of anybody.
  std::uint8_t shortest = 1;
  while (*proto::local_ack_timeout(shortest) < 3 * latency + microseconds{100}) ++shortest;
  plan.timeout =
      on.no_timeout && dice.chance(0.3) ? std::uint8_t{0} : static_cast<std::uint8_t>(shortest + dice.u8(0, 4));
  plan.retry_cnt = on.few_retries ? dice.u8(0, 7) : 7;
  plan.rnr_retry = on.few_retries ? dice.u8(0, 7) : 7;
  plan.min_rnr_timer = dice.chance(0.05) ? dice.u8(0, 31) : dice.u8(1, 14);
  plan.max_rd_atomic = dice.pick<std::uint8_t>({1, 1, 2, 4, 16, 128});
  return plan;
}

/// Those that the first seeds knew; of the others tells extras.cc.
constexpr std::uint64_t kFirstKinds = static_cast<std::uint64_t>(Disturbance::Kind::kDeregReceive) + 1;

std::vector<Disturbance> draw_disturbances(Dice& dice, Duration until) {
  std::vector<Disturbance> all;
  for (std::uint32_t n = dice.u32(1, 3); n > 0; --n) {
    Disturbance d;
    d.kind = static_cast<Disturbance::Kind>(dice.between(0, kFirstKinds - 1));
    if (dice.chance(0.4)) d.kind = Disturbance::Kind::kDrain;
    d.end = static_cast<int>(dice.between(0, 1));
    d.at = Duration{static_cast<Duration::rep>(dice.between(0, static_cast<std::uint64_t>(until.count())))};
    d.pause = dice.spread(microseconds{1}, milliseconds{1});
    all.push_back(d);
  }
  return all;
}

ConnectionPlan draw_connection(Dice dice, const RcFeatures& on, const Scenario& so_far) {
  ConnectionPlan plan;
  const Duration latency = so_far.network.latency_max();
  for (EndPlan& end : plan.ends) end = draw_end(dice, on, so_far.hosts, latency);
  // What one end may have outstanding, the other must be ready for; or not, which is an invalid request.
  for (int i = 0; i < 2; ++i) {
    const std::uint8_t wanted = plan.ends[static_cast<std::size_t>(1 - i)].max_rd_atomic;
    std::uint8_t& offered = plan.ends[static_cast<std::size_t>(i)].max_dest_rd_atomic;
    offered = dice.chance(0.7) ? wanted : dice.u8(wanted, 128);
    if (on.depth_mismatch && dice.chance(0.3)) offered = dice.u8(0, wanted);
  }
  plan.mtu_code = dice.u8(1, 5);
  const std::uint32_t mtu = proto::mtu_bytes(plan.mtu_code);
  plan.message_max = dice.chance(0.05) ? 200'000 : std::min(dice.pick({1u, 2u, 5u, 16u}) * mtu + 3, 33'000u);
  if (plan.message_max > 100'000) {
    for (EndPlan& end : plan.ends) end.ops = std::min(end.ops, 30u);
  }
  plan.reconnects = on.reconnects ? dice.u32(1, 3) : 0;
  plan.mourning = dice.chance(0.5) ? dice.spread(microseconds{1}, milliseconds{1}) : milliseconds{dice.between(1, 400)};
  if (on.disturbances && dice.chance(0.6)) plan.disturbances = draw_disturbances(dice, so_far.network.faults_end);
  return plan;
}

}  // namespace

Duration NetworkPlan::latency_max() const {
  const engine::sim::Impairments& f = link.impairments;
  return link.delay + f.jitter + 2 * f.reorder_delay + link.queue * link.spacing;
}

Scenario draw_scenario(std::uint64_t seed) {
  const Random random = Random{seed}.split(0x5CE9A210);
  Dice dice(random.split(0));
  Scenario scenario;
  scenario.seed = seed;
  const auto hosts = static_cast<std::uint32_t>(dice.chance(0.5) ? 2 : dice.between(2, 8));
  scenario.network = draw_network(Dice(random.split(1)), hosts);
  for (std::uint32_t i = 0; i < hosts; ++i) scenario.hosts.push_back(draw_host(Dice(random.split(100 + i))));
  const RcFeatures on(Dice(random.split(2)));
  const std::uint64_t connections = dice.chance(0.2) ? 1 : dice.between(1, dice.chance(0.2) ? 24 : 8);
  for (std::uint64_t i = 0; i < connections; ++i) {
    scenario.connections.push_back(draw_connection(Dice(random.split(1000 + i)), on, scenario));
  }
  add_unacked(random, scenario);
  draw_extras(scenario, random.split(3));
  if (Dice(random.split(4)).chance(0.25)) {
    scenario.cm = draw_cm_plan(random.split(5), scenario.network.latency_max(), scenario.network.faults_end);
  }
  return scenario;
}

std::string describe(const Scenario& scenario) {
  const NetworkPlan& net = scenario.network;
  const Impairments& f = net.link.impairments;
  const auto us = [](Duration d) { return static_cast<double>(d.count()) / 1000.0; };
  std::string text = fmt::format(
      "seed {}: {} hosts, {} connections, {}\n"
      "network: delay {} us, jitter {} us, spacing {} us, loss {:.4f}, duplicates {:.4f}, reordering {:.4f} by {} us, "
      "corruption {:.4f}, ECN {:.3f}, bursts {:.4f} of {}, {} outages, until {} us\n",
      scenario.seed, scenario.hosts.size(), scenario.connections.size(), net.ipv6 ? "IPv6" : "IPv4", us(net.link.delay),
      us(f.jitter), us(net.link.spacing), f.loss, f.duplicate, f.reorder, us(f.reorder_delay), f.corrupt, f.ecn_mark,
      f.burst, f.burst_packets, net.link.outages.size(), us(net.faults_end));
  for (std::size_t i = 0; i < scenario.connections.size(); ++i) {
    const ConnectionPlan& c = scenario.connections[i];
    text += fmt::format("connection {}: MTU {}, messages up to {}, {} reconnects, {} disturbances\n", i,
                        proto::mtu_bytes(c.mtu_code), c.message_max, c.reconnects, c.disturbances.size());
    for (const EndPlan& e : c.ends) {
      text += fmt::format(
          "  host {}: {} ops, depth {}/{}, receives {}/{} missing for {} us, psn 0x{:06x}, timeout {}, retry {}, rnr "
          "{} "
          "timer {}, rd_atomic {}/{}\n",
          e.host, e.ops, e.depth, e.max_send_wr, e.receive_depth, e.max_recv_wr, us(e.repost_delay), e.sq_psn,
          e.timeout, e.retry_cnt, e.rnr_retry, e.min_rnr_timer, e.max_rd_atomic, e.max_dest_rd_atomic);
    }
  }
  return text + describe_unacked(scenario) + describe_extras(scenario) + describe(scenario.cm);
}

}  // namespace uroce::simulator
