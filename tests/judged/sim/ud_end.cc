// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/ud_end.h"

#include <algorithm>

#include "proto/icrc.h"
#include "proto/timing.h"
#include "tests/judged/sim/violation.h"
#include "verbs/nic/transport/qp.h"

namespace uroce::simulator {

using proto::Deth;
using proto::PacketView;

namespace {

constexpr std::uint32_t kDatagramMax = 4096;
constexpr std::uint32_t kControlledBit = 1u << 31;

void put16(std::uint8_t* at, std::size_t value) {
  at[0] = static_cast<std::uint8_t>(value >> 8);
  at[1] = static_cast<std::uint8_t>(value);
}

}  // namespace

std::array<std::uint8_t, 40> grh_of(const proto::Path& path, std::size_t packet_size, std::uint16_t ip_id) {
  std::array<std::uint8_t, 40> area{};
  const std::size_t udp = 8 + packet_size;
  if (!path.destination.is_v4()) {
    area[0] = static_cast<std::uint8_t>(0x60 | path.tclass >> 4);
    area[1] = static_cast<std::uint8_t>(std::uint32_t{path.tclass} << 4 | path.flow_label >> 16);
    put16(&area[2], path.flow_label);
    put16(&area[4], udp);
    area[6] = 17;
    area[7] = path.hop_limit;
    std::copy(path.source.raw.begin(), path.source.raw.end(), area.begin() + 8);
    std::copy(path.destination.raw.begin(), path.destination.raw.end(), area.begin() + 24);
    return area;
  }
  std::uint8_t* const ip = &area[20];
  ip[0] = 0x45;
  ip[1] = path.tclass;
  put16(ip + 2, 20 + udp);
  put16(ip + 4, ip_id);
  put16(ip + 6, 0x4000);  // "Don't fragment".
  ip[8] = path.hop_limit;
  ip[9] = 17;
  std::copy_n(path.source.v4(), 4, ip + 12);
  std::copy_n(path.destination.v4(), 4, ip + 16);
  std::uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<std::uint32_t>(ip[i] << 8 | ip[i + 1]);
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  put16(ip + 10, ~sum);
  return area;
}

proto::Gid UdEnd::group(std::uint32_t number) const {
  const auto last = static_cast<std::uint8_t>(number + 1);
  if (!stage_.scenario.network.ipv6) return proto::Gid::from_v4(239, 77, 0, last);
  return proto::Gid{{0xFF, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

void UdEnd::set_groups(std::uint32_t groups) {
  for (std::uint32_t i = 0; i < kGroupsMax; ++i) {
    const std::uint32_t bit = 1u << i;
    if ((groups & bit) != 0 && (groups_ & bit) == 0) host_.join(*this, qp_, group(i));
    if ((groups & bit) == 0 && (groups_ & bit) != 0) host_.leave(*this, qp_, group(i));
  }
  groups_ = groups;
}

void UdEnd::start(proto::Psn sq_psn, proto::Psn) {
  using namespace nic;
  if (!host_.is_member(*this)) groups_ = 0;  // Another QP than before.
  begin_life();
  qkey_ = plan_.qkey;
  QpAttr attr;
  attr.qkey = qkey_;
  attr.sq_psn = sq_psn;
  attr.state = QpState::kInit;
  modify(attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrQkey, "the transition to INIT");
  post_receives();
  attr.state = QpState::kRtr;
  modify(attr, kAttrState, "the transition to RTR");
  attr.state = QpState::kRts;
  modify(attr, kAttrState | kAttrSqPsn, "the transition to RTS");
  set_groups(plan_.groups);
  SendModel::Facts facts;
  facts.node = host_.node;
  facts.qpn = qpn();
  facts.mtu = kDatagramMax;
  facts.qkey = qkey_;
  begin_sending(facts, sq_psn);
}

void UdEnd::change_qkey() {
  if (!listening() || qp_->state() != nic::QpState::kRts) return;
  nic::QpAttr attr;
  attr.qkey = qkey_ ^ 0x100;
  modify(attr, nic::kAttrQkey, "another Q_Key");
  qkey_ = attr.qkey;
  wire_.set_qkey(qkey_);
}

void UdEnd::change_groups() {
  if (listening() && plan_.groups != 0) set_groups(static_cast<std::uint32_t>(random_.below(1u << kGroupsMax)));
}

bool UdEnd::too_long(const Op& op) const { return op.length > kDatagramMax; }

void UdEnd::aim(Op& op, Sending& sending, nic::SendWr&) {
  UdEnd& other = *others_[random_.below(others_.size())];
  nic::UdTarget& target = sending.target;
  target.qpn = other.qpn();
  target.qkey = other.qkey_;
  target.path = path_to(other.host_, target.qpn);
  if (random_.chance(plan_.multicast)) {
    target.qpn = nic::kMulticastQpn;
    target.path.destination = group(static_cast<std::uint32_t>(random_.below(kGroupsMax)));
  }
  if (random_.chance(plan_.stray)) {
    if (random_.chance(0.3)) target.qpn = 0xFFFF;
    target.qkey ^= static_cast<std::uint32_t>(1 + random_.below(7));
    if (random_.chance(0.3)) target.qkey |= kControlledBit;  // Stands for our own.
  }
  if (op.flaw != Flaw::kBadRkey) return;
  // For UD, this flaw is a message that is longer than a packet. It needs no bytes that are its own.
  op.is_inline = false;
  op.local.count = 2;
  op.local.pieces[0] = op.local.pieces[1] = {host_.locked().begin, 4000};
  op.length = 8000;
}

void UdEnd::on_arrival(const PacketView& view, const proto::Path& path) {
  if (!listening() || view.op().service != proto::Service::kUd) return;
  if (view.header<Deth>().get<Deth::QKey>() != qkey_) return count("UD: another Q_Key");
  if (!inbox_.available()) return count("UD: no receive");
  const auto size = static_cast<std::uint32_t>(view.payload().size());
  if (size > kDatagramMax) return;
  if (40 + size > inbox_.next().local.length()) return count("UD: datagram longer than the receive");
  inbox_.hold();
  if (receive_dead()) return fail_receive();
  // The Identification is covered by the ICRC, so that it is known although nobody passes it on.
  inbox_.write(0, grh_of(path, view.bytes().size(), proto::check_icrc(path, view.bytes()).ip_id));
  inbox_.write(40, view.payload());
  nic::Completion c;
  c.opcode = nic::WcOpcode::kRecv;
  c.byte_len = 40 + size;
  c.flags = nic::kWcGrh;
  c.sl = path.destination.is_v4() ? 0xA : 0x9;
  c.src_qp = view.header<Deth>().get<Deth::SourceQp>();
  c.solicited = view.bth().get<proto::Bth::SolicitedEvent>() != 0;
  if (view.has<proto::ImmDt>()) {
    c.imm = view.header<proto::ImmDt>().get<proto::ImmDt::Data>();
    c.flags |= nic::kWcWithImm;
  }
  inbox_.complete(c);
  if (view.dest_qp() == nic::kMulticastQpn) count("UD: received by multicast");
  if (srq_ != nullptr) count("SRQ: taken by UD");
}

}  // namespace uroce::simulator
