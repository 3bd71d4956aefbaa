// SPDX-License-Identifier: Apache-2.0
// UC connections, and UD QPs that know of one another: bringing them up, disturbing them, taking them down after an
// error and bringing them up again. A UC connection lives as a whole, UD QPs each for itself.
#pragma once

#include <memory>

#include "tests/judged/sim/traffic.h"
#include "tests/judged/sim/uc_end.h"
#include "tests/judged/sim/ud_end.h"

namespace uroce::simulator {

class UnackedTraffic final : public Traffic {
 public:
  UnackedTraffic(Stage& stage, std::size_t number, const UnackedPlan& plan,
                 const std::vector<std::unique_ptr<Host>>& hosts);
  void build() override;
  void begin() override;
  void calm() override;
  void finish() override;
  /// The program has noticed that this QP is in ERR.
  void notice(const UnackedEnd& end);

  bool quiet() const override;
  Duration bound() const override;
  std::uint64_t ops_left() const override;
  Duration step_bound() const override;
  void note_fault(const engine::sim::Packet&) override {}
  std::string text() const override;
  std::size_t number() const { return number_; }

 private:
  /// What comes up and goes down together.
  struct Group {
    std::vector<UnackedEnd*> ends;
    enum class State { kUp, kMourning, kDown, kClosed } state = State::kDown;
    std::uint32_t restarts = 0;
  };
  void start(Group& group, bool again);
  void take_down(Group& group);
  void mourn(Group& group);
  void disturb(const UnackedDisturbance& disturbance);

  Stage& stage_;
  std::size_t number_;
  const UnackedPlan& plan_;
  engine::sim::Random random_;
  std::vector<std::unique_ptr<UcEnd>> uc_;
  std::vector<std::unique_ptr<UdEnd>> ud_;
  std::vector<UnackedEnd*> ends_;  ///< All of them.
  std::vector<Group> groups_;
};

}  // namespace uroce::simulator
