// SPDX-License-Identifier: Apache-2.0
// Memory regions: what may be registered, and what a peer may then do.
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/ibverbs/support.h"
#include "verbs/ibverbs/host/memory_check.h"

namespace uroce::ibv::test {
namespace {

/// Three pages of anonymous memory.
class Pages {
 public:
  Pages() : size_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    base_ = static_cast<std::uint8_t*>(
        mmap(nullptr, 3 * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Pages() { munmap(base_, 3 * size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::uint8_t* page(std::size_t i) const { return base_ + i * size_; }
  std::size_t size() const { return size_; }
  void protect(std::size_t i, int protection) const { ASSERT_EQ(mprotect(page(i), size_, protection), 0); }
  void unmap(std::size_t i) const { ASSERT_EQ(munmap(page(i), size_), 0); }

 private:
  std::size_t size_;
  std::uint8_t* base_;
};

class Memory : public testing::Test {
 protected:
  ~Memory() override { EXPECT_EQ(v().ibv_dealloc_pd(pd), 0); }

  /// errno of a registration, 0 when it succeeds (and is undone).
  int try_reg(void* addr, std::size_t length, int access) {
    errno = 0;
    struct ibv_mr* mr = v().ibv_reg_mr(pd, addr, length, access);
    if (mr == nullptr) return errno;
    EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
    return 0;
  }

  ContextPtr context = open_device(0);
  struct ibv_pd* pd = v().ibv_alloc_pd(context.get());
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(8192);
};

TEST_F(Memory, AccessFlagRules) {
  struct Rule {
    int access;
    int error;
  };
  for (const Rule& row : {
           Rule{0, 0},
           Rule{IBV_ACCESS_LOCAL_WRITE, 0},
           Rule{IBV_ACCESS_REMOTE_READ, 0},
           Rule{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
                0},
           Rule{IBV_ACCESS_REMOTE_WRITE, EINVAL},
           Rule{IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
           Rule{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING, 0},
           Rule{IBV_ACCESS_LOCAL_WRITE | (1 << 29), 0},  // Optional flags not invented yet are ignored.
           Rule{IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE, 0},
           Rule{IBV_ACCESS_HUGETLB, 0},
           Rule{IBV_ACCESS_ZERO_BASED, EOPNOTSUPP},
           Rule{IBV_ACCESS_ON_DEMAND, 0},
           Rule{1 << 8, 0},       // IBV_ACCESS_FLUSH_GLOBAL
           Rule{1 << 9, EINVAL},  // IBV_ACCESS_FLUSH_PERSISTENT: nothing here is persistent memory.
           Rule{1 << 12, EINVAL},
       }) {
    EXPECT_EQ(try_reg(memory.data(), memory.size(), row.access), row.error) << row.access;
  }
  EXPECT_EQ(try_reg(memory.data(), 0, 0), EINVAL);
}

TEST_F(Memory, KeysAreEqualAndFieldsAreFilled) {
  struct ibv_mr* mr = v().ibv_reg_mr(pd, memory.data(), 100, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->lkey, mr->rkey);
  EXPECT_EQ(mr->addr, memory.data());
  EXPECT_EQ(mr->length, 100u);
  EXPECT_EQ(mr->pd, pd);
  EXPECT_EQ(mr->context, context.get());
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
}

TEST_F(Memory, UnmappedOrProtectedMemoryIsAFault) {
  const Pages pages;
  EXPECT_EQ(try_reg(pages.page(0), 3 * pages.size(), IBV_ACCESS_LOCAL_WRITE), 0);
  pages.protect(2, PROT_READ);
  EXPECT_EQ(try_reg(pages.page(0), 3 * pages.size(), IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(try_reg(pages.page(0), 3 * pages.size(), IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(try_reg(pages.page(0), 2 * pages.size(), IBV_ACCESS_LOCAL_WRITE), 0);
  pages.protect(2, PROT_NONE);
  EXPECT_EQ(try_reg(pages.page(0), 3 * pages.size(), 0), EFAULT);
  pages.unmap(1);
  EXPECT_EQ(try_reg(pages.page(0), pages.size(), 0), 0);
  EXPECT_EQ(try_reg(pages.page(0), pages.size() + 1, 0), EFAULT);
  EXPECT_EQ(try_reg(pages.page(1), 1, 0), EFAULT);
  EXPECT_EQ(try_reg(nullptr, 1, 0), EFAULT);
}

TEST_F(Memory, TheWholeAddressSpaceIsNotMemory) {
  for (void* const addr : {static_cast<void*>(nullptr), static_cast<void*>(memory.data())}) {
    EXPECT_EQ(try_reg(addr, ~std::size_t{0}, 0), EINVAL) << "there is no such range";
  }
}

TEST_F(Memory, RangesOverSeveralMappingsAreFine) {
  const Pages pages;
  pages.protect(1, PROT_READ);  // Splits the mapping in three.
  for (const auto check : {check_memory, check_memory_by_list}) {
    EXPECT_EQ(check(pages.page(0) + 5, 3 * pages.size() - 10, false), 0);
    EXPECT_EQ(check(pages.page(0) + 5, 3 * pages.size() - 10, true), EFAULT);
  }
}

TEST_F(Memory, OlderKernelsSayTheSameOfIt) {
  const Pages pages;
  pages.protect(1, PROT_NONE);
  pages.unmap(2);
  for (const std::size_t page : {0u, 1u, 2u}) {
    EXPECT_EQ(check_memory(pages.page(page), 1, false), page == 0 ? 0 : EFAULT) << page;
    EXPECT_EQ(check_memory_by_list(pages.page(page), 1, false), page == 0 ? 0 : EFAULT) << page;
  }
}

TEST_F(Memory, IovaMustAgreeWithinThePage) {
  struct ibv_mr* mr = v().ibv_reg_mr_iova(pd, memory.data(), 64, 0, 0);
  const bool aligned = reinterpret_cast<std::uintptr_t>(memory.data()) % 4096 == 0;
  EXPECT_EQ(mr != nullptr, aligned);
  if (mr != nullptr) v().ibv_dereg_mr(mr);
  const auto iova = 0x5000 + reinterpret_cast<std::uintptr_t>(memory.data()) % 4096;
  mr = v().ibv_reg_mr_iova2(pd, memory.data(), 64, iova, IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(mr, nullptr) << last_error();
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
}

TEST_F(Memory, ReregistrationChecksWhatItIsTold) {
  const Pages pages;
  pages.protect(1, PROT_READ);
  struct ibv_mr* mr = v().ibv_reg_mr(pd, memory.data(), 64, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  const std::uint32_t key = mr->lkey;
  const auto refused = [&](int flags, struct ibv_pd* new_pd, void* addr, std::size_t length, int access) {
    errno = 0;
    const bool failed = v().ibv_rereg_mr(mr, flags, new_pd, addr, length, access) == IBV_REREG_MR_ERR_INPUT;
    return failed ? errno : 0;
  };
  EXPECT_EQ(refused(0, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(8, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(), 0, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 64, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pages.page(1), 64, 0), EFAULT) << "still local write";
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(), 64, IBV_ACCESS_LOCAL_WRITE), EINVAL);
  EXPECT_EQ(mr->lkey, key);
  EXPECT_EQ(v().ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, nullptr, pages.page(1),
                             64, IBV_ACCESS_REMOTE_READ),
            0);
  EXPECT_NE(mr->lkey, key);
  EXPECT_EQ(mr->addr, pages.page(1));
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
}

TEST_F(Memory, ReregistrationMovesBetweenProtectionDomains) {
  struct ibv_pd* other = v().ibv_alloc_pd(context.get());
  struct ibv_mr* mr = v().ibv_reg_mr(pd, memory.data(), 64, 0);
  EXPECT_EQ(v().ibv_dealloc_pd(other), 0);
  other = v().ibv_alloc_pd(context.get());
  EXPECT_EQ(v().ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, other);
  EXPECT_EQ(v().ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  EXPECT_EQ(v().ibv_dealloc_pd(other), 0);
}

// --- What a peer may do -------------------------------------------------------------------------------------------

struct RemoteCase {
  const char* name;
  enum ibv_wr_opcode opcode;
  int mr_access;
  int qp_access;
  std::uint32_t key_offset;
  std::uint64_t addr_offset;
  enum ibv_wc_status status;
};
std::ostream& operator<<(std::ostream& out, const RemoteCase& c) { return out << c.name; }

class RemoteAccess : public testing::TestWithParam<RemoteCase> {};

constexpr int kLocalAccess = IBV_ACCESS_LOCAL_WRITE;
constexpr int kAll = kLocalAccess | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

INSTANTIATE_TEST_SUITE_P(
    Cases, RemoteAccess,
    testing::Values(
        RemoteCase{"write", IBV_WR_RDMA_WRITE, kAll, kAll, 0, 0, IBV_WC_SUCCESS},
        RemoteCase{"last_byte", IBV_WR_RDMA_WRITE, kAll, kAll, 0, Node::kMemory - 8, IBV_WC_SUCCESS},
        RemoteCase{"over_the_end", IBV_WR_RDMA_WRITE, kAll, kAll, 0, Node::kMemory - 7, IBV_WC_REM_ACCESS_ERR},
        RemoteCase{"before_the_start", IBV_WR_RDMA_WRITE, kAll, kAll, 0, ~std::uint64_t{0}, IBV_WC_REM_ACCESS_ERR},
        RemoteCase{"wrong_key", IBV_WR_RDMA_WRITE, kAll, kAll, 1, 0, IBV_WC_REM_ACCESS_ERR},
        RemoteCase{"mr_not_writable", IBV_WR_RDMA_WRITE, kLocalAccess | IBV_ACCESS_REMOTE_READ, kAll, 0, 0,
                   IBV_WC_REM_ACCESS_ERR},
        RemoteCase{"mr_not_readable", IBV_WR_RDMA_READ, kLocalAccess | IBV_ACCESS_REMOTE_WRITE, kAll, 0, 0,
                   IBV_WC_REM_ACCESS_ERR},
        RemoteCase{"mr_not_atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, kLocalAccess | IBV_ACCESS_REMOTE_WRITE, kAll, 0, 0,
                   IBV_WC_REM_ACCESS_ERR},
        RemoteCase{"atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, kAll, kAll, 0, 0, IBV_WC_SUCCESS},
        RemoteCase{"read", IBV_WR_RDMA_READ, kAll, kAll, 0, 0, IBV_WC_SUCCESS}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(RemoteAccess, IsGrantedOrRefused) {
  const RemoteCase& c = GetParam();
  ConnectOptions options;
  options.qp_access = c.qp_access;
  NodeOptions b_options;
  b_options.access = c.mr_access;
  Pair p(options, {}, b_options);
  struct ibv_sge sge = p.a.sge(0, 8);
  struct ibv_send_wr wr = send_wr(1, c.opcode, &sge);
  if (c.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = p.b.address() + c.addr_offset;
    wr.wr.atomic.rkey = p.b.mr->rkey + c.key_offset;
  } else {
    wr.wr.rdma.remote_addr = p.b.address() + c.addr_offset;
    wr.wr.rdma.rkey = p.b.mr->rkey + c.key_offset;
  }
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  const struct ibv_wc wc = wait_completion(p.a.send_cq);
  EXPECT_EQ(wc.status, c.status) << v().ibv_wc_status_str(wc.status);
  EXPECT_EQ(wc.wr_id, 1u);
  if (c.status == IBV_WC_SUCCESS) return;
  EXPECT_EQ(state_of(p.qa.get()), IBV_QPS_ERR);
  EXPECT_EQ(state_of(p.qb.get()), IBV_QPS_ERR);
  EXPECT_EQ(next_async_event(p.b.context.get()), IBV_EVENT_QP_ACCESS_ERR);
}

TEST(RemoteAccessByIova, WritesThroughAnotherName) {
  Pair p;
  const Pages pages;
  constexpr std::uint64_t kIova = 0x7000'0000'0000;
  struct ibv_mr* mr =
      v().ibv_reg_mr_iova(p.b.pd, pages.page(0), pages.size(), kIova, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  p.a.memory[0] = 0x42;
  struct ibv_sge sge = p.a.sge(0, 1);
  struct ibv_send_wr wr = send_wr(1, IBV_WR_RDMA_WRITE, &sge);
  wr.wr.rdma.remote_addr = kIova + 100;
  wr.wr.rdma.rkey = mr->rkey;
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_SUCCESS);
  p.b.sync();
  EXPECT_EQ(pages.page(0)[100], 0x42);
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  // The key is dead now.
  ASSERT_EQ(post(p.qa.get(), wr), 0);
  EXPECT_EQ(wait_completion(p.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace uroce::ibv::test
