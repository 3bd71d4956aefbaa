// Turns to send. QPs with something to send take turns of kTurnPackets packets. The NIC's window interrupts
// a turn but does not end it: else, of many QPs, each would send a packet or two and have to ask for an ACK of them. A
// pace per QP or per peer (congestion control) belongs here too.
#pragma once

#include <algorithm>
#include <deque>

#include "verbs/nic/transport/qp.h"

namespace uroce::nic {

class Scheduler {
 public:
  /// `window` is asked whether those that it held back may go on.
  explicit Scheduler(const Window& window) : window_(window) {}

  bool empty() const { return ready_.empty(); }

  /// `qp` may have something to send.
  void make_ready(Qp& qp) {
    if (qp.links.ready) return;
    qp.links.ready = true;
    ready_.push_back(&qp);
  }
  /// The next turn is that of `qp`.
  void prefer(Qp& qp) {
    if (qp.links.ready) std::erase(ready_, &qp);  // Short: QPs do not stay ready for long.
    qp.links.ready = true;
    ready_.push_front(&qp);
  }
  /// The QP to ask for a packet; null when there is none. Then say with asked() what it gave.
  Qp* next() {
    admit_one();
    return ready_.empty() ? nullptr : ready_.front();
  }
  /// What the QP that next() named gave.
  void asked(Qp& qp, TxStatus status) {
    if (status == TxStatus::kSent && --qp.links.turn_left > 0) return;
    ready_.pop_front();
    qp.links.ready = false;
    if (admitted_ == &qp) admitted_ = nullptr;
    if (status == TxStatus::kWindow) return make_waiting(qp);
    qp.links.turn_left = kTurnPackets;
    if (status == TxStatus::kSent) make_ready(qp);
  }
  void forget(Qp& qp) {
    std::erase(ready_, &qp);
    std::erase(waiting_, &qp);
    if (admitted_ == &qp) admitted_ = nullptr;
  }

 private:
  void make_waiting(Qp& qp) {
    if (qp.links.waiting) return;
    qp.links.waiting = true;
    if (qp.links.turn_left < kTurnPackets) {
      waiting_.push_front(&qp);
    } else {
      waiting_.push_back(&qp);
    }
  }
  /// A QP that waited for the window goes before those that have just become ready, or they would take the room again
  /// and again. One at a time, until its turn is over: most of them would find the window full.
  void admit_one() {
    if (admitted_ != nullptr || waiting_.empty() || !window_.has_room()) return;
    admitted_ = waiting_.front();
    waiting_.pop_front();
    admitted_->links.waiting = false;
    prefer(*admitted_);
  }

  const Window& window_;
  std::deque<Qp*> ready_;    ///< To be asked for packets, the front one first.
  std::deque<Qp*> waiting_;  ///< Had a packet that the window did not admit.
  Qp* admitted_ = nullptr;   ///< Of those that waited: the one whose turn it is now.
};

}  // namespace uroce::nic
