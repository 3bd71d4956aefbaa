// SPDX-License-Identifier: Apache-2.0
// Shared receive queue (IBTA Vol 1, 10.2.9): receives that whichever attached QP needs one first takes. A receive
// belongs to the QP from the first packet of its message on, so that it leaves the queue then, not when it completes.
#pragma once

#include <cerrno>

#include "verbs/nic/model/limits.h"
#include "verbs/nic/resources/mr_table.h"
#include "verbs/nic/resources/sges.h"
#include "verbs/nic/resources/work_queues.h"

namespace uroce::nic {

struct SrqInit {
  Pd* pd = nullptr;
  std::uint32_t max_wr = 0, max_sge = 0;
  void* user = nullptr;  ///< The owner's cookie, returned with events.
};

class Srq {
 public:
  /// The limits of `init` have been checked.
  Srq(const SrqInit& init, std::uint32_t number) : init_(init), number_(number), queue_(init.max_wr, init.max_sge) {}

  /// EINVAL: too many SGEs; ENOMEM: queue full.
  Errno post(const RecvWr& wr) {
    if (wr.sges.size() > init_.max_sge) return EINVAL;
    if (queue_.size() >= init_.max_wr) return ENOMEM;
    queue_.push(wr, total_length(wr.sges));
    return 0;
  }
  bool empty() const { return queue_.empty(); }
  /// Bytes that fit into the oldest receive. There must be one.
  std::uint64_t front_length() const { return queue_.front().length; }
  /// Moves the oldest receive to `wqe` and its list to `sges` (room for max_sge()). True when fewer than the armed
  /// limit are left now: the owner must be told, once, until the limit is armed again (IBTA Vol 1, 10.2.9.3
  /// and 11.6.3.?).
  bool take(RecvWqe& wqe, std::span<Sge> sges) {
    wqe = queue_.front();
    const std::span<const Sge> list = queue_.front_sges();
    std::copy(list.begin(), list.end(), sges.begin());
    queue_.pop();
    if (queue_.size() >= limit_) return false;
    limit_ = 0;
    return true;
  }
  /// Makes what take() gave the oldest receive again. Its place may have been posted to since: then there is one more
  /// than max_wr, until somebody takes one.
  void put_back(const RecvWqe& wqe, std::span<const Sge> sges) {
    if (queue_.full()) queue_.resize(queue_.size() + 1);
    queue_.push_front({wqe.wr_id, sges}, wqe.length);
  }
  /// Arms the limit; 0 disarms it. EINVAL: more than the queue holds.
  Errno arm(std::uint32_t limit) {
    if (limit > init_.max_wr) return EINVAL;
    limit_ = limit;
    return 0;
  }
  /// EINVAL: 0, above kMaxSrqWr, fewer than are posted, or less than `limit`, which the caller will arm.
  Errno resize(std::uint32_t max_wr, std::uint32_t limit) {
    if (max_wr == 0 || max_wr > kMaxSrqWr || max_wr < queue_.size() || max_wr < limit) return EINVAL;
    queue_.resize(max_wr);
    init_.max_wr = max_wr;
    return 0;
  }

  Pd* pd() const { return init_.pd; }
  std::uint32_t max_wr() const { return init_.max_wr; }
  std::uint32_t max_sge() const { return init_.max_sge; }
  std::uint32_t size() const { return queue_.size(); }
  std::uint32_t limit() const { return limit_; }  ///< 0 when it is not armed.
  std::uint32_t number() const { return number_; }
  void* user() const { return init_.user; }
  std::uint32_t users = 0;  ///< QPs attached: an SRQ in use can't be destroyed.

 private:
  SrqInit init_;
  std::uint32_t number_;
  std::uint32_t limit_ = 0;
  RecvQueue queue_;
};

}  // namespace uroce::nic
