// SPDX-License-Identifier: Apache-2.0
// Queues that fill up, signalling, keys of other PDs and of regions that are gone, completion fields.
#include <arpa/inet.h>

#include <chrono>

#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"

namespace uroce::conformance {
namespace {

constexpr Rule kFull{"a queue takes what create_qp reported; one more is refused with ENOMEM",
                     "IBTA Vol 1, 10.8.2 ?; kernel and providers: ENOMEM"};
constexpr Rule kSlots{"a slot is free at the latest when a later completion has been polled", "IBTA Vol 1, 10.8.5.1 ?"};
constexpr Rule kPolled{"a WR that completes with a completion keeps its slot until that has been polled",
                       "IBTA Vol 1, 10.8.5.1 ?; mlx4 and mlx5"};
constexpr Rule kSignalAll{"with sq_sig_all every WR completes", "IBTA Vol 1, 10.8.6 ?; ibv_create_qp(3)"};
constexpr Rule kRecvSges{"no more SGEs than the QP was made for", "IBTA Vol 1, 11.4.1.2; ibv_post_recv(3)"};
constexpr Rule kRecvKeys{"keys of a receive are checked when it is used", "IBTA Vol 1, 11.4.1.2; every provider"};
constexpr Rule kLocalPd{"QP and MR have to be of one PD", "IBTA Vol 1, 10.2.3 and 10.6.3 ?; LOC_PROT_ERR"};
constexpr Rule kRemotePd{"QP and MR have to be of one PD", "IBTA Vol 1, 10.2.3 and 9.7.4.1.5; NAK 0x62"};
constexpr Rule kRemoteGone{"the R_Key of a deregistered region grants nothing", "IBTA Vol 1, 9.7.4.1.5; NAK 0x62"};
constexpr Rule kLocalGone{"the L_Key of a deregistered region grants nothing", "IBTA Vol 1, 10.6.3 ?; LOC_PROT_ERR"};
constexpr Rule kFields{"byte_len and wc_flags describe what arrived; GRH flag and src_qp are for UD", "ibv_poll_cq(3)"};
constexpr Rule kScatter{"a message fills the SGEs in order", "IBTA Vol 1, 10.7.3 ?; ibv_post_recv(3)"};

constexpr Why kExactDepth =
    choice("both give at least what was asked for: ours exactly that, rxe rounds up to 2^n - 1");
constexpr Why kPlaces =
    specification("on rxe a slot is free when the WR has completed: who posts until it is full overruns the CQ");
constexpr Why kFlags = specification(
    "rxe sets WITH_IMM on the sender's side too, and GRH on an RC receive; the receiver's "
    "src_qp is the peer's, as on mlx5");

constexpr struct ibv_qp_cap kSixteenDeep { 16, 128, 2, 2, 0 };

std::string fill_send_queue() {
  Link link({.b = {.min_rnr_timer = 31}, .a_side = {.cap = kSixteenDeep}});
  struct ibv_sge sge = link.a.sge(0, 8);
  std::string outcome;
  std::uint64_t accepted = 0;
  while ((outcome = post_one(link.a.qp.get(), send_wr(accepted, IBV_WR_SEND, &sge))) == "ok" && accepted < 200)
    ++accepted;
  return say({outcome, "accepted " + std::to_string(accepted)});
}

std::string fill_receive_queue() {
  Side side(0, {.cap = kSixteenDeep});
  side.bring(IBV_QPS_RTR);
  std::string outcome;
  std::uint64_t accepted = 0;
  while ((outcome = post_one_recv(side.qp.get(), accepted, side.sge(0, 8))) == "ok" && accepted < 400) ++accepted;
  return say({outcome, "accepted " + std::to_string(accepted)});
}

/// 40 sends through a queue of 31: a NIC that frees slots only when the program polls never takes the 32nd.
std::string unsignalled_sends() {
  constexpr std::uint64_t kSends = 40;
  constexpr auto kForProgress = std::chrono::seconds(20);
  Link link({.a_side = {.cap = {31, 128, 2, 2, 0}}});
  for (std::uint64_t i = 0; i < kSends; ++i) EXPECT_EQ(post_recv(link.b.qp.get(), i, link.b.sge(0, 100)), 0);
  struct ibv_sge sge = link.a.sge(0, 8);
  const auto give_up = std::chrono::steady_clock::now() + kForProgress;
  std::uint64_t accepted = 0;
  int error = 0;
  while (accepted < kSends && std::chrono::steady_clock::now() < give_up) {
    error = post(link.a.qp.get(), send_wr(accepted, IBV_WR_SEND, &sge, 0));
    if (error == 0) ++accepted;
    if (error != 0 && error != ENOMEM) break;
  }
  return say({word(error), "accepted " + std::to_string(accepted)});
}

/// The same, signalled: every completion has been queued, as its event tells, before the next one is posted.
std::string signalled_writes() {
  constexpr std::uint64_t kWrites = 40;
  Link link({.a_side = {.cap = {31, 128, 2, 2, 0}}});
  struct ibv_sge sge = link.a.sge(0, 8);
  std::string outcome;
  std::uint64_t accepted = 0;
  for (; accepted < kWrites; ++accepted) {
    EXPECT_EQ(ibv_req_notify_cq(link.a.cq, 0), 0);
    outcome = post_one(link.a.qp.get(), remote_wr(link, accepted, IBV_WR_RDMA_WRITE, &sge));
    if (outcome != "ok") break;
    struct ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    EXPECT_EQ(v().ibv_get_cq_event(link.a.channel, &cq, &cookie), 0);
    v().ibv_ack_cq_events(cq, 1);
  }
  const std::size_t polled = take(link.a.cq, accepted).size();
  return say({outcome, "accepted " + std::to_string(accepted), "polled " + std::to_string(polled),
              post_one(link.a.qp.get(), remote_wr(link, accepted, IBV_WR_RDMA_WRITE, &sge))});
}

std::string signal_all() {
  Link link({.a_side = {.signal_all = true}});
  EXPECT_EQ(post_recv(link.b.qp.get(), 1, link.b.sge(0, 100)), 0);
  struct ibv_sge sge = link.a.sge(0, 8);
  EXPECT_EQ(post(link.a.qp.get(), send_wr(1, IBV_WR_SEND, &sge, 0)), 0);
  return words(take(link.a.cq, 1));
}

std::string three_receive_sges() {
  Link link;
  struct ibv_sge sges[] = {link.b.sge(0, 1), link.b.sge(1, 1), link.b.sge(2, 1)};
  struct ibv_recv_wr wr {};
  wr.wr_id = 1;
  wr.sg_list = sges;
  wr.num_sge = 3;
  return post_list(link.b.qp.get(), &wr);
}

std::string receive_wrong_lkey() {
  Link link;
  struct ibv_sge sge = link.b.sge(0, 100);
  sge.lkey = 0x555;
  return post_one_recv(link.b.qp.get(), 1, sge);
}

/// A region beside that of a side, in a PD of its own or in the side's, or deregistered again.
struct OtherRegion {
  OtherRegion(Side& side, bool other_pd) {
    if (other_pd) own_pd = v().ibv_alloc_pd(side.context.get());
    mr = v().ibv_reg_mr(other_pd ? own_pd : side.pd, side.memory.data(), 4096, kAllAccess);
    key = mr->lkey;
  }
  ~OtherRegion() {
    deregister();
    if (own_pd != nullptr) {
      EXPECT_EQ(v().ibv_dealloc_pd(own_pd), 0);
    }
  }
  void deregister() {
    if (mr != nullptr) {
      EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
    }
    mr = nullptr;
  }
  struct ibv_pd* own_pd = nullptr;
  struct ibv_mr* mr = nullptr;
  std::uint32_t key = 0;
};

std::string send_from(bool other_pd) {
  Link link;
  OtherRegion region(link.a, other_pd);
  EXPECT_EQ(post_recv(link.b.qp.get(), 1, link.b.sge(0, 100)), 0);
  if (!other_pd) region.deregister();
  struct ibv_sge sge = link.a.sge(0, 64);
  sge.lkey = region.key;
  const std::string posted = post_one(link.a.qp.get(), send_wr(1, IBV_WR_SEND, &sge));
  return say({posted, words(take(link.a.cq, 1)), link.a.state()});
}

std::string write_to(bool other_pd) {
  Link link;
  OtherRegion region(link.b, other_pd);
  if (!other_pd) region.deregister();
  struct ibv_sge sge = link.a.sge(0, 64);
  struct ibv_send_wr wr = remote_wr(link, 1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma.rkey = region.key;
  const std::string posted = post_one(link.a.qp.get(), wr);
  return say({posted, words(take(link.a.cq, 1)), link.states()});
}

std::string completion_fields() {
  Link link;
  EXPECT_EQ(post_recv(link.b.qp.get(), 2, link.b.sge(0, 4096)), 0);
  struct ibv_sge sge = link.a.sge(0, 100);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND_WITH_IMM, &sge);
  wr.imm_data = htonl(5);
  EXPECT_EQ(post(link.a.qp.get(), wr), 0);
  const auto fields = [](const struct ibv_wc& wc, std::uint32_t peer) {
    return "byte_len " + std::to_string(wc.byte_len) + ", flags " + std::to_string(wc.wc_flags) + ", src_qp " +
           (wc.src_qp == 0      ? "0"
            : wc.src_qp == peer ? "the peer's"
                                : "?") +
           ", vendor_err " + std::to_string(wc.vendor_err);
  };
  const auto sent = take(link.a.cq, 1), received = take(link.b.cq, 1);
  if (sent.size() != 1 || received.size() != 1) return "completions are missing";
  return say({"sender: " + fields(sent[0], link.b.qp->qp_num), "receiver: " + fields(received[0], link.a.qp->qp_num)});
}

std::string scatter() {
  Link link;
  struct ibv_sge sges[] = {link.b.sge(0, 100), link.b.sge(4096, 100)};
  struct ibv_recv_wr recv {};
  recv.wr_id = 2;
  recv.sg_list = sges;
  recv.num_sge = 2;
  EXPECT_EQ(post(link.b.qp.get(), recv), 0);
  for (std::uint8_t i = 0; i < 150; ++i) link.a.memory[i] = i;
  struct ibv_sge sge = link.a.sge(0, 150);
  EXPECT_EQ(post(link.a.qp.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  const std::string sent = words(take(link.a.cq, 1)), received = words(take(link.b.cq, 1));
  const auto& memory = link.b.memory;
  EXPECT_TRUE(memory[99] == 99 && memory[100] == 0 && memory[4096] == 100 && memory[4096 + 49] == 149 &&
              memory[4096 + 50] == 0);
  return "A: " + sent + " / B: " + received;
}

}  // namespace

Chapter queues_and_keys() {
  return {"queues_and_keys",
          "Queues, keys and completions",
          {
              {"SQ of 16 requested: post until it refuses", kFull, "ENOMEM, bad_wr = wr_id 16; accepted 16",
               "ENOMEM, bad_wr = wr_id 31; accepted 31", kExactDepth, fill_send_queue},
              {"RQ of 128 requested: post until it refuses", kFull, "ENOMEM, bad_wr = wr_id 128; accepted 128",
               "ENOMEM, bad_wr = wr_id 255; accepted 255", kExactDepth, fill_receive_queue},
              {"40 unsignalled sends, never polling (SQ capacity 31)", kSlots, "ok; accepted 40", "ok; accepted 40",
               kSame, unsignalled_sends},
              {"40 signalled WRITEs, never polling (SQ capacity 31); then polling", kPolled,
               "ENOMEM, bad_wr = wr_id 31; accepted 31; polled 31; ok", "ok; accepted 40; polled 40; ok", kPlaces,
               signalled_writes},
              {"sq_sig_all=1, unsignalled WR", kSignalAll, "SUCCESS wr 1 len 8 SEND", "SUCCESS wr 1 len 8 SEND", kSame,
               signal_all},
              {"post_recv with 3 SGEs, max_recv_sge 2", kRecvSges, "EINVAL, bad_wr = wr_id 1",
               "EINVAL, bad_wr = wr_id 1", kSame, three_receive_sges},
              {"post_recv with a wrong lkey", kRecvKeys, "ok", "ok", kSame, receive_wrong_lkey},
              {"SEND from an MR of another PD", kLocalPd, "ok; LOC_PROT_ERR wr 1; ERR", "ok; WR_FLUSH_ERR wr 1; ERR",
               kFlushed, [] { return send_from(true); }},
              {"WRITE to the peer's MR of another PD", kRemotePd, "ok; REM_ACCESS_ERR wr 1; A ERR, B ERR",
               "ok; REM_ACCESS_ERR wr 1; A ERR, B ERR", kSame, [] { return write_to(true); }},
              {"WRITE to an MR that has been deregistered", kRemoteGone, "ok; REM_ACCESS_ERR wr 1; A ERR, B ERR",
               "ok; REM_ACCESS_ERR wr 1; A ERR, B ERR", kSame, [] { return write_to(false); }},
              {"SEND from an MR that has been deregistered", kLocalGone, "ok; LOC_PROT_ERR wr 1; ERR",
               "ok; WR_FLUSH_ERR wr 1; ERR", kFlushed, [] { return send_from(false); }},
              {"RC completion fields", kFields,
               "sender: byte_len 100, flags 0, src_qp 0, vendor_err 0; "
               "receiver: byte_len 100, flags 2, src_qp the peer's, vendor_err 0",
               "sender: byte_len 100, flags 2, src_qp 0, vendor_err 0; "
               "receiver: byte_len 100, flags 3, src_qp 0, vendor_err 0",
               kFlags, completion_fields},
              {"150 bytes scattered into 100 + 100", kScatter,
               "A: SUCCESS wr 1 len 150 SEND / B: SUCCESS wr 2 len 150 RECV",
               "A: SUCCESS wr 1 len 150 SEND / B: SUCCESS wr 2 len 150 RECV", kSame, scatter},
          }};
}

}  // namespace uroce::conformance
