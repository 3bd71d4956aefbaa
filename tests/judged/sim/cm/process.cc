// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/cm/process.h"

#include <cerrno>

#include "proto/entropy.h"
#include "proto/timing.h"
#include "tests/judged/sim/cm/cm_traffic.h"
#include "tests/judged/sim/violation.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::simulator {

using cm::Transport;
using nic::QpState;
using Step = CmSide::Step;

namespace {

constexpr std::size_t kSlots = 4096, kHello = 16;  ///< Per slot: what is sent, and what is received.
constexpr std::uint64_t kPortSpaceTcp = 0x0106, kPortSpaceUdp = 0x0111;
constexpr std::uint16_t kPort = 7471, kPortOfUc = 7472, kNobodysPort = 7473;
constexpr std::uint32_t kFakeQpns = 0x800000;  ///< For UC and UD: nothing is sent there.

proto::Gid address(std::size_t number, bool ipv6) {
  const auto last = static_cast<std::uint8_t>(number + 1);
  if (!ipv6) return proto::Gid::from_v4(10, 0, 1, last);
  return proto::Gid{{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, last}};
}

cm::CmConfig manager_config(const Stage& stage, const proto::Gid& gid, std::size_t number, std::uint32_t generation) {
  cm::CmConfig config;
  config.gids = {gid};
  config.guid = 0x0200'0000'0000'0100u + number;  // A new process has the node GUID of the old one, and other IDs.
  config.seed = engine::sim::Random{stage.scenario.seed}.split(7000 + 64 * number + generation).next();
  config.time_divisor = stage.scenario.cm.time_divisor;
  return config;
}

std::uint16_t port(Transport transport, bool nobodys) {
  if (nobodys) return kNobodysPort;
  return transport == Transport::kUc ? kPortOfUc : kPort;
}

std::uint64_t service(Transport transport, bool nobodys) {
  const std::uint64_t space = transport == Transport::kUd ? kPortSpaceUdp : kPortSpaceTcp;
  return space << 16 | port(transport, nobodys);
}

}  // namespace

CmProcess::CmProcess(Stage& stage, CmTraffic& traffic, std::size_t number, std::uint32_t generation)
    : stage_(stage),
      traffic_(traffic),
      number_(number),
      generation_(generation),
      plan_(stage.scenario.cm.processes[number]),
      gid_(address(number, stage.scenario.network.ipv6)),
      memory_(kSlots * 2 * kHello),
      nic_({.gids = {gid_}}),
      cm_(manager_config(stage, gid_, number, generation)),
      both_(nic_, cm_) {}

std::string CmProcess::name() const { return fmt::format("process {}.{}", number_, generation_); }

void CmProcess::start() {
  pd_ = nic_.alloc_pd();
  cq_ = *nic_.create_cq(kSlots, nullptr);
  mr_ = *nic_.mrs().add(pd_, memory_.data(), memory_.size(), 0x10000, nic::kLocalWrite);
  node_ = stage_.world.attach(both_, {gid_});
  listening_ = true;
  for (const Transport transport : {Transport::kRc, Transport::kUc, Transport::kUd}) {
    cm::Listen listen;
    listen.service_id = service(transport, false);
    listen.transport = transport;
    listen.backlog = plan_.backlog;
    const auto listener = cm_.listen(listen);
    if (!listener) incorrect("{}: listening fails with errno {}", name(), listener.error());
    listeners_.push_back(*listener);
  }
}

void CmProcess::unlisten() {
  if (!alive_) return;
  listening_ = false;
  for (const cm::ListenerId listener : listeners_) cm_.unlisten(listener, now());
  for (auto& side : sides_) {  // What was not fetched goes with the listener.
    if (side->step == Step::kRequested && !side->fetched) destroy(*side);
  }
  kick();
}

