// Two ends: connecting them, disturbing them, taking them down after an error and connecting them again.
#pragma once

#include <memory>

#include "tests/sim/end.h"

namespace uroce::simulator {

class Connection {
 public:
  Connection(Stage& stage, std::size_t number, const ConnectionPlan& plan, Host& a, Host& b);
  void build();
  /// Connects both ends and schedules the disturbances.
  void begin();
  /// An end has noticed that something is wrong.
  void notice();
  /// No connection any more after this one.
  void give_up() { reconnects_ = 0; }
  /// Faults are over: receivers stop starving their peers.
  void calm();
  /// Takes down what is still up, at the end of the run.
  void finish();

  /// Nothing will happen any more: all work is done, or the connection is gone for good.
  bool quiet() const;
  /// How long the connection may take to become quiet once faults are over.
  Duration bound() const;
  End& end(std::size_t i) { return *ends_[i]; }
  const ConnectionPlan& plan() const { return plan_; }
  std::size_t number() const { return number_; }
  std::string text() const;

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
