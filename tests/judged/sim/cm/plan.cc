// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/cm/plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "tests/judged/sim/dice.h"

namespace uroce::simulator {
namespace {

using Answer = CmAttemptPlan::Answer;
using Reply = CmAttemptPlan::Reply;
using cm::Transport;

/// From one REQ to the next (IBTA Vol 1, 12.9.8.7 with the time-outs that RDMA CM uses).
constexpr Duration kReqInterval = std::chrono::milliseconds{4608};

/// What the whole run has or has not.
struct Habits {
  bool refusals, ignorance, giving_up, deaths, unlistening, slow_programs, datagrams, small_backlogs;
  explicit Habits(Dice dice)
      : refusals(dice.chance(0.4)),
        ignorance(dice.chance(0.2)),
        giving_up(dice.chance(0.3)),
        deaths(dice.chance(0.5)),
        unlistening(dice.chance(0.2)),
        slow_programs(dice.chance(0.5)),
        datagrams(dice.chance(0.5)),
        small_backlogs(dice.chance(0.3)) {}
};

CmProcessPlan draw_process(Dice dice, const Habits& on, Duration until) {
  CmProcessPlan plan;
  plan.backlog = on.small_backlogs ? dice.u32(1, 3) : 0;
  if (on.unlistening && dice.chance(0.5)) plan.unlistens_at = dice.moment(until);
  if (on.deaths && dice.chance(0.5)) {
    plan.dies_at = dice.moment(until);
    plan.says_goodbye = dice.chance(0.5);
    if (dice.chance(0.6)) plan.gone_for = dice.spread(Duration{1000}, until);
  }
  return plan;
}

CmAttemptPlan draw_attempt(Dice dice, const Habits& on, std::uint32_t processes, Duration until, Duration interval) {
  CmAttemptPlan plan;
  plan.transport = !on.datagrams      ? Transport::kRc
                   : dice.chance(0.5) ? Transport::kRc
                                      : dice.pick({Transport::kUc, Transport::kUd});
  plan.client = dice.u32(0, processes - 1);
  plan.server = dice.u32(0, processes - 1);
  plan.at = dice.moment(until);
  plan.to_nobody = on.refusals && dice.chance(0.1);
  const auto pause = [&] {
    return on.slow_programs && dice.chance(0.5) ? dice.moment(3 * interval) : dice.moment(interval / 50);
  };
  if (on.refusals && dice.chance(0.3)) plan.answer = dice.pick({Answer::kReject, Answer::kDestroy});
  if (on.ignorance && dice.chance(0.2)) plan.answer = Answer::kIgnore;
  plan.answer_after = pause();
  if (on.refusals && dice.chance(0.2)) plan.reply = dice.pick({Reply::kReject, Reply::kDestroy});
  plan.reply_after = pause();
  if (on.giving_up && dice.chance(0.3)) plan.given_up_after = dice.moment(3 * interval) + Duration{1};
  plan.lives = dice.spread(Duration{1000}, 2 * until);
  plan.ends_it = {dice.chance(0.5), dice.chance(0.5)};
  plan.by_destroy = dice.chance(0.3);
  plan.lingers = dice.chance(0.5) ? Duration{} : dice.moment(4 * interval);
  return plan;
}

}  // namespace

CmPlan draw_cm_plan(const engine::sim::Random& random, Duration latency, Duration faults_end) {
  Dice dice(random.split(0));
  CmPlan plan;
  // Answers come in time, as long as nothing goes wrong; and what is lost is mostly asked for again among faults.
  const Duration interval = std::max(8 * latency, faults_end / static_cast<Duration::rep>(dice.between(2, 16)));
  plan.time_divisor = static_cast<std::uint32_t>(std::max<Duration::rep>(1, kReqInterval / interval));
  if (dice.chance(0.8)) {
    if (dice.chance(0.7)) plan.loss = dice.rate(0.3);
    if (dice.chance(0.5)) plan.duplicate = dice.rate(0.3);
    if (dice.chance(0.5)) plan.late = dice.rate(0.3);
    if (dice.chance(0.3)) plan.corrupt = dice.rate(0.3);
    plan.lateness = dice.moment(dice.chance(0.3) ? 2 * interval : interval / 4) + Duration{1};
  }
  const Habits on(Dice(random.split(1)));
  const std::uint32_t processes = dice.u32(2, 4);
  for (std::uint32_t i = 0; i < processes; ++i) {
    plan.processes.push_back(draw_process(Dice(random.split(100 + i)), on, faults_end));
  }
  const std::uint32_t attempts = dice.u32(1, dice.chance(0.2) ? 60 : 12);
  for (std::uint32_t i = 0; i < attempts; ++i) {
    plan.attempts.push_back(draw_attempt(Dice(random.split(1000 + i)), on, processes, faults_end, interval));
  }
  return plan;
}

std::string describe(const CmPlan& plan) {
  if (plan.processes.empty()) return "";
  const auto us = [](Duration d) { return static_cast<double>(d.count()) / 1000.0; };
  std::string text = fmt::format(
      "connection management: {} processes, time / {}, loss {:.4f}, duplicates {:.4f}, late {:.4f} by {} us, "
      "corruption "
      "{:.4f}\n",
      plan.processes.size(), plan.time_divisor, plan.loss, plan.duplicate, plan.late, us(plan.lateness), plan.corrupt);
  for (std::size_t i = 0; i < plan.processes.size(); ++i) {
    const CmProcessPlan& p = plan.processes[i];
    text += fmt::format("  process {}: backlog {}, unlistens at {} us, dies at {} us{}, gone for {} us\n", i, p.backlog,
                        us(p.unlistens_at), us(p.dies_at), p.says_goodbye ? " with a word" : "", us(p.gone_for));
  }
  constexpr const char* kTransports[] = {"RC", "UC", "UD"};
  constexpr const char* kAnswers[] = {"accepts", "rejects", "destroys", "is silent"};
  constexpr const char* kReplies[] = {"establishes", "rejects", "destroys"};
  for (std::size_t i = 0; i < plan.attempts.size(); ++i) {
    const CmAttemptPlan& a = plan.attempts[i];
    text += fmt::format(
        "  attempt {}: {} {} > {} at {} us{}; {} after {} us, {} after {} us, given up after {} us; lives {} us\n", i,
        kTransports[static_cast<int>(a.transport)], a.client, a.server, us(a.at),
        a.to_nobody ? " (nobody listens)" : "", kAnswers[static_cast<int>(a.answer)], us(a.answer_after),
        kReplies[static_cast<int>(a.reply)], us(a.reply_after), us(a.given_up_after), us(a.lives));
  }
  return text;
}

}  // namespace uroce::simulator
