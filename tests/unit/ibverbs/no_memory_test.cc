// SPDX-License-Identifier: Apache-2.0
// Verbs that find no memory, wherever they ask for it: they say ENOMEM, and undo what they have done. And one that
// finds no descriptor.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/operator_new.h"
#include "tests/unit/ibverbs/control_connection.h"
#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/verbs_front.h"

namespace {

/// How often memory can be had in this thread; -1: always.
thread_local int allocations_left = -1;
/// Threads other than the main one find none.
std::atomic<bool> others_are_short = false;

[[maybe_unused]] const bool kBeforeTheFirstVerb = ::setenv("UROCE_CONTROL", "on", 1) == 0;

}  // namespace

bool uroce::test::may_allocate() {
  if (others_are_short && ::gettid() != ::getpid()) return false;
  if (allocations_left <= 0) return allocations_left < 0;
  --allocations_left;
  return true;
}

namespace uroce::ibv::test {
namespace {

/// Makes something with memory for 0, 1, 2 ... allocations, until there is enough.
template <class Make>
auto make_with_little_memory(Make make) {
  for (int enough = 0;; ++enough) {
    errno = 0;
    allocations_left = enough;
    auto* const made = make();
    const int error = errno;
    allocations_left = -1;
    if (made != nullptr) {
      EXPECT_GT(enough, 0) << "it takes no memory";
      return made;
    }
    EXPECT_EQ(error, ENOMEM) << "with memory for " << enough;
    if (error != ENOMEM) return made;
  }
}

// Before others leave sockets that could be shared.
TEST(NoDescriptor, APathNeedsOneToSendFrom) {
  Node node(0);
  const QpPtr qp = node.make_qp();
  struct ibv_qp_attr init = init_attr(), rtr = rtr_attr(node.gid(), 7);
  ASSERT_EQ(v().ibv_modify_qp(qp.get(), &init, mask_for(*qp, IBV_QPS_INIT)), 0);
  rlimit whole{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole), 0);
  const rlimit none{.rlim_cur = 1, .rlim_max = whole.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const int error = v().ibv_modify_qp(qp.get(), &rtr, mask_for(*qp, IBV_QPS_RTR));
  const std::string sentence = last_error();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &whole), 0);
  EXPECT_EQ(error, EMFILE) << sentence;
  EXPECT_NE(sentence.find("RLIMIT_NOFILE"), std::string::npos) << sentence;
  EXPECT_EQ(state_of(qp.get()), IBV_QPS_INIT);
  EXPECT_EQ(v().ibv_modify_qp(qp.get(), &rtr, mask_for(*qp, IBV_QPS_RTR)), 0) << last_error();
}

