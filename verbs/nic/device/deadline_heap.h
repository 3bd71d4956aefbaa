// SPDX-License-Identifier: Apache-2.0
// The earliest timer over many QPs: a binary heap of QPs, each knowing its place. No scans, no stale entries.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "verbs/nic/transport/qp.h"

namespace uroce::nic {

class DeadlineHeap {
 public:
  /// Before there are `count` QPs: no timer is late for want of memory.
  void reserve(std::size_t count) {
    if (count > heap_.capacity()) heap_.reserve(std::max(count, 2 * heap_.capacity()));
  }
  bool empty() const { return heap_.empty(); }
  Qp& front() const { return *heap_.front(); }

  /// Brings the heap up to date with the QP's own next_deadline().
  void update(Qp& qp) {
    const Instant deadline = qp.next_deadline();
    if (deadline == kNever) return remove(qp);
    if (qp.links.heap == 0) {
      heap_.push_back(&qp);
      qp.links.heap = heap_.size();
    } else if (qp.links.deadline == deadline) {
      return;
    }
    qp.links.deadline = deadline;
    sift_down(sift_up(qp.links.heap - 1));
  }
  void remove(Qp& qp) {
    if (qp.links.heap == 0) return;
    const std::size_t hole = qp.links.heap - 1;
    qp.links.heap = 0;
    Qp* last = heap_.back();
    heap_.pop_back();
    if (last == &qp) return;
    place(hole, last);
    sift_down(sift_up(hole));
  }

 private:
  /// Ties go to the lower QPN, so that the order never depends on addresses or history.
  static bool before(const Qp& a, const Qp& b) {
    return std::pair(a.links.deadline, a.qpn()) < std::pair(b.links.deadline, b.qpn());
  }
  void place(std::size_t i, Qp* qp) {
    heap_[i] = qp;
    qp->links.heap = i + 1;
  }
  std::size_t sift_up(std::size_t i) {
    for (; i > 0 && before(*heap_[i], *heap_[(i - 1) / 2]); i = (i - 1) / 2) swap(i, (i - 1) / 2);
    return i;
  }
  void sift_down(std::size_t i) {
    for (;;) {
      std::size_t least = i;
      for (std::size_t child : {2 * i + 1, 2 * i + 2}) {
        if (child < heap_.size() && before(*heap_[child], *heap_[least])) least = child;
      }
      if (least == i) return;
      swap(i, least);
      i = least;
    }
  }
  void swap(std::size_t a, std::size_t b) {
    Qp* const at_a = heap_[a];
    place(a, heap_[b]);
    place(b, at_a);
  }

  std::vector<Qp*> heap_;
};

}  // namespace uroce::nic
