// SPDX-License-Identifier: Apache-2.0
// The responder half of an RC QP (IBTA Vol 1, 9.7.4 and 9.7.5): checks requests in the order of the specification,
// executes them, and answers in the order of their PSNs.
//
// Output is two-stage: a queue of READ/atomic responses still to be sent, and behind it at most one pending ACK or NAK.
// ACKs coalesce because a later one replaces an earlier one that has not been sent. READs and atomics already executed
// stay in the replay ring (max_dest_rd_atomic entries), so that duplicates are answered again; an atomic is never
// executed twice. ATOMIC WRITE and FLUSH are answered like a READ of nothing.
#pragma once

#include "proto/syndrome.h"
#include "verbs/nic/transport/base/halves.h"
#include "verbs/nic/transport/base/inbound_message.h"
#include "verbs/nic/transport/base/receives.h"
#include "verbs/nic/transport/rc/replay_ring.h"

namespace uroce::nic {

class Responder final : public ResponderHalf {
 public:
  explicit Responder(QpContext& context);

  Errno post(const RecvWr& wr) override;
  /// Takes over the attributes of RTR: first expected PSN and the depth of the replay ring.
  void start() override;
  void set_depth(std::uint32_t max_dest_rd_atomic) override;
  bool on_request(const Arrival& arrival) override;
  TxStatus poll_transmit(MutBytes frame, proto::Transmit& out) override;
  bool has_output() const override { return !responses_.empty() || pending_.has_value(); }
  bool is_answering() const override { return !responses_.empty(); }
  void flush() override;
  void drop_output() override;
  void clear() override;
  void describe(QpInside& inside) const override {
    inside.expected = expected();
    inside.msn = msn_.value();
    receives_.describe(inside);
  }

  /// A check of an inbound request, for documentation.
  struct CheckFacts {
    const char* name;
    const char* objection;  ///< What the requester hears when the check objects.
  };
  /// In the order in which they are made.
  static std::vector<CheckFacts> check_facts();

 private:
  /// What a check says of a request; the first one that does not continue decides.
  struct Verdict {
    enum class Kind : std::uint8_t { kContinue, kDrop, kNak, kRnr } kind = Kind::kContinue;
    proto::NakCode code{};

    static Verdict go_on() { return {}; }
    static Verdict drop() { return {Kind::kDrop, {}}; }
    static Verdict nak(proto::NakCode code) { return {Kind::kNak, code}; }
    static Verdict rnr() { return {Kind::kRnr, {}}; }
  };
  struct Check {
    CheckFacts facts;
    Verdict (Responder::*run)(const proto::PacketView&);
  };
  // responder_checks.cc
  static std::span<const Check> checks();
  Verdict check_psn(const proto::PacketView& packet);
  Verdict check_sequence(const proto::PacketView& packet);
  Verdict check_opcode(const proto::PacketView& packet);
  Verdict check_resources(const proto::PacketView& packet);
  Verdict check_length(const proto::PacketView& packet);
  Verdict check_access(const proto::PacketView& packet);
  Verdict check_flush_access(const proto::PacketView& packet);

  // responder_execute.cc
  Verdict execute(const proto::PacketView& packet);
  Verdict execute_send(const proto::PacketView& packet);
  Verdict execute_write(const proto::PacketView& packet);
  Verdict execute_read(const proto::PacketView& packet);
  Verdict execute_atomic(const proto::PacketView& packet);
  Verdict execute_atomic_write(const proto::PacketView& packet);
  Verdict execute_flush();
  void answer_in_one_packet(AnswerKind kind, std::uint64_t original = 0);
  void finish_message();
  void on_duplicate(const proto::PacketView& packet);
  void acknowledge_again(LongPsn at);
  void read_again(const proto::PacketView& packet, LongPsn at);

  // responder.cc
  void refuse(proto::NakCode code);
  void fail_with(proto::NakCode code, Psn psn);
  void schedule(Psn psn, proto::Syndrome syndrome);
  bool take_back_nak();
  void enqueue(const Response& response);
  void write_aeth(proto::PacketBuilder& packet, proto::Syndrome syndrome) const;
  proto::Syndrome ack_with_credits();
  Verdict build_read_response(MutBytes frame, proto::Transmit& out);
  void build_atomic_response(MutBytes frame, proto::Transmit& out);

  Psn expected() const { return short_psn(expected_); }

  QpContext& c_;
  Receives receives_;
  ReplayRing replay_;
  ReplayRing flushes_;  ///< Apart, as any number of them may be outstanding. Empty until there is one.
  ResponseQueue responses_;
  LongPsn expected_ = 0;          ///< The next packet's.
  Psn msn_;                       ///< Messages completed: 24 bits with the serial arithmetic of PSNs.
  std::optional<Psn> announced_;  ///< The last message for which the peer has been told of a receive; none before.
  bool nak_sent_ = false;         ///< A NAK or RNR NAK for `expected_` is out; silence until that packet arrives.
  Psn refused_;                   ///< The newest packet that was refused since then.
  InboundMessage message_;
  struct Pending {
    Psn psn;
    proto::Syndrome syndrome;
  };
  std::optional<Pending> pending_;
};

}  // namespace uroce::nic
