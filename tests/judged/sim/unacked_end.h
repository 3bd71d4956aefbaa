// SPDX-License-Identifier: Apache-2.0
// A UC or UD QP and the program that works with it. Sending never fails but for local reasons, and then only the
// sending half stops (SQE), until its program moves it back to RTS.
#pragma once

#include "tests/judged/sim/completion_check.h"
#include "tests/judged/sim/inbox.h"
#include "tests/judged/sim/send_model.h"

namespace uroce::simulator {

class UnackedTraffic;

class UnackedEnd : public QpOwner {
 public:
  UnackedEnd(Stage& stage, UnackedTraffic& traffic, Host& host, const UnackedEndPlan& plan, const UnackedPlan& shared,
             std::uint64_t seed);
  virtual void build();

  // --- life of the QP
  void create_qp();
  /// INIT, receives posted, RTR, RTS.
  virtual void start(proto::Psn sq_psn, proto::Psn peer_psn) = 0;
  void to_error();
  void to_reset();
  void destroy();
  void drain_send_queue(Duration pause);
  void deregister_local();
  void deregister_receive();
  /// Calls `act` when it next holds a shared receive for a message of which more is to come; never a UD QP.
  void when_in_mid_message(std::function<void()> act) { in_mid_message_ = std::move(act); }
  /// Moves the QP to ERR; everything must have completed, or completes with a flush error.
  void bring_down();
  /// Not when one of its CQs is dead.
  bool can_start() const;

  // --- the program
  void work() override;
  void on_completion(const nic::Completion& completion) override;
  void on_event(nic::Event::Kind kind) override;
  void on_cq_overflow(const nic::Cq* cq) override;
  bool in_error() const override { return dead_; }
  bool done() const { return ops_left_ == 0 && sends_.pending().empty() && !in_sqe_; }
  std::uint64_t left() const { return ops_left_ + sends_.pending().size(); }

  std::string name() const;
  std::string state_text() const;
  bool has_qp() const { return qp_ != nullptr; }
  std::uint32_t qpn() const { return qpn_; }
  Host& host() { return host_; }
  const UnackedEndPlan& plan() const { return plan_; }

 protected:
  /// Where the WR goes. May spoil it.
  virtual void aim(Op& op, Sending& sending, nic::SendWr& wr) = 0;
  virtual bool too_long(const Op&) const { return false; }
  /// The program makes what has died usable again.
  virtual void renew();

  void begin_life();
  void modify(nic::QpAttr& attr, std::uint32_t mask, const char* what);
  void begin_sending(const SendModel::Facts& facts, proto::Psn psn);
  nic::QpInit init(nic::QpType type) const;
  void post_receives();
  /// The NIC gives packets to the QP.
  bool listening() const;
  bool receive_dead() const { return receive_dead_; }
  /// The receive that is held can't be written to: the QP goes to ERR.
  void fail_receive();
  proto::Path path_to(const Host& host, std::uint32_t qpn) const;
  void note_mid_message() {
    if (srq_ != nullptr && in_mid_message_ && inbox_.held()) std::exchange(in_mid_message_, nullptr)();
  }
  void count(const char* what) { stage_.tally.add(what); }

  Stage& stage_;
  UnackedTraffic& traffic_;
  Host& host_;
  const UnackedEndPlan plan_;
  const UnackedPlan& shared_;
  engine::sim::Random random_;
  SharedQueue* const srq_;
  nic::Qp* qp_ = nullptr;
  std::uint32_t qpn_ = 0;
  Inbox inbox_;
  SendModel wire_;

 private:
  // unacked_post.cc
  bool post_receive();
  void post_sends();
  bool draw_op(bool marker);
  std::uint32_t draw_length();
  void submit(Op op, bool signal);

  void register_local();
  void register_receive();
  void die();
  void resume();
  Statuses legal(const Op& op) const;
  void end_sends();
  void drop_everything();
  void send_ended(const Op& op);
  void receive_ended(const Receive& receive);
  Cut cut() const { return {plan_.sges_max, plan_.empty_sge}; }

  bool up_ = false;    ///< Connected, and its owner has not ended that.
  bool dead_ = false;  ///< In ERR.
  bool owner_ended_ = false;
  bool in_sqe_ = false;  ///< A send has failed, and its program knows.
  bool draining_ = false, drained_ = false, thinking_ = false;
  bool fatal_due_ = false, last_receive_due_ = false;
  std::uint64_t life_ = 0;  ///< Counts connections.
  std::uint32_t ops_left_, unsignaled_ = 0, withheld_ = 0;
  SendCheck sends_;
  Area local_, receive_;
  nic::Mr *local_mr_ = nullptr, *receive_mr_ = nullptr;
  std::uint32_t local_key_ = 0, receive_key_ = 0;
  bool local_dead_ = false, receive_dead_ = false;
  std::function<void()> in_mid_message_;
  std::vector<std::uint8_t> scratch_;
};

}  // namespace uroce::simulator