TEST(NoMemory, VerbsUndoWhatTheyHaveDone) {
  const ContextPtr other = open_device(0);
  struct ibv_device* const device = other->device;
  const ContextPtr owner(make_with_little_memory([&] { return front::ibv_open_device(device); }));
  struct ibv_context* const context = owner.get();
  ASSERT_NE(context, nullptr);
  struct ibv_pd* const pd = make_with_little_memory([&] { return front::ibv_alloc_pd(context); });
  struct ibv_td_init_attr td_init {};
  struct ibv_td* const td = make_with_little_memory([&] { return front::alloc_td(context, &td_init); });
  struct ibv_parent_domain_init_attr parent_init {};
  parent_init.pd = pd;
  parent_init.td = td;
  struct ibv_pd* const parent =
      make_with_little_memory([&] { return front::alloc_parent_domain(context, &parent_init); });
  std::uint64_t memory = 0;
  struct ibv_mr* const mr =
      make_with_little_memory([&] { return front::ibv_reg_mr(pd, &memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE); });
  std::vector<struct ibv_mr*> more(600);
  for (struct ibv_mr*& one : more) one = front::ibv_reg_mr(pd, &memory, sizeof memory, 0);
  struct ibv_mr* const null_mr = make_with_little_memory([&] { return front::alloc_null_mr(pd); });
  struct ibv_mw* const mw = make_with_little_memory([&] { return front::alloc_mw(pd, IBV_MW_TYPE_2); });
  struct ibv_comp_channel* const channel =
      make_with_little_memory([&] { return front::ibv_create_comp_channel(context); });
  struct ibv_cq* const cq =
      make_with_little_memory([&] { return front::ibv_create_cq(context, 8, nullptr, channel, 0); });
  struct ibv_srq_init_attr srq_init {};
  srq_init.attr = {8, 1, 0};
  struct ibv_srq* const srq = make_with_little_memory([&] { return front::ibv_create_srq(pd, &srq_init); });
  struct ibv_qp_init_attr_ex qp_init {};
  qp_init.send_cq = qp_init.recv_cq = cq;
  qp_init.srq = srq;
  qp_init.cap = {8, 8, 1, 1, 0};
  qp_init.qp_type = IBV_QPT_RC;
  qp_init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  qp_init.pd = pd;
  qp_init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  struct ibv_qp* const qp = make_with_little_memory([&] { return front::create_qp_ex(context, &qp_init); });
  struct ibv_ah_attr ah_attr {};
  ah_attr.is_global = 1;
  ah_attr.port_num = 1;
  ah_attr.grh.sgid_index = 1;
  EXPECT_EQ(v().ibv_query_gid(context, 1, 1, &ah_attr.grh.dgid), 0);
  struct ibv_ah* const ah = make_with_little_memory([&] { return front::ibv_create_ah(pd, &ah_attr); });
  struct ibv_buf* buf = nullptr;
  make_with_little_memory([&] { return front::ibv_alloc_buf(pd, 64, &buf); });

  // None of these has more users than are taken from it here. And to give something up takes no memory.
  allocations_left = 0;
  front::ibv_free_buf(buf);
  EXPECT_EQ(front::ibv_destroy_ah(ah), 0);
  EXPECT_EQ(front::ibv_destroy_qp(qp), 0);
  EXPECT_EQ(front::ibv_destroy_srq(srq), 0);
  EXPECT_EQ(front::ibv_destroy_cq(cq), 0);
  EXPECT_EQ(front::ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(front::dealloc_mw(mw), 0);
  EXPECT_EQ(front::ibv_dereg_mr(null_mr), 0);
  EXPECT_EQ(front::ibv_dereg_mr(mr), 0);
  for (struct ibv_mr* const one : more) EXPECT_EQ(front::ibv_dereg_mr(one), 0);
  EXPECT_EQ(front::ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(front::dealloc_td(td), 0);
  EXPECT_EQ(front::ibv_dealloc_pd(pd), 0);
  allocations_left = -1;
}

TEST(NoMemory, AQpStaysAsItWas) {
  Node node(0);
  const QpPtr qp = node.make_qp();
  struct ibv_qp_attr init = init_attr();
  ASSERT_EQ(front::ibv_modify_qp(qp.get(), &init, mask_for(*qp, IBV_QPS_INIT)), 0);
  struct ibv_qp_attr rtr = rtr_attr(node.gid(), 7);
  for (int enough = 0;; ++enough) {
    ASSERT_EQ(state_of(qp.get()), IBV_QPS_INIT) << "with memory for " << enough;
    allocations_left = enough;
    const int error = front::ibv_modify_qp(qp.get(), &rtr, mask_for(*qp, IBV_QPS_RTR));
    allocations_left = -1;
    if (error == 0) break;
    ASSERT_EQ(error, ENOMEM) << "with memory for " << enough;
  }
  EXPECT_EQ(state_of(qp.get()), IBV_QPS_RTR);
}

TEST(NoMemory, CommandsOfOthersAreRefused) {
  const Node node(0);
  const engine::Fd connection = connect_to_control();
  ASSERT_TRUE(connection);
  std::array<char, UROCE_CONTROL_ANSWER> answer;
  const auto ask = [&] {
    constexpr std::string_view kCommand = "list";
    if (::send(connection.get(), kCommand.data(), kCommand.size(), MSG_NOSIGNAL) < 0) return std::string_view();
    const ssize_t size = ::recv(connection.get(), answer.data(), answer.size(), 0);
    return std::string_view(answer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  };
  const std::string whole(ask());
  EXPECT_TRUE(whole.starts_with("ok\nuroce0")) << whole;
  others_are_short = true;
  const std::string_view refused = ask();
  others_are_short = false;
  EXPECT_TRUE(refused.starts_with("error: the process has no memory left")) << refused;
  EXPECT_EQ(ask(), whole);
}

// Neither does what would be said about it.
TEST(NoMemory, WhatIsRefusedIsRefused) {
  const ContextPtr context = open_device(0);
  struct ibv_port_attr attr {};
  allocations_left = 0;
  const int error = front::query_port(context.get(), 2, &attr, sizeof attr);
  allocations_left = -1;
  EXPECT_EQ(error, ENOMEM) << "EINVAL, and a sentence that takes memory";
}

TEST(NoMemory, PostingNeedsNone) {
  Pair p;
  struct ibv_sge sge = p.a.sge(0, 5000);
  struct ibv_send_wr write = send_wr(0, IBV_WR_RDMA_WRITE, &sge);
  write.wr.rdma.remote_addr = p.b.address();
  write.wr.rdma.rkey = p.b.mr->rkey;
  for (write.wr_id = 0; write.wr_id < 1000; ++write.wr_id) {
    allocations_left = write.wr_id < 10 ? -1 : 0;  // What is made once is there by then.
    const int error = post(p.qa.get(), write);
    allocations_left = -1;
    ASSERT_EQ(error, 0);
    ASSERT_EQ(wait_completion(p.a.send_cq).wr_id, write.wr_id);
  }
}

/// What is written about it, and where, must not cost the program its completion.
void fail_a_write_without_memory() {
  Pair p;
  struct ibv_sge sge = p.a.sge(0, 100);
  struct ibv_send_wr write = send_wr(0, IBV_WR_RDMA_WRITE, &sge);
  write.wr.rdma = {p.b.address(), p.b.mr->rkey};
  for (; write.wr_id < 10; ++write.wr_id) {
    ASSERT_EQ(post(p.qa.get(), write), 0);
    ASSERT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  }
  write.wr.rdma.rkey += 1;
  others_are_short = true;
  allocations_left = 0;
  const int error = post(p.qa.get(), write);
  const struct ibv_wc wc = wait_completion(p.a.send_cq);
  allocations_left = -1;
  others_are_short = false;
  EXPECT_EQ(error, 0);
  EXPECT_EQ(wc.wr_id, write.wr_id);
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
}

TEST(NoMemory, AWrThatFailsSaysWhy) { fail_a_write_without_memory(); }

TEST(NoMemory, AWrThatFailsSaysWhyAlsoWhereThatIsRecordedAndCaptured) {
  std::string folder = testing::TempDir() + "short_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  ::setenv("UROCE_RECORD", folder.c_str(), 1);
  ::setenv("UROCE_PCAP", (folder + "/short.pcapng").c_str(), 1);
  fail_a_write_without_memory();
  ::unsetenv("UROCE_RECORD");
  ::unsetenv("UROCE_PCAP");
  std::filesystem::remove_all(folder);
}

TEST(NoMemory, BuildersOfWrsSayItAtTheirEnd) {
  Node node(0);
  struct ibv_qp_init_attr_ex init {};
  init.send_cq = node.send_cq;
  init.recv_cq = node.recv_cq;
  init.cap = {8, 8, 1, 1, 64};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = node.pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  for (int enough = 0;; ++enough) {
    const QpPtr qp(front::create_qp_ex(node.context.get(), &init));
    ASSERT_NE(qp, nullptr);
    struct ibv_qp_ex* const builder = impl::ibv_qp_to_qp_ex(qp.get());
    std::array<char, 48> data{};
    ibv_wr_start(builder);
    allocations_left = enough;
    ibv_wr_send(builder);
    ibv_wr_set_sge(builder, 0, 0, 8);
    ibv_wr_set_inline_data(builder, data.data(), data.size());
    const int error = ibv_wr_complete(builder);
    allocations_left = -1;
    if (error == EINVAL) {  // It is not connected.
      EXPECT_GT(enough, 2);
      break;
    }
    ASSERT_EQ(error, ENOMEM) << "with memory for " << enough;
  }
}

}  // namespace
}  // namespace uroce::ibv::test
