// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/verbs_side.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace uroce::bench {
namespace {

constexpr std::uint32_t kMaxBatch = 64;
constexpr std::uint8_t kGidIndex = 1;  // 0 is link-local.

std::uint8_t pattern(std::uint8_t salt, std::size_t offset) {
  return static_cast<std::uint8_t>(salt + offset + (offset >> 8) * 31);
}

}  // namespace

void die(const char* what) {
  std::fprintf(stderr, "%s: %s (%s)\n", what, std::strerror(errno), ibv::last_error().c_str());
  std::_Exit(1);
}

void Line::write(const void* data, std::size_t size) const {
  for (const char* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = ::write(fd_, at, size);
    if (n <= 0) die("the other process has gone");
    at += n;
    size -= static_cast<std::size_t>(n);
  }
}

void Line::read(void* data, std::size_t size) const {
  for (char* at = static_cast<char*>(data); size > 0;) {
    const ssize_t n = ::read(fd_, at, size);
    if (n <= 0) die("the other process has gone");
    at += n;
    size -= static_cast<std::size_t>(n);
  }
}

void Line::meet() const {
  char byte = 0;
  write(&byte, 1);
  read(&byte, 1);
}

bool Line::readable() const {
  pollfd look{fd_, POLLIN, 0};
  return poll(&look, 1, 0) == 1;
}

void Line::tell(const nlohmann::json& value) const {
  const std::string text = value.dump();
  const std::uint64_t size = text.size();
  write(&size, sizeof size);
  write(text.data(), text.size());
}

nlohmann::json Line::hear() const {
  std::uint64_t size = 0;
  read(&size, sizeof size);
  std::string text(size, '\0');
  read(text.data(), size);
  return nlohmann::json::parse(text);
}

Side::Side(const Shape& shape, const Line& line, std::uint8_t salt) : shape_(shape), salt_(salt) {
  ibv_device** devices = v_.ibv_get_device_list(nullptr);
  if (devices == nullptr || devices[0] == nullptr) die("no device");
  context_ = v_.ibv_open_device(devices[0]);
  v_.ibv_free_device_list(devices);
  if (context_ == nullptr) die("ibv_open_device");
  pd_ = v_.ibv_alloc_pd(context_);
  if (shape.events) channel_ = v_.ibv_create_comp_channel(context_);
  const auto cqe = static_cast<int>(std::min<std::uint64_t>(std::uint64_t{shape.qps} * shape.depth * 3, 1u << 18));
  cq_ = v_.ibv_create_cq(context_, cqe, nullptr, channel_, 0);
  const std::size_t size = std::size_t{shape.bytes} * shape.qps;
  memory_ = std::make_unique<std::uint8_t[]>(size);
  mr_ = v_.ibv_reg_mr(pd_, memory_.get(), size,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (pd_ == nullptr || cq_ == nullptr || mr_ == nullptr) die("PD, CQ or MR");
  completions_.resize(std::min<std::size_t>(static_cast<std::size_t>(cqe), 64));

  std::vector<std::uint32_t> own(shape.qps), peers(shape.qps);
  for (std::uint32_t& qpn : own) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {shape.depth, 2 * shape.depth, 1, 1, shape.bytes <= kInlineMax ? shape.bytes : 0};
    init.qp_type = IBV_QPT_RC;
    ibv_qp* const qp = v_.ibv_create_qp(pd_, &init);
    if (qp == nullptr) die("ibv_create_qp");
    qps_.push_back(qp);
    qpn = qp->qp_num;
  }
  Card card{};
  if (v_.ibv_query_gid(context_, 1, kGidIndex, &card.gid) != 0) die("ibv_query_gid");
  card.address = reinterpret_cast<std::uintptr_t>(memory_.get());
  card.rkey = mr_->rkey;
  line.write(&card, sizeof card);
  line.read(&peer_, sizeof peer_);
  // A socket holds less than 10,000 QPNs: in turns.
  if (salt < 128) line.write(own.data(), own.size() * sizeof own[0]);
  line.read(peers.data(), peers.size() * sizeof peers[0]);
  if (salt >= 128) line.write(own.data(), own.size() * sizeof own[0]);
  for (std::size_t i = 0; i < qps_.size(); ++i) connect(qps_[i], peers[i]);
  line.meet();
}

