// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/chaos/link.h"

#include <poll.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace uroce::chaos {
namespace {

// The memory of a link. What is registered lies between the guards.
constexpr std::uint32_t kGuard = 1 << 12;
constexpr std::uint32_t kInbox = kGuard;                      ///< The peer WRITEs here,
constexpr std::uint32_t kCounter = kInbox + Link::kBytes;     ///< and adds here.
constexpr std::uint32_t kOutbox = kCounter + 4096;            ///< What we WRITE,
constexpr std::uint32_t kReadBack = kOutbox + Link::kBytes;   ///< and READ back.
constexpr std::uint32_t kReceive = kReadBack + Link::kBytes;  ///< What arrives by SEND.
constexpr std::uint32_t kEnd = kReceive + Link::kReceives * Link::kMessage;
constexpr std::uint32_t kMapped = kEnd + kGuard;
constexpr std::uint8_t kGuardByte = 0xA5;

constexpr auto kPatience = std::chrono::seconds(40);
constexpr auto kSilence = std::chrono::seconds(1);
constexpr std::uint64_t kQuestion = ~std::uint64_t{0};  ///< WR ID of an empty WRITE.
constexpr int kGidIndex = 1;
constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

std::string failed(const char* what, int error = errno) { return std::string(what) + ": " + std::strerror(error); }

void fill(std::uint8_t* at, std::uint32_t size, std::uint32_t seed) {
  for (std::uint32_t i = 0; i < size; ++i) at[i] = static_cast<std::uint8_t>((seed + i) * 2654435761u >> 24);
}

bool is_filled(const std::uint8_t* at, std::uint32_t size, std::uint32_t seed) {
  for (std::uint32_t i = 0; i < size; ++i) {
    if (at[i] != static_cast<std::uint8_t>((seed + i) * 2654435761u >> 24)) return false;
  }
  return true;
}

std::uint8_t* map() {
  void* memory = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory);
}

/// Destroys `object` with `destroy`, once; adds what fails to `why`.
template <class T>
void destroy(T*& object, int (*destroyer)(T*), const char* name, std::string& why) {
  if (object == nullptr) return;
  const int error = destroyer(object);
  object = nullptr;
  if (error != 0) why += failed(name, error) + "; ";
}

}  // namespace

std::string Device::open() {
  struct ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) return failed("no device");
  context = ibv_open_device(list[0]);
  const int error = errno;
  ibv_free_device_list(list);
  if (context == nullptr) return failed("ibv_open_device", error);
  pd = ibv_alloc_pd(context);
  if (pd == nullptr) return failed("ibv_alloc_pd");
  if (ibv_query_gid(context, 1, kGidIndex, &gid) != 0) return failed("ibv_query_gid");
  return {};
}

std::string Device::close() {
  std::string why;
  destroy(pd, ibv_dealloc_pd, "ibv_dealloc_pd", why);
  destroy(context, ibv_close_device, "ibv_close_device", why);
  return why;
}

