// SPDX-License-Identifier: Apache-2.0
// End-to-end flow control as a requester sees it (IBTA Vol 1, 9.7.7.2). Every message on the wire has a sequence
// number, from 1 on; the responder tells in AETHs how many it has completed (MSN) and how many receives it has posted
// (credits). Messages that take a receive and lie beyond MSN + credits have to wait; the very first one beyond
// ("limited") may be tried all the same, so that nothing ever waits for a credit that nobody is going to send.
#pragma once

#include "proto/syndrome.h"
#include "verbs/nic/model/types.h"

namespace uroce::nic {

/// Sequence number of a message: 24 bits, with the serial arithmetic of PSNs.
using Ssn = Psn;

class CreditLimit {
 public:
  /// A new connection: no credits are known, and message 1 is the limited one.
  void start() { *this = {}; }
  /// An AETH arrived. Credits once granted stay granted, so the order of arrival does not matter. A responder that does
  /// not count credits is not asked again.
  void on_credits(Ssn msn, std::uint8_t code) {
    heard_ = true;
    if (code == proto::kCreditsUnlimited) {
      unlimited_ = true;
    } else {
      raise_to(msn + proto::kCredits[code]);
    }
  }
  /// A message that takes no receive is sent for the first time: it uses up no credit.
  void on_message_without_receive() { limit_ = limit_ + 1; }
  /// All messages up to `ssn` are complete, whatever MSN the peer claims.
  void on_completed(Ssn ssn) { raise_to(ssn); }

  bool covers(Ssn ssn) const { return unlimited_ || ssn - limit_ <= 0; }
  /// True for the first message that is not covered.
  bool is_limited(Ssn ssn) const { return !unlimited_ && ssn - limit_ == 1; }
  /// False until the peer has said anything of credits.
  bool heard() const { return heard_; }

 private:
  void raise_to(Ssn limit) {
    if (limit - limit_ > 0) limit_ = limit;
  }

  Ssn limit_{};
  bool unlimited_ = false;
  bool heard_ = false;
};

}  // namespace uroce::nic
