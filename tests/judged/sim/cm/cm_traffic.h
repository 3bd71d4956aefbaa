// SPDX-License-Identifier: Apache-2.0
// Connection management in a run: processes that connect to one another, die and come back, and the oracle of it all.
// Times of the protocol are divided, so that REQs are repeated while the network still loses them.
#pragma once

#include <memory>
#include <vector>

#include "tests/judged/sim/cm/mad_lint.h"
#include "tests/judged/sim/cm/process.h"
#include "tests/judged/sim/traffic.h"

namespace uroce::simulator {

class CmTraffic final : public Traffic {
 public:
  explicit CmTraffic(Stage& stage);

  void build() override;
  void begin() override;
  void calm() override;
  void finish() override {}
  bool quiet() const override { return done_; }
  Duration bound() const override;
  std::uint64_t ops_left() const override { return 0; }
  Duration step_bound() const override { return {}; }
  void note_fault(const engine::sim::Packet& packet) override;
  std::string text() const override { return "connection management"; }

  // --- for the run: the packets and nodes of these processes
  bool has(engine::sim::NodeId node) const { return process_at(node) != nullptr; }
  void sent(const engine::sim::Packet& packet);
  void delivered(const engine::sim::Packet& packet);
  void look(engine::sim::NodeId node);
  engine::sim::Verdict fate(engine::sim::Packet& packet);

  // --- for the processes
  const CmPlan& plan() const { return stage_.scenario.cm; }
  CmAttempt& attempt(std::size_t number);
  CmProcess& process(std::size_t number) { return *processes_[number].back(); }
  /// How often the network has harmed packets between these two so far.
  std::uint64_t faults(const CmSide& side) const;
  /// The side that this one is connected with, as far as it knows.
  CmSide* peer_of(const CmSide& side) const;
  /// The other side has said, or will say, nothing to this one for a reason that is not the network's.
  bool peer_is_silent(const CmSide& side);
  /// The same of its QP.
  bool peer_is_deaf(const CmSide& side);
  /// IBTA Vol 1, 12.9: both sides know the same of their connection.
  void check_crossing(CmSide& side);
  /// Something that must have happened to `side` by then: it has left this step, or is gone.
  void expect_progress(CmSide& side, const char* what);

 private:
  void check_progress(CmSide& side, CmSide::Step from, const char* what, bool waited);
  CmProcess* process_at(engine::sim::NodeId node) const;
  void bear(std::size_t number);

  Stage& stage_;
  engine::sim::Random fate_;
  MadLint lint_;
  std::vector<CmAttempt> attempts_;
  std::vector<std::vector<std::unique_ptr<CmProcess>>> processes_;  ///< By address, the last one lives.
  std::vector<CmProcess*> by_node_;
  std::vector<std::uint64_t> faults_;  ///< By client and server address.
  bool done_ = false;
};

}  // namespace uroce::simulator
