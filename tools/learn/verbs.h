/// What lessons 20 to 23 teach, for those that follow: open a device, make queue pairs, connect two of them. Plain
/// verbs; every call that fails ends the lesson with a sentence.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace learn {

/// Verbs that return an object return a null pointer, and set errno, when they fail.
template <class T>
T* need(T* object, const char* what) {
  if (object != nullptr) return object;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

/// Verbs that return int return 0, or the errno (not -1).
inline void need_zero(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(result));
  std::exit(1);
}

/// Lesson 20: the first device (or the one that LEARN_DEVICE names), its port 1, and the GID to use.
struct Nic {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_port_attr port{};
  std::uint8_t gid_index = 0;
  ibv_gid gid{};

  /// `which`: the number of the device, from 0; the first one where there are fewer.
  explicit Nic(int which = 0) {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);  // Null (ENOSYS) on a machine without RDMA.
    const char* wanted = secure_getenv("LEARN_DEVICE");
    for (int i = 0; i < count && context == nullptr; ++i) {
      if (wanted != nullptr && std::strcmp(wanted, ibv_get_device_name(devices[i])) != 0) continue;
      if (wanted == nullptr && i != which % count) continue;
      context = need(ibv_open_device(devices[i]), "ibv_open_device");
    }
    if (devices != nullptr) ibv_free_device_list(devices);
    if (context == nullptr) {
      if (wanted != nullptr && count > 0) {
        std::fprintf(stderr, "LEARN_DEVICE: no device is called %s; ibv_devices lists them\n", wanted);
      } else {
        std::fprintf(stderr, "no RDMA device; on an emulated one: uroce run -- LESSON\n");
      }
      std::exit(1);
    }
    need_zero(ibv_query_port(context, 1, &port), "ibv_query_port");
    choose_gid();
    pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
  }
  ~Nic() {
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

 private:
  /// The first RoCEv2 GID that holds an IPv4 address (::ffff:a.b.c.d); index 1 on uroce, often 3 on cards.
  void choose_gid() {
    constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    for (int i = 0; i < port.gid_tbl_len; ++i) {
      ibv_gid_entry entry{};
      if (ibv_query_gid_ex(context, 1, static_cast<std::uint32_t>(i), &entry, 0) != 0) continue;
      if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || std::memcmp(entry.gid.raw, kMapped, sizeof kMapped) != 0) continue;
      gid_index = static_cast<std::uint8_t>(i);
      gid = entry.gid;
      return;
    }
    std::fprintf(stderr, "no RoCEv2 GID with an IPv4 address\n");
    std::exit(1);
  }
};

/// Lesson 22: a completion, or the end of the lesson after ten seconds without one.
inline ibv_wc wait(ibv_cq* cq) {
  ibv_wc wc{};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    const int n = ibv_poll_cq(cq, 1, &wc);
    if (n == 1) return wc;
    if (n < 0) break;
  }
  std::fprintf(stderr, "no completion\n");
  std::exit(1);
}

inline void print(const char* who, const ibv_wc& wc) {
  std::printf("%s: wr_id %llu, %s", who, static_cast<unsigned long long>(wc.wr_id), ibv_wc_status_str(wc.status));
  if (wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV)) std::printf(", %u bytes", wc.byte_len);
  std::printf("\n");
}

/// How patient a queue pair is. Lesson 46 computes with the first two.
struct Patience {
  std::uint8_t timeout = 14;        // 4.096 us * 2^14 = 67 ms without an answer
  std::uint8_t retry_cnt = 7;       // then send again, seven times
  std::uint8_t rnr_retry = 7;       // when the peer has no receive: 7 means for ever
  std::uint8_t min_rnr_timer = 12;  // what we ask a peer to wait when we have none: 0.64 ms
};

/// A queue pair with a completion queue and a buffer of its own.
struct Endpoint {
  std::vector<char> buffer;
  ibv_mr* mr;
  ibv_cq* cq;
  ibv_qp* qp;

  explicit Endpoint(Nic& nic, std::size_t bytes = 4096, ibv_qp_type type = IBV_QPT_RC, int cqe = 64,
                    ibv_comp_channel* channel = nullptr, ibv_srq* srq = nullptr)
      : buffer(bytes),
        mr(need(ibv_reg_mr(nic.pd, buffer.data(), bytes,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                               IBV_ACCESS_REMOTE_ATOMIC),
                "ibv_reg_mr")),
        cq(need(ibv_create_cq(nic.context, cqe, nullptr, channel, 0), "ibv_create_cq")) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 0};
    init.qp_type = type;
    qp = need(ibv_create_qp(nic.pd, &init), "ibv_create_qp");
  }
  ~Endpoint() {
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    ibv_dereg_mr(mr);
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  ibv_sge sge(std::size_t offset, std::uint32_t length) {
    return {reinterpret_cast<std::uintptr_t>(buffer.data()) + offset, length, mr->lkey};
  }
  /// Posts a receive for the first `length` bytes of the buffer.
  void post_recv(std::uint64_t wr_id, std::uint32_t length) {
    ibv_sge part = sge(0, length);
    ibv_recv_wr wr{.wr_id = wr_id, .next = nullptr, .sg_list = &part, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    need_zero(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
  }
  /// Posts a SEND, WRITE or READ of the first `length` bytes. WRITE and READ: of the peer's buffer `remote`.
  void post(ibv_wr_opcode opcode, std::uint64_t wr_id, std::uint32_t length, const Endpoint* remote = nullptr) {
    ibv_sge part = sge(0, length);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = &part;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (remote != nullptr) {
      wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(remote->buffer.data());
      wr.wr.rdma.rkey = remote->mr->rkey;
    }
    need_zero(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
  }
};

/// Lesson 23: from RESET to RTS. RC or UC; the peer may be anywhere.
inline void connect(Nic& nic, ibv_qp* qp, std::uint32_t peer_qpn, const ibv_gid& peer_gid, std::uint32_t own_psn,
                    std::uint32_t peer_psn, Patience patience = {}, ibv_mtu mtu = IBV_MTU_1024) {
  const bool reliable = qp->qp_type == IBV_QPT_RC;
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (reliable) a.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  need_zero(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");

  a = {};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = mtu;
  a.dest_qp_num = peer_qpn;
  a.rq_psn = peer_psn;
  a.max_dest_rd_atomic = 4;
  a.min_rnr_timer = patience.min_rnr_timer;
  a.ah_attr.is_global = 1;
  a.ah_attr.grh = {.dgid = peer_gid, .flow_label = 0, .sgid_index = nic.gid_index, .hop_limit = 64, .traffic_class = 0};
  a.ah_attr.port_num = 1;
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (reliable) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  need_zero(ibv_modify_qp(qp, &a, mask), "RTR");

  a = {};
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = own_psn;
  a.timeout = patience.timeout;
  a.retry_cnt = patience.retry_cnt;
  a.rnr_retry = patience.rnr_retry;
  a.max_rd_atomic = 4;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (reliable) mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  need_zero(ibv_modify_qp(qp, &a, mask), "RTS");
}

/// Two queue pairs of one process, connected with each other: on two devices, or on one.
inline void connect(Nic& nic_a, Endpoint& a, Nic& nic_b, Endpoint& b, Patience patience = {}) {
  connect(nic_a, a.qp, b.qp->qp_num, nic_b.gid, 0x100, 0x200, patience);
  connect(nic_b, b.qp, a.qp->qp_num, nic_a.gid, 0x200, 0x100, patience);
}
inline void connect(Nic& nic, Endpoint& a, Endpoint& b, Patience patience = {}) { connect(nic, a, nic, b, patience); }

}  // namespace learn
