// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "verbs/ibverbs/host/published_counters.h"
#include "verbs/ibverbs/host/published_qps.h"

namespace uroce::ibv {

/// Has other processes see what a NIC does: its counters, and its QPs. With the NIC's lock held.
class Publisher {
 public:
  /// For NIC `index` with this first address, under `name`. Where there is no shared memory, nobody sees anything.
  Publisher(const std::string& name, std::uint32_t index, const proto::Gid& address)
      : counters_(PublishedCounters::make(name)), qps_(PublishedQps::make(name, index, address)) {}

  /// Null: nobody sees them.
  PublishedQps* qps() const { return qps_.get(); }

  /// A turn of the crank begins. `changes`: how often something has happened that counters tell of.
  void on_turn(std::uint64_t changes, Instant now) {
    turn_began_ = now;
    changes_before_turn_ = changes;
  }
  /// It is over. `is_polled`: the program polls. A poller that has moved packets publishes when it finds none, mostly:
  /// meanwhile its peer, or its program, waits for it.
  template <class Count>
  void publish(const nic::Nic& nic, std::uint64_t changes, bool is_polled, const Count& count) {
    const bool is_busy = is_polled && changes != changes_before_turn_;
    if (is_busy && turn_began_ - published_at_ < kMostAge) return;
    published_at_ = turn_began_;
    publish_counters(changes, count);
    if (qps_) qps_->publish(nic);
  }
  /// Those alone, now. `count()`: what they are.
  template <class Count>
  void publish_counters(std::uint64_t changes, const Count& count) {
    if (!counters_ || changes == published_changes_) return;
    published_changes_ = changes;
    counters_->publish(count());
  }
  /// In the child of fork(): they are the parent's.
  void abandon() {
    counters_.reset();
    qps_.reset();
  }

 private:
  /// What other processes see of a NIC whose program polls is so old at most.
  static constexpr Duration kMostAge = std::chrono::microseconds(100);

  std::unique_ptr<PublishedCounters> counters_;
  std::unique_ptr<PublishedQps> qps_;
  std::uint64_t published_changes_ = 0;    ///< `changes` when the counters were published, ...
  std::uint64_t changes_before_turn_ = 0;  ///< ... and when the turn of the crank began.
  Instant turn_began_{}, published_at_{};
};

}  // namespace uroce::ibv