std::string Link::open(Device& device) {
  memory_ = map();
  if (memory_ == nullptr) return failed("mmap");
  std::memset(memory_, kGuardByte, kGuard);
  std::memset(memory_ + kEnd, kGuardByte, kGuard);
  mr_ = ibv_reg_mr(device.pd, memory_ + kGuard, kEnd - kGuard, kAccess);
  if (mr_ == nullptr) return failed("ibv_reg_mr");
  channel_ = ibv_create_comp_channel(device.context);
  if (channel_ == nullptr) return failed("ibv_create_comp_channel");
  cq_ = ibv_create_cq(device.context, 4 * kReceives, nullptr, channel_, 0);
  if (cq_ == nullptr) return failed("ibv_create_cq");
  struct ibv_qp_init_attr init {};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.cap = {.max_send_wr = 32, .max_recv_wr = kReceives, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  qp_ = ibv_create_qp(device.pd, &init);
  return qp_ == nullptr ? failed("ibv_create_qp") : std::string();
}

Address Link::address(const Device& device) const {
  return {.gid = device.gid,
          .qpn = qp_->qp_num,
          .psn = qp_->qp_num * 77 & 0xFFFFFF,
          .memory = reinterpret_cast<std::uintptr_t>(memory_),
          .rkey = mr_->rkey};
}

std::string Link::connect(const Address& peer) {
  peer_ = peer;
  struct ibv_qp_attr attr {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kAccess;
  if (ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    return failed("to INIT");
  }
  for (std::uint32_t i = 0; i < kReceives; ++i) {
    if (auto why = post_receive(i); !why.empty()) return why;
  }
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = kGidIndex;
  attr.ah_attr.grh.hop_limit = 64;
  if (ibv_modify_qp(qp_, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    return failed("to RTR");
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;  // 67 ms: longer than a process waits for its turn, and a dead peer shows in a second.
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.sq_psn = qp_->qp_num * 77 & 0xFFFFFF;
  attr.max_rd_atomic = 4;
  if (ibv_modify_qp(qp_, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    return failed("to RTS");
  }
  return {};
}

struct ibv_sge Link::sge(std::uint32_t offset, std::uint32_t length) const {
  return {.addr = reinterpret_cast<std::uintptr_t>(memory_ + offset), .length = length, .lkey = mr_->lkey};
}

std::string Link::post(enum ibv_wr_opcode opcode, std::uint32_t local, std::uint32_t remote, std::uint32_t length) {
  struct ibv_sge where = sge(local, length);
  struct ibv_send_wr wr {};
  wr.opcode = opcode;
  wr.sg_list = &where;
  wr.num_sge = 1;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (length == 0) wr.wr_id = kQuestion;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = peer_.memory + remote;
    wr.wr.atomic.rkey = peer_.rkey;
    wr.wr.atomic.compare_add = 1;
  } else {
    wr.wr.rdma.remote_addr = peer_.memory + remote;
    wr.wr.rdma.rkey = peer_.rkey;
  }
  struct ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, &wr, &bad);
  return error == 0 ? std::string() : failed("ibv_post_send", error);
}

std::string Link::post_receive(std::uint32_t index) {
  struct ibv_sge where = sge(kReceive + index * kMessage, kMessage);
  struct ibv_recv_wr wr {};
  wr.wr_id = index;
  wr.sg_list = &where;
  wr.num_sge = 1;
  struct ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_, &wr, &bad);
  return error == 0 ? std::string() : failed("ibv_post_recv", error);
}

std::string Link::await(struct ibv_wc& wc, bool by_event) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  auto ask_at = std::chrono::steady_clock::now() + kSilence;
  bool armed = false;
  while (std::chrono::steady_clock::now() < deadline) {
    const int count = ibv_poll_cq(cq_, 1, &wc);
    if (count < 0) return failed("ibv_poll_cq");
    if (count == 1 && wc.status != IBV_WC_SUCCESS) return "status " + std::to_string(wc.status);
    if (count == 1 && wc.wr_id != kQuestion) return {};
    if (std::chrono::steady_clock::now() > ask_at) {
      // Is the peer still there? If not, this fails, and all that we wait for with it.
      if (auto why = post(IBV_WR_RDMA_WRITE, kOutbox, kInbox, 0); !why.empty()) return why;
      ask_at += kSilence;
    }
    if (!by_event) continue;
    if (!armed) {
      if (auto why = arm(); !why.empty()) return why;
      armed = true;
      continue;  // Something may have come before.
    }
    pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, std::chrono::milliseconds(kSilence).count()) == 0) continue;
    if (auto why = get_event(); !why.empty()) return why;
    armed = false;
  }
  return "no completion in time";
}

