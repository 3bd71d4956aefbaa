// SPDX-License-Identifier: Apache-2.0
// A part of a run that keeps to itself: some QPs that talk to one another, their programs, their oracle.
#pragma once

#include <cstdint>
#include <string>

#include "engine/sim/link.h"

namespace uroce::simulator {

class Traffic {
 public:
  virtual ~Traffic() = default;

  /// The hosts have their memory.
  virtual void build() = 0;
  virtual void begin() = 0;
  /// Faults are over: receivers stop starving their peers.
  virtual void calm() = 0;
  /// The end of the run: takes down what is still up.
  virtual void finish() = 0;

  /// Nothing will happen any more.
  virtual bool quiet() const = 0;
  /// How long it may take to recover from what has happened so far, once faults are over; the work that is left needs
  /// another ops_left() times step_bound().
  virtual Duration bound() const = 0;
  virtual std::uint64_t ops_left() const = 0;
  virtual Duration step_bound() const = 0;

  /// The network has lost, damaged, doubled or delayed this packet, which may be of this traffic.
  virtual void note_fault(const engine::sim::Packet& packet) = 0;
  /// What it waits for, when that takes too long.
  virtual std::string text() const = 0;
};

}  // namespace uroce::simulator
