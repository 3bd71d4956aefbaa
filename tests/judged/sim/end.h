// SPDX-License-Identifier: Apache-2.0
// One end of a connection: a QP and the program that works with it. Posts what its plan says, and tells the oracle of
// everything it does; judges every completion.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/judged/sim/completion_check.h"
#include "tests/judged/sim/host.h"
#include "tests/judged/sim/lint_requests.h"
#include "tests/judged/sim/pieces.h"
#include "tests/judged/sim/window.h"

namespace uroce::simulator {

class Connection;

class End final : public QpOwner {
 public:
  End(Stage& stage, Connection& connection, Host& host, const EndPlan& plan, const ConnectionPlan& shared,
      std::uint64_t seed);
  void set_peer(End& peer) { peer_ = &peer; }
  void build();  ///< Registers memory; the host is built.

  // --- life of the QP
  // ---------------------------------------------------------------------------------------------------
  void create_qp();
  /// INIT, receives posted, RTR, RTS; `psns` are new ones except for the first connection.
  void connect(proto::Psn sq_psn, proto::Psn peer_sq_psn);
  void to_error();
  void to_reset();
  void destroy();
  enum class Change { kNone, kAny, kDeeper };
  /// SQD, and RTS again after `pause`; with other attributes, if it has drained by then.
  void drain_send_queue(Duration pause, Change change);
  void change_in_rts();
  /// Calls `act` when it has next taken a shared receive for a message of which more is to come.
  void when_in_mid_message(std::function<void()> act) { in_mid_message_ = std::move(act); }
  /// The memory of the target region goes, and comes back with what was in it.
  void vanish(Duration pause);
  enum class Region { kTarget, kLocal, kReceive };
  void deregister(Region region);
  /// Gives the target region a new key; WRs posted before have the old one.
  void reregister_target();
  /// The connection is coming down: everything must have completed, or completes with a flush error now.
  void bring_down();
  /// When both QPs are dead: settles what nobody knows of.
  void settle_limbo();

  // --- the program
  // ------------------------------------------------------------------------------------------------------
  void work() override;
  void on_completion(const nic::Completion& completion) override;
  void on_event(nic::Event::Kind kind) override;
  void on_cq_overflow(const nic::Cq* cq) override;
  /// Nothing outstanding and nothing left to do.
  bool done() const { return ops_left_ == 0 && sends_.pending().empty(); }
  /// Without a timeout, a lost packet is lost for good (IBTA Vol 1, 9.7.6.1.3: timeout 0 never fires).
  bool may_wait_for_ever() const { return plan_.timeout == 0 && (faults_ > 0 || peer_is_dead()); }
  void note_fault() { ++faults_; }
  /// An RNR NAK to this QP came twice, or late.
  void note_doubled_rnr_nak() { ++doubled_rnr_naks_; }
  /// A forged packet has reached one of the QPs: it costs as much as a lost one, and draws a NAK that may arrive later.
  void note_forgery();
  /// A forged request has reached the QP that it cannot tell from its peer's: the QP is as good as broken.
  void deceived() { deceived_ = true; }
  bool in_error() const override;
  void on_arrival(const proto::PacketView& view, const proto::Path& path) override;
  void on_receive_taken(const Receive& receive) override;
  bool has_qp() const { return qp_ != nullptr; }
  /// It posts nothing but the WRITEs of its bulk.
  bool in_bulk() const { return psns_ >= plan_.bulk_after && psns_ < plan_.bulk_after + plan_.bulk_psns; }

  std::string name() const;
  std::string state_text() const;
  std::uint32_t qpn() const { return qpn_; }
  std::uint32_t target_key() const { return target_key_; }
  Extent target() const { return exposed_; }
  Host& host() { return host_; }
  const EndPlan& plan() const { return plan_; }
  std::uint32_t ops_left() const { return ops_left_; }
  std::size_t outstanding() const { return sends_.pending().size(); }

 private:
  // end_window.cc
  void renew_window();
  void tend_window();
  bool window_in_use() const;
  void post_bind(bool to_memory);
  void post_window_flaw();
  void post_local(Op op, const nic::MwBind& bind);
  void local_ended(const Op& op, Ending ending);
  void window_invalidated();
  bool window_grants(const Op& op) const;
  void draw_window_flaw(Op& op);
  const Window* foreign_window() const;
  void name_window(const Op& op, nic::SendWr& wr);
  void draw_invalidation(Op& op);
  bool target_is_under_window();

  // attributes.cc
  void change_in_sqd();
  void deepen();
  void change_access(std::uint32_t access);
  void change(const nic::QpAttr& attr, std::uint32_t mask);
  /// The right that a peer needs for this operation, if any (nic::Access).
  static std::uint32_t right_for(const Op& op);
  bool refuses(const Op& op) const;
  bool may_refuse(const Op& op) const { return (right_for(op) & lacked_) != 0; }
  void come_back();

