// SPDX-License-Identifier: Apache-2.0
// What keeps strangers from using up memory and bandwidth.
#pragma once

#include <list>
#include <map>
#include <tuple>

#include "verbs/cm/connection.h"
#include "verbs/cm/spare_memory.h"

namespace uroce::cm {

/// Names something that a peer has: by its address, its node GUID and a number.
struct PeerKey {
  Gid address;
  std::uint64_t guid = 0;
  std::uint32_t number = 0;
  friend bool operator<(const PeerKey& a, const PeerKey& b) {
    return std::tie(a.address.raw, a.guid, a.number) < std::tie(b.address.raw, b.guid, b.number);
  }
};

/// So many a second, counted from the first one.
class RateLimit {
 public:
  explicit RateLimit(std::uint32_t per_second) : per_second_(per_second) {}
  bool allow(Instant now) {
    if (now >= begin_ + std::chrono::seconds(1)) {
      begin_ = now;
      used_ = 0;
    }
    if (used_ == per_second_) return false;
    ++used_;
    return true;
  }

 private:
  std::uint32_t per_second_, used_ = 0;
  Instant begin_{};
};

/// Requests that are not accepted yet, in all and by address.
class HalfOpen {
 public:
  HalfOpen(std::uint32_t most, std::uint32_t most_of_one, SpareMemory& memory)
      : most_(most), most_of_one_(most_of_one), by_source_(&memory) {}
  bool add(const Gid& source) {
    if (!has_room(source)) return false;
    ++by_source_[{source}];
    ++all_;
    return true;
  }
  bool has_room(const Gid& source) const {
    const auto it = by_source_.find({source});
    return all_ < most_ && (it == by_source_.end() || it->second < most_of_one_);
  }
  void remove(const Gid& source) {
    const auto it = by_source_.find({source});
    if (--it->second == 0) by_source_.erase(it);
    --all_;
  }

 private:
  std::uint32_t most_, most_of_one_, all_ = 0;
  std::pmr::map<PeerKey, std::uint32_t> by_source_;
};

/// Answers to questions that may come again: a SIDR_REP may be lost, and the request must not look like a new
/// one.
class RecentAnswers {
 public:
  static constexpr std::size_t kMost = 4096;  ///< Then the oldest goes.

  explicit RecentAnswers(SpareMemory& memory) : by_key_(&memory), in_order_(&memory) {}

  void add(const PeerKey& key, const Mad& answer, Instant until) {
    if (by_key_.size() == kMost) drop_oldest();
    if (by_key_.try_emplace(key, answer).second) in_order_.push_back({until, key});
  }
  const Mad* find(const PeerKey& key) const {
    const auto it = by_key_.find(key);
    return it == by_key_.end() ? nullptr : &it->second;
  }
  void expire(Instant now) {
    while (!in_order_.empty() && in_order_.front().until <= now) drop_oldest();
  }
  std::optional<Instant> next_deadline() const {
    return in_order_.empty() ? std::nullopt : std::optional(in_order_.front().until);
  }

 private:
  struct Entry {
    Instant until;
    PeerKey key;
  };
  void drop_oldest() {
    by_key_.erase(in_order_.front().key);
    in_order_.pop_front();
  }
  std::pmr::map<PeerKey, Mad> by_key_;
  std::pmr::list<Entry> in_order_;
};

}  // namespace uroce::cm