void CmProcess::die(bool says_goodbye) {
  stage_.tally.add(says_goodbye ? "CM: processes that exit" : "CM: processes that are killed");
  alive_ = listening_ = false;  // From here on nobody asks what it does.
  if (says_goodbye) {
    cm_.shutdown(now());
    kick();
  }
  // Once what it has said is on its way.
  stage_.world.after({}, [this] { stage_.world.detach(node_); });
}

CmSide& CmProcess::add_side(CmAttempt& attempt, bool passive) {
  auto side = std::make_unique<CmSide>(*this, attempt, passive);
  side->slot = sides_.size() % kSlots;
  sides_.push_back(std::move(side));
  return *sides_.back();
}

CmSide* CmProcess::find(cm::Id id) {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : at->second;
}

void CmProcess::later(CmSide& side, Duration pause, void (CmProcess::*act)(CmSide&)) {
  stage_.world.after(pause, [this, &side, act] {
    if (!alive_ || side.step == Step::kDestroyed) return;
    (this->*act)(side);
    kick();
  });
}

cm::ConnectionParams CmProcess::params(const CmSide& side) const {
  cm::ConnectionParams params;
  params.qpn = side.qpn;
  params.responder_resources = side.passive ? 3 : 5;
  params.initiator_depth = side.passive ? 2 : 4;
  params.retry_count = 6;
  params.rnr_retry_count = side.passive ? 7 : 5;
  return params;
}

void CmProcess::connect(CmAttempt& attempt) {
  const CmAttemptPlan& plan = attempt.plan;
  CmSide& side = add_side(attempt, false);
  attempt.client = &side;
  const cm::Endpoint local{gid_, static_cast<std::uint16_t>(40000 + attempt.number)};
  const cm::Endpoint remote{traffic_.process(plan.server).gid(), port(plan.transport, plan.to_nobody)};
  Result<cm::Id, cm::Errno> id{Err{EINVAL}};
  if (plan.transport == Transport::kUd) {
    cm::SidrRequest request;
    request.service_id = service(plan.transport, plan.to_nobody);
    request.local = local;
    request.remote = remote;
    request.private_data = write_private_data({attempt.number}, false);
    id = cm_.sidr_request(request, now());
  } else {
    create_qp(side);
    cm::ConnectRequest request;
    request.transport = plan.transport;
    request.service_id = service(plan.transport, plan.to_nobody);
    request.local = local;
    request.remote = remote;
    request.params = params(side);
    request.private_data = write_private_data({attempt.number}, false);
    id = cm_.connect(request, now());
  }
  if (!id) incorrect("{}: connecting fails with errno {}", name(), id.error());
  side.id = *id;
  if (!by_id_.emplace(*id, &side).second) incorrect("{}: 0x{:08x} is in use", name(), *id);
  side.step = Step::kAsked;
  side.faults_before = traffic_.faults(side);
  traffic_.expect_progress(side, "the answer to a request");
  if (plan.given_up_after != Duration{}) later(side, plan.given_up_after, &CmProcess::destroy);
  kick();
}

/// The server's program has looked at the request, and does with it what the plan says.
void CmProcess::answer(CmSide& side) {
  if (side.step != Step::kRequested) return;
  cm_.fetched(side.id);
  side.fetched = true;
  const CmAttemptPlan& plan = side.attempt.plan;
  switch (plan.answer) {
    case CmAttemptPlan::Answer::kIgnore:
      return;
    case CmAttemptPlan::Answer::kReject:
      return refuse(side);
    case CmAttemptPlan::Answer::kDestroy:
      return destroy(side);
    case CmAttemptPlan::Answer::kAccept:
      break;
  }
  const cm::PrivateData words = write_private_data({side.attempt.number, side.request}, true);
  cm::Errno error = 0;
  if (plan.transport == Transport::kUd) {
    side.qpn = kFakeQpns + static_cast<std::uint32_t>(sides_.size());
    error = cm_.sidr_reply(side.id, {.qpn = side.qpn, .qkey = side.qpn ^ 0x55AA, .private_data = words}, now());
  } else {
    create_qp(side);
    ready_qp(side);
    error = cm_.accept(side.id, params(side), words, now());
  }
  if (error != 0) incorrect("{}: accepting fails with errno {}", side.name(), error);
  side.step = Step::kAccepted;
  side.faults_before = traffic_.faults(side);
  if (plan.transport == Transport::kUd) return over(side);
  traffic_.expect_progress(side, "what comes of a reply");
}