std::string Link::write(std::uint32_t size, std::uint32_t seed) {
  fill(memory_ + kOutbox, size, seed);
  std::memset(memory_ + kReadBack, 0, size);
  struct ibv_wc wc {};
  if (auto why = post(IBV_WR_RDMA_WRITE, kOutbox, kInbox, size); !why.empty()) return why;
  if (auto why = post(IBV_WR_RDMA_READ, kReadBack, kInbox, size); !why.empty()) return why;
  if (auto why = await(wc); !why.empty()) return why;
  if (auto why = await(wc); !why.empty()) return why;
  return is_filled(memory_ + kReadBack, size, seed) ? std::string() : "what was read is not what was written";
}

std::string Link::add(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    struct ibv_wc wc {};
    if (auto why = post(IBV_WR_ATOMIC_FETCH_AND_ADD, kReadBack, kCounter, sizeof added_); !why.empty()) return why;
    if (auto why = await(wc); !why.empty()) return why;
    std::uint64_t before = 0;
    std::memcpy(&before, memory_ + kReadBack, sizeof before);
    if (before != added_) return "the counter was " + std::to_string(before) + ", not " + std::to_string(added_);
    ++added_;
  }
  return {};
}

std::string Link::send(std::uint32_t count, std::uint32_t seed) {
  for (std::uint32_t i = 0; i < count; ++i) {
    struct ibv_wc wc {};
    fill(memory_ + kOutbox, kMessage, seed + i);
    if (auto why = post(IBV_WR_SEND, kOutbox, 0, kMessage); !why.empty()) return why;
    if (auto why = await(wc); !why.empty()) return why;
  }
  return {};
}

std::string Link::expect(std::uint32_t count, std::uint32_t seed, bool by_event) {
  for (std::uint32_t i = 0; i < count; ++i) {
    struct ibv_wc wc {};
    if (auto why = await(wc, by_event); !why.empty()) return why;
    const auto index = static_cast<std::uint32_t>(wc.wr_id);
    if (wc.opcode != IBV_WC_RECV || wc.byte_len != kMessage) return "another completion than that of a receive";
    if (!is_filled(memory_ + kReceive + index * kMessage, kMessage, seed + i)) return "another message arrived";
    if (auto why = post_receive(index); !why.empty()) return why;
  }
  return {};
}

std::string Link::arm() { return ibv_req_notify_cq(cq_, 0) == 0 ? std::string() : failed("ibv_req_notify_cq"); }

std::string Link::get_event() {
  struct ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &cq, &context) != 0) return failed("ibv_get_cq_event");
  ++events_;
  return {};
}

std::string Link::take_event() {
  pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  const auto patience = std::chrono::milliseconds(kPatience).count();
  return ::poll(&readable, 1, static_cast<int>(patience)) == 1 ? get_event() : "the event does not come";
}

std::string Link::check() const {
  if (memory_ == nullptr || !is_memory_ours_) return {};
  for (std::uint32_t i = 0; i < kGuard; ++i) {
    if (memory_[i] != kGuardByte || memory_[kEnd + i] != kGuardByte) return "a byte beside registered memory changed";
  }
  return {};
}

std::string Link::close() {
  std::string why;
  destroy(qp_, ibv_destroy_qp, "ibv_destroy_qp", why);
  if (cq_ != nullptr) ibv_ack_cq_events(cq_, events_);
  destroy(cq_, ibv_destroy_cq, "ibv_destroy_cq", why);
  destroy(channel_, ibv_destroy_comp_channel, "ibv_destroy_comp_channel", why);
  destroy(mr_, ibv_dereg_mr, "ibv_dereg_mr", why);
  if (memory_ != nullptr) ::munmap(memory_, kMapped);
  memory_ = nullptr;
  return why;
}

void Link::unmap() {
  is_memory_ours_ = false;
  ::munmap(memory_, kMapped);
  memory_ = nullptr;  // Somebody else's may be there now.
}

void Link::protect() {
  is_memory_ours_ = false;
  ::mprotect(memory_, kMapped, PROT_READ);
}

void Link::map_again() {
  is_memory_ours_ = false;
  static_cast<void>(::mmap(memory_, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

}  // namespace uroce::chaos
