// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/unacked_traffic.h"

#include <algorithm>

#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using std::chrono::milliseconds;

UnackedTraffic::UnackedTraffic(Stage& stage, std::size_t number, const UnackedPlan& plan,
                               const std::vector<std::unique_ptr<Host>>& hosts)
    : stage_(stage),
      number_(number),
      plan_(plan),
      random_(engine::sim::Random{stage.scenario.seed}.split(6000 + number)) {
  for (const UnackedEndPlan& end : plan.ends) {
    Host& host = *hosts[end.host];
    if (plan.connected) {
      uc_.push_back(std::make_unique<UcEnd>(stage, *this, host, end, plan, random_.next()));
      ends_.push_back(uc_.back().get());
    } else {
      ud_.push_back(std::make_unique<UdEnd>(stage, *this, host, end, plan, random_.next()));
      ends_.push_back(ud_.back().get());
    }
  }
  if (plan.connected) {
    uc_[0]->set_peer(*uc_[1]);
    uc_[1]->set_peer(*uc_[0]);
    groups_.push_back({ends_});
  } else {
    std::vector<UdEnd*> all;
    for (auto& end : ud_) all.push_back(end.get());
    for (auto& end : ud_) {
      end->set_others(all);
      groups_.push_back({{end.get()}});
    }
  }
  for (Group& group : groups_) group.restarts = plan.restarts;
}

void UnackedTraffic::build() {
  for (UnackedEnd* end : ends_) end->build();
}

void UnackedTraffic::begin() {
  for (UnackedEnd* end : ends_) end->create_qp();
  for (Group& group : groups_) start(group, false);
  for (const UnackedDisturbance& d : plan_.disturbances) {
    stage_.world.after(d.at, [this, d] { disturb(d); });
  }
}

void UnackedTraffic::start(Group& group, bool again) {
  if (!std::all_of(group.ends.begin(), group.ends.end(), [](const UnackedEnd* end) { return end->can_start(); })) {
    group.state = Group::State::kClosed;
    return;
  }
  std::vector<proto::Psn> psns;
  for (UnackedEnd* end : group.ends) {
    psns.push_back(proto::Psn{again ? static_cast<std::uint32_t>(random_.next()) : end->plan().sq_psn});
    if (!end->has_qp()) end->create_qp();
  }
  for (std::size_t i = 0; i < group.ends.size(); ++i) group.ends[i]->start(psns[i], psns[group.ends.size() - 1 - i]);
  group.state = Group::State::kUp;
  for (UnackedEnd* end : group.ends) {
    end->work();
    stage_.world.kick(end->host().node);
  }
}

void UnackedTraffic::disturb(const UnackedDisturbance& d) {
  using Trouble = UnackedDisturbance::Kind;
  UnackedEnd& end = *ends_[d.end];
  Group& group = groups_[plan_.connected ? 0 : d.end];
  if (group.state != Group::State::kUp) return;
  if (d.in_mid_message) {
    UnackedDisturbance then = d;
    then.in_mid_message = false;
    return end.when_in_mid_message([this, then] { stage_.world.after({}, [this, then] { disturb(then); }); });
  }
  switch (d.kind) {
    case Trouble::kError:
      end.to_error();
      return mourn(group);
    case Trouble::kReset:
      end.to_reset();
      return mourn(group);
    case Trouble::kDestroy:
      end.destroy();
      return mourn(group);
    case Trouble::kDrain:
      return end.drain_send_queue(d.pause);
    case Trouble::kDeregLocal:
      return end.deregister_local();
    case Trouble::kDeregReceive:
      return end.deregister_receive();
    case Trouble::kDeregTarget:
      if (plan_.connected) uc_[d.end]->deregister_target();
      return;
    case Trouble::kNewQkey:
      if (!plan_.connected) ud_[d.end]->change_qkey();
      return;
    case Trouble::kGroups:
      if (!plan_.connected) ud_[d.end]->change_groups();
      return;
    case Trouble::kCount:
      return;
  }
}

void UnackedTraffic::notice(const UnackedEnd& end) {
  for (Group& group : groups_) {
    if (std::find(group.ends.begin(), group.ends.end(), &end) != group.ends.end()) return mourn(group);
  }
}

void UnackedTraffic::mourn(Group& group) {
  if (group.state != Group::State::kUp) return;
  group.state = Group::State::kMourning;
  stage_.world.after(plan_.mourning, [this, &group] {
    if (group.state == Group::State::kMourning) take_down(group);
  });
}

void UnackedTraffic::take_down(Group& group) {
  group.state = Group::State::kDown;
  for (UnackedEnd* end : group.ends) end->bring_down();
  for (UnackedEnd* end : group.ends) {
    end->host().check();
    random_.chance(0.3) ? end->destroy() : end->to_reset();
    stage_.world.kick(end->host().node);
  }
  if (group.restarts == 0) {
    group.state = Group::State::kClosed;
    return;
  }
  --group.restarts;
  stage_.tally.add(plan_.connected ? "UC: connections made again" : "UD: QPs started again");
  // Packets of its former life may still come: they count like others.
  stage_.world.after(milliseconds{1}, [this, &group] {
    if (group.state == Group::State::kDown) start(group, true);
  });
}

void UnackedTraffic::calm() {
  for (UnackedEnd* end : ends_) end->work();
}

void UnackedTraffic::finish() {
  for (Group& group : groups_) {
    group.restarts = 0;
    if (group.state == Group::State::kUp || group.state == Group::State::kMourning) take_down(group);
  }
  for (UnackedEnd* end : ends_) end->destroy();
}

bool UnackedTraffic::quiet() const {
  return std::all_of(groups_.begin(), groups_.end(), [](const Group& group) {
    if (group.state == Group::State::kClosed) return true;
    return group.state == Group::State::kUp &&
           std::all_of(group.ends.begin(), group.ends.end(), [](const UnackedEnd* end) { return end->done(); });
  });
}

Duration UnackedTraffic::bound() const { return (plan_.restarts + 2) * (plan_.mourning + milliseconds{2}); }

std::uint64_t UnackedTraffic::ops_left() const {
  std::uint64_t sum = 0;
  for (const UnackedEnd* end : ends_) sum += end->left();
  return sum;
}

/// Each WR may fail, and then the QP is in SQE for a while.
Duration UnackedTraffic::step_bound() const {
  Duration step{};
  for (const UnackedEnd* end : ends_) {
    step = std::max(
        step, end->plan().think + end->plan().resume_delay + 2 * stage_.scenario.hosts[end->plan().host].poll_delay);
  }
  return step;
}

std::string UnackedTraffic::text() const {
  std::string all;
  for (const UnackedEnd* end : ends_) all += (all.empty() ? "" : "; ") + end->state_text();
  return all;
}

}  // namespace uroce::simulator
