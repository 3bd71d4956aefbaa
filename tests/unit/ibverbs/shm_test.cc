// SPDX-License-Identifier: Apache-2.0
// Packets through shared memory, as a program sees them.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>

#include "engine/os/fd.h"
#include "engine/os/os_clock.h"
#include "engine/shm/packet_ring.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/include/uroce/control.h"

namespace uroce::ibv::test {
namespace {

using namespace std::chrono_literals;
using engine::os_now;

[[maybe_unused]] const bool kBeforeTheFirstVerb =
    ::setenv("UROCE_WIRE", "shm", 1) == 0 && ::setenv("UROCE_CONTROL", "on", 1) == 0;

constexpr std::uint32_t kDatagram = 4096;
/// More of them than a ring takes.
constexpr std::uint64_t kMany = 2 * engine::kRingBytes / kDatagram;

/// Where a UD QP is.
struct Place {
  union ibv_gid gid;
  std::uint32_t qpn;
};

QpPtr make_ud(Node& node) {
  QpPtr qp = node.make_qp({64, 1, 1, 1, 0}, false, IBV_QPT_UD);
  bring_to(qp.get(), IBV_QPS_RTS, {}, 0);
  return qp;
}

/// A UD QP that sends to a place, and polls for nothing.
class Sender {
 public:
  Sender(Node& node, const Place& to) : node_(node), qp_(make_ud(node)), qpn_(to.qpn) {
    struct ibv_ah_attr attr {};
    attr.is_global = attr.port_num = attr.grh.sgid_index = 1;
    attr.grh.dgid = to.gid;
    ah_ = impl::ibv_create_ah(node.pd, &attr);
    EXPECT_NE(ah_, nullptr) << last_error();
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() { EXPECT_EQ(impl::ibv_destroy_ah(ah_), 0); }

  /// wr_id 0.
  void post_one() {
    struct ibv_sge sge = node_.sge(0, kDatagram);
    struct ibv_send_wr wr = send_wr(0, IBV_WR_SEND, &sge);
    wr.wr.ud = {ah_, qpn_, kQkey};
    EXPECT_EQ(post(qp_.get(), wr), 0);
  }
  void send_one() {
    post_one();
    EXPECT_EQ(wait_completion(node_.send_cq).status, IBV_WC_SUCCESS);
  }

 private:
  Node& node_;
  QpPtr qp_;
  std::uint32_t qpn_;
  struct ibv_ah* ah_ = nullptr;
};

std::uint64_t sent_by_shm(Node& node) { return nic_facts(node.context.get())->port_counters.sent_by_shm; }

/// Sends until that goes through shared memory. Returns how often.
std::uint64_t send_until_linked(Node& node, const std::function<void()>& send) {
  const std::uint64_t before = sent_by_shm(node);
  const Instant limit = os_now() + std::chrono::milliseconds(kPatienceMs);
  std::uint64_t sent = 0;
  for (; sent_by_shm(node) == before && os_now() < limit; ++sent) send();
  EXPECT_GT(sent_by_shm(node), before);
  return sent;
}

/// A process with a UD QP. It ends with this object.
class Stranger {
 public:
  Stranger() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const engine::Fd reader(ends[0]), writer(ends[1]);
    child_ = ::fork();
    if (child_ == 0) run(writer.get());
    EXPECT_EQ(::read(reader.get(), &place_, sizeof place_), static_cast<ssize_t>(sizeof place_));
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  const Place& place() const { return place_; }
  /// Returns when it no longer runs.
  void stop() const {
    int status = 0;
    ASSERT_EQ(::kill(child_, SIGSTOP), 0);
    ASSERT_EQ(::waitpid(child_, &status, WUNTRACED), child_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }

 private:
  [[noreturn]] static void run(int writer) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Node node(0);
    const QpPtr qp = make_ud(node);
    const Place place{node.gid(), qp->qp_num};
    if (::write(writer, &place, sizeof place) != static_cast<ssize_t>(sizeof place)) ::_exit(1);
    while (true) ::pause();
  }
  pid_t child_ = -1;
  Place place_{};
};

/// The longest time that a WRITE took beside datagrams to a process that is stopped, more of them than there is room
/// for.
Duration longest_write_beside_stopped_reader() {
  const Stranger stranger;
  Pair pair;
  Sender sender(pair.a, stranger.place());
  struct ibv_sge sge = pair.a.sge(0, 64);
  const auto post_write = [&] {
    struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma = {pair.b.address(), pair.b.mr->rkey};
    EXPECT_EQ(post(pair.qa.get(), wr), 0);
  };
  send_until_linked(pair.a, [&] {
    post_write();
    EXPECT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_SUCCESS);
  });
  send_until_linked(pair.a, [&] { sender.send_one(); });
  stranger.stop();

  Duration longest{};
  Instant posted{};
  bool writes = false;
  std::uint64_t begun = 0, done = 0;
  const Instant limit = os_now() + std::chrono::milliseconds(kPatienceMs);
  while (done < kMany && os_now() < limit) {
    for (; begun < done + 32; ++begun) sender.post_one();
    if (!writes) {
      posted = os_now();
      post_write();
      writes = true;
    }
    struct ibv_wc wc {};
    if (ibv_poll_cq(pair.a.send_cq, 1, &wc) != 1) continue;
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.wr_id == 0) {
      ++done;
    } else {
      longest = std::max(longest, os_now() - posted);
      writes = false;
    }
  }
  EXPECT_EQ(done, kMany) << "in the end the reader is given up";
  return longest;
}

// A peer that is stopped fills the ring to it. Who sends to it waits for 100 ms and then sends for nothing; others of
// the NIC do not wait.
TEST(SharedMemory, AStoppedReaderOfDatagramsHoldsNobodyElseBack) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  Duration longest = Duration::max();
  // On a busy machine this thread itself may have to wait so long.
  for (int round = 0; round < 5 && longest > 60ms; ++round) {
    longest = std::min(longest, longest_write_beside_stopped_reader());
  }
  EXPECT_LE(longest, 60ms);
}

/// How many packets of a NIC that was closed with all of them held back did not arrive: more than the ring has room
/// for, so that it has to wait for its reader.
std::uint64_t lost_when_closed() {
  constexpr int kHeld = 4096;
  Node b(1);
  const QpPtr qb = make_ud(b);
  std::uint64_t sent = 0;
  {
    Node a(0);
    Sender sender(a, {b.gid(), qb->qp_num});
    sent = send_until_linked(a, [&] { sender.send_one(); });
    EXPECT_EQ(uroce_faults(0, "delay=1h"), 0);
    for (int i = 0; i < kHeld; ++i, ++sent) sender.send_one();
  }
  EXPECT_EQ(uroce_faults(0, "none"), 0);
  const auto received = [&] { return nic_facts(b.context.get())->counters.dropped_no_receive; };
  const Instant limit = os_now() + 5s;
  while (received() < sent && os_now() < limit) continue;
  return sent - received();
}

TEST(SharedMemory, WhatIsHeldBackIsSentWhenTheNicIsClosed) {
  std::uint64_t lost = 1;
  // On a busy machine the reader may not run for as long as a NIC that is closed waits for room (kLastWait).
  for (int round = 0; round < 5 && lost > 0; ++round) lost = lost_when_closed();
  EXPECT_EQ(lost, 0u);
}

}  // namespace
}  // namespace uroce::ibv::test
