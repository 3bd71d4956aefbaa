// SPDX-License-Identifier: Apache-2.0
// The program behind a QP, as its host calls it.
#pragma once

#include "proto/packet.h"
#include "tests/judged/sim/work.h"
#include "verbs/nic/model/event.h"

namespace uroce::simulator {

class QpOwner {
 public:
  virtual ~QpOwner() = default;

  /// A completion of this QP has been polled.
  virtual void on_completion(const nic::Completion& completion) = 0;
  virtual void on_event(nic::Event::Kind kind) = 0;
  /// A CQ has lost completions; it need not be one of this QP's.
  virtual void on_cq_overflow(const nic::Cq* cq) = 0;
  /// Posts what there is to post now.
  virtual void work() = 0;
  virtual bool in_error() const = 0;

  /// An undamaged packet for this QP is about to be given to the NIC.
  virtual void on_arrival(const proto::PacketView&, const proto::Path&) {}
  /// The packet that has just arrived has taken a receive of the QP's SRQ.
  virtual void on_receive_taken(const Receive&) {}
};

}  // namespace uroce::simulator
