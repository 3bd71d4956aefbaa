#include "verbs/nic/nic.h"

#include <algorithm>
#include <cerrno>
#include <deque>

#include "proto/icrc.h"
#include "verbs/nic/deadline_heap.h"
#include "verbs/nic/qp_table.h"

namespace uroce::nic {
namespace {

template <class T>
bool erase_owned(std::vector<std::unique_ptr<T>>& all, const T* one) {
  const auto it = std::find_if(all.begin(), all.end(), [one](const auto& p) { return p.get() == one; });
  if (it == all.end()) return false;
  std::swap(*it, all.back());
  all.pop_back();
  return true;
}

/// The receiver compares the low 15 bits with its table, in which we have only the default key (IBTA Vol 1, 10.9.3).
constexpr bool accepts_pkey(std::uint16_t pkey) { return (pkey & 0x7FFF) == 0x7FFF; }

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
  Core(const NicConfig& nic_config, MrTable& nic_mrs, Counters& nic_counters)
      : QpEnv(nic_config, nic_mrs, nic_counters), qps(nic_config.qpn_slot, nic_config.first_local_qpn) {}

  void complete(Cq& cq, const Completion& completion) override {
    Completion stamped = completion;
    stamped.when = now;
    switch (cq.push(stamped)) {
      case Cq::PushResult::kQueued:
        return;
      case Cq::PushResult::kNotify:
        events.push_back({Event::Kind::kCqNotify, &cq, nullptr});
        return;
      case Cq::PushResult::kOverflow:
        if (std::find(overflowed.begin(), overflowed.end(), &cq) == overflowed.end()) overflowed.push_back(&cq);
        return;
    }
  }
  void raise(Event::Kind kind, Qp* qp) override { events.push_back({kind, nullptr, qp}); }
  void raise_limit_reached(Srq& srq) override {
    events.push_back({Event::Kind::kSrqLimitReached, nullptr, nullptr, &srq});
  }

  /// After anything that may have given a QP something to send, a new deadline or an error.
  void touched(Qp& qp) {
    make_ready(qp);
    deadlines.update(qp);
    fail_overflowed();
  }
  void make_ready(Qp& qp) {
    if (qp.links.ready) return;
    qp.links.ready = true;
    ready.push_back(&qp);
  }
  /// The window interrupts a turn but does not end it: else, of many QPs each would send a packet or two and have to
  /// ask for an ACK of them.
  void make_waiting(Qp& qp) {
    if (qp.links.waiting) return;
    qp.links.waiting = true;
    if (qp.links.turn_left < Qp::kTurn) {
      waiting.push_front(&qp);
    } else {
      waiting.push_back(&qp);
    }
  }
  /// Whoever waited for the window goes before those that have just become ready, or they would take the room again and
  /// again. One at a time, until its turn is over: most of them would find it full.
  void admit_one() {
    if (admitted != nullptr || waiting.empty() || !window.has_room()) return;
    admitted = waiting.front();
    waiting.pop_front();
    admitted->links.waiting = false;
    prefer(*admitted);
  }
  void prefer(Qp& qp) {
    if (qp.links.ready) std::erase(ready, &qp);  // Short: QPs do not stay ready for long.
    qp.links.ready = true;
    ready.push_front(&qp);
  }
  /// A CQ that lost a completion is dead: its QPs go to ERR (IBTA Vol 1, 11.6.3.?). Deferred, as flushing fills CQs
  /// too.
  void fail_overflowed() {
    while (!overflowed.empty()) {
      Cq* const cq = overflowed.front();
      overflowed.erase(overflowed.begin());
      if (std::find(dead.begin(), dead.end(), cq) != dead.end()) continue;
      dead.push_back(cq);
      events.push_back({Event::Kind::kCqErr, cq, nullptr});
      qps.for_each([&](Qp& qp) {
        const bool uses = qp.init().send_cq == cq || qp.init().recv_cq == cq;
        if (!uses || qp.state() == QpState::kErr || qp.state() == QpState::kReset) return;
        qp.enter_error(Event::Kind::kQpFatal);
        deadlines.update(qp);
      });
    }
  }
  void forget(Qp& qp) {
    deadlines.remove(qp);
    std::erase(ready, &qp);
    std::erase(waiting, &qp);
    if (admitted == &qp) admitted = nullptr;
    std::erase_if(events, [&qp](const Event& e) { return e.qp == &qp; });
    std::erase_if(members, [&qp](const Member& m) { return m.qp == &qp; });
  }

  /// A QP in a multicast group.
  struct Member {
    Gid group;
    Qp* qp;
  };

