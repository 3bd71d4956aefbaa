#include "tests/sim/atomic_word.h"

#include <algorithm>
#include <unordered_map>

#include "tests/sim/violation.h"

namespace uroce::simulator {
namespace {

using Next = std::unordered_map<std::uint64_t, const AtomicOp*>;

/// Bridges a gap in the chain with operations of unknown outcome: finds some, each used once, that lead from `value` to
/// one that a known operation found, or to `final`.
class Bridge {
 public:
  Bridge(const Next& next, const std::vector<AtomicOp>& unknown, std::uint64_t final)
      : next_(next), unknown_(unknown), final_(final), used_(unknown.size()) {}

  bool find(std::uint64_t value) {
    path_.clear();
    steps_ = 0;
    return search(value, 0);
  }
  const std::vector<const AtomicOp*>& path() const { return path_; }

 private:
  static constexpr int kDepthMax = 8;
  static constexpr int kStepsMax = 200'000;

  bool search(std::uint64_t value, int depth) {
    if (depth > 0 && (next_.count(value) != 0 || value == final_)) return true;
    if (depth == kDepthMax) return false;
    for (std::size_t i = 0; i < unknown_.size(); ++i) {
      const std::uint64_t result = unknown_[i].result(value);
      if (used_[i] || result == value || ++steps_ > kStepsMax) continue;
      used_[i] = true;
      path_.push_back(&unknown_[i]);
      if (search(result, depth + 1)) return true;
      path_.pop_back();
      used_[i] = false;
    }
    return false;
  }

  const Next& next_;
  const std::vector<AtomicOp>& unknown_;
  std::uint64_t final_;
  std::vector<bool> used_;
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

  // Walk the chain. Whoever comes later in it must not have completed before an earlier one was posted.
  struct Existed {
    Instant from;  ///< Earliest time at which the value may have been there ...
    Instant to = Instant::max();  ///< ... and the latest.
  };
  std::unordered_map<std::uint64_t, Existed> values{{initial_, {Instant::min()}}};
  Bridge bridge(next, unknown_, final);
  std::size_t visited = 0;
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
      for (const AtomicOp* op : std::vector(bridge.path())) pass(*op, false);
    } else {
      break;
    }
  }
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
    if (at == values.end()) incorrect("atomic WR {} found 0x{:x}, which the word never held", op.id, op.original);
    if (op.completed < at->second.from || op.posted > at->second.to) {
      incorrect("atomic WR {} found 0x{:x} when the word did not hold it", op.id, op.original);
    }
  }
}

}  // namespace uroce::simulator
