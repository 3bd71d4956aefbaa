// SPDX-License-Identifier: Apache-2.0
// What is on disk after something broke.
#include "verbs/ibverbs/host/flight_recorder.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/in_child.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/ibverbs/objects/objects.h"
#include "verbs/record/store.h"

namespace uroce::ibv::test {
namespace {

namespace fs = std::filesystem;

class Recordings : public testing::Test {
 protected:
  Recordings() {
    std::string name = testing::TempDir() + "recordXXXXXX";
    folder = ::mkdtemp(name.data());
    ::setenv("UROCE_RECORD", folder.c_str(), 1);
  }
  ~Recordings() override {
    ::unsetenv("UROCE_RECORD");
    fs::remove_all(folder);
  }
  /// All documents there.
  std::string documents() const {
    std::string all;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".json") continue;
      EXPECT_TRUE(fs::exists(fs::path(entry.path()).replace_extension(".pcapng")));
      std::ifstream file(entry.path());
      all.append(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }
  /// What a user reads.
  std::string explained() const {
    const std::string command = "'" UROCE_BIN_DIR "/uroce' explain --packets " + folder;
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    std::string text;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
    EXPECT_EQ(::pclose(pipe), 0);
    return text;
  }
  std::size_t rings() const {
    std::size_t n = 0;
    for (const auto& entry : fs::directory_iterator(folder)) n += entry.path().extension() == ".ring" ? 1u : 0u;
    return n;
  }
  std::string folder;
};

TEST_F(Recordings, AWrongRKeyIsExplainedByBothEnds) {
  {
    Pair pair;
    EXPECT_EQ(rings(), 2u);
    struct ibv_sge sge = pair.a.sge(0, 100);
    struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma = {pair.b.address(), pair.b.mr->rkey + 1};
    ASSERT_EQ(post(pair.qa.get(), wr), 0);
    EXPECT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(next_async_event(pair.b.context.get()), IBV_EVENT_QP_ACCESS_ERR);
    const auto facts = nic_facts(pair.a.context.get());
    ASSERT_TRUE(facts && facts->last_cause);
    EXPECT_TRUE(facts->last_cause->starts_with("REM_ACCESS_ERR on QP 0x")) << *facts->last_cause;
  }
  EXPECT_EQ(rings(), 0u);
  const std::string all = documents();
  EXPECT_NE(all.find("REM_ACCESS_ERR on QP 0x"), std::string::npos);
  EXPECT_NE(all.find("(RC WRITE ONLY of 100 bytes at 0x"), std::string::npos);
  EXPECT_NE(all.find("QP_ACCESS_ERR on QP 0x"), std::string::npos);
  EXPECT_NE(all.find("\"why\": \"IBV_EVENT_QP_ACCESS_ERR\""), std::string::npos);
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // There, the program would take longer to compile than all this.
  // The end that refused comes first: that is where it began.
  const std::string told = explained();
  EXPECT_TRUE(told.starts_with("QP_ACCESS_ERR on QP 0x")) << told;
  EXPECT_NE(told.find(": no region or bound window here has the R_Key 0x"), std::string::npos) << told;
  EXPECT_NE(told.find("refused qpn=0x"), std::string::npos) << told;
#endif
}

/// The answer of a READ.
TEST_F(Recordings, MemoryThatMayNotBeWritten) {
  {
    Pair pair;
    struct ibv_mr* const constant = v().ibv_reg_mr(pair.a.pd, pair.a.memory.data(), 64, IBV_ACCESS_REMOTE_READ);
    ASSERT_NE(constant, nullptr);
    struct ibv_sge sge {
      pair.a.address(), 64, constant->lkey
    };
    struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_READ, &sge);
    wr.wr.rdma = {pair.b.address(), pair.b.mr->rkey};
    ASSERT_EQ(post(pair.qa.get(), wr), 0);
    EXPECT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(v().ibv_dereg_mr(constant), 0);
  }
  EXPECT_NE(documents().find(" was sent, but its answer can't be written: the region of the L_Key 0x"),
            std::string::npos)
      << documents();
}

TEST_F(Recordings, APeerThatIsGone) {
  {
    Pair pair({.timeout = 8, .retry_cnt = 2});
    pair.qb.reset();
    struct ibv_sge sge = pair.a.sge(0, 100);
    struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma = {pair.b.address(), pair.b.mr->rkey};
    ASSERT_EQ(post(pair.qa.get(), wr), 0);
    EXPECT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_RETRY_EXC_ERR);
  }
  EXPECT_NE(documents().find(": 3 transmissions of PSN 0xfffff0, no answer: the peer 127."), std::string::npos)
      << documents();
}

