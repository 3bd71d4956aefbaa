// SPDX-License-Identifier: Apache-2.0
// Two NICs in one process, seen through the verbs.
// tests/unit/ibverbs: what our implementation promises (errno of misuse, life cycles, lost memory), with its objects at
// hand. tests/judged/conformance: what the specification and Soft-RoCE say to a use; a table, from which a document is
// printed. tests/judged/every_verb: that libibverbs.so.1, linked as programs link it, survives every call; also
// nonsense.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "verbs/ibverbs/catalogue/verbs_table.h"
#include "verbs/ibverbs/host/facts.h"

// In children of fork() the thread sanitizer starts no threads, and the address sanitizer of GCC 12 may find its heap
// locked by a thread that has stayed with the parent.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define UROCE_NEEDS_THREADS_AFTER_FORK() GTEST_SKIP() << "sanitizers do not let children of fork() use threads"
#else
#define UROCE_NEEDS_THREADS_AFTER_FORK() static_cast<void>(0)
#endif

namespace uroce::ibv::test {

inline const VerbsTable& v() { return uroce_verbs(); }

/// How long anything may take before a test gives up on it. Generous: sanitizers and busy machines are slow.
inline constexpr int kPatienceMs = 30'000;

struct CloseContext {
  void operator()(struct ibv_context* context) const { EXPECT_EQ(v().ibv_close_device(context), 0); }
};
using ContextPtr = std::unique_ptr<struct ibv_context, CloseContext>;

/// Opens device `index` of the two that tests have.
ContextPtr open_device(int index);

struct DestroyQp {
  void operator()(struct ibv_qp* qp) const { EXPECT_EQ(v().ibv_destroy_qp(qp), 0); }
};
using QpPtr = std::unique_ptr<struct ibv_qp, DestroyQp>;

struct NodeOptions {
  int cqe = 256;
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  bool with_channel = false;
};

/// One NIC with a PD, two CQs and a memory region over `memory`.
class Node {
 public:
  static constexpr std::size_t kMemory = 1 << 20;

  explicit Node(int device, const NodeOptions& options = {});
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  QpPtr make_qp(const struct ibv_qp_cap& cap = {64, 64, 16, 16, 256}, bool signal_all = false,
                enum ibv_qp_type type = IBV_QPT_RC);
  union ibv_gid gid(int index = 1) const;
  std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
  }
  /// Orders our accesses to memory against those of the NIC. A peer's access through the network is ordered by its
  /// completion, but nothing in this process shows that to the thread sanitizer.
  void sync() const { EXPECT_TRUE(nic_facts(context.get()).has_value()); }
  struct ibv_sge sge(std::size_t offset, std::uint32_t length) const {
    return {address(offset), length, mr->lkey};
  }

  ContextPtr context;
  std::vector<std::uint8_t> memory;
  struct ibv_pd* pd = nullptr;
  struct ibv_comp_channel* channel = nullptr;
  struct ibv_cq* send_cq = nullptr;
  struct ibv_cq* recv_cq = nullptr;
  struct ibv_mr* mr = nullptr;
};

struct ConnectOptions {
  int qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  std::uint8_t timeout = 14;  ///< 67 ms
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;  ///< 10 us
  std::uint8_t rd_atomic = 4;
  enum ibv_mtu mtu = IBV_MTU_1024;
};

/// The attributes that each step needs.
inline constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kRtsMask =
    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

/// For UD QPs.
inline constexpr std::uint32_t kQkey = 0x11111111;
/// The mask that a QP of this type needs for INIT, RTR or RTS.
int mask_for(const struct ibv_qp& qp, enum ibv_qp_state state);

struct ibv_qp_attr init_attr(const ConnectOptions& options = {});
struct ibv_qp_attr rtr_attr(const union ibv_gid& dgid, std::uint32_t dest_qpn, const ConnectOptions& options = {});
struct ibv_qp_attr rts_attr(const ConnectOptions& options = {});

/// Changes the state and nothing else.
int set_state(struct ibv_qp* qp, enum ibv_qp_state state);
enum ibv_qp_state state_of(struct ibv_qp* qp);

/// Takes `qp` to INIT, RTR or RTS (the peer's address is only used from RTR on).
void bring_to(struct ibv_qp* qp, enum ibv_qp_state state, const union ibv_gid& dgid, std::uint32_t dest_qpn,
              const ConnectOptions& options = {});

/// Two connected QPs on two NICs.
struct Pair {
  explicit Pair(const ConnectOptions& options = {}, const NodeOptions& a_options = {},
                const NodeOptions& b_options = {}, const struct ibv_qp_cap& cap = {64, 64, 16, 16, 256});
  Node a, b;
  QpPtr qa, qb;
};

int post(struct ibv_qp* qp, struct ibv_send_wr wr, struct ibv_send_wr** bad = nullptr);
int post(struct ibv_qp* qp, struct ibv_recv_wr wr, struct ibv_recv_wr** bad = nullptr);
int post_recv(struct ibv_qp* qp, std::uint64_t wr_id, struct ibv_sge sge);

/// A WR with one SGE; `sge` has to outlive its posting.
struct ibv_send_wr send_wr(std::uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge* sge,
                           unsigned int flags = IBV_SEND_SIGNALED);

/// Polls `cq` until a completion comes, or gives up with a test failure.
struct ibv_wc wait_completion(struct ibv_cq* cq);
/// Polls once: nothing must be there.
void expect_no_completion(struct ibv_cq* cq);

/// Stores any number in a variable of an enumeration, as C programs can.
template <class Enum>
void set_raw(Enum& value, int number) {
  static_assert(sizeof(Enum) == sizeof(int));
  std::memcpy(&value, &number, sizeof number);
}

/// Returns when thread `id` of this process sleeps in the kernel.
void wait_until_asleep(pid_t id);
/// Whether `fd` becomes readable within `timeout_ms`.
bool readable(int fd, int timeout_ms);
void set_nonblocking(int fd);
/// The next asynchronous event, already acknowledged; a failure when none comes.
std::optional<enum ibv_event_type> next_async_event(struct ibv_context* context);

}  // namespace uroce::ibv::test
