// SPDX-License-Identifier: Apache-2.0
// Judges the completions of one QP: exactly one for each signalled WR, none for a successful unsignalled one, in
// posting order; after the first error everything that is left is flushed, in order. Which errors are legal is the
// caller's knowledge; what a completion means for memory too.
#pragma once

#include <deque>
#include <functional>

#include "tests/judged/sim/work.h"

namespace uroce::simulator {

/// How a WR ended, as far as its completion says.
enum class Ending : std::uint8_t {
  kSuccess,
  kFailed,   ///< The WR that broke the QP.
  kFlushed,  ///< Never executed, or not known to be.
};

class SendCheck {
 public:
  using Ended = std::function<void(Op& op, Ending ending)>;

  void posted(const Op& op) { pending_.push_back(op); }
  /// Takes a completion of this QP's send queue; calls `ended` for every WR that it ends, oldest first. `legal`: the
  /// statuses that what was injected allows for this WR, asked for the WR that it is for.
  void completed(const nic::Completion& completion, const std::function<Statuses(const Op&)>& legal,
                 const Ended& ended);
  /// The QP is in ERR and its CQ is empty: what is left without a completion is unsignalled and was successful.
  void finished(const std::function<Statuses(const Op&)>& legal, const Ended& ended);
  /// The QP was reset or destroyed: its WRs end without a completion.
  void dropped(const Ended& ended);
  /// Completions may be missing from now on: their CQ has overflowed.
  void expect_gaps() { gaps_ = true; }
  /// A new connection: no error yet.
  void restart() { broken_ = gaps_ = false; }

  std::deque<Op>& pending() { return pending_; }
  const std::deque<Op>& pending() const { return pending_; }
  bool gaps() const { return gaps_; }

 private:
  void end_front(Ending ending, const Ended& ended);

  std::deque<Op> pending_;
  bool broken_ = false;  ///< A WR has failed or been flushed.
  bool gaps_ = false;
};

class ReceiveCheck {
 public:
  using Ended = std::function<void(Receive& receive, const Message* message, Ending ending)>;

  void posted(const Receive& receive) { pending_.push_back(receive); }
  /// Takes a completion of this QP's receive queue. `messages`: what the peer has sent, in order; the n-th of them
  /// takes the n-th receive. `legal` as above, for a failing message.
  void completed(const nic::Completion& completion, const std::deque<Message>& messages, Statuses legal,
                 const Ended& ended);
  /// The QP is in ERR and its CQ is empty: nothing may be left.
  void finished() const;
  void dropped(const std::deque<Message>& messages, const Ended& ended);
  void expect_gaps() { gaps_ = true; }
  void restart() {
    broken_ = gaps_ = false;
    consumed_ = 0;
  }

  const std::deque<Receive>& pending() const { return pending_; }
  std::uint32_t consumed() const { return consumed_; }
  bool gaps() const { return gaps_; }

 private:
  void end_front(const std::deque<Message>& messages, Ending ending, const Ended& ended);

  std::deque<Receive> pending_;
  std::uint32_t consumed_ = 0;  ///< Since the connection was made.
  bool broken_ = false;
  bool gaps_ = false;
};

}  // namespace uroce::simulator