  std::vector<Member> members;  ///< In the order in which they were attached.
  QpTable qps;
  DeadlineHeap deadlines;
  std::deque<Qp*> ready;    ///< Asked for packets, the front one first.
  std::deque<Qp*> waiting;  ///< Had a packet that the window did not admit.
  Qp* admitted = nullptr;   ///< Of those that waited: whose turn it is, if any's.
  std::deque<Event> events;
  std::vector<Cq*> overflowed, dead;
  std::vector<Cq*> moderated;  ///< CQs that hold back notifications. Few, if any.
  Instant now{};               ///< The latest that we have heard of.
  std::vector<std::unique_ptr<Pd>> pds;
  std::vector<std::unique_ptr<Cq>> cqs;
  std::vector<std::unique_ptr<Srq>> srqs;
  std::uint32_t next_srq_number = 1;
};

Nic::Nic(NicConfig config)
    : config_(std::move(config)), mrs_(kMaxMr), core_(std::make_unique<Core>(config_, mrs_, counters_)) {
  mrs_.set_probe(config_.probe_memory);
}
Nic::~Nic() = default;

void Nic::on_datagram(const proto::Datagram& datagram, Instant now) {
  core_->now = now;
  ++counters_.rcvd_pkts;
  if ((datagram.path.tclass & proto::kEcnMask) == proto::kEcnMask) ++counters_.ecn_marked_pkts;
  const auto packet = proto::parse_packet(datagram.payload);
  if (!packet) {
    ++counters_.parse_errors;
    return;
  }
  const proto::IcrcCheck icrc = proto::check_icrc(datagram.path, datagram.payload);
  if (!icrc.ok) {
    ++counters_.icrc_errors;
    return;
  }
  if (!accepts_pkey(packet->bth().get<proto::Bth::PKey>())) {
    ++counters_.wrong_pkey;
    return;
  }
  if (packet->dest_qp() == kMulticastQpn) {
    bool anybody = false;
    for (const Core::Member& member : core_->members) {
      if (member.group != datagram.path.destination) continue;
      anybody = true;
      deliver(*member.qp, *packet, datagram.path, icrc.ip_id, now);
    }
    if (!anybody) ++counters_.unknown_qp;
    return;
  }
  Qp* const qp = core_->qps.find(packet->dest_qp());
  if (qp == nullptr) {
    ++counters_.unknown_qp;
    return;
  }
  deliver(*qp, *packet, datagram.path, icrc.ip_id, now);
}

void Nic::deliver(Qp& qp, const proto::PacketView& packet, const Path& path, std::uint16_t ip_id, Instant now) {
  if (packet.op().service != service_of(qp.type())) {
    ++counters_.wrong_state_or_service;
    return;
  }
  qp.on_packet(packet, path, ip_id, now);
  core_->touched(qp);
}

void Nic::on_timeout(Instant now) {
  core_->now = now;
  DeadlineHeap& heap = core_->deadlines;
  while (!heap.empty() && heap.front().links.deadline <= now) {
    Qp& qp = heap.front();
    qp.on_timeout(now);
    core_->touched(qp);
  }
  for (Cq* cq : core_->moderated) {
    if (cq->on_timeout(now)) core_->events.push_back({Event::Kind::kCqNotify, cq, nullptr});
  }
}

std::optional<proto::Transmit> Nic::poll_transmit(Instant now, MutBytes frame) {
  Core& c = *core_;
  c.now = now;
  while (true) {
    c.admit_one();
    if (c.ready.empty()) return std::nullopt;
    Qp& qp = *c.ready.front();
    proto::Transmit out;
    const TxStatus status = qp.poll_transmit(now, frame, out);
    c.deadlines.update(qp);
    c.fail_overflowed();
    if (status == TxStatus::kSent) ++counters_.sent_pkts;
    if (status == TxStatus::kSent && --qp.links.turn_left > 0) return out;
    c.ready.pop_front();
    qp.links.ready = false;
    if (c.admitted == &qp) c.admitted = nullptr;
    if (status == TxStatus::kWindow) {
      c.make_waiting(qp);
      continue;
    }
    qp.links.turn_left = Qp::kTurn;
    if (status != TxStatus::kSent) continue;
    c.make_ready(qp);
    return out;
  }
}

std::optional<Instant> Nic::next_deadline() const {
  const DeadlineHeap& heap = core_->deadlines;
  std::optional<Instant> earliest;
  if (!heap.empty()) earliest = heap.front().links.deadline;
  for (const Cq* cq : core_->moderated) {
    const auto due = cq->deadline();
    if (due && (!earliest || *due < *earliest)) earliest = due;
  }
  return earliest;
}

Pd* Nic::alloc_pd() { return core_->pds.emplace_back(std::make_unique<Pd>()).get(); }

Errno Nic::dealloc_pd(Pd* pd) {
  if (pd->users != 0) return EBUSY;
  return erase_owned(core_->pds, pd) ? 0 : EINVAL;
}

Result<Cq*, Errno> Nic::create_cq(std::uint32_t capacity, void* user) {
  if (capacity < 1 || capacity > kMaxCqe) return Err{EINVAL};
  return core_->cqs.emplace_back(std::make_unique<Cq>(capacity, user)).get();
}

void Nic::moderate_cq(Cq* cq, std::uint32_t count, Duration period) {
  cq->moderate(count, period);
  // For good: a notification that is held back when moderation ends still has its time.
  if (std::find(core_->moderated.begin(), core_->moderated.end(), cq) == core_->moderated.end()) {
    core_->moderated.push_back(cq);
  }
}

Errno Nic::destroy_cq(Cq* cq) {
  if (cq->users != 0) return EBUSY;
  std::erase(core_->moderated, cq);
  std::erase(core_->dead, cq);
  std::erase_if(core_->events, [cq](const Event& e) { return e.cq == cq; });
  return erase_owned(core_->cqs, cq) ? 0 : EINVAL;
}

Result<Srq*, Errno> Nic::create_srq(const SrqInit& init) {
  if (init.pd == nullptr || init.max_wr == 0 || init.max_wr > kMaxSrqWr || init.max_sge > kMaxSrqSge) {
    return Err{EINVAL};
  }
  if (core_->srqs.size() == kMaxSrq) return Err{ENOMEM};
  ++init.pd->users;
  return core_->srqs.emplace_back(std::make_unique<Srq>(init, core_->next_srq_number++)).get();
}

Errno Nic::destroy_srq(Srq* srq) {
  if (srq->users != 0) return EBUSY;
  std::erase_if(core_->events, [srq](const Event& e) { return e.srq == srq; });
  Pd* const pd = srq->pd();
  if (!erase_owned(core_->srqs, srq)) return EINVAL;
  --pd->users;
  return 0;
}

Result<Qp*, Errno> Nic::create_qp(const QpInit& init) {
  if (init.pd == nullptr || init.send_cq == nullptr || init.recv_cq == nullptr) return Err{EINVAL};
  if (init.max_send_wr > kMaxQpWr || init.max_send_sge > kMaxSge) return Err{EINVAL};
  // The receive queue of a QP with an SRQ is nobody's: what is asked of it means nothing (ibv_create_qp(3)).
  const bool own_receives = init.srq == nullptr;
  if ((own_receives && (init.max_recv_wr > kMaxQpWr || init.max_recv_sge > kMaxSge)) || init.max_inline > kMaxInline)
    return Err{EINVAL};
  const auto qpn = core_->qps.next_qpn();
  if (!qpn) return Err{ENOMEM};
  ++init.pd->users;
  ++init.send_cq->users;
  ++init.recv_cq->users;
  if (init.srq != nullptr) ++init.srq->users;
  return core_->qps.insert(std::make_unique<Qp>(*core_, *qpn, init));
}

Errno Nic::modify_qp(Qp* qp, const QpAttr& attr, std::uint32_t mask) {
  const Errno error = qp->modify(attr, mask);
  core_->touched(*qp);
  return error;
}

void Nic::destroy_qp(Qp* qp) {
  qp->release();
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

void Nic::set_time(Instant now) { core_->now = now; }

void Nic::prefer(Qp* qp) {
  if (qp->links.ready) core_->prefer(*qp);
}

Errno Nic::attach_multicast(Qp* qp, const Gid& group) {
  std::vector<Core::Member>& members = core_->members;
  std::vector<Gid> groups;
  std::uint32_t in_this = 0;
  for (const Core::Member& member : members) {
    if (member.group == group) ++in_this;
    if (std::find(groups.begin(), groups.end(), member.group) == groups.end()) groups.push_back(member.group);
  }
  if (in_this == kMaxMulticastQps || (in_this == 0 && groups.size() == kMaxMulticastGroups)) return ENOMEM;
  members.push_back({group, qp});
  return 0;
}

Errno Nic::detach_multicast(Qp* qp, const Gid& group) {
  const auto is_it = [&](const Core::Member& m) { return m.qp == qp && m.group == group; };
  return std::erase_if(core_->members, is_it) == 0 ? EINVAL : 0;
}

bool Nic::is_attached(const Qp* qp, const Gid& group) const {
  return std::any_of(core_->members.begin(), core_->members.end(),
                     [&](const Core::Member& m) { return m.qp == qp && m.group == group; });
}

std::vector<Gid> Nic::groups_of(const Qp* qp) const {
  std::vector<Gid> groups;
  for (const Core::Member& m : core_->members) {
    if (m.qp == qp) groups.push_back(m.group);
  }
  return groups;
}

bool Nic::has_work() const { return !core_->ready.empty() || !core_->events.empty(); }

bool Nic::break_qp(std::uint32_t qpn) {
  Qp* const qp = core_->qps.find(qpn);
  if (qp == nullptr) return false;
  qp->enter_error(Event::Kind::kQpFatal);
  core_->touched(*qp);
  return true;
}

bool Nic::overflow_send_cq(std::uint32_t qpn) {
  const Qp* const qp = core_->qps.find(qpn);
  if (qp == nullptr) return false;
  core_->overflowed.push_back(qp->init().send_cq);
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
