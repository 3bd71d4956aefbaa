// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/transport/rules/script.h"

#include "proto/describe/describe.h"
#include "proto/entropy.h"
#include "proto/icrc.h"

namespace uroce::test::rules {
namespace {

using proto::Aeth;
using proto::AtomicAckEth;
using proto::AtomicEth;
using proto::Bth;
using proto::Deth;
using proto::Feth;
using proto::Ieth;
using proto::ImmDt;
using proto::Reth;

const proto::Gid kUs = proto::Gid::from_v4(10, 0, 0, 1);
const proto::Gid kPeer = proto::Gid::from_v4(10, 0, 0, 2);

}  // namespace

Script::Script(Setup s)
    : memory(1 << 20),
      nic(nic::NicConfig{.gids = {{}, kUs},
                         .window_bytes = s.window_bytes,
                         .host_window_bytes = s.host_window_bytes,
                         .advertise_credits = s.credits,
                         .strict = s.strict,
                         .room = s.room,
                         .trace = s.trace}),
      setup(s) {
  pd = nic.alloc_pd();
  cq = *nic.create_cq(s.cqe, nullptr);
  mr = *nic.mrs().add(pd, memory.data(), memory.size(), kVa, s.mr_access);
  key_ = mr->key;
  nic::QpInit init;
  init.type = s.type;
  init.pd = pd;
  init.send_cq = init.recv_cq = cq;
  init.max_send_wr = init.max_recv_wr = s.max_wr;
  init.max_send_sge = init.max_recv_sge = 32;
  init.sq_sig_all = s.sq_sig_all;
  if (s.srq_wr != 0) init.srq = srq = *nic.create_srq({.pd = pd, .max_wr = s.srq_wr, .max_sge = 2});
  qp = *nic.create_qp(init);
  for (QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (state > s.state) break;
    move_to(state);
  }
}

Script::~Script() {
  collect();
  EXPECT_TRUE(sent_.empty()) << "sent, and not expected:\n" << pending();
  for (const Completion& c : done_) {
    ADD_FAILURE() << "completed, and not expected: wr " << c.wr_id << ", status " << static_cast<int>(c.status);
  }
  for (const Event& e : events_) ADD_FAILURE() << "event that is not expected: kind " << static_cast<int>(e.kind);
}

nic::QpAttr Script::attributes() const {
  nic::QpAttr a;
  a.access = setup.qp_access;
  a.sgid_index = 1;
  a.path.source = kUs;
  a.path.destination = kPeer;
  a.path_mtu = setup.mtu_code;
  a.timeout = setup.timeout;
  a.retry_cnt = setup.retry_cnt;
  a.rnr_retry = setup.rnr_retry;
  a.min_rnr_timer = setup.min_rnr_timer;
  a.max_rd_atomic = setup.max_rd_atomic;
  a.max_dest_rd_atomic = setup.max_dest_rd_atomic;
  a.sq_psn = Psn{setup.sq_psn};
  a.rq_psn = Psn{setup.rq_psn};
  a.dest_qpn = kPeerQpn;
  a.qkey = kQkey;
  return a;
}

/// What a transition of this type of QP needs, and no more.
std::uint32_t Script::mask_for(QpState to) const {
  const auto verdict = nic::check_transition(qp->type(), qp->state(), to, nic::kAttrState);
  return verdict.code == nic::TransitionVerdict::Code::kMissingAttr ? verdict.offending : 0;
}

void Script::move_to(QpState state, std::uint32_t mask, const std::function<void(nic::QpAttr&)>& change) {
  nic::QpAttr a = attributes();
  a.state = state;
  if (change) change(a);
  if (mask == 0) mask = mask_for(state);
  ASSERT_EQ(nic.modify_qp(qp, a, mask | nic::kAttrState), 0);
  collect();
}

void Script::post_send(std::uint64_t id, SendOp op, std::uint32_t length,
                       const std::function<void(nic::SendWr&)>& change) {
  const nic::Sge sges[] = {sge(0, length)};
  nic::SendWr wr;
  wr.wr_id = id;
  wr.op = op;
  wr.flags = nic::kSignaled;
  wr.remote_addr = kPeerVa;
  wr.rkey = kPeerKey;
  wr.sges = sges;
  const nic::UdTarget to_peer = target();
  wr.target = &to_peer;
  if (change) change(wr);
  ASSERT_EQ(nic.post_send(qp, wr), 0);
  collect();
}

void Script::post_recv(std::uint64_t id, std::uint32_t length, std::uint32_t offset) {
  post_recv(id, std::vector<nic::Sge>{sge(offset, length)});
}

void Script::post_recv(std::uint64_t id, std::vector<nic::Sge> sges) {
  ASSERT_EQ(nic.post_recv(qp, {id, sges}), 0);
  collect();
}

void Script::post_srq(std::uint64_t id, std::uint32_t length, std::uint32_t offset) {
  const nic::Sge sges[] = {sge(offset, length)};
  ASSERT_EQ(srq->post({id, sges}), 0);
}

nic::UdTarget Script::target() const {
  nic::UdTarget to;
  to.path.source = kUs;
  to.path.destination = kPeer;
  to.qpn = kPeerQpn;
  to.qkey = kQkey;
  return to;
}

proto::Path Script::path_to_us() const {
  proto::Path path;
  path.source = kPeer;
  path.destination = kUs;
  return path;
}

/// Requests count in the direction of their sender, and their answers in the same.
Psn Script::absolute(const Pkt& packet, bool from_peer) const {
  const bool rq = packet.is_response() ? !from_peer : from_peer;
  return Psn{(rq ? setup.rq_psn : setup.sq_psn) + static_cast<std::uint32_t>(packet.psn)};
}

void Script::deliver(const proto::Path& path, const Pkt& p) {
  std::array<std::uint8_t, proto::kMaxPacketSize + 8192> frame{};
  proto::PacketBuilder builder(frame, p.opcode);
  const proto::OpcodeInfo& op = proto::info(p.opcode);
  builder.bth()
      .set<Bth::DestQp>(qp->qpn())
      .set<Bth::PsnField>(absolute(p, true).value())
      .set<Bth::AckReq>(p.ack_req_.value_or(false))
      .set<Bth::SolicitedEvent>(p.solicited_.value_or(false));
  const std::uint64_t va = p.va_.value_or(kVa + p.at_.value_or(0));
  if (op.has(proto::HeaderId::kReth)) {
    builder.header<Reth>()
        .set<Reth::Va>(va)
        .set<Reth::RKey>(p.rkey_.value_or(key_))
        .set<Reth::DmaLength>(p.length_.value_or(0));
  }
  if (op.has(proto::HeaderId::kFeth)) {
    builder.header<Feth>()
        .set<Feth::Selectivity>(p.selectivity_.value_or(0))
        .set<Feth::Placement>(p.placement_.value_or(0));
  }
  if (op.has(proto::HeaderId::kDeth)) {
    builder.header<Deth>().set<Deth::QKey>(p.qkey_.value_or(kQkey)).set<Deth::SourceQp>(kPeerQpn);
  }
  if (op.has(proto::HeaderId::kAtomicEth)) {
    builder.header<AtomicEth>()
        .set<AtomicEth::Va>(va)
        .set<AtomicEth::RKey>(p.rkey_.value_or(key_))
        .set<AtomicEth::SwapAdd>(p.swap_add_.value_or(0))
        .set<AtomicEth::Compare>(p.compare_.value_or(0));
  }
  if (op.has(proto::HeaderId::kAeth)) {
    builder.header<Aeth>().set<Aeth::SyndromeField>(p.syndrome_.value_or(0x1F)).set<Aeth::Msn>(p.msn_.value_or(0));
  }
  if (op.has(proto::HeaderId::kAtomicAckEth)) {
    builder.header<AtomicAckEth>().set<AtomicAckEth::Original>(p.original_.value_or(0));
  }
  if (op.has(proto::HeaderId::kImmDt)) builder.header<ImmDt>().set<ImmDt::Data>(p.imm_.value_or(0));
  if (op.has(proto::HeaderId::kIeth)) builder.header<Ieth>().set<Ieth::RKey>(p.invalidate_.value_or(0));
  if (op.has_payload) {
    const MutBytes payload = builder.payload(p.bytes_.value_or(0));
    std::fill(payload.begin(), payload.end(), p.fill_);
  }
  if (p.header_) p.header_(builder);
  const std::size_t size = builder.finish(path);
  const std::size_t covered = size - proto::kIcrcSize;
  proto::store_icrc(MutBytes(frame).subspan(covered), proto::icrc(path, Bytes(frame).first(covered), p.ip_id_));
  if (p.corrupt_) p.corrupt_(MutBytes(frame).first(size));
  nic.on_datagram({path, Bytes(frame).first(size)}, now_);
}

void Script::recv(const Pkt& packet) { recv_on(path_to_us(), packet); }

void Script::recv_on(const proto::Path& path, const Pkt& packet) {
  deliver(path, packet);
  collect();
}

void Script::recv_and_keep_answer(const Pkt& packet) {
  deliver(path_to_us(), packet);
  nic.answer_first();
}

void Script::recv_together(const std::vector<Pkt>& packets) {
  for (const Pkt& p : packets) deliver(path_to_us(), p);
  collect();
}

void Script::advance(Duration by) {
  const Instant until = now_ + by;
  for (auto due = nic.next_deadline(); due && *due <= until; due = nic.next_deadline()) {
    now_ = std::max(now_, *due);
    nic.on_timeout(now_);
    collect();
  }
  now_ = until;
}

void Script::hold_up(Duration by) {
  now_ += by;
  advance({});
}

void Script::collect() {
  std::array<std::uint8_t, proto::kMaxPacketSize> frame;
  while (const auto out = nic.poll_transmit(now_, frame)) {
    sent_.push_back({now_, {frame.begin(), frame.begin() + out->size}});
    ASSERT_LT(sent_.size(), 20'000u) << "it never stops sending";
  }
  Completion completion;
  while (cq->poll({&completion, 1}) == 1) done_.push_back(completion);
  while (const auto event = nic.poll_event()) events_.push_back(*event);
}

std::string Script::describe(const Sent& sent) const {
  return "  " + std::to_string((sent.at - kStart).count() / 1000) + " us: " + proto::one_line(Bytes(sent.bytes)) + "\n";
}

std::string Script::pending() const {
  std::string out;
  for (const Sent& s : sent_) out += describe(s);
  return out;
}

std::string Script::differences(const Pkt& want, const proto::PacketView& got) const {
  std::string out;
  const auto compare = [&out](const char* what, const auto& wanted, std::uint64_t is) {
    if (wanted && *wanted != is) {
      out += std::string(what) + ": " + std::to_string(is) + " instead of " + std::to_string(*wanted) + "; ";
    }
  };
  if (got.op().code != want.opcode) return "wanted " + std::string(proto::info(want.opcode).name);
  compare("destination QPN", std::optional(kPeerQpn), got.dest_qp());
  compare("PSN (absolute)", std::optional(absolute(want, false).value()), got.psn().value());
  compare("AckReq", want.ack_req_, got.bth().get<Bth::AckReq>());
  compare("SE", want.solicited_, got.bth().get<Bth::SolicitedEvent>());
  compare("payload", want.bytes_, got.payload().size());
  if (got.has<Aeth>()) {
    compare("syndrome", want.syndrome_, got.header<Aeth>().get<Aeth::SyndromeField>());
    compare("MSN", want.msn_, got.header<Aeth>().get<Aeth::Msn>());
  }
  const auto compare_va = [&](std::uint64_t va, std::uint32_t rkey) {
    compare("address", want.va_, va);
    compare("offset", want.at_, va - kPeerVa);
    compare("R_Key", want.rkey_, rkey);
  };
  if (got.has<Reth>()) {
    const auto reth = got.header<Reth>();
    compare_va(reth.get<Reth::Va>(), reth.get<Reth::RKey>());
    compare("RETH length", want.length_, reth.get<Reth::DmaLength>());
  }
  if (got.has<Feth>()) {
    compare("selectivity", want.selectivity_, got.header<Feth>().get<Feth::Selectivity>());
    compare("placement", want.placement_, got.header<Feth>().get<Feth::Placement>());
  }
  if (got.has<Deth>()) {
    compare("Q_Key", want.qkey_, got.header<Deth>().get<Deth::QKey>());
    compare("source QPN", std::optional(qp->qpn()), got.header<Deth>().get<Deth::SourceQp>());
  }
  if (got.has<AtomicEth>()) {
    const auto atomic = got.header<AtomicEth>();
    compare_va(atomic.get<AtomicEth::Va>(), atomic.get<AtomicEth::RKey>());
    compare("swap/add", want.swap_add_, atomic.get<AtomicEth::SwapAdd>());
    compare("compare", want.compare_, atomic.get<AtomicEth::Compare>());
  }
  if (got.has<AtomicAckEth>()) {
    compare("original", want.original_, got.header<AtomicAckEth>().get<AtomicAckEth::Original>());
  }
  if (got.has<Ieth>()) compare("invalidated R_Key", want.invalidate_, got.header<Ieth>().get<Ieth::RKey>());
  if (got.has<ImmDt>()) compare("immediate", want.imm_, got.header<ImmDt>().get<ImmDt::Data>());
  return out;
}

Duration Script::expect(const Pkt& want, const char* file, int line) {
  if (sent_.empty()) {
    ADD_FAILURE_AT(file, line) << "nothing was sent; wanted " << proto::info(want.opcode).name << " " << want.psn;
    return {};
  }
  const Sent got = sent_.front();
  sent_.pop_front();
  const auto parsed = proto::parse_packet(got.bytes);
  if (!parsed) {
    ADD_FAILURE_AT(file, line) << "sent what does not parse";
    return {};
  }
  if (const std::string wrong = differences(want, *parsed); !wrong.empty()) {
    ADD_FAILURE_AT(file, line) << wrong << "\n" << describe(got) << "behind it:\n" << pending();
  }
  return got.at - kStart;
}

void Script::expect_silence(const char* file, int line) {
  if (!sent_.empty()) ADD_FAILURE_AT(file, line) << "sent, and not expected:\n" << pending();
  sent_.clear();
}

Completion Script::expect_done(std::uint64_t id, WcStatus status, const char* file, int line) {
  if (done_.empty()) {
    ADD_FAILURE_AT(file, line) << "nothing completed; wanted wr " << id;
    return {};
  }
  const Completion c = done_.front();
  done_.pop_front();
  if (c.wr_id != id || c.status != status) {
    ADD_FAILURE_AT(file, line) << "completed: wr " << c.wr_id << ", status " << static_cast<int>(c.status)
                               << "; wanted wr " << id << ", status " << static_cast<int>(status);
  }
  return c;
}

void Script::expect_not_done(const char* file, int line) {
  if (!done_.empty()) {
    ADD_FAILURE_AT(file, line) << "completed: wr " << done_.front().wr_id << ", status "
                               << static_cast<int>(done_.front().status);
  }
  done_.clear();
}

void Script::expect_event(Event::Kind kind, const char* file, int line) {
  if (events_.empty() || events_.front().kind != kind) {
    ADD_FAILURE_AT(file, line) << "wanted event " << static_cast<int>(kind) << ", got "
                               << (events_.empty() ? -1 : static_cast<int>(events_.front().kind));
  }
  if (!events_.empty()) events_.pop_front();
}

void Script::expect_state(QpState state, const char* file, int line) {
  if (qp->state() != state) {
    ADD_FAILURE_AT(file, line) << "state " << static_cast<int>(qp->state()) << " instead of "
                               << static_cast<int>(state);
  }
}

void Script::ignore_rest() {
  collect();
  sent_.clear();
  done_.clear();
  events_.clear();
}

}  // namespace uroce::test::rules