Side::~Side() {
  for (ibv_qp* qp : qps_) v_.ibv_destroy_qp(qp);
  v_.ibv_dereg_mr(mr_);
  v_.ibv_destroy_cq(cq_);
  if (channel_ != nullptr) v_.ibv_destroy_comp_channel(channel_);
  v_.ibv_dealloc_pd(pd_);
  v_.ibv_close_device(context_);
}

void Side::connect(ibv_qp* qp, std::uint32_t dest_qpn) const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (v_.ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    die("to INIT");
  }
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = dest_qpn;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 16;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer_.gid;
  attr.ah_attr.grh.sgid_index = kGidIndex;
  if (v_.ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    die("to RTR");
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;  // 67 ms
  attr.retry_cnt = attr.rnr_retry = 7;
  if (v_.ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    die("to RTS");
  }
}

void Side::post_recv(std::uint32_t qp, std::uint32_t count) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(slot(qp)), shape_.bytes, mr_->lkey};
  ibv_recv_wr wrs[kMaxBatch] = {};
  while (count > 0) {
    const std::uint32_t n = std::min(count, kMaxBatch);
    for (std::uint32_t i = 0; i < n; ++i) wrs[i] = {qp, i + 1 < n ? &wrs[i + 1] : nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    if ((errno = ibv_post_recv(qps_[qp], wrs, &bad)) != 0) die("ibv_post_recv");
    count -= n;
  }
}

void Side::post(std::uint32_t qp, enum ibv_wr_opcode opcode, std::uint32_t count, unsigned int flags) {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(slot(qp)), shape_.bytes, mr_->lkey};
  ibv_send_wr wrs[kMaxBatch] = {};
  count = std::min(count, kMaxBatch);
  for (std::uint32_t i = 0; i < count; ++i) {
    ibv_send_wr& wr = wrs[i];
    wr.wr_id = qp;
    wr.next = i + 1 < count ? &wrs[i + 1] : nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags | (i + 1 < count ? 0u : static_cast<unsigned int>(IBV_SEND_SIGNALED));
    wr.wr.rdma.remote_addr = peer_.address + std::uint64_t{qp} * shape_.bytes;
    wr.wr.rdma.rkey = peer_.rkey;
  }
  ibv_send_wr* bad = nullptr;
  if ((errno = ibv_post_send(qps_[qp], wrs, &bad)) != 0) die("ibv_post_send");
}

std::span<const ibv_wc> Side::poll() {
  const int n = ibv_poll_cq(cq_, static_cast<int>(completions_.size()), completions_.data());
  if (n < 0) die("ibv_poll_cq");
  for (const ibv_wc& wc : std::span(completions_.data(), static_cast<std::size_t>(n))) {
    if (wc.status != IBV_WC_SUCCESS) die(v_.ibv_wc_status_str(wc.status));
  }
  return {completions_.data(), static_cast<std::size_t>(n)};
}

void Side::arm() {
  if (ibv_req_notify_cq(cq_, 0) != 0) die("ibv_req_notify_cq");
}

void Side::sleep() {
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  if (v_.ibv_get_cq_event(channel_, &cq, &cookie) != 0) die("ibv_get_cq_event");
  v_.ibv_ack_cq_events(cq, 1);
  arm();
}

void Side::fill_own() {
  for (std::uint32_t qp = 0; qp < shape_.qps; ++qp) {
    for (std::size_t i = 0; i < shape_.bytes; ++i) slot(qp)[i] = pattern(salt_, i + qp);
  }
}

void Side::fill(std::uint8_t value) { std::memset(memory_.get(), value, std::size_t{shape_.bytes} * shape_.qps); }

bool Side::holds(std::uint8_t salt, std::uint32_t qps) const {
  for (std::uint32_t qp = 0; qp < qps; ++qp) {
    for (std::size_t i = 0; i < shape_.bytes; ++i) {
      if (memory_[std::size_t{qp} * shape_.bytes + i] != pattern(salt, i + qp)) return false;
    }
  }
  return true;
}

}  // namespace uroce::bench
