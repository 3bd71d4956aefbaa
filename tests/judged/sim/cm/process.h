// SPDX-License-Identifier: Apache-2.0
// A process: a NIC and a connection manager at an address of their own, and a program that listens, connects, talks a
// little over what is established, and takes it down again.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tests/judged/sim/cm/side.h"
#include "tests/judged/sim/host.h"
#include "verbs/cm/nic_with_cm.h"

namespace uroce::simulator {

class CmTraffic;

class CmProcess {
 public:
  /// `generation`: counts the processes at this address.
  CmProcess(Stage& stage, CmTraffic& traffic, std::size_t number, std::uint32_t generation);

  // --- its life
  void start();
  void connect(CmAttempt& attempt);
  void unlisten();
  /// Sends a last word, or not, and is gone.
  void die(bool says_goodbye);
  /// Ends what is still up.
  void last_call();
  /// Destroys every id that is left.
  void close();
  /// Nothing may be left of them.
  void check_empty() const;

  /// Takes what the connection manager and the NIC have to tell.
  void look();

  /// Its side with this communication ID, as long as that is not destroyed.
  CmSide* find(cm::Id id);
  bool alive() const { return alive_; }
  bool listens() const { return listening_; }
  std::size_t number() const { return number_; }
  std::uint32_t generation() const { return generation_; }
  const cm::Cm& manager() const { return cm_; }
  engine::sim::NodeId node() const { return node_; }
  const proto::Gid& gid() const { return gid_; }
  std::string name() const;

 private:
  // process_events.cc: what it is told.
  void on_event(const cm::Event& event);
  void on_request(const cm::Event& event);
  CmSide* who_answers(const CmSide& side, const cm::Event& event, std::size_t field) const;
  void on_response(CmSide& side, const cm::Event& event);
  void on_established(CmSide& side, const cm::Event& event);
  void on_end(CmSide& side, const cm::Event& event);
  void on_disconnected(CmSide& side, const cm::Event& event);
  void on_completion(const nic::Completion& completion);

  // process.cc: what it does.
  void answer(CmSide& side);
  void reply(CmSide& side);
  void up(CmSide& side);
  void leave(CmSide& side);
  void over(CmSide& side);
  void destroy(CmSide& side);
  void refuse(CmSide& side);
  CmSide& add_side(CmAttempt& attempt, bool passive);
  cm::ConnectionParams params(const CmSide& side) const;
  void create_qp(CmSide& side);
  void ready_qp(CmSide& side);
  void move_qp(CmSide& side, nic::QpAttr& attr, nic::QpState to, std::uint32_t mask);
  void say_hello(CmSide& side);
  /// Runs `act` on the side `pause` later, unless it, or the process, is gone by then.
  void later(CmSide& side, Duration pause, void (CmProcess::*act)(CmSide&));
  void kick() { stage_.world.kick(node_); }
  Instant now() const { return stage_.world.now(); }

  Stage& stage_;
  CmTraffic& traffic_;
  const std::size_t number_;
  const std::uint32_t generation_;
  const CmProcessPlan& plan_;
  proto::Gid gid_;
  std::vector<std::uint8_t> memory_;
  nic::Nic nic_;
  cm::Cm cm_;
  cm::NicWithCm<nic::Nic> both_;
  nic::Pd* pd_ = nullptr;
  nic::Cq* cq_ = nullptr;
  nic::Mr* mr_ = nullptr;
  engine::sim::NodeId node_{};
  bool alive_ = true, listening_ = false;
  std::vector<cm::ListenerId> listeners_;
  std::vector<std::unique_ptr<CmSide>> sides_;
  std::map<cm::Id, CmSide*> by_id_;
};

}  // namespace uroce::simulator
