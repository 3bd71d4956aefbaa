// SPDX-License-Identifier: Apache-2.0
#include "tools/uroce/probe.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "proto/address.h"
#include "tools/rdma/failure.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/verbs_front.h"
#include "verbs/ibverbs/catalogue/verbs_table.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/facts.h"

namespace uroce::tools {
namespace {

constexpr std::uint64_t kReceives = 64, kSends = 64;
constexpr std::uint32_t kHeaderArea = 40;  ///< In front of the data of every UD receive.
constexpr std::uint32_t kLargest = 4096;
constexpr std::uint32_t kSlotBytes = kHeaderArea + kLargest;
constexpr std::uint32_t kQkey = 0x75726F63;
constexpr std::uint64_t kSendMark = std::uint64_t{1} << 32;  ///< In wr_id.

/// Begins the payload of each packet: a network may bring one twice, and that must not stand for another that is lost.
struct Label {
  static constexpr std::uint32_t kMark = 0x434F5255;
  std::uint32_t mark = kMark;
  std::uint32_t number = 0;
};
static_assert(sizeof(Label) <= Probe::kSmallBytes);

const ibv::VerbsTable& the_verbs() { return ibv::uroce_verbs(); }

[[noreturn]] void give_up(const char* what) {
  const std::string why = ibv::last_error();
  throw Failure(kExitUsage, fmt::format("{}: {}", what, why.empty() ? std::strerror(errno) : why));
}

ibv_context* open_first_device() {
  int count = 0;
  ibv_device** const list = the_verbs().ibv_get_device_list(&count);
  if (list == nullptr || count == 0) give_up("there is no NIC");
  ibv_context* const context = the_verbs().ibv_open_device(list[0]);
  the_verbs().ibv_free_device_list(list);
  if (context == nullptr) give_up("the NIC can't be opened");
  return context;
}

}  // namespace

Probe::Probe(const std::string& address) : context_(open_first_device()), memory_((kReceives + kSends) * kSlotBytes) {
  ibv_port_attr port{};
  // The table's function fills the older, shorter struct, which is the beginning of this one.
  the_verbs().ibv_query_port(context_, 1, reinterpret_cast<_compat_ibv_port_attr*>(&port));
  mtu_ = 128u << port.active_mtu;
  choose_gid(address);
  pd_ = the_verbs().ibv_alloc_pd(context_);
  cq_ = the_verbs().ibv_create_cq(context_, kReceives + kSends, nullptr, nullptr, 0);
  mr_ = the_verbs().ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  if (pd_ == nullptr || cq_ == nullptr || mr_ == nullptr) give_up("the NIC refuses to work");
  make_queue_pair();
  for (std::uint64_t slot = 0; slot < kReceives; ++slot) post_receive(slot);
}

Probe::~Probe() {
  if (ah_ != nullptr) ibv::front::ibv_destroy_ah(ah_);
  if (qp_ != nullptr) the_verbs().ibv_destroy_qp(qp_);
  if (mr_ != nullptr) the_verbs().ibv_dereg_mr(mr_);
  if (cq_ != nullptr) the_verbs().ibv_destroy_cq(cq_);
  if (pd_ != nullptr) the_verbs().ibv_dealloc_pd(pd_);
  the_verbs().ibv_close_device(context_);
}

void Probe::choose_gid(const std::string& address) {
  const auto wanted = proto::parse_gid(address);
  bool found = false;
  ibv_gid entry{};
  for (std::uint8_t i = 0; the_verbs().ibv_query_gid(context_, 1, i, &entry) == 0; ++i) {
    proto::Gid gid;
    std::copy(std::begin(entry.raw), std::end(entry.raw), gid.raw.begin());
    if (gid.is_zero() || gid.is_link_local()) continue;
    if (found && gid != wanted) continue;
    found = true;
    gid_ = entry;
    gid_index_ = i;
  }
  if (!found) throw Failure(kExitUsage, "the NIC has no address");
}

void Probe::make_queue_pair() {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_UD;
  init.cap = {
      .max_send_wr = kSends, .max_recv_wr = kReceives, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  qp_ = the_verbs().ibv_create_qp(pd_, &init);
  if (qp_ == nullptr) give_up("no UD queue pair");
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.qkey = kQkey;
  for (const auto& [state, mask] : {std::pair(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                                    std::pair(IBV_QPS_RTR, 0), std::pair(IBV_QPS_RTS, int{IBV_QP_SQ_PSN})}) {
    attr.qp_state = state;
    if (the_verbs().ibv_modify_qp(qp_, &attr, IBV_QP_STATE | mask) != 0) give_up("the UD queue pair can't be set up");
  }
}

std::uint8_t* Probe::slot_at(std::uint64_t slot) { return memory_.data() + slot * kSlotBytes; }

void Probe::post_receive(std::uint64_t slot) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(slot_at(slot)), kSlotBytes, mr_->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_post_recv(qp_, &wr, &bad);
}

proto::Gid Probe::address() const {
  proto::Gid address;
  std::copy(std::begin(gid_.raw), std::end(gid_.raw), address.raw.begin());
  return address;
}

PeerMetadata Probe::describe() const {
  PeerMetadata metadata;
  std::copy_n(gid_.raw, sizeof metadata.gid, metadata.gid);
  metadata.qps.push_back({.qpn = qp_->qp_num});
  return metadata;
}

void Probe::aim_at(const PeerMetadata& peer) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = gid_index_;
  std::copy_n(peer.gid, sizeof peer.gid, attr.grh.dgid.raw);
  ah_ = ibv::front::ibv_create_ah(pd_, &attr);
  if (ah_ == nullptr) give_up("the peer's address can't be used");
  peer_qpn_ = peer.qps.at(0).qpn;
}

void Probe::send(std::uint32_t bytes) {
  const Label label{.number = sent_};
  std::uint8_t* const payload = slot_at(kReceives + sent_ % kSends);  // The one before may not have left yet.
  std::memcpy(payload, &label, sizeof label);
  ++sent_;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(payload), bytes, mr_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = kSendMark;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud.ah = ah_;
  wr.wr.ud.remote_qpn = peer_qpn_;
  wr.wr.ud.remote_qkey = kQkey;
  if (ibv_post_send(qp_, &wr, &bad) != 0) give_up("can't send");
}

/// Whether the packet in the slot has not come before. Earlier versions do not number theirs.
bool Probe::is_new(std::uint64_t slot) {
  Label label;
  std::memcpy(&label, slot_at(slot) + kHeaderArea, sizeof label);
  return label.mark != Label::kMark || seen_.insert(label.number).second;
}

void Probe::collect(Arrivals& arrivals) {
  std::array<ibv_wc, 16> completions;
  const int count = ibv_poll_cq(cq_, completions.size(), completions.data());
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions.at(static_cast<std::size_t>(i));
    if (wc.wr_id >= kSendMark || wc.status != IBV_WC_SUCCESS) continue;
    if (is_new(wc.wr_id)) ++(wc.byte_len - kHeaderArea > kSmallBytes ? arrivals.large : arrivals.small);
    post_receive(wc.wr_id);
  }
}

std::uint64_t Probe::damaged() const {
  const auto facts = ibv::nic_facts(context_);
  return facts ? facts->counters.icrc_errors : 0;
}

}  // namespace uroce::tools