void CmProcess::refuse(CmSide& side) {
  const cm::PrivateData words = write_private_data({side.attempt.number, side.request}, side.passive);
  const cm::Errno error =
      side.attempt.plan.transport == Transport::kUd
          ? cm_.sidr_reply(side.id, {.status = cm::SidrStatus::kReject, .private_data = words}, now())
          : cm_.reject(side.id, cm::RejectReason::kConsumer, words, now());
  if (error != 0) incorrect("{}: rejecting fails with errno {}", side.name(), error);
  stage_.tally.add(side.passive ? "CM: requests rejected" : "CM: replies rejected");
  over(side);
}

/// The client's program has looked at the reply.
void CmProcess::reply(CmSide& side) {
  if (side.step != Step::kAnswered) return;
  switch (side.attempt.plan.reply) {
    case CmAttemptPlan::Reply::kReject:
      return refuse(side);
    case CmAttemptPlan::Reply::kDestroy:
      return destroy(side);
    case CmAttemptPlan::Reply::kEstablish:
      break;
  }
  ready_qp(side);
  const cm::Errno error = cm_.establish(side.id, now());
  if (error != 0) incorrect("{}: establishing fails with errno {}", side.name(), error);
  up(side);
}

void CmProcess::up(CmSide& side) {
  side.step = Step::kUp;
  side.was_up = true;
  side.faults_before_up = traffic_.faults(side);
  stage_.tally.add(side.passive ? "CM: established, server" : "CM: established, client");
  traffic_.check_crossing(side);
  const CmAttemptPlan& plan = side.attempt.plan;
  if (plan.transport == Transport::kRc) say_hello(side);
  if (plan.ends_it[side.passive]) later(side, plan.lives, plan.by_destroy ? &CmProcess::destroy : &CmProcess::leave);
}

void CmProcess::leave(CmSide& side) {
  if (side.step != Step::kUp) return;
  if (const cm::Errno error = cm_.disconnect(side.id, now())) {
    incorrect("{}: disconnecting fails with errno {}", side.name(), error);
  }
  side.step = Step::kLeaving;
  side.faults_before = traffic_.faults(side);
  traffic_.expect_progress(side, "the end of a connection");
  if (CmSide* const peer = traffic_.peer_of(side)) traffic_.expect_progress(*peer, "the end of a connection");
}

void CmProcess::over(CmSide& side) {
  side.step = Step::kOver;
  side.ended = now();
  if (side.qp != nullptr) {
    nic::QpAttr attr;
    move_qp(side, attr, QpState::kErr, 0);
  }
  later(side, side.attempt.plan.lingers, &CmProcess::destroy);
}

void CmProcess::destroy(CmSide& side) {
  if (side.qp != nullptr) {
    nic_.destroy_qp(side.qp);
    side.qp = nullptr;
  }
  CmSide* const peer = side.step == Step::kUp ? traffic_.peer_of(side) : nullptr;
  cm_.destroy(side.id, now());
  by_id_.erase(side.id);
  if (!side.is_over()) side.ended = now();
  side.step = Step::kDestroyed;
  if (peer != nullptr) traffic_.expect_progress(*peer, "the end of a connection");
}

void CmProcess::last_call() {
  if (!alive_) return;
  for (std::size_t i = 0; i < sides_.size(); ++i) leave(*sides_[i]);
  kick();
}

void CmProcess::close() {
  if (!alive_) return;
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    if (sides_[i]->step != Step::kDestroyed) destroy(*sides_[i]);
  }
  kick();
}

void CmProcess::check_empty() const {
  if (alive_ && cm_.size() != 0) incorrect("{}: {} connections are left", name(), cm_.size());
}