  // end_post.cc: drawing and posting work.
  void post_receives();
  bool post_receive();
  void post_sends();
  bool draw_op(Op& op);
  void draw_size(Op& op);
  bool draw_memory(Op& op);
  void draw_flaw(Op& op);
  void post_marker();
  void aim_wrong(const Op& op, nic::SendWr& wr);
  void submit(Op op, std::uint32_t flags);
  nic::Mr* register_target();
  Cut cut() const { return {plan_.sges_max, plan_.empty_sge}; }

  // end_judge.cc: what completions may and must say.
  Statuses legal(const Op& op) const;
  Statuses legal_receive() const;
  bool too_long(const Op& op) const;
  bool responder_may_fail() const;
  bool peer_is_dead() const;
  void send_ended(Op& op, Ending ending);
  void write_ended(Op& op, Ending ending);
  void receive_ended(Receive& receive, const Message* message, Ending ending, bool given_back = false);
  void commit_until(std::uint64_t op_id);
  Bytes payload(const Op& op);
  void note_error(nic::WcStatus status);
  void drop_everything(bool held);
  void freeze_target();

  bool alive() const { return up_ && !broken_; }
  void hold(Extent slot);
  void release(Extent slot);

  Stage& stage_;
  Connection& connection_;
  Host& host_;
  EndPlan plan_;
  const ConnectionPlan& shared_;
  End* peer_ = nullptr;
  engine::sim::Random random_;

  nic::Qp* qp_ = nullptr;
  std::uint32_t qpn_ = 0;
  bool up_ = false;      ///< Connected, and its owner has not ended that.
  bool broken_ = false;  ///< The owner has seen an error.
  bool draining_ = false, drained_ = false;
  bool owner_ended_ = false;  ///< The owner moved it to ERR or RESET, or its CQ died.
  bool failure_seen_ = false, flush_unexplained_ = false;
  std::uint64_t incarnation_ = 0;  ///< Unlike that of any other connection of any end.
  std::uint32_t faults_ = 0;       ///< By the network, that hit this connection.
  std::uint32_t doubled_rnr_naks_ = 0;
  Instant stray_nak_until_{};  ///< Until then a NAK may arrive that nothing of ours has drawn.
  std::uint32_t ops_left_;
  std::uint32_t psns_ = 0;  ///< Taken by the WRs posted.
  std::uint32_t unsignaled_ = 0;
  bool thinking_ = false;
  std::uint32_t receives_withheld_ = 0;
  SharedQueue* const srq_;          ///< Where its receives come from; none: from its own queue.
  bool last_receive_told_ = false;  ///< LAST_WQE_REACHED.
  bool more_to_come_ = false;       ///< In the message whose packet arrived last.
  std::function<void()> in_mid_message_;

  SendCheck sends_;
  ReceiveCheck receives_;
  std::deque<Message> messages_;           ///< To the peer.
  std::vector<std::uint32_t> capacities_;  ///< For each receive posted.
  bool flaw_posted_ = false;
  bool deceived_ = false;
  Window window_;
  bool window_taken_back_ = false;  ///< In this connection: asked for by itself or its peer.
  // What the owner has changed since the connection was made.
  nic::QpAttr attr_;
  std::uint8_t least_timeout_ = 0;
  std::uint32_t lacked_ = 0;  ///< Rights that the peer has not had at some time.
  struct Lack {
    std::uint32_t right;
    Instant since;
  };
  std::vector<Lack> lacks_;            ///< Those that it has not now.
  std::optional<Instant> gone_since_;  ///< The memory of the target region.

  Area local_, receive_, target_;
  Extent source_;   ///< Never written: for READs of the peer.
  Extent exposed_;  ///< `target_` and `source_`.
  nic::Mr *local_mr_ = nullptr, *receive_mr_ = nullptr, *target_mr_ = nullptr;
  std::uint32_t local_key_ = 0, receive_key_ = 0, target_key_ = 0;
  bool local_dead_ = false, receive_dead_ = false, target_dead_ = false;
  bool target_changed_ = false;  ///< In this connection: deregistered, or another key.
  Instant target_changed_at_{};  ///< For the last time.

  struct Held {
    Extent slot;
    int users;
  };
  std::vector<Held> held_;  ///< Slots of the peer's target area that our WRITEs and READs use.
  struct LastWrite {
    Extent slot;
    std::uint64_t seed = 0;
    bool valid = false;
  } last_write_;
  struct Limbo {
    Extent remote;
    std::uint64_t seed;
    bool at_once;  ///< All of it or nothing.
  };
  std::vector<Limbo> limbo_;  ///< WRITEs that ended badly: what they did is known when both QPs are dead.
  std::vector<std::uint8_t> scratch_;
};

}  // namespace uroce::simulator
