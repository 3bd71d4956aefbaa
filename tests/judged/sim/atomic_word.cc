// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/atomic_word.h"

#include <algorithm>
#include <unordered_map>

#include "tests/judged/sim/violation.h"

namespace uroce::simulator {
namespace {

using Next = std::unordered_map<std::uint64_t, const AtomicOp*>;

/// Bridges a gap in the chain with operations of unknown outcome: finds some that lead from `value` to one that a known
/// operation found, or to `final`. Those of one connection were executed in order, and none behind one that was not: of
/// each group a beginning was executed (a swap that did not match has left no trace).
class Bridge {
 public:
  Bridge(const Next& next, const std::vector<AtomicOp>& unknown, std::uint64_t final) : next_(next), final_(final) {
    for (const AtomicOp& op : unknown) {
      const auto same = [&](const auto& group) { return group.front()->group == op.group; };
      const auto at = std::find_if(groups_.begin(), groups_.end(), same);
      (at == groups_.end() ? groups_.emplace_back() : *at).push_back(&op);
    }
    executed_.resize(groups_.size());
  }

  bool find(std::uint64_t value) {
    steps_ = 0;
    for (int depth = 1; depth <= kDepthMax; ++depth) {
      path_.clear();
      if (search(value, depth)) return true;
    }
    return false;
  }
  const std::vector<const AtomicOp*>& path() const { return path_; }
  /// The search was given up: there may be a bridge.
  bool undecided() const { return steps_ >= kStepsMax; }

 private:
  static constexpr int kDepthMax = 12;
  static constexpr int kStepsMax = 20'000;

  bool search(std::uint64_t value, int depth) {
    if (depth == 0) return next_.count(value) != 0 || value == final_;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const std::size_t before = executed_[g];
      for (std::size_t i = before; i < groups_[g].size() && ++steps_ < kStepsMax; ++i) {
        const AtomicOp& op = *groups_[g][i];
        const std::uint64_t result = op.result(value);
        if (result == value) continue;
        executed_[g] = i + 1;
        path_.push_back(&op);
        if (search(result, depth - 1)) return true;
        path_.pop_back();
        executed_[g] = before;
        if (!op.is_swap) break;
      }
    }
    return false;
  }

  const Next& next_;
  std::uint64_t final_;
  std::vector<std::vector<const AtomicOp*>> groups_;
  std::vector<std::size_t> executed_;  ///< For each group.
  std::vector<const AtomicOp*> path_;
  int steps_ = 0;
};

}  // namespace

void AtomicWord::check(std::uint64_t final) const {
  Next next;
  for (const AtomicOp& op : known_) {
    if (op.result(op.original) == op.original) continue;
    const auto [at, fresh] = next.emplace(op.original, &op);
    if (!fresh) {
      incorrect("atomics WR {} and WR {} both changed the value 0x{:x}", at->second->id, op.id, op.original);
    }
  }

  // Walk the chain. An operation later in it must not have completed before an earlier one was posted.
  struct Existed {
    Instant from;                 ///< Earliest time at which the value may have been there ...
    Instant to = Instant::max();  ///< ... and the latest.
  };
  std::unordered_map<std::uint64_t, Existed> values{{initial_, {Instant::min()}}};
  Bridge bridge(next, unknown_, final);
  std::size_t visited = 0;
  bool ambiguous = false;
  Instant posted = Instant::min();
  std::uint64_t value = initial_;
  const auto pass = [&](const AtomicOp& op, bool known) {
    if (known && op.completed < posted) {
      incorrect("atomic WR {} completed before one was posted whose effect it saw", op.id);
    }
    posted = std::max(posted, op.posted);
    if (known) values[value].to = op.completed;
    value = op.result(value);
    if (!values.emplace(value, Existed{op.posted}).second) incorrect("atomic WR {} brought 0x{:x} back", op.id, value);
  };
  while (true) {
    if (const auto at = next.find(value); at != next.end()) {
      pass(*at->second, true);
      ++visited;
    } else if (value != final && bridge.find(value)) {
      // Several additions could have come in another order, and then through other values.
      ambiguous = ambiguous || bridge.path().size() > 1;
      for (const AtomicOp* op : std::vector(bridge.path())) pass(*op, false);
    } else {
      break;
    }
  }
  if (value != final && bridge.undecided()) return;
  if (value != final) incorrect("after all atomics the word should be 0x{:x} and is 0x{:x}", value, final);
  if (visited != next.size()) {
    for (const auto& op : known_) {
      if (next.count(op.original) != 0 && values.count(op.original) == 0) {
        incorrect("atomic WR {} found 0x{:x}, which the word never held", op.id, op.original);
      }
    }
  }
  for (const AtomicOp& op : known_) {
    if (op.result(op.original) != op.original) continue;
    const auto at = values.find(op.original);
    if (at == values.end() && ambiguous) continue;
    if (at == values.end()) incorrect("atomic WR {} found 0x{:x}, which the word never held", op.id, op.original);
    if (op.completed < at->second.from || op.posted > at->second.to) {
      incorrect("atomic WR {} found 0x{:x} when the word did not hold it", op.id, op.original);
    }
  }
}

}  // namespace uroce::simulator
