// SPDX-License-Identifier: Apache-2.0
// A shared receive queue of a host, and the program that fills it. Two ways to know which receive a message has taken:
// of UC and UD QPs the oracle foresees it; of RC QPs it sees that the queue has become shorter, and asks whether the
// packet that has just arrived may do that. Nothing else may ever take a receive.
#pragma once

#include <deque>
#include <optional>

#include "tests/judged/sim/host.h"
#include "tests/judged/sim/pieces.h"

namespace uroce::simulator {

class SharedQueue {
 public:
  /// `name` says which one it is.
  SharedQueue(Stage& stage, Host& host, const SrqPlan& plan, std::uint64_t seed, std::string name);
  void build();  ///< Registers its memory; the host is built.
  void destroy();

  nic::Srq* get() const { return srq_; }
  const SrqPlan& plan() const { return plan_; }

  /// Posts receives that are missing, arms the limit.
  void work();
  void on_limit_reached();
  /// All events have been polled.
  void events_polled() const;

  bool empty() const { return waiting_.empty(); }
  /// The receive that will be taken next; there must be one.
  const Receive& next() const { return waiting_.front(); }
  /// A message takes the next receive.
  Receive take();
  /// The packet that arrives now may take a receive, for a message to `owner`, which is told when it does.
  void may_take(QpOwner& owner) { candidate_ = &owner; }
  /// After every call of the NIC: are the receives there that must be?
  void check();
  /// The QP that took a receive is gone in the middle of the message: it is the next one again.
  void given_back(const Receive& receive);
  /// A receive that was taken has completed, or its CQ has lost that: the program has its buffer again.
  void ended(const Receive& receive);

 private:
  bool post();
  void post_missing();

  Stage& stage_;
  Host& host_;
  SrqPlan plan_;
  engine::sim::Random random_;
  std::string name_;
  Area area_;
  nic::Mr* mr_ = nullptr;
  nic::Srq* srq_ = nullptr;
  std::deque<Receive> waiting_;  ///< Posted and not taken.
  std::uint32_t taken_ = 0;      ///< And not ended.
  std::uint32_t withheld_ = 0;
  std::uint32_t limit_ = 0;       ///< Armed.
  std::uint32_t limits_due_ = 0;  ///< Limit events that must come.
  QpOwner* candidate_ = nullptr;
};

}  // namespace uroce::simulator
