// SPDX-License-Identifier: Apache-2.0
// What an owner changes while its QP works: attributes (IBTA Vol 1, 11.2.5.2: which, and in which state), and the
// memory of on-demand regions.
#include <algorithm>

#include "tests/judged/sim/connection.h"
#include "tests/judged/sim/end.h"
#include "tests/judged/sim/violation.h"
#include "tests/judged/sim/wire_lint.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::simulator {

using nic::QpAttr;
using nic::QpState;

void End::change(const QpAttr& attr, std::uint32_t mask) {
  if (const nic::Errno error = host_.nic.modify_qp(qp_, attr, mask)) {
    incorrect("{}: changing attributes 0x{:x} fails with errno {}", name(), mask, error);
  }
  plan_.timeout = attr.timeout;
  plan_.retry_cnt = attr.retry_cnt;
  plan_.rnr_retry = attr.rnr_retry;
  plan_.min_rnr_timer = attr.min_rnr_timer;
  plan_.max_rd_atomic = attr.max_rd_atomic;
  plan_.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  if (attr.access != attr_.access) change_access(attr.access);
  attr_ = attr;
  stage_.lint.changed(host_.node, qpn_, attr.path, attr.max_rd_atomic, attr.min_rnr_timer);
  stage_.world.kick(host_.node);
}

void End::change_in_rts() {
  if (!alive() || qp_ == nullptr || qp_->state() != QpState::kRts || stage_.faults_over) return;
  stage_.tally.add("attributes: changed in RTS");
  QpAttr attr = attr_;
  attr.min_rnr_timer = static_cast<std::uint8_t>(1 + random_.below(14));
  constexpr std::uint32_t kRights[] = {nic::kRemoteWrite, nic::kRemoteRead, nic::kRemoteAtomic, nic::kFlushGlobal};
  if (random_.chance(0.3)) attr.access ^= kRights[random_.below(4)];
  change(attr, nic::kAttrMinRnrTimer | nic::kAttrAccess);
}

/// Never so that one end asks for more than the other offers: that would be the owners' fault.
void End::change_in_sqd() {
  stage_.tally.add("attributes: changed in SQD");
  QpAttr attr = attr_;
  std::uint32_t mask = 0;
  const auto draw = [&](std::uint32_t bit, std::uint8_t& value, std::uint32_t low, std::uint32_t high) {
    if (low > high || !random_.chance(0.5)) return;
    mask |= bit;
    value = static_cast<std::uint8_t>(low + random_.below(high - low + 1));
  };
  if (attr.timeout != 0) draw(nic::kAttrTimeout, attr.timeout, least_timeout_, least_timeout_ + 2u);
  draw(nic::kAttrRetryCnt, attr.retry_cnt, 1, 7);
  draw(nic::kAttrRnrRetry, attr.rnr_retry, 1, 7);
  draw(nic::kAttrMinRnrTimer, attr.min_rnr_timer, 1, 14);
  const EndPlan& peer = peer_->plan_;
  if (plan_.max_rd_atomic <= peer.max_dest_rd_atomic) {
    draw(nic::kAttrMaxRdAtomic, attr.max_rd_atomic, 1, peer.max_dest_rd_atomic);
  }
  if (peer.max_rd_atomic <= plan_.max_dest_rd_atomic) {
    const std::uint32_t most = random_.chance(0.5) ? nic::kMaxRdAtomic : peer.max_rd_atomic + 2u;
    draw(nic::kAttrMaxDestRdAtomic, attr.max_dest_rd_atomic, peer.max_rd_atomic, std::min(most, nic::kMaxRdAtomic));
  }
  if (random_.chance(0.3)) {
    mask |= nic::kAttrAv;
    attr.path.source_port = static_cast<std::uint16_t>(0xC000 | random_.next());
  }
  change(attr, mask);
}

/// Then the peer's answers to what was asked for long before it must still be there.
void End::deepen() {
  const EndPlan& peer = peer_->plan_;
  if (plan_.max_rd_atomic > peer.max_dest_rd_atomic || peer.max_rd_atomic > plan_.max_dest_rd_atomic) return;
  stage_.tally.add("attributes: deeper in SQD");
  QpAttr attr = attr_;
  attr.max_rd_atomic = peer.max_dest_rd_atomic;
  attr.max_dest_rd_atomic = nic::kMaxRdAtomic;
  change(attr, nic::kAttrMaxRdAtomic | nic::kAttrMaxDestRdAtomic);
}

void End::change_access(std::uint32_t access) {
  for (const std::uint32_t right : {nic::kRemoteWrite, nic::kRemoteRead, nic::kRemoteAtomic, nic::kFlushGlobal}) {
    const bool had = (attr_.access & right) != 0, has = (access & right) != 0;
    if (had && !has) lacks_.push_back({right, stage_.world.now()});
    if (has) std::erase_if(lacks_, [right](const Lack& lack) { return lack.right == right; });
  }
  if (!lacks_.empty()) stage_.tally.add("attributes: a right of the peer is taken away");
  for (const Lack& lack : lacks_) lacked_ |= lack.right;
}

std::uint32_t End::right_for(const Op& op) {
  if (op.is_write()) return nic::kRemoteWrite;
  if (op.is_read()) return nic::kRemoteRead;
  if (op.is_flush()) return nic::kFlushGlobal;
  return op.is_atomic() ? std::uint32_t{nic::kRemoteAtomic} : 0;
}

/// Nothing that arrives for this request can be executed now, nor could it since it was posted.
bool End::refuses(const Op& op) const {
  const bool touches_target = (op.is_write() || op.is_read()) && op.length != 0;
  if (touches_target && gone_since_ && op.posted > *gone_since_) return true;
  return std::any_of(lacks_.begin(), lacks_.end(),
                     [&](const Lack& lack) { return lack.right == right_for(op) && op.posted > lack.since; });
}

void End::vanish(Duration pause) {
  if (!plan_.on_demand || target_dead_ || gone_since_) return;
  stage_.tally.add("on-demand regions that went");
  gone_since_ = stage_.world.now();
  freeze_target();
  host_.take_away(exposed_);
  stage_.world.after(pause, [this] { come_back(); });
}

/// What is still under way may arrive now.
void End::come_back() {
  if (!gone_since_) return;
  gone_since_.reset();
  host_.bring_back(exposed_);
  Memory& memory = host_.memory();
  for (const Op& op : peer_->sends_.pending()) {
    if (op.is_write() && op.remote.length != 0 && !op.committed && !memory.is_open(op.remote)) memory.open(op.remote);
  }
  for (const Limbo& limbo : peer_->limbo_) {
    if (!memory.is_open(limbo.remote)) memory.open(limbo.remote);
  }
}

}  // namespace uroce::simulator
