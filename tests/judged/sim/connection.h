// SPDX-License-Identifier: Apache-2.0
// Two ends of an RC connection: connecting them, disturbing them, taking them down after an error and connecting them
// again.
#pragma once

#include <memory>

#include "tests/judged/sim/end.h"
#include "tests/judged/sim/traffic.h"

namespace uroce::simulator {

class Connection final : public Traffic {
 public:
  Connection(Stage& stage, std::size_t number, const ConnectionPlan& plan, Host& a, Host& b);
  void build() override;
  /// Connects both ends and schedules the disturbances.
  void begin() override;
  /// An end has noticed that something is wrong.
  void notice();
  /// No connection any more after this one.
  void give_up() { reconnects_ = 0; }
  void calm() override;
  void finish() override;

  /// Neither end has been taken down: its packets may be forged, and are gone before the next connection.
  bool is_up() const { return state_ == State::kUp; }
  /// All work is done, or the connection is gone for good.
  bool quiet() const override;
  Duration bound() const override;
  std::uint64_t ops_left() const override;
  Duration step_bound() const override;
  void note_fault(const engine::sim::Packet& packet) override;
  std::string text() const override;
  End& end(std::size_t i) { return *ends_[i]; }
  std::size_t number() const { return number_; }

 private:
  enum class State { kUp, kMourning, kDown, kClosed };
  void connect(bool again);
  void take_down();
  void disturb(const Disturbance& disturbance);
  Duration recovery_time(const End& end, const End& peer) const;

  Stage& stage_;
  std::size_t number_;
  const ConnectionPlan& plan_;
  std::array<std::unique_ptr<End>, 2> ends_;
  State state_ = State::kDown;
  std::uint32_t reconnects_;
  engine::sim::Random random_;
};

}  // namespace uroce::simulator