void CmProcess::create_qp(CmSide& side) {
  if (side.attempt.plan.transport != Transport::kRc) {
    side.qpn = kFakeQpns + static_cast<std::uint32_t>(256 * sides_.size() + generation_);
    return;
  }
  nic::QpInit init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.max_send_wr = init.max_recv_wr = init.max_send_sge = init.max_recv_sge = 1;
  const auto qp = nic_.create_qp(init);
  if (!qp) incorrect("{}: creating a QP fails with errno {}", name(), qp.error());
  side.qp = *qp;
  side.qpn = side.qp->qpn();
  nic::QpAttr attr;
  move_qp(side, attr, QpState::kInit, nic::kAttrPkeyIndex | nic::kAttrPort | nic::kAttrAccess);
  const nic::Sge sge{mr_->iova + (2 * side.slot + 1) * kHello, kHello, mr_->key};
  if (nic_.post_recv(side.qp, {.wr_id = 2 * side.slot + 1, .sges = {&sge, 1}}) != 0) {
    incorrect("{}: posting a receive fails", side.name());
  }
}

/// As a program does with what INIT_QP_ATTR tells it.
void CmProcess::ready_qp(CmSide& side) {
  if (side.qp == nullptr) return;
  const auto info = cm_.query(side.id);
  if (!info || !info->peer_known) incorrect("{}: the peer is not known", side.name());
  nic::QpAttr attr;
  attr.path.source = gid_;
  attr.path.destination = info->remote.address;
  attr.path.source_port = proto::flow_source_port(info->path.flow_label, side.qpn, info->remote_qpn);
  attr.path_mtu = info->path.mtu;
  attr.dest_qpn = info->remote_qpn;
  attr.rq_psn = proto::Psn{info->local_psn};
  attr.sq_psn = proto::Psn{info->remote_psn};
  attr.retry_cnt = info->retry_count;
  attr.rnr_retry = info->rnr_retry_count;
  attr.max_rd_atomic = info->max_rd_atomic;
  attr.max_dest_rd_atomic = info->max_dest_rd_atomic;
  attr.min_rnr_timer = 1;
  // Not the time-out that they agreed on, which time's divisor knows nothing of.
  attr.timeout = 1;
  const Duration patience = 3 * stage_.scenario.network.latency_max() + 3 * traffic_.plan().lateness;
  while (*proto::local_ack_timeout(attr.timeout) < patience + std::chrono::microseconds{100}) ++attr.timeout;
  move_qp(side, attr, QpState::kRtr,
          nic::kAttrAv | nic::kAttrPathMtu | nic::kAttrDestQpn | nic::kAttrRqPsn | nic::kAttrMaxDestRdAtomic |
              nic::kAttrMinRnrTimer);
  move_qp(side, attr, QpState::kRts,
          nic::kAttrTimeout | nic::kAttrRetryCnt | nic::kAttrRnrRetry | nic::kAttrSqPsn | nic::kAttrMaxRdAtomic);
}

void CmProcess::move_qp(CmSide& side, nic::QpAttr& attr, QpState to, std::uint32_t mask) {
  attr.state = to;
  if (const nic::Errno error = nic_.modify_qp(side.qp, attr, mask | nic::kAttrState)) {
    incorrect("{}: transition to state {} fails with errno {}", side.name(), static_cast<int>(to), error);
  }
}

/// One message each way, which says whose it is.
void CmProcess::say_hello(CmSide& side) {
  const std::size_t at = 2 * side.slot * kHello;
  store_be<8>(memory_.data() + at, side.attempt.number);
  store_be<8>(memory_.data() + at + 8, side.passive);
  const nic::Sge sge{mr_->iova + at, kHello, mr_->key};
  nic::SendWr wr;
  wr.wr_id = 2 * side.slot;
  wr.flags = nic::kSignaled;
  wr.sges = {&sge, 1};
  if (nic_.post_send(side.qp, wr) != 0) incorrect("{}: posting a SEND fails", side.name());
}

}  // namespace uroce::simulator
