// SPDX-License-Identifier: Apache-2.0
// What every QP consists of, whatever its transport service: a half that sends requests and a half that receives them.
// They never call each other. What went wrong they say in their context, and Qp draws the consequences.
//
//   RC   Requester          Responder     acknowledged, in order, repeated
//   UC   UnackedRequester   UcResponder   in order, or not at all
//   UD   UnackedRequester   UdResponder   single packets
#pragma once

#include <memory>

#include "proto/icrc.h"
#include "verbs/nic/model/qp_inside.h"
#include "verbs/nic/transport/base/qp_context.h"
#include "verbs/nic/transport/base/timers.h"

namespace uroce::nic {

class RequesterHalf {
 public:
  virtual ~RequesterHalf() = default;

  /// What post() would say of `wr` behind `ahead` other WRs. For lists of which all or none is to be posted.
  virtual Errno check(const SendWr& wr, std::uint32_t ahead) const = 0;
  /// EINVAL: opcode, SGE count, inline size or operand; ENOMEM: queue full. The state is the caller's check.
  virtual Errno post(const SendWr& wr) = 0;
  /// Takes over the attributes of RTS.
  virtual void start() = 0;
  /// The next request packet. While `no_new_messages` (SQD) only messages already begun go on.
  virtual TxStatus poll_transmit(Instant now, MutBytes frame, bool no_new_messages, proto::Transmit& out) = 0;
  /// Takes in a response packet. True when it answers what is outstanding, which only the peer can know. Services
  /// without acknowledgements have none.
  virtual bool on_response(const proto::PacketView& packet, Instant now) = 0;
  virtual void on_timeout(Instant now) = 0;
  /// Completes everything queued with WR_FLUSH_ERR, signalled or not.
  virtual void flush() = 0;
  /// Drops everything queued without a completion (RESET).
  virtual void clear() = 0;
  /// True when the last poll_transmit() had a packet that the window did not admit.
  virtual bool waits_for_window() const = 0;
  /// True when every message that was begun has completed.
  virtual bool drained() const = 0;
  /// Gives back to the window what is under way: another one takes its place.
  virtual void release_window() = 0;
  /// Takes over changed retry attributes.
  virtual void reload_retry_counts() = 0;
  /// Takes over a changed timeout, also for what is outstanding.
  virtual void reload_timeout() = 0;
  /// Fills in what belongs to it.
  virtual void describe(QpInside& inside) const = 0;
};

/// A request that arrived. Lives as long as the call.
struct Arrival {
  const proto::PacketView& packet;
  const Path& path;              ///< As its sender saw it: the destination is us.
  const proto::IcrcCheck& icrc;  ///< What it proves of the IPv4 header.
};

class ResponderHalf {
 public:
  virtual ~ResponderHalf() = default;

  /// EINVAL: too many SGEs, or an SRQ; ENOMEM: queue full. The state is the caller's check.
  virtual Errno post(const RecvWr& wr) = 0;
  /// Takes over the attributes of RTR.
  virtual void start() = 0;
  /// Makes room for a changed max_dest_rd_atomic. bad_alloc: nothing has changed.
  virtual void set_depth(std::uint32_t max_dest_rd_atomic) = 0;
  /// Takes in a request packet. True when it came in sequence and was taken, so that only the peer can have sent it.
  virtual bool on_request(const Arrival& arrival) = 0;
  virtual TxStatus poll_transmit(MutBytes frame, proto::Transmit& out) = 0;
  virtual bool has_output() const = 0;
  /// Whether READs and atomics that it has accepted are still to be answered.
  virtual bool is_answering() const { return false; }
  /// Completes posted receives with WR_FLUSH_ERR. Such answers are not sent any more: from now on the program may do
  /// with its memory what it likes. An ACK or NAK without such an answer before it stays (the NAK that says why).
  virtual void flush() = 0;
  /// Forgets answers still to be sent.
  virtual void drop_output() = 0;
  /// Drops everything queued without a completion (RESET).
  virtual void clear() = 0;
  /// Fills in what belongs to it.
  virtual void describe(QpInside& inside) const = 0;
};

}  // namespace uroce::nic
