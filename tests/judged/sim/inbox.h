// SPDX-License-Identifier: Apache-2.0
// The receiving side of a UC or UD QP, as the oracle foresees it: which receive a message takes, and what its
// completion says. Nothing is left open: the undamaged packets that have arrived, and their order, decide all
// of it.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "tests/judged/sim/srq_model.h"

namespace uroce::simulator {

class Inbox {
 public:
  /// `ended`: the program has the buffer of this receive again.
  Inbox(Host& host, SharedQueue* srq, std::function<void(const Receive&)> ended)
      : host_(host), srq_(srq), ended_(std::move(ended)) {}

  /// To the QP's own queue.
  void posted(const Receive& receive) { own_.push_back(receive); }
  /// Receives posted whose completion the program has not seen.
  std::size_t outstanding() const { return own_.size() + expected_.size() + (held_ ? 1 : 0); }

  bool available() const { return held_ || (srq_ != nullptr ? !srq_->empty() : !own_.empty()); }
  /// The receive that the next message has: the one that is held, or else the next of the queue.
  const Receive& next() const { return held_ ? *held_ : srq_ != nullptr ? srq_->next() : own_.front(); }
  bool held() const { return held_.has_value(); }
  void hold();
  /// The NIC writes these bytes at `offset` into the receive that is held.
  void write(std::uint32_t offset, Bytes bytes);
  /// The receive that is held completes so.
  void complete(nic::Completion completion);
  /// The QP goes to ERR: what it holds, and what is posted to it, is flushed.
  void flush();
  /// The QP is reset or destroyed: nothing completes any more.
  void clear();

  /// A completion was polled.
  void completed(const nic::Completion& completion);
  /// All completions have been polled.
  void drained() const;
  /// Completions may be missing from now on: their CQ has overflowed.
  void expect_gaps() { gaps_ = true; }
  void restart() { gaps_ = false; }

 private:
  struct Expected {
    Receive receive;
    nic::Completion completion;
  };
  Host& host_;
  SharedQueue* srq_;
  std::function<void(const Receive&)> ended_;
  std::deque<Receive> own_;
  std::optional<Receive> held_;
  std::deque<Expected> expected_;
  bool gaps_ = false;
};

}  // namespace uroce::simulator
