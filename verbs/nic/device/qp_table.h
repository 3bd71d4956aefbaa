// SPDX-License-Identifier: Apache-2.0
// QPNs and the QPs behind them: slot (8 bits) | local number (16 bits). Local numbers are handed out in turn, so that a
// number is not reused soon after its QP has gone and late packets for the old one find nobody.
#pragma once

#include <memory>
#include <vector>

#include "verbs/nic/model/limits.h"
#include "verbs/nic/model/qpn.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::nic {

class QpTable {
 public:
  /// `first`: the first local number to be handed out.
  explicit QpTable(std::uint8_t slot, std::uint32_t first = kFirstQpn) : slot_(slot), next_(first) {}

  /// A free QPN; nothing when all are taken.
  std::optional<std::uint32_t> next_qpn() {
    for (std::uint32_t tries = 0; tries <= kMaxLocal; ++tries) {
      const std::uint32_t local = next_;
      next_ = next_ == kMaxLocal ? kFirstQpn : next_ + 1;
      if (local >= qps_.size() || !qps_[local]) return std::uint32_t{slot_} << kLocalQpnBits | local;
    }
    return std::nullopt;
  }
  Qp* insert(std::unique_ptr<Qp> qp) {
    const std::uint32_t local = qp->qpn() & kMaxLocal;
    if (local >= qps_.size()) qps_.resize(local + 1);
    qps_[local] = std::move(qp);
    ++size_;
    return qps_[local].get();
  }
  void erase(std::uint32_t qpn) {
    qps_[qpn & kMaxLocal].reset();
    --size_;
  }
  std::size_t size() const { return size_; }
  Qp* find(std::uint32_t qpn) const {
    const std::uint32_t local = qpn & kMaxLocal;
    if (slot_of(qpn) != slot_ || local >= qps_.size()) return nullptr;
    return qps_[local].get();
  }
  template <class Fn>
  void for_each(Fn fn) const {
    for (const auto& qp : qps_) {
      if (qp) fn(*qp);
    }
  }

 private:
  static constexpr std::uint32_t kMaxLocal = (1u << kLocalQpnBits) - 1;
  std::uint8_t slot_;
  std::uint32_t next_;
  std::vector<std::unique_ptr<Qp>> qps_;
  std::size_t size_ = 0;
};

}  // namespace uroce::nic
