// SPDX-License-Identifier: Apache-2.0
// Turns to send. QPs with something to send take turns of kTurnPackets packets. The window to the peer interrupts
// a turn but does not end it: else, of many QPs, each would send a packet or two and have to ask for an ACK of them. A
// pace per QP or per peer (congestion control) belongs here too.
#pragma once

#include <algorithm>

#include "verbs/nic/resources/line.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::nic {

class Scheduler {
 public:
  /// `windows` say when those that they hold back may go on.
  explicit Scheduler(Windows& windows) : windows_(windows) {}

  /// Before there are `count` QPs.
  void reserve(std::size_t count) { ready_.reserve(count); }

  bool empty() {
    admit_waiting();
    return ready_.empty();
  }

  /// `qp` may have something to send.
  void make_ready(Qp& qp) {
    if (qp.links.ready) return;
    qp.links.ready = true;
    ready_.push_back(&qp);
  }
  /// The next turn is that of `qp`.
  void prefer(Qp& qp) {
    if (qp.links.ready) ready_.erase(&qp);  // Short: QPs do not stay ready for long.
    qp.links.ready = true;
    ready_.push_front(&qp);
  }
  /// All that have something to send begin with an answer.
  void answer_first() {
    ready_.for_each([](Qp* qp) { qp->answer_first(); });
  }
  /// The QP to ask for a packet; null when there is none. Then say with asked() what it gave.
  Qp* next() {
    admit_waiting();
    if (ready_.empty()) return nullptr;
    Qp& qp = *ready_.front();
    qp.set_last_of_turn(qp.links.turn_left == 1 && (ready_.size() > 1 || !qp.window().waiting.empty()));
    return &qp;
  }
  /// What the QP that next() named gave.
  void asked(Qp& qp, TxStatus status) {
    if (status == TxStatus::kSent && --qp.links.turn_left > 0) return;
    ready_.pop_front();
    qp.links.ready = false;
    end_admission(qp);
    if (status == TxStatus::kWindow) {
      make_waiting(qp);
    } else {
      qp.links.turn_left = kTurnPackets;
      if (status == TxStatus::kSent) make_ready(qp);
    }
    qp.window().tell_if_open();
  }
  /// Before `qp` is destroyed, or its window changes.
  void forget(Qp& qp) {
    ready_.erase(&qp);
    qp.window().waiting.erase(&qp);
    qp.links.ready = qp.links.waiting = false;
    end_admission(qp);
    qp.window().tell_if_open();
  }

 private:
  void make_waiting(Qp& qp) {
    if (qp.links.waiting) return;
    qp.links.waiting = true;
    Line<Qp*>& waiting = qp.window().waiting;
    if (qp.links.turn_left < kTurnPackets) {
      waiting.push_front(&qp);
    } else {
      waiting.push_back(&qp);
    }
  }
  static void end_admission(const Qp& qp) {
    if (qp.window().admitted == &qp) qp.window().admitted = nullptr;
  }
  /// A QP that waited for its window goes before those that have just become ready, or they would take the room again
  /// and again. One at a time per window, until its turn is over: most of them would find the window full.
  void admit_waiting() {
    while (PeerWindow* const window = windows_.take_opened()) {
      if (window->admitted != nullptr || window->waiting.empty() || !window->has_room()) continue;
      Qp& qp = *window->waiting.front();
      window->waiting.pop_front();
      window->admitted = &qp;
      qp.links.waiting = false;
      prefer(qp);
    }
  }

  Windows& windows_;
  Line<Qp*> ready_;  ///< To be asked for packets, the front one first.
};

}  // namespace uroce::nic
