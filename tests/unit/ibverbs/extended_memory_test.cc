// SPDX-License-Identifier: Apache-2.0
// Parent and thread domains, null regions, on-demand regions, and what rdma-core 59 and later know of memory.
#include <sys/mman.h>

#include <algorithm>

#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::ibv::test {
namespace {

constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
constexpr std::size_t kExtendedPage = 4096;

class ExtendedMemory : public testing::Test {
 protected:
  struct ibv_pd* parent_of(struct ibv_pd* pd, struct ibv_td* td = nullptr) {
    struct ibv_parent_domain_init_attr init {};
    init.pd = pd;
    init.td = td;
    return ibv_alloc_parent_domain(p.a.context.get(), &init);
  }
  /// Sends `bytes` from a region of ours to the peer and returns what arrives, or the status.
  enum ibv_wc_status send_from(std::uint32_t lkey, const void* addr, std::uint32_t length) {
    EXPECT_EQ(post_recv(p.qb.get(), 1, p.b.sge(0, length)), 0);
    struct ibv_sge sge {
      reinterpret_cast<std::uintptr_t>(addr), length, lkey
    };
    EXPECT_EQ(post(p.qa.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
    const enum ibv_wc_status status = wait_completion(p.a.send_cq).status;
    if (status == IBV_WC_SUCCESS) wait_completion(p.b.recv_cq);
    p.b.sync();
    return status;
  }

  Pair p;
};

TEST_F(ExtendedMemory, ParentDomainsShareTheirProtectionDomain) {
  struct ibv_td_init_attr td_init {};
  struct ibv_td* const td = ibv_alloc_td(p.a.context.get(), &td_init);
  ASSERT_NE(td, nullptr);
  struct ibv_pd* const parent = parent_of(p.a.pd, td);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  // A region of the parent serves a QP of the protection domain.
  std::fill(p.a.memory.begin(), p.a.memory.begin() + 8, std::uint8_t{0x5A});
  struct ibv_mr* const mr = v().ibv_reg_mr(parent, p.a.memory.data(), 64, kLocalWrite);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(send_from(mr->lkey, p.a.memory.data(), 8), IBV_WC_SUCCESS);
  EXPECT_EQ(p.b.memory[7], 0x5A);
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(ExtendedMemory, AParentDomainKeepsItsProtectionDomain) {
  struct ibv_pd* const pd = v().ibv_alloc_pd(p.a.context.get());
  struct ibv_pd* const parent = parent_of(pd);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(v().ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(pd), 0);
}

// ibv_dealloc_pd(3): it fails while anything is in the domain, also when that is a parent domain.
TEST_F(ExtendedMemory, AParentDomainStaysWhileAnythingIsInIt) {
  struct ibv_pd* const parent = parent_of(p.a.pd);
  struct ibv_mr* const mr = v().ibv_reg_mr(parent, p.a.memory.data(), 64, kLocalWrite);
  EXPECT_EQ(v().ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  struct ibv_srq_init_attr srq_init {};
  srq_init.attr.max_wr = srq_init.attr.max_sge = 1;
  struct ibv_srq* const srq = impl::ibv_create_srq(parent, &srq_init);
  EXPECT_EQ(v().ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(impl::ibv_destroy_srq(srq), 0);
  struct ibv_ah_attr to {};
  to.is_global = to.port_num = 1;
  to.grh.dgid = p.b.gid();
  to.grh.sgid_index = 1;
  struct ibv_ah* const ah = impl::ibv_create_ah(parent, &to);
  EXPECT_EQ(v().ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(impl::ibv_destroy_ah(ah), 0);
  // A region that moves to another domain is in that one.
  struct ibv_mr* const moves = v().ibv_reg_mr(p.a.pd, p.a.memory.data(), 64, kLocalWrite);
  EXPECT_EQ(impl::ibv_rereg_mr(moves, IBV_REREG_MR_CHANGE_PD, parent, nullptr, 0, 0), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(impl::ibv_rereg_mr(moves, IBV_REREG_MR_CHANGE_PD, p.a.pd, nullptr, 0, 0), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(v().ibv_dereg_mr(moves), 0);
}

TEST_F(ExtendedMemory, WhatIsLeftBehindGoesWithItsContext) {
  ContextPtr context = open_device(0);
  struct ibv_pd* const pd = v().ibv_alloc_pd(context.get());
  struct ibv_parent_domain_init_attr init {};
  init.pd = pd;
  struct ibv_td_init_attr td_init {};
  init.td = ibv_alloc_td(context.get(), &td_init);
  EXPECT_NE(ibv_alloc_parent_domain(context.get(), &init), nullptr);
  EXPECT_EQ(ibv_alloc_parent_domain(p.b.context.get(), &init), nullptr) << "of another context";
  EXPECT_EQ(errno, EINVAL);
  init.pd = nullptr;
  EXPECT_EQ(ibv_alloc_parent_domain(context.get(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  context.reset();
}

TEST_F(ExtendedMemory, ANullRegionReadsZerosAndSwallows) {
  struct ibv_mr* const null = ibv_alloc_null_mr(p.a.pd);
  ASSERT_NE(null, nullptr);
  EXPECT_EQ(impl::ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, p.a.memory.data(), 64, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EOPNOTSUPP);
  std::fill(p.b.memory.begin(), p.b.memory.begin() + 9000, std::uint8_t{1});
  EXPECT_EQ(send_from(null->lkey, reinterpret_cast<void*>(0x1234567), 9000), IBV_WC_SUCCESS);
  EXPECT_EQ(std::count(p.b.memory.begin(), p.b.memory.begin() + 9000, 0), 9000);
  // The middle of a message that arrives goes nowhere.
  std::fill(p.b.memory.begin(), p.b.memory.begin() + 30, std::uint8_t{7});
  struct ibv_sge parts[] = {p.a.sge(0, 10), {0, 10, null->lkey}, p.a.sge(10, 10)};
  struct ibv_recv_wr recv {};
  recv.sg_list = parts;
  recv.num_sge = 3;
  ASSERT_EQ(post(p.qa.get(), recv), 0);
  struct ibv_sge sge = p.b.sge(0, 30);
  ASSERT_EQ(post(p.qb.get(), send_wr(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(wait_completion(p.a.recv_cq).status, IBV_WC_SUCCESS);
  p.a.sync();
  EXPECT_EQ(std::count(p.a.memory.begin(), p.a.memory.begin() + 30, 7), 20);
  EXPECT_EQ(send_from(null->lkey, nullptr, 16), IBV_WC_SUCCESS) << "and still zeros";
  EXPECT_EQ(p.b.memory[0], 0);
  // A peer cannot use it.
  struct ibv_send_wr write = send_wr(2, IBV_WR_RDMA_WRITE, &sge);
  write.wr.rdma.remote_addr = 0;
  write.wr.rdma.rkey = null->rkey;
  ASSERT_EQ(post(p.qb.get(), write), 0);
  EXPECT_EQ(wait_completion(p.b.send_cq).status, IBV_WC_SUCCESS) << "the SEND";
  EXPECT_EQ(wait_completion(p.b.send_cq).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(v().ibv_dereg_mr(null), 0);
}

TEST_F(ExtendedMemory, ImplicitOnDemandIsAllOfTheAddressSpace) {
  struct ibv_mr* const all = v().ibv_reg_mr(p.a.pd, nullptr, SIZE_MAX, kLocalWrite | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(all, nullptr);
  std::uint8_t on_stack[16];
  std::fill(std::begin(on_stack), std::end(on_stack), std::uint8_t{0x33});
  EXPECT_EQ(send_from(all->lkey, on_stack, 16), IBV_WC_SUCCESS);
  EXPECT_EQ(p.b.memory[15], 0x33);
  struct ibv_sge here {
    reinterpret_cast<std::uintptr_t>(on_stack), 16, all->lkey
  };
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &here, 1), 0);
  struct ibv_sge nowhere {
    kExtendedPage, 16, all->lkey
  };
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &nowhere, 1), EFAULT);
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &nowhere, 1), 0);
  EXPECT_EQ(send_from(all->lkey, reinterpret_cast<void*>(kExtendedPage), 16), IBV_WC_LOC_PROT_ERR)
      << "nothing is there";
  EXPECT_EQ(v().ibv_dereg_mr(all), 0);
}

TEST_F(ExtendedMemory, OnDemandMemoryMayGo) {
  void* const pages = mmap(nullptr, kExtendedPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  struct ibv_mr* const mr = v().ibv_reg_mr(p.a.pd, pages, kExtendedPage, kLocalWrite | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(send_from(mr->lkey, pages, 16), IBV_WC_SUCCESS);
  ASSERT_EQ(mprotect(pages, kExtendedPage, PROT_READ), 0);
  struct ibv_sge sge {
    reinterpret_cast<std::uintptr_t>(pages), 16, mr->lkey
  };
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), EFAULT);
  EXPECT_EQ(send_from(mr->lkey, pages, 16), IBV_WC_SUCCESS) << "which only reads";
  ASSERT_EQ(munmap(pages, kExtendedPage), 0);
  EXPECT_EQ(send_from(mr->lkey, pages, 16), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
}

TEST_F(ExtendedMemory, OnDemandRegionsNeedWhatOthersNeedButMemory) {
  const auto error_of = [this](void* addr, std::size_t length, std::uint64_t iova, int access) {
    errno = 0;
    struct ibv_mr* const mr = v().ibv_reg_mr_iova(p.a.pd, addr, length, iova, access | IBV_ACCESS_ON_DEMAND);
    const int error = mr == nullptr ? errno : 0;
    if (mr != nullptr) v().ibv_dereg_mr(mr);
    return error;
  };
  void* const absent = mmap(nullptr, kExtendedPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(absent, MAP_FAILED);
  const auto at = reinterpret_cast<std::uintptr_t>(absent);
  EXPECT_EQ(error_of(absent, kExtendedPage, at, kLocalWrite), 0);
  EXPECT_EQ(error_of(absent, 0, at, kLocalWrite), EINVAL);
  EXPECT_EQ(error_of(absent, kExtendedPage, at, IBV_ACCESS_REMOTE_WRITE), EINVAL) << "without local write";
  EXPECT_EQ(error_of(absent, kExtendedPage, at + 8, kLocalWrite), EINVAL) << "another offset in the page";
  EXPECT_EQ(error_of(absent, SIZE_MAX - 4096, at, kLocalWrite), EOVERFLOW);
  EXPECT_EQ(error_of(absent, SIZE_MAX, at, kLocalWrite), EINVAL) << "implicit";
  EXPECT_EQ(munmap(absent, kExtendedPage), 0);
}

TEST_F(ExtendedMemory, OfANullRegionThereIsNothingToFetch) {
  struct ibv_mr* const null = ibv_alloc_null_mr(p.a.pd);
  ASSERT_NE(null, nullptr);
  struct ibv_sge sge {
    kExtendedPage, 1 << 20, null->lkey
  };
  for (const auto advice : {IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE}) {
    EXPECT_EQ(ibv_advise_mr(p.a.pd, advice, 0, &sge, 1), 0);
  }
  sge.lkey ^= 1;
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EINVAL);
  EXPECT_EQ(v().ibv_dereg_mr(null), 0);
}

TEST_F(ExtendedMemory, AdviceThatDoesNotExist) {
  struct ibv_sge sge = p.a.sge(0, 8);
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
  EXPECT_EQ(ibv_advise_mr(p.a.pd, static_cast<enum ibv_advise_mr_advice>(2), 1u << 9, &sge, 1), EINVAL);
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 0), EINVAL);
  sge.lkey ^= 1;
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EINVAL);
}

// As ibv_advise_mr(3) says, and mlx5 does. Soft-RoCE says EINVAL of a region of another domain.
TEST_F(ExtendedMemory, AdviceWithoutTheRight) {
  struct ibv_mr* const mr = v().ibv_reg_mr(p.a.pd, p.a.memory.data(), 64, 0);
  ASSERT_NE(mr, nullptr);
  struct ibv_pd* const other = v().ibv_alloc_pd(p.a.context.get());
  struct ibv_sge sge = {p.a.address(), 64, mr->lkey};
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), EPERM);
  EXPECT_EQ(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EPERM);
  sge.length = 65;
  EXPECT_EQ(ibv_advise_mr(p.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
  EXPECT_EQ(v().ibv_dealloc_pd(other), 0);
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
}

TEST_F(ExtendedMemory, BuffersOfTheLibrary) {
  struct ibv_buf* buf = nullptr;
  auto* const memory = static_cast<std::uint8_t*>(impl::ibv_alloc_buf(p.a.pd, 100, &buf));
  ASSERT_NE(memory, nullptr);
  memory[99] = 0x77;
  struct ibv_mr* const mr = impl::ibv_reg_buf_mr(p.a.pd, buf, memory, 100, kLocalWrite);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(send_from(mr->lkey, memory, 100), IBV_WC_SUCCESS);
  EXPECT_EQ(p.b.memory[99], 0x77);
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  EXPECT_EQ(impl::ibv_reg_buf_mr(p.a.pd, buf, memory + 50, 51, kLocalWrite), nullptr) << "beyond its end";
  EXPECT_EQ(impl::ibv_reg_buf_mr(p.b.pd, buf, memory, 100, kLocalWrite), nullptr) << "another protection domain";
  EXPECT_EQ(impl::ibv_export_buf_dmabuf_fd(buf), -1);
  EXPECT_EQ(errno, ENODATA);
  newer::MrInitAttr init{};
  init.length = 100;
  init.access = kLocalWrite;
  init.comp_mask = newer::kAddr | newer::kBuf;
  init.addr = memory;
  init.buf = buf;
  struct ibv_mr* const again = impl::ibv_reg_mr_ex(p.a.pd, reinterpret_cast<struct ibv_mr_init_attr*>(&init));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(v().ibv_dereg_mr(again), 0);
  init.comp_mask |= newer::kDmah;
  EXPECT_EQ(impl::ibv_reg_mr_ex(p.a.pd, reinterpret_cast<struct ibv_mr_init_attr*>(&init)), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  impl::ibv_free_buf(buf);
  EXPECT_EQ(impl::ibv_alloc_buf(p.a.pd, 0, &buf), nullptr);
  EXPECT_EQ(impl::ibv_alloc_buf(p.a.pd, SIZE_MAX, &buf), nullptr);
}

TEST_F(ExtendedMemory, TheDeviceSaysWhatItCan) {
  struct ibv_device_attr_ex attr {};
  const auto query = [this](struct ibv_device_attr_ex* to, std::size_t size) {
    return verbs_get_ctx(p.a.context.get())->query_device_ex(p.a.context.get(), nullptr, to, size);
  };
  ASSERT_EQ(query(&attr, sizeof attr), 0);
  EXPECT_EQ(attr.completion_timestamp_mask, ~std::uint64_t{0});
  EXPECT_EQ(attr.hca_core_clock, 1'000'000u);
  EXPECT_EQ(attr.odp_caps.general_caps, 3u);
  EXPECT_EQ(attr.tso_caps.max_tso, 0u);
  EXPECT_EQ(attr.max_dm_size, 0u);
  EXPECT_EQ(attr.phys_port_cnt_ex, 1u);
  // A program that knows less.
  struct ibv_device_attr_ex shorter;
  std::memset(static_cast<void*>(&shorter), 0xEE, sizeof shorter);
  constexpr std::size_t kOld = offsetof(struct ibv_device_attr_ex, tso_caps);
  ASSERT_EQ(query(&shorter, kOld), 0);
  EXPECT_EQ(std::memcmp(&shorter, &attr, kOld), 0);
  EXPECT_EQ(reinterpret_cast<const std::uint8_t*>(&shorter)[kOld], 0xEE);
}

}  // namespace
}  // namespace uroce::ibv::test
