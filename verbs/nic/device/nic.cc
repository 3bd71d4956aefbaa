// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/device/nic.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <unordered_map>

#include "proto/icrc.h"
#include "proto/pkey.h"
#include "verbs/nic/device/cq_health.h"
#include "verbs/nic/device/deadline_heap.h"
#include "verbs/nic/device/multicast.h"
#include "verbs/nic/device/qp_table.h"
#include "verbs/nic/device/scheduler.h"
#include "verbs/nic/resources/line.h"

namespace uroce::nic {
namespace {

/// Found by their address: programs have tens of thousands, and destroy them one by one.
template <class T>
using Owned = std::unordered_map<const T*, std::unique_ptr<T>>;

template <class T>
T* keep(Owned<T>& all, std::unique_ptr<T> one) {
  T* const kept = one.get();
  all.emplace(kept, std::move(one));
  return kept;
}

/// Null when there is no memory for it.
template <class T, class... Arguments>
std::unique_ptr<T> try_to_make(Arguments&&... arguments) {
  try {
    return std::make_unique<T>(std::forward<Arguments>(arguments)...);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

constexpr proto::Service service_of(QpType type) {
  switch (type) {
    case QpType::kRc:
      return proto::Service::kRc;
    case QpType::kUc:
      return proto::Service::kUc;
    case QpType::kUd:
      return proto::Service::kUd;
  }
  return proto::Service::kCongestion;
}

}  // namespace

struct Nic::Core final : QpEnv {
  Core(const NicConfig& nic_config, MrTable& nic_mrs, Counters& counters)
      : QpEnv(nic_config, nic_mrs, counters),
        qps(nic_config.qpn_slot, nic_config.first_local_qpn),
        scheduler(windows) {}

  void complete(Cq& cq, const Completion& completion) override {
    Completion stamped = completion;
    stamped.when = trace.now;
    const Cq::PushResult pushed = cq.push(stamped);
    if (pushed == Cq::PushResult::kNotify) notify(cq);
    if (pushed == Cq::PushResult::kOverflow || cq_health.is_dead(cq)) cq_health.overflow(cq);
  }
  void raise(Event::Kind kind, Qp* qp) override { tell({kind, nullptr, qp}); }
  void raise_limit_reached(Srq& srq) override { tell({Event::Kind::kSrqLimitReached, nullptr, nullptr, &srq}); }
  void notify(Cq& cq) { tell({Event::Kind::kCqNotify, &cq, nullptr}); }
  /// Never throws: who raises an event is in the middle of something.
  void tell(const Event& event) noexcept {
    try {
      events.reserve(events.size() + 1);
    } catch (const std::bad_alloc&) {
      return;  // Lost. Only from an owner who lets them pile up: reserve_for_events() sees to the others.
    }
    events.push_back(event);
  }
  /// Before there is one more object that can have events.
  void reserve_for_events() {
    constexpr std::size_t kEach = 2;  // All QPs may break at once, and with an SRQ have taken their last WQEs.
    events.reserve(kEach * (qps.size() + cqs.size() + srqs.size() + 1));
  }

  /// After anything that may have given a QP something to send, a new deadline or an error.
  void touched(Qp& qp) {
    scheduler.make_ready(qp);
    deadlines.update(qp);
    fail_overflowed();
  }
  /// A CQ that lost a completion is dead: its QPs go to ERR (IBTA Vol 1, 11.6.3.?), and so do those that come later, or
  /// come again from RESET, with the next completion. Deferred, as flushing fills CQs too.
  void fail_overflowed() {
    while (Cq* const cq = cq_health.take_overflowed()) {
      if (cq_health.kill(*cq)) tell({Event::Kind::kCqErr, cq, nullptr});
      qps.for_each([&](Qp& qp) {
        const bool uses = qp.init().send_cq == cq || qp.init().recv_cq == cq;
        if (!uses || qp.state() == QpState::kErr || qp.state() == QpState::kReset) return;
        trace.note<TraceKind::kCqOverflow>(qp.qpn());
        qp.enter_error(Event::Kind::kQpFatal);
        deadlines.update(qp);
      });
    }
  }
  void forget(Qp& qp) {
    deadlines.remove(qp);
    scheduler.forget(qp);
    multicast.forget(&qp);
    events.erase_if([&qp](const Event& e) { return e.qp == &qp; });
  }

  QpTable qps;
  Scheduler scheduler;
  DeadlineHeap deadlines;
  MulticastTable multicast;
  CqHealth cq_health;
  Line<Event> events;
  Owned<Pd> pds;
  Owned<Cq> cqs;
  Owned<Srq> srqs;
  std::uint32_t ahs = 0;
  std::uint32_t next_srq_number = 1;
  std::uint32_t created_qps = 0;
};

Nic::Nic(NicConfig config)
    : config_(std::move(config)),
      mrs_(kMaxMr, *config_.memory, config_.key_seed),
      core_(std::make_unique<Core>(config_, mrs_, counters_)) {}
Nic::~Nic() = default;

void Nic::on_datagram(const proto::Datagram& datagram, Instant now) {
  Trace& trace = core_->trace;
  trace.now = now;
  trace.note<TraceKind::kPacketIn>(0, datagram.payload.size(), datagram.path.tclass);
  if ((datagram.path.tclass & proto::kEcnMask) == proto::kEcnMask) trace.note<TraceKind::kEcnMarked>(0);
  const auto packet = proto::parse_packet(datagram.payload);
  // A longer one may have been cut by the port, and its ICRC with it.
  if (!packet || datagram.payload.size() > proto::kMaxPacketSize) {
    trace.note<TraceKind::kDropMalformed>(0, datagram.payload.size());
    return;
  }
  const std::uint32_t dest_qp = packet->dest_qp();
  const proto::IcrcCheck icrc = proto::check_icrc(datagram);
  if (!icrc.ok) {
    trace.note<TraceKind::kDropIcrc>(0, dest_qp, packet->psn().value());
    return;
  }
  if (!proto::accepts_pkey(packet->bth().get<proto::Bth::PKey>())) {
    trace.note<TraceKind::kDropPkey>(0, packet->bth().get<proto::Bth::PKey>(), packet->psn().value());
    return;
  }
  if (dest_qp == kMulticastQpn) {
    const bool anybody = core_->multicast.for_each_in(
        datagram.path.destination, [&](Qp& member) { deliver(member, *packet, datagram.path, icrc, now); });
    if (!anybody) trace.note<TraceKind::kDropUnknownQp>(0, dest_qp, packet->psn().value());
    return;
  }
  Qp* const qp = core_->qps.find(dest_qp);
  if (qp == nullptr) {
    trace.note<TraceKind::kDropUnknownQp>(0, dest_qp, packet->psn().value());
    return;
  }
  deliver(*qp, *packet, datagram.path, icrc, now);
}

void Nic::deliver(Qp& qp, const proto::PacketView& packet, const Path& path, const proto::IcrcCheck& icrc,
                  Instant now) {
  if (packet.op().service != service_of(qp.type())) {
    core_->trace.note<TraceKind::kDropService>(qp.qpn(), packet.bth().get<proto::Bth::Opcode>(), packet.psn().value());
    return;
  }
  qp.on_packet(packet, path, icrc, now);
  core_->touched(qp);
}

void Nic::on_timeout(Instant now) {
  core_->trace.now = now;
  DeadlineHeap& heap = core_->deadlines;
  while (!heap.empty() && heap.front().links.deadline <= now) {
    Qp& qp = heap.front();
    qp.on_timeout(now);
    core_->touched(qp);
  }
  core_->cq_health.on_timeout(now, [this](Cq& cq) { core_->notify(cq); });
}

std::optional<proto::Transmit> Nic::poll_transmit(Instant now, MutBytes frame) {
  Core& c = *core_;
  c.trace.now = now;
  while (Qp* const qp = c.scheduler.next()) {
    proto::Transmit out;
    const TxStatus status = qp->poll_transmit(now, frame, out);
    c.deadlines.update(*qp);
    c.fail_overflowed();
    c.scheduler.asked(*qp, status);
    if (status != TxStatus::kSent) continue;
    out.sender = qp->qpn();
    c.trace.note<TraceKind::kPacketOut>(out.sender, out.size);
    return out;
  }
  return std::nullopt;
}

void Nic::answer_first() { core_->scheduler.answer_first(); }

std::optional<Instant> Nic::next_deadline() const {
  const DeadlineHeap& heap = core_->deadlines;
  const Instant timer = heap.empty() ? Instant::max() : heap.front().links.deadline;
  const Instant first = std::min(core_->cq_health.next_deadline(), timer);
  return first == Instant::max() ? std::nullopt : std::optional(first);
}

Pd* Nic::alloc_pd() {
  if (core_->pds.size() == kMaxPd) return nullptr;
  return keep(core_->pds, std::make_unique<Pd>());
}

Errno Nic::dealloc_pd(Pd* pd) {
  if (pd->users != 0) return EBUSY;
  return core_->pds.erase(pd) != 0 ? 0 : EINVAL;
}

Errno Nic::add_ah(Pd* pd) {
  if (core_->ahs == kMaxAh) return ENOMEM;
  ++core_->ahs;
  ++pd->users;
  return 0;
}

void Nic::remove_ah(Pd* pd) {
  --core_->ahs;
  --pd->users;
}

Result<Cq*, Errno> Nic::create_cq(std::uint32_t capacity, void* user) {
  if (capacity < 1 || capacity > kMaxCqe) return Err{EINVAL};
  if (core_->cqs.size() == kMaxCq) return Err{ENOMEM};
  core_->reserve_for_events();
  core_->cq_health.reserve(core_->cqs.size() + 1);
  auto cq = try_to_make<Cq>(capacity, user);
  if (!cq) return Err{ENOMEM};
  return keep(core_->cqs, std::move(cq));
}

void Nic::moderate_cq(Cq* cq, std::uint32_t count, Duration period) { core_->cq_health.moderate(*cq, count, period); }

Errno Nic::destroy_cq(Cq* cq) {
  if (cq->users != 0) return EBUSY;
  core_->cq_health.forget(cq);
  core_->events.erase_if([cq](const Event& e) { return e.cq == cq; });
  return core_->cqs.erase(cq) != 0 ? 0 : EINVAL;
}

Result<Srq*, Errno> Nic::create_srq(const SrqInit& init) {
  if (init.pd == nullptr || init.max_wr == 0 || init.max_wr > kMaxSrqWr || init.max_sge > kMaxSrqSge) {
    return Err{EINVAL};
  }
  if (core_->srqs.size() == kMaxSrq) return Err{ENOMEM};
  core_->reserve_for_events();
  auto srq = try_to_make<Srq>(init, core_->next_srq_number++);
  if (!srq) return Err{ENOMEM};
  Srq* const kept = keep(core_->srqs, std::move(srq));
  ++init.pd->users;
  return kept;
}

Errno Nic::destroy_srq(Srq* srq) {
  if (srq->users != 0) return EBUSY;
  core_->events.erase_if([srq](const Event& e) { return e.srq == srq; });
  Pd* const pd = srq->pd();
  if (core_->srqs.erase(srq) == 0) return EINVAL;
  --pd->users;
  return 0;
}

Result<Qp*, Errno> Nic::create_qp(const QpInit& init) {
  if (init.pd == nullptr || init.send_cq == nullptr || init.recv_cq == nullptr) return Err{EINVAL};
  if (init.max_send_wr > kMaxQpWr || init.max_send_sge > kMaxSge) return Err{EINVAL};
  // With an SRQ there is no receive queue: max_recv_wr and max_recv_sge are ignored (ibv_create_qp(3)).
  const bool own_receives = init.srq == nullptr;
  if ((own_receives && (init.max_recv_wr > kMaxQpWr || init.max_recv_sge > kMaxSge)) || init.max_inline > kMaxInline)
    return Err{EINVAL};
  const auto qpn = core_->qps.next_qpn();
  if (!qpn) return Err{ENOMEM};
  core_->reserve_for_events();
  core_->scheduler.reserve(core_->qps.size() + 1);
  core_->deadlines.reserve(core_->qps.size() + 1);
  auto made = try_to_make<Qp>(*core_, *qpn, init);
  if (!made) return Err{ENOMEM};
  Qp* const qp = core_->qps.insert(std::move(made));
  ++init.pd->users;
  ++init.send_cq->users;
  ++init.recv_cq->users;
  if (init.srq != nullptr) ++init.srq->users;
  qp->links.nth = ++core_->created_qps;
  return qp;
}

Errno Nic::modify_qp(Qp* qp, const QpAttr& attr, std::uint32_t mask) {
  if ((mask & kAttrAv) != 0) core_->scheduler.forget(*qp);  // It will wait for another window.
  const Errno error = qp->modify(attr, mask);
  if (error == 0 && qp->state() == QpState::kReset) ++qp->links.life;
  core_->touched(*qp);
  return error;
}

void Nic::destroy_qp(Qp* qp) {
  qp->clear();
  core_->forget(*qp);
  --qp->init().pd->users;
  --qp->init().send_cq->users;
  --qp->init().recv_cq->users;
  if (qp->init().srq != nullptr) --qp->init().srq->users;
  mrs_.unbind_windows_of(qp->qpn());
  core_->qps.erase(qp->qpn());
}

Errno Nic::post_send(Qp* qp, const SendWr& wr) {
  const Errno error = qp->post_send(wr);
  core_->touched(*qp);
  return error;
}

Errno Nic::post_recv(Qp* qp, const RecvWr& wr) {
  const Errno error = qp->post_recv(wr);
  if (qp->wants_turn()) core_->touched(*qp);
  return error;
}

Errno Nic::check_send(const Qp* qp, const SendWr& wr, std::uint32_t ahead) const { return qp->check_send(wr, ahead); }

void Nic::set_time(Instant now) { core_->trace.now = now; }

void Nic::prefer(Qp* qp) {
  if (qp->links.ready) core_->scheduler.prefer(*qp);
}

Errno Nic::attach_multicast(Qp* qp, const Gid& group) { return core_->multicast.attach(qp, group); }
Errno Nic::detach_multicast(Qp* qp, const Gid& group) { return core_->multicast.detach(qp, group); }
bool Nic::is_attached(const Qp* qp, const Gid& group) const { return core_->multicast.is_attached(qp, group); }
std::vector<Gid> Nic::groups_of(const Qp* qp) const { return core_->multicast.groups_of(qp); }

bool Nic::has_work() const { return !core_->scheduler.empty() || !core_->events.empty(); }

std::optional<proto::QpIdentity> Nic::identify(std::uint32_t qpn) const {
  const Qp* const qp = core_->qps.find(qpn);
  if (qp == nullptr) return std::nullopt;
  return proto::QpIdentity{.nth = qp->links.nth,
                           .life = qp->links.life,
                           .first_sent = qp->attr().sq_psn,
                           .first_received = qp->attr().rq_psn,
                           .mtu = proto::mtu_bytes(qp->attr().path_mtu)};
}

const Qp* Nic::find_qp(std::uint32_t qpn) const { return core_->qps.find(qpn); }

std::optional<std::uint32_t> Nic::nth_qp(std::uint32_t nth) const {
  std::optional<std::uint32_t> found;
  core_->qps.for_each([&](const Qp& qp) {
    if (qp.links.nth == nth) found = qp.qpn();
  });
  return found;
}

bool Nic::break_qp(std::uint32_t qpn) {
  Qp* const qp = core_->qps.find(qpn);
  if (qp == nullptr) return false;
  core_->trace.note<TraceKind::kQpBroken>(qpn);
  qp->enter_error(Event::Kind::kQpFatal);
  core_->touched(*qp);
  return true;
}

bool Nic::overflow_send_cq(std::uint32_t qpn) {
  const Qp* const qp = core_->qps.find(qpn);
  if (qp == nullptr) return false;
  core_->cq_health.overflow(*qp->init().send_cq);
  core_->fail_overflowed();
  return true;
}

std::optional<Event> Nic::poll_event() {
  if (core_->events.empty()) return std::nullopt;
  const Event event = core_->events.front();
  core_->events.pop_front();
  return event;
}

}  // namespace uroce::nic