TEST_F(Recordings, AQpThatAFaultBreaks) {
  ::setenv("UROCE_FAULTS", "qp_fatal=qp:1st@1s", 1);
  {
    Node node(0);
    const QpPtr qp = node.make_qp();
    EXPECT_EQ(next_async_event(node.context.get()), IBV_EVENT_QP_FATAL);
  }
  ::unsetenv("UROCE_FAULTS");
  const std::string told = documents();
  EXPECT_NE(told.find(": broken on purpose, by a fault (qp_fatal=)"), std::string::npos) << told;
}

TEST_F(Recordings, ACqThatOverflows) {
  {
    Pair p({}, {.cqe = 1});
    struct ibv_sge sge = p.a.sge(0, 8);
    struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma = {p.b.address(), p.b.mr->rkey};
    for (int i = 0; i < 3; ++i) ASSERT_EQ(post(p.qa.get(), wr), 0);
    EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_CQ_ERR);
    EXPECT_EQ(next_async_event(p.a.context.get()), IBV_EVENT_QP_FATAL);
  }
  const std::string told = documents();
  EXPECT_NE(told.find("QP_FATAL on QP 0x"), std::string::npos) << told;
  EXPECT_NE(told.find(": a completion found its CQ full"), std::string::npos) << told;
}

TEST_F(Recordings, AReceiveThatCannotBeWritten) {
  constexpr struct ibv_qp_cap kSmall = {4, 4, 1, 1, 0};
  for (const auto type : {IBV_QPT_UC, IBV_QPT_UD}) {
    {
      Node node(0);
      const QpPtr a = node.make_qp(kSmall, false, type), b = node.make_qp(kSmall, false, type);
      bring_to(a.get(), IBV_QPS_RTS, node.gid(), b->qp_num);
      bring_to(b.get(), IBV_QPS_RTS, node.gid(), a->qp_num);
      struct ibv_sge wrong = node.sge(0, 100), sge = node.sge(200, 8);
      ++wrong.lkey;
      ASSERT_EQ(post_recv(b.get(), 1, wrong), 0);
      struct ibv_send_wr wr = send_wr(1, IBV_WR_SEND, &sge);
      struct ibv_ah_attr attr = rtr_attr(node.gid(), 0).ah_attr;
      wr.wr.ud = {impl::ibv_create_ah(node.pd, &attr), b->qp_num, kQkey};
      ASSERT_EQ(post(a.get(), wr), 0);
      EXPECT_EQ(wait_completion(node.recv_cq).status, IBV_WC_LOC_PROT_ERR);
      EXPECT_EQ(next_async_event(node.context.get()), IBV_EVENT_QP_FATAL);
      EXPECT_EQ(impl::ibv_destroy_ah(wr.wr.ud.ah), 0);
    }
    const std::string told = documents();
    EXPECT_NE(told.find(" can't be written: no region has the L_Key 0x"), std::string::npos) << type << told;
    for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry);
  }
}

TEST_F(Recordings, AFullDiskKeepsNoEmptyFile) {
  const std::string error = uroce::test::in_child([&] {
    const rlimit little{.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &little);
    const auto recorder = FlightRecorder::make(0, proto::Gid::from_v4(127, 0, 0, 1), folder);
    return recorder.ok() ? "none" : recorder.error();
  });
  EXPECT_NE(error.find(".ring: File too large; each NIC needs "), std::string::npos) << error;
  EXPECT_EQ(rings(), 0u);
}

