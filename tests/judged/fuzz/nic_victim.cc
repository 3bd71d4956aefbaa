// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/fuzz/nic_victim.h"

#include <cerrno>

#include "proto/icrc.h"
#include "proto/syndrome.h"
#include "proto/timing.h"

namespace uroce::fuzz {
namespace {

using nic::QpState;
using proto::Kind;

Gid address(bool ipv6, std::uint8_t last) {
  if (!ipv6) return Gid::from_v4(10, 0, 0, last);
  return Gid{{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

nic::NicConfig config(const Setup& setup, const Gid& address) {
  nic::NicConfig config;
  config.gids = {{}, address};
  if (setup.flags & Setup::kTinyWindow) config.window_bytes = 2048;
  return config;
}

std::uint8_t mtu_code(const Setup& setup) { return static_cast<std::uint8_t>(1 + setup.mtu % 5); }

/// Request packets are answered by so many PSNs.
std::uint32_t answers(const proto::PacketView& packet, std::uint32_t mtu) {
  if (packet.op().kind != Kind::kReadRequest) return 1;
  const std::uint32_t length = packet.header<proto::Reth>().get<proto::Reth::DmaLength>();
  return length == 0 ? 1 : (length - 1) / mtu + 1;
}

/// A NAK acknowledges what is before it.
bool acknowledges_itself(const proto::PacketView& response) {
  return !response.has<proto::Aeth>() || (response.header<proto::Aeth>().get<proto::Aeth::SyndromeField>() & 0x60) == 0;
}

bool is_public(Bytes bytes) {
  return std::none_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte >= 0x80; });
}

}  // namespace

Victim::Victim(const Setup& setup)
    : setup_(setup),
      proto_mtu_(proto::mtu_bytes(mtu_code(setup))),
      address_(address(setup.flags & Setup::kIpv6, 1)),
      peer_(address(setup.flags & Setup::kIpv6, 2)),
      nic_(config(setup, address_)),
      pd_(nic_.alloc_pd()),
      other_pd_(nic_.alloc_pd()),
      cq_(*nic_.create_cq(completions_are_lost() ? 3 : 4 * kMaxWr + 8, nullptr)),
      frame_(proto::kMaxPacketSize) {
  for (std::uint8_t r = 0; r < kRegions; ++r) change_region({r, RegisterSpec::kAdd});
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    qps_[i].peer_qpn = static_cast<std::uint32_t>(0x91 + i);
    create(qps_[i]);
    connect(qps_[i]);
  }
}

Victim::~Victim() {
  drain();
  check();
  for (std::uint8_t i = 0; i < qps_.size(); ++i) modify({i, ModifySpec::kErr, 0});
  check();
  for (VictimQp& q : qps_) nic_.destroy_qp(q.qp);
  drain();
  UROCE_ASSERT(!nic_.next_deadline() && "a timer without a QP");
  UROCE_ASSERT(nic_.destroy_cq(cq_) == 0);
  for (std::uint8_t r = 0; r < kRegions; ++r) change_region({r, RegisterSpec::kRemove});
  UROCE_ASSERT(nic_.dealloc_pd(pd_) == 0 && nic_.dealloc_pd(other_pd_) == 0);
}

nic::QpType Victim::type() const {
  if (setup_.flags & Setup::kUd) return nic::QpType::kUd;
  return setup_.flags & Setup::kUc ? nic::QpType::kUc : nic::QpType::kRc;
}

/// The attributes that a transition needs, the state among them.
std::uint32_t Victim::needs(QpState from, QpState to) const {
  const auto verdict = nic::check_transition(type(), from, to, nic::kAttrState);
  return nic::kAttrState | (verdict.code == nic::TransitionVerdict::Code::kMissingAttr ? verdict.offending : 0);
}

void Victim::create(VictimQp& q) {
  nic::QpInit init;
  init.type = type();
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.max_send_wr = init.max_recv_wr = kMaxWr;
  init.max_send_sge = init.max_recv_sge = kMaxSge;
  init.max_inline = 64;
  init.sq_sig_all = (setup_.flags & Setup::kSignalAll) != 0;
  q.qp = *nic_.create_qp(init);
}

/// The second QP lets its peer read, and nothing else.
nic::QpAttr Victim::attributes(const VictimQp& q) const {
  nic::QpAttr attr;
  attr.access = &q == qps_.data() ? nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic | nic::kFlushGlobal
                                  : std::uint32_t{nic::kRemoteRead};
  attr.sgid_index = 1;
  attr.path.source = address_;
  attr.path.destination = peer_;
  attr.path_mtu = mtu_code(setup_);
  attr.timeout = static_cast<std::uint8_t>((14u + setup_.timeout) % 32);
  attr.retry_cnt = static_cast<std::uint8_t>((7u - setup_.retry_cnt) % 8);
  attr.rnr_retry = static_cast<std::uint8_t>((7u - setup_.rnr_retry) % 8);
  attr.min_rnr_timer = setup_.min_rnr_timer % 32;
  attr.max_rd_atomic = static_cast<std::uint8_t>((4u + setup_.rd_atomic) % 8);
  attr.max_dest_rd_atomic = static_cast<std::uint8_t>((4u + setup_.dest_rd_atomic) % 8);
  attr.rq_psn = Psn{setup_.rq_psn};
  attr.sq_psn = Psn{setup_.sq_psn};
  attr.dest_qpn = q.peer_qpn;
  attr.qkey = kQkey;
  return attr;
}

void Victim::connect(VictimQp& q) {
  nic::QpAttr attr = attributes(q);
  const auto go = [&](QpState to, std::uint32_t mask) {
    attr.state = to;
    UROCE_ASSERT(nic_.modify_qp(q.qp, attr, mask) == 0);
  };
  go(QpState::kReset, nic::kAttrState);
  forget_work(q);
  go(QpState::kInit, needs(QpState::kReset, QpState::kInit));
  go(QpState::kRtr, needs(QpState::kInit, QpState::kRtr));
  go(QpState::kRts, needs(QpState::kRtr, QpState::kRts));
}

void Victim::forget_work(VictimQp& q) {
  q.sends.reset();
  q.receives.reset();
  q.requests.clear();
  q.expected = Psn{setup_.rq_psn};
  q.open = q.sent_end = Psn{setup_.sq_psn};
}

void Victim::deliver(std::uint8_t index, Bytes packet, const proto::Path& path) {
  VictimQp& q = qp(index);
  // Exactly its size, on the heap: the address sanitizer sees one byte too far.
  const std::vector<std::uint8_t> exact(packet.begin(), packet.end());
  const auto parsed = proto::parse_packet(exact);
  const bool counts = parsed && proto::check_icrc(path, exact).ok && path.source == peer_;
  const bool is_request = parsed && !parsed->op().is_response();
  if (counts && type() != nic::QpType::kRc) {
    q.expected = parsed->psn() + 1;
  } else if (counts && is_request && parsed->psn() == q.expected) {
    q.expected = q.expected + answers(*parsed, mtu());
  }
  if (counts && !is_request && parsed->psn() - q.open >= 0 && parsed->psn() - q.sent_end < 0) {
    q.open = acknowledges_itself(*parsed) ? parsed->psn() + 1 : parsed->psn();
    while (!q.requests.empty() && q.requests.front().psn + q.requests.front().packets - q.open <= 0) {
      q.requests.pop_front();
    }
  }
  const bool may_write = counts && parsed->dest_qp() == qps_[0].qp->qpn() && names_a_region(*parsed);
  nic_.on_datagram({path, exact}, now_);
  memory_.check(may_write ? kByPeer | kByOwnWrs : kByOwnWrs);
}

/// Whether the packet's R_Key, if it has one, is the right one of some region of the QPs.
bool Victim::names_a_region(const proto::PacketView& packet) const {
  std::uint32_t key = 0;
  if (packet.has<proto::Reth>()) {
    key = packet.header<proto::Reth>().get<proto::Reth::RKey>();
  } else if (packet.has<proto::AtomicEth>()) {
    key = packet.header<proto::AtomicEth>().get<proto::AtomicEth::RKey>();
  } else {
    return true;
  }
  return std::any_of(mrs_.begin(), mrs_.end(),
                     [&](const nic::Mr* mr) { return mr != nullptr && mr->pd == pd_ && mr->key == key; });
}

void Victim::advance(Duration time) {
  now_ += time;
  nic_.on_timeout(now_);
  const auto deadline = nic_.next_deadline();
  UROCE_ASSERT((!deadline || *deadline > now_) && "a timer that is due again at once");
}

/// Fills sges_; returns how many.
std::uint32_t Victim::sges(const RecvSpec& spec, bool is_inline, std::uint16_t usual_length) {
  const std::uint32_t count = spec.sges == 0 ? 1 : (spec.sges - 1u) % (kMaxSge + 2);
  const auto region = static_cast<std::uint8_t>((kLocal + spec.region) % kRegions);
  const VictimMemory::Place& p = VictimMemory::place(region);
  nic::Sge sge;
  sge.length = spec.length == 0 ? usual_length : spec.length - 1u;
  sge.lkey = keys_[region] + spec.wrong_key;
  sge.addr = p.iova + static_cast<std::uint64_t>(std::int64_t{spec.offset});
  if (is_inline) {  // The caller's memory, by its real address: that it is there is the caller's promise.
    const std::size_t offset = static_cast<std::uint16_t>(spec.offset) % p.size;
    sge.addr = reinterpret_cast<std::uintptr_t>(memory_.data(region) + offset);
    sge.length = std::min(sge.length, static_cast<std::uint32_t>(p.size - offset));
  }
  std::fill_n(sges_.begin(), count, sge);
  return count;
}

void Victim::post_recv(const RecvSpec& spec) {
  VictimQp& q = qp(spec.qp);
  const std::uint32_t count = sges(spec, false, 1024);
  const std::uint64_t id = next_id_++;
  const nic::Errno error = nic_.post_recv(q.qp, {id, {sges_.data(), count}});
  UROCE_ASSERT(error == 0 || error == EINVAL || error == ENOMEM);
  if (error != 0) return;
  q.receives.post(id, true, std::uint64_t{sges_[0].length} * count);
  const auto region = static_cast<std::uint8_t>((kLocal + spec.region) % kRegions);
  if (spec.wrong_key == 0 && mrs_[region] != nullptr) memory_.grant_sge(region, spec.offset, sges_[0].length);
}

void Victim::post_send(const SendSpec& spec) {
  VictimQp& q = qp(spec.local.qp);
  nic::SendWr wr;
  wr.wr_id = next_id_++;
  wr.op = static_cast<nic::SendOp>((static_cast<unsigned>(nic::SendOp::kSend) + spec.op) % 10);
  if (spec.op >= SendSpec::kAtomicWrite) wr.op = (spec.op & 1) != 0 ? nic::SendOp::kFlush : nic::SendOp::kAtomicWrite;
  wr.flags = (spec.flags ^ nic::kSignaled) & (nic::kFence | nic::kSignaled | nic::kSolicited | nic::kInline);
  wr.imm = spec.rkey;
  wr.remote_addr = spec.remote_addr;
  wr.rkey = spec.rkey;
  const bool is_atomic = wr.op == nic::SendOp::kCompareSwap || wr.op == nic::SendOp::kFetchAdd;
  const bool is_word = is_atomic || wr.op == nic::SendOp::kAtomicWrite;
  const std::uint32_t count = sges(spec.local, (wr.flags & nic::kInline) != 0, is_word ? 8 : 600);
  wr.sges = {sges_.data(), wr.op == nic::SendOp::kFlush ? 0 : count};
  wr.flush = {spec.rkey, static_cast<std::uint8_t>(1 + spec.rkey % 4), static_cast<std::uint8_t>(spec.op >> 1 & 1)};
  const nic::UdTarget target{.path = {.source = address_, .destination = peer_}, .qpn = q.peer_qpn, .qkey = spec.rkey};
  if (type() == nic::QpType::kUd && spec.remote_addr != 1) wr.target = &target;
  const nic::Errno error = nic_.post_send(q.qp, wr);
  UROCE_ASSERT(error == 0 || error == EINVAL || error == ENOMEM);
  if (error != 0) return;
  q.sends.post(wr.wr_id, q.qp->init().sq_sig_all || (wr.flags & nic::kSignaled),
               wr.sges.size() * std::uint64_t{sges_[0].length});
  if (wr.op != nic::SendOp::kRead && !is_atomic) return;
  const auto region = static_cast<std::uint8_t>((kLocal + spec.local.region) % kRegions);
  if (spec.local.wrong_key == 0 && mrs_[region] != nullptr) {
    memory_.grant_sge(region, spec.local.offset, sges_[0].length);
  }
}

void Victim::modify(const ModifySpec& spec) {
  VictimQp& q = qp(spec.qp);
  const QpState from = q.qp->state();
  nic::QpAttr attr = attributes(q);
  const auto go = [&](QpState to, std::uint32_t mask, bool is_legal) {
    attr.state = to;
    UROCE_ASSERT((nic_.modify_qp(q.qp, attr, mask) == 0) == is_legal);
    UROCE_ASSERT(q.qp->state() == (is_legal ? to : from) || q.qp->state() == QpState::kErr);
  };
  switch (spec.action % ModifySpec::kActions) {
    case ModifySpec::kReconnect:
      return connect(q);
    case ModifySpec::kErr:
      return go(QpState::kErr, nic::kAttrState, true);
    case ModifySpec::kSqd:
      if (from == QpState::kSqd && type() != nic::QpType::kRc) return go(QpState::kSqd, nic::kAttrState, true);
      if (from == QpState::kSqd) {
        attr.max_rd_atomic = spec.attribute % 8;
        attr.timeout = spec.attribute % 32;
        return go(QpState::kSqd, nic::kAttrState | nic::kAttrMaxRdAtomic | nic::kAttrTimeout, true);
      }
      attr.en_sqd_notify = spec.attribute != 0;
      return go(QpState::kSqd, nic::kAttrState | nic::kAttrEnSqdNotify, from == QpState::kRts);
    case ModifySpec::kRts:
      if (from == QpState::kSqe) q.sends.reset();  // All that failed has been flushed.
      if (from == QpState::kRtr) return go(QpState::kRts, needs(from, QpState::kRts), true);
      return go(QpState::kRts, nic::kAttrState,
                from == QpState::kRts || from == QpState::kSqd || from == QpState::kSqe);
    case ModifySpec::kReset:
      go(QpState::kReset, nic::kAttrState, true);
      return forget_work(q);
    case ModifySpec::kInit:
      return go(QpState::kInit, needs(QpState::kReset, QpState::kInit),
                from == QpState::kReset || from == QpState::kInit);
    case ModifySpec::kRtr:
      return go(QpState::kRtr, needs(QpState::kInit, QpState::kRtr), from == QpState::kInit);
    default:
      check();  // What has completed so far is still this QP's.
      nic_.destroy_qp(q.qp);
      create(q);
      return connect(q);
  }
}

void Victim::change_region(const RegisterSpec& spec) {
  const auto r = static_cast<std::uint8_t>(spec.region % kRegions);
  const VictimMemory::Place& p = VictimMemory::place(r);
  switch (spec.action % RegisterSpec::kActions) {
    case RegisterSpec::kRemove:
      if (mrs_[r] == nullptr) return;
      nic_.mrs().remove(mrs_[r]);
      mrs_[r] = nullptr;
      return memory_.revoke_region(r);
    case RegisterSpec::kAdd:
      if (mrs_[r] != nullptr) return;
      mrs_[r] = *nic_.mrs().add(p.in_qp_pd ? pd_ : other_pd_, memory_.data(r), p.size, p.iova, p.access);
      memory_.grant_region(r);
      break;
    default:
      if (mrs_[r] == nullptr) return;
      UROCE_ASSERT(nic_.mrs().change(mrs_[r], {.pd = mrs_[r]->pd}) == 0);
      memory_.revoke_sges(r);
      break;
  }
  UROCE_ASSERT(mrs_[r]->key != keys_[r] && "a stale key fits");
  keys_[r] = mrs_[r]->key;
}

void Victim::drain() {
  // More than the window and all READs that it may owe, in packets of the smallest MTU.
  constexpr int kMost = 4000;
  for (int i = 0;; ++i) {
    UROCE_ASSERT(i < kMost && "it never stops sending");
    const auto sent = nic_.poll_transmit(now_, frame_);
    if (!sent) break;
    look_at(Bytes(frame_).first(sent->size), sent->path);
  }
}

void Victim::look_at(Bytes bytes, const proto::Path& path) {
  const auto packet = proto::parse_packet(bytes);
  UROCE_ASSERT(packet.ok() && "it sent what does not parse");
  const proto::IcrcCheck icrc = proto::check_icrc(path, bytes);
  UROCE_ASSERT(icrc.ok && icrc.ip_id == 0);
  UROCE_ASSERT(path.source == address_ && path.destination == peer_);
  const auto it =
      std::find_if(qps_.begin(), qps_.end(), [&](const VictimQp& q) { return q.peer_qpn == packet->dest_qp(); });
  UROCE_ASSERT(it != qps_.end());
  const proto::OpcodeInfo& op = packet->op();
  const bool ud = type() == nic::QpType::kUd;
  UROCE_ASSERT(op.service == (ud                           ? proto::Service::kUd
                              : type() == nic::QpType::kUc ? proto::Service::kUc
                                                           : proto::Service::kRc));
  UROCE_ASSERT(packet->payload().size() <= (ud ? 4096 : mtu()));
  UROCE_ASSERT(op.ends() || !op.has_payload || packet->payload().size() == mtu());
  if (op.kind == Kind::kReadResponse) UROCE_ASSERT(is_public(packet->payload()) && "it told a secret");
  if (op.kind == Kind::kAtomicAcknowledge) {
    UROCE_ASSERT(is_public(bytes.subspan(proto::Bth::kSize + proto::Aeth::kSize, proto::AtomicAckEth::kSize)));
  }
  if (type() != nic::QpType::kRc) return;  // Nobody answers.
  op.is_response() ? learn_answer(*it, *packet) : learn_request(*it, *packet);
}

/// Sent again, a request is open again, and with it all that were behind it.
void Victim::learn_request(VictimQp& q, const proto::PacketView& packet) {
  const Psn psn = packet.psn();
  while (!q.requests.empty() && q.requests.back().psn - psn >= 0) q.requests.pop_back();
  const std::uint32_t count = answers(packet, mtu());
  const std::uint32_t length =
      packet.has<proto::Reth>() ? packet.header<proto::Reth>().get<proto::Reth::DmaLength>() : 0;
  q.requests.push_back({psn, packet.op().kind, length, count});
  if (psn + count - q.sent_end > 0) q.sent_end = psn + count;
}

void Victim::learn_answer(VictimQp& q, const proto::PacketView& packet) {
  if (!packet.has<proto::Aeth>()) return;
  const auto syndrome = proto::decode_syndrome(packet.header<proto::Aeth>().get<proto::Aeth::SyndromeField>());
  UROCE_ASSERT(!std::holds_alternative<proto::syndrome::Reserved>(syndrome));
  const bool positive = std::holds_alternative<proto::syndrome::Ack>(syndrome);
  if (!positive) q.expected = packet.psn();
  if (positive && packet.psn() + 1 - q.expected > 0) q.expected = packet.psn() + 1;
}

void Victim::check() {
  std::array<nic::Completion, 8> batch;
  while (const std::size_t n = cq_->poll(batch)) {
    for (const nic::Completion& c : std::span(batch).first(n)) {
      const auto it = std::find_if(qps_.begin(), qps_.end(), [&](const VictimQp& q) { return q.qp->qpn() == c.qpn; });
      if (completions_are_lost()) continue;
      UROCE_ASSERT(it != qps_.end() && "a completion of a QP that is gone");
      const bool is_receive = c.opcode == nic::WcOpcode::kRecv || c.opcode == nic::WcOpcode::kRecvWithImm;
      // The data of a WRITE with immediate is not in the receive buffer.
      (is_receive ? it->receives : it->sends)
          .complete(c.wr_id, c.status, c.opcode == nic::WcOpcode::kRecvWithImm ? 0 : c.byte_len);
    }
  }
  while (const auto event = nic_.poll_event()) {
    const auto is_ours = [&](const VictimQp& q) { return event->qp == q.qp; };
    UROCE_ASSERT(event->cq == cq_ || std::any_of(qps_.begin(), qps_.end(), is_ours));
  }
  if (completions_are_lost()) return;
  for (const VictimQp& q : qps_) {
    const bool in_error = q.qp->state() == QpState::kErr;
    const bool sends_stopped = in_error || (q.qp->state() == QpState::kSqe && type() != nic::QpType::kRc);
    UROCE_ASSERT((sends_stopped || !q.sends.failed()) && "a failed send without ERR or SQE");
    UROCE_ASSERT((in_error || !q.receives.failed()) && "a failed receive without ERR");
    UROCE_ASSERT((!sends_stopped || q.sends.settled()) && "not every send was flushed");
    UROCE_ASSERT((!in_error || (q.sends.settled() && q.receives.settled())) && "not everything was flushed");
  }
}

}  // namespace uroce::fuzz
