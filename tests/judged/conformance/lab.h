// SPDX-License-Identifier: Apache-2.0
// Two NICs on loopback, and the words in which the table tells what they did.
#pragma once

#include <initializer_list>

#include "tests/unit/ibverbs/support.h"

namespace uroce::conformance {

using namespace uroce::ibv::test;  // v(), open_device(), init_attr(), bring_to() ...

inline constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

struct SideOptions {
  struct ibv_qp_cap cap {
    128, 128, 2, 2, 32
  };
  bool signal_all = false;
  int access = kAllAccess;
  int cqe = 256;
  enum ibv_qp_type type = IBV_QPT_RC;
};

/// One NIC with a PD, an MR, a CQ for both queues (with a channel) and a QP.
class Side {
 public:
  explicit Side(int device, const SideOptions& options = {});
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  union ibv_gid gid() const;
  std::uint64_t address(std::size_t offset = 0) const { return std::bit_cast<std::uintptr_t>(memory.data()) + offset; }
  struct ibv_sge sge(std::size_t offset, std::uint32_t length) const {
    return {address(offset), length, mr->lkey};
  }
  /// Takes the QP there, with a peer that does not exist.
  void bring(enum ibv_qp_state state);
  int modify(struct ibv_qp_attr attr, int mask) const { return v().ibv_modify_qp(qp.get(), &attr, mask); }
  std::string state() const;
  /// Waits until the QP is in that state, which packets take it to; not for ever.
  void wait_for(enum ibv_qp_state state) const;

  ContextPtr context;
  std::vector<std::uint8_t> memory;
  struct ibv_pd* pd = nullptr;
  struct ibv_comp_channel* channel = nullptr;
  struct ibv_cq* cq = nullptr;
  struct ibv_mr* mr = nullptr;  ///< Null once a case has deregistered it.
  QpPtr qp;
};

/// So long that a NIC which waits for a busy machine is not taken for one that is gone: 1 s, eight times.
inline constexpr std::uint8_t kPatientTimeout = 18;

/// How the sides of a Link are connected, and made.
struct LinkOptions {
  ConnectOptions a{.timeout = kPatientTimeout}, b{.timeout = kPatientTimeout};
  SideOptions a_side{}, b_side{};
};

/// A requester and a responder, connected.
struct Link {
  explicit Link(const LinkOptions& options = {});
  std::string states() const { return "A " + a.state() + ", B " + b.state(); }
  Side a, b;
};

/// A WRITE, READ or atomic from the start of A's region to the start of B's.
struct ibv_send_wr remote_wr(const Link& link, std::uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge* sge);

/// Waits for `expected` completions; then makes both NICs work off what is on its way, and takes what came of that too.
std::vector<struct ibv_wc> take(struct ibv_cq* cq, std::size_t expected);
/// Sends a message there and back between two other QPs: packets that were sent before have arrived then, unless the
/// machine is so busy that Linux delivers those of another socket later. For what must not happen; wait for what must.
void quiesce();

// Words: "ok", "EINVAL" ...; "SUCCESS wr 1 len 64 SEND", with what an error leaves valid; "RTS"; "none" for nothing.
std::string word(int error);
std::string words(const std::vector<struct ibv_wc>& completions);
std::string events(const Side& side);  ///< Asynchronous events so far, acknowledged.
std::string hex(std::uint64_t number);
/// Joins with "; ", leaving out empty parts.
std::string say(std::initializer_list<std::string> parts);

/// Posts a list and tells the outcome: "ok", "EINVAL, bad_wr = wr_id 2".
std::string post_list(struct ibv_qp* qp, struct ibv_send_wr* wr);
std::string post_list(struct ibv_qp* qp, struct ibv_recv_wr* wr);
std::string post_one(struct ibv_qp* qp, struct ibv_send_wr wr);
std::string post_one_recv(struct ibv_qp* qp, std::uint64_t wr_id, struct ibv_sge sge);

}  // namespace uroce::conformance