// Of a process of the same number that was killed, or that lives in another container.
TEST_F(Recordings, AFileThatIsThereIsLeftAlone) {
  const proto::Gid address = proto::Gid::from_v4(127, 0, 0, 1);
  const auto first = FlightRecorder::make(0, address, folder);
  const auto second = FlightRecorder::make(0, address, folder);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(rings(), 2u);
}

TEST_F(Recordings, ASendOfUcThatFails) {
  {
    Node a(0), b(1);
    const QpPtr qp = a.make_qp({4, 4, 1, 1, 0}, false, IBV_QPT_UC);
    bring_to(qp.get(), IBV_QPS_RTS, b.gid(), 77);
    struct ibv_sge sge = a.sge(0, 100);
    sge.lkey += 1;
    ASSERT_EQ(post(qp.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
    EXPECT_EQ(wait_completion(a.send_cq).status, IBV_WC_LOC_PROT_ERR);
  }
  EXPECT_NE(documents().find(" was not sent: no region has the L_Key 0x"), std::string::npos);
}

TEST_F(Recordings, WithoutErrorsNothingIsWritten) {
  {
    Pair pair;
    struct ibv_sge sge = pair.a.sge(0, 100);
    struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma = {pair.b.address(), pair.b.mr->rkey};
    ASSERT_EQ(post(pair.qa.get(), wr), 0);
    EXPECT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_SUCCESS);
    // Others see the packets while the process runs.
    std::size_t packets = 0;
    for (const auto& recording : rings_of(static_cast<std::uint32_t>(::getpid()))) packets += recording.packets.size();
    EXPECT_GE(packets, 3u);
  }
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST(FlightRecorder, WithoutADirectoryEventsAreKeptAllTheSame) {
  Pair pair;
  struct ibv_sge sge = pair.a.sge(0, 100);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma = {pair.b.address(), pair.b.mr->rkey + 1};
  ASSERT_EQ(post(pair.qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(pair.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
  std::size_t events = 0;
  for (const auto& recording : rings_of(static_cast<std::uint32_t>(::getpid()))) {
    EXPECT_TRUE(recording.packets.empty());
    events += recording.events.size();
  }
  EXPECT_GE(events, 8u);
}

TEST_F(Recordings, AChildThatWasForkedInsideACallLeavesThatOfItsParent) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  ContextPtr context = open_device(0);
  ASSERT_EQ(rings(), 1u);
  pid_t child = -1;
  {
    const NicLock lock(*context_of(context.get()).adapter);
    child = ::fork();
  }
  if (child == 0) {
    context.reset();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(rings(), 1u);
}

/// The lock on it is that of the open file, which a mapping keeps open as well.
TEST_F(Recordings, AChildDoesNotHideTheRingOfItsKilledParent) {
  UROCE_NEEDS_THREADS_AFTER_FORK();
  std::array<int, 2> child_runs{}, child_lives{};
  ASSERT_EQ(::pipe(child_runs.data()), 0);
  ASSERT_EQ(::pipe(child_lives.data()), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ContextPtr context = open_device(0);
    char byte = 0;
    if (::fork() == 0) {
      ::close(child_lives[1]);
      const bool told = ::write(child_runs[1], &byte, 1) == 1;
      ::_exit(told && ::read(child_lives[0], &byte, 1) == 0 ? 0 : 1);  // Until the test ends.
    }
    if (::read(child_runs[0], &byte, 1) == 1) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_EQ(rings(), 1u);
  EXPECT_TRUE(record::save_left_rings(folder).empty());
  EXPECT_EQ(rings(), 0u);
  EXPECT_NE(documents().find("killed, or crashed"), std::string::npos);
  for (const int end : {child_runs[0], child_runs[1], child_lives[0], child_lives[1]}) ::close(end);
}

}  // namespace
}  // namespace uroce::ibv::test
