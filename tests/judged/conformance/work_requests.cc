// SPDX-License-Identifier: Apache-2.0
// Work requests one at a time: what post_send refuses, and what is found out later.
#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"

namespace uroce::conformance {
namespace {

constexpr Rule kLocalKeys{"a bad L_Key of the send side completes LOC_PROT_ERR", "IBTA Vol 1, 10.6.3 ? and 11.6.2"};
constexpr Rule kErrorsComplete{"an unsignalled WR that fails completes", "IBTA Vol 1, 10.8.6 ? and 10.10.2 ?"};
constexpr Rule kEmptySge{"an SGE of length 0 names no memory: its key is not looked at", "IBTA Vol 1, 10.6.3 ?"};
constexpr Rule kEmptyRemote{"a request of zero bytes does not check R_Key or address", "IBTA Vol 1, C9-88"};
constexpr Rule kAtomicSize{"an atomic returns 8 bytes: the SGEs hold at least that", "IBTA Vol 1, 9.4.5; rxe provider"};
constexpr Rule kAtomicAlignment{"the operand of an atomic is aligned to 8 bytes", "IBTA Vol 1, 9.4.5; rxe provider"};
constexpr Rule kSges{"no more SGEs than the QP was made for", "IBTA Vol 1, 11.4.1.1; ibv_post_send(3)"};
constexpr Rule kInlineSize{"inline data up to max_inline_data", "ibv_post_send(3): IBV_SEND_INLINE"};
constexpr Rule kInlineKey{"the key of inline data is not looked at", "ibv_post_send(3): IBV_SEND_INLINE"};
constexpr Rule kInlineOps{"inline is for SEND and RDMA WRITE", "ibv_post_send(3): IBV_SEND_INLINE"};
constexpr Rule kOpcodes{"an operation that the QP does not have is refused at once",
                        "IBTA Vol 1, 11.4.1.1: immediate error"};
constexpr Rule kNoSges{"a message may be empty", "IBTA Vol 1, 9.4 ?; ibv_post_send(3)"};
constexpr Rule kInitiatorDepth{"at most max_rd_atomic READs and atomics are outstanding",
                               "IBTA Vol 1, 10.7.2 ? and 11.2.5.2"};
constexpr Rule kResponderDepth{"more READs than max_dest_rd_atomic are an invalid request",
                               "IBTA Vol 1, 9.7.4.1 ?, NAK 0x61"};
constexpr Rule kList{"posting stops at the first WR refused; those before it stay posted", "ibv_post_send(3): bad_wr"};

constexpr Why kAtomicLength = specification("8 bytes are what the atomic returned; rxe reports the length of the SGE");
constexpr Why kInlineRead =
    specification("there is nothing to send inline; rxe accepts and finds no place for the answer");
constexpr Why kAtExecution = specification("rxe accepts, fails when it executes, and the flush overwrites the status");
constexpr Why kNeverSent = choice("rxe never sends it and says nothing; it can't be executed, and ours says so");
constexpr Why kListStops = specification("rxe accepts the list and flushes all of it, the good first one too");

/// Posts one WR at A, with B's `receives` posted, and tells what came of it.
struct Shot {
  LinkOptions link{};
  int receives = 0;
  std::function<void(const Link&, struct ibv_send_wr&)> change = {};
};

std::function<std::string()> shot(enum ibv_wr_opcode opcode, std::uint32_t length, const Shot& how = {}) {
  return [opcode, length, how] {
    Link link(how.link);
    for (int i = 0; i < how.receives; ++i) {
      EXPECT_EQ(post_recv(link.b.qp.get(), 50 + static_cast<std::uint64_t>(i), link.b.sge(8192, 4096)), 0);
    }
    struct ibv_sge sge = link.a.sge(0, length);
    struct ibv_send_wr wr = remote_wr(link, 1, opcode, &sge);
    if (opcode == IBV_WR_SEND) wr.wr = {};
    if (how.change) how.change(link, wr);
    const std::string posted = post_one(link.a.qp.get(), wr);
    const auto completions = take(link.a.cq, posted == "ok" ? 1 : 0);
    return say({posted, words(completions), link.states()});
  };
}

void wrong_lkey(const Link&, struct ibv_send_wr& wr) { wr.sg_list->lkey = 0x7777; }
void nowhere(const Link&, struct ibv_send_wr& wr) {
  wr.wr.rdma = {};
  wr.num_sge = 0;
}
void inlined(const Link&, struct ibv_send_wr& wr) { wr.send_flags |= IBV_SEND_INLINE; }

/// On the QP of the table's first column: two SGEs, 32 bytes inline.
std::string three_sges() {
  Link link;
  EXPECT_EQ(post_recv(link.b.qp.get(), 50, link.b.sge(0, 4096)), 0);
  struct ibv_sge sges[] = {link.a.sge(0, 8), link.a.sge(8, 8), link.a.sge(16, 8)};
  struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND, sges);
  wr.num_sge = 3;
  const std::string posted = post_one(link.a.qp.get(), wr);
  return say({posted, words(take(link.a.cq, 0)), link.states()});
}

std::string misaligned_atomic() {
  Link link;
  struct ibv_sge sge = link.a.sge(0, 8);
  struct ibv_send_wr wr = remote_wr(link, 1, IBV_WR_ATOMIC_CMP_AND_SWP, &sge);
  wr.wr.atomic.remote_addr += 4;
  const std::string posted = post_one(link.a.qp.get(), wr);
  return say({posted, words(take(link.a.cq, 0)), link.a.state()});
}

std::string bad_second() {
  Link link;
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(post_recv(link.b.qp.get(), i, link.b.sge(0, 100)), 0);
  struct ibv_sge sge = link.a.sge(0, 8);
  struct ibv_send_wr wrs[3];
  for (std::size_t i = 0; i < 3; ++i) {
    wrs[i] = send_wr(i + 1, IBV_WR_SEND, &sge);
    wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
  }
  set_raw(wrs[1].opcode, 99);
  const std::string posted = post_list(link.a.qp.get(), wrs);
  return say({posted, words(take(link.a.cq, 1)), link.a.state()});
}

template <int kNumber>
void opcode(const Link&, struct ibv_send_wr& wr) {
  set_raw(wr.opcode, kNumber);
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): one table.
Chapter work_requests() {
  constexpr auto kSend = IBV_WR_SEND, kWrite = IBV_WR_RDMA_WRITE, kRead = IBV_WR_RDMA_READ,
                 kCas = IBV_WR_ATOMIC_CMP_AND_SWP;
  const LinkOptions no_local_write{.a_side = {.access = IBV_ACCESS_REMOTE_READ}};
  const LinkOptions no_initiator{.a = {.timeout = kPatientTimeout, .rd_atomic = 0}};
  const LinkOptions no_responder{.b = {.rd_atomic = 0}};
  return {
      "work_requests",
      "Work request checks",
      {
          {"SEND with a wrong lkey", kLocalKeys, "ok; LOC_PROT_ERR wr 1; A ERR, B RTS",
           "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS", kFlushed, shot(kSend, 64, {.receives = 1, .change = wrong_lkey})},
          {"SEND with a wrong lkey, unsignalled", kErrorsComplete, "ok; LOC_PROT_ERR wr 1; A ERR, B RTS",
           "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS", kFlushed,
           shot(kSend, 64,
                {.receives = 1,
                 .change =
                     [](const Link& link, struct ibv_send_wr& wr) {
                       wrong_lkey(link, wr);
                       wr.send_flags = 0;
                     }})},
          {"SEND over the end of the MR", kLocalKeys, "ok; LOC_PROT_ERR wr 1; A ERR, B RTS",
           "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS", kFlushed,
           shot(kSend, 64,
                {.receives = 1,
                 .change =
                     [](const Link& link, struct ibv_send_wr& wr) {
                       wr.sg_list->addr = link.a.address(link.a.memory.size() - 44);
                     }})},
          {"SEND with sge of length 0 and lkey 0", kEmptySge, "ok; SUCCESS wr 1 len 0 SEND; A RTS, B RTS",
           "ok; SUCCESS wr 1 len 0 SEND; A RTS, B RTS", kSame,
           shot(kSend, 0,
                {.receives = 1, .change = [](const Link&, struct ibv_send_wr& wr) { wr.sg_list->lkey = 0; }})},
          {"WRITE with a wrong lkey", kLocalKeys, "ok; LOC_PROT_ERR wr 1; A ERR, B RTS",
           "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS", kFlushed, shot(kWrite, 64, {.change = wrong_lkey})},
          {"WRITE of zero bytes with rkey 0 and address 0", kEmptyRemote,
           "ok; SUCCESS wr 1 len 0 RDMA_WRITE; A RTS, B RTS", "ok; SUCCESS wr 1 len 0 RDMA_WRITE; A RTS, B RTS", kSame,
           shot(kWrite, 0, {.change = nowhere})},
          {"READ of zero bytes with rkey 0 and address 0", kEmptyRemote,
           "ok; SUCCESS wr 1 len 0 RDMA_READ; A RTS, B RTS", "ok; SUCCESS wr 1 len 0 RDMA_READ; A RTS, B RTS", kSame,
           shot(kRead, 0, {.change = nowhere})},
          {"READ into a wrong lkey", kLocalKeys, "ok; LOC_PROT_ERR wr 1; A ERR, B RTS",
           "ok; LOC_PROT_ERR wr 1; A ERR, B RTS", kSame, shot(kRead, 64, {.change = wrong_lkey})},
          {"READ into an MR without local write", kLocalKeys, "ok; LOC_PROT_ERR wr 1; A ERR, B RTS",
           "ok; LOC_PROT_ERR wr 1; A ERR, B RTS", kSame, shot(kRead, 64, {.link = no_local_write})},
          {"CAS with an sge of 4 bytes", kAtomicSize, "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS",
           "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS", kSame, shot(kCas, 4)},
          {"CAS with an sge of 16 bytes", kAtomicSize, "ok; SUCCESS wr 1 len 8 COMP_SWAP; A RTS, B RTS",
           "ok; SUCCESS wr 1 len 16 COMP_SWAP; A RTS, B RTS", kAtomicLength, shot(kCas, 16)},
          {"CAS on a remote address that is not a multiple of 8", kAtomicAlignment,
           "EINVAL, bad_wr = wr_id 1; none; RTS", "EINVAL, bad_wr = wr_id 1; none; RTS", kSame, misaligned_atomic},
          {"3 SGEs on a QP with max_send_sge 2", kSges, "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS",
           "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS", kSame, three_sges},
          {"inline of 32 bytes (max_inline 32)", kInlineSize, "ok; SUCCESS wr 1 len 32 SEND; A RTS, B RTS",
           "ok; SUCCESS wr 1 len 32 SEND; A RTS, B RTS", kSame, shot(kSend, 32, {.receives = 1, .change = inlined})},
          {"inline of 33 bytes (max_inline 32)", kInlineSize, "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS",
           "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS", kSame, shot(kSend, 33, {.receives = 1, .change = inlined})},
          {"inline with a wrong lkey", kInlineKey, "ok; SUCCESS wr 1 len 16 SEND; A RTS, B RTS",
           "ok; SUCCESS wr 1 len 16 SEND; A RTS, B RTS", kSame,
           shot(kSend, 16,
                {.receives = 1,
                 .change =
                     [](const Link& link, struct ibv_send_wr& wr) {
                       wrong_lkey(link, wr);
                       inlined(link, wr);
                     }})},
          {"inline READ", kInlineOps, "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS",
           "ok; LOC_PROT_ERR wr 1; A ERR, B RTS", kInlineRead, shot(kRead, 16, {.change = inlined})},
          {"opcode 99", kOpcodes, "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS", "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS",
           kAtExecution, shot(kSend, 16, {.change = opcode<99>})},
          {"opcode TSO (10)", kOpcodes, "EINVAL, bad_wr = wr_id 1; none; A RTS, B RTS",
           "ok; WR_FLUSH_ERR wr 1; A ERR, B RTS", kAtExecution, shot(kSend, 16, {.change = opcode<IBV_WR_TSO>})},
          {"SEND with num_sge 0", kNoSges, "ok; SUCCESS wr 1 len 0 SEND; A RTS, B RTS",
           "ok; SUCCESS wr 1 len 0 SEND; A RTS, B RTS", kSame,
           shot(kSend, 0, {.receives = 1, .change = [](const Link&, struct ibv_send_wr& wr) { wr.num_sge = 0; }})},
          {"READ with max_rd_atomic 0", kInitiatorDepth, "ok; LOC_QP_OP_ERR wr 1; A ERR, B RTS",
           "ok; none; A RTS, B RTS", kNeverSent, shot(kRead, 64, {.link = no_initiator})},
          {"READ to a peer with max_dest_rd_atomic 0", kResponderDepth, "ok; REM_INV_REQ_ERR wr 1; A ERR, B ERR",
           "ok; REM_INV_REQ_ERR wr 1; A ERR, B ERR", kSame, shot(kRead, 64, {.link = no_responder})},
          {"list of 3, the 2nd has a bad opcode", kList, "EINVAL, bad_wr = wr_id 2; SUCCESS wr 1 len 8 SEND; RTS",
           "ok; WR_FLUSH_ERR wr 1, WR_FLUSH_ERR wr 2, WR_FLUSH_ERR wr 3; ERR", kListStops, bad_second},
      }};
}

}  // namespace uroce::conformance
