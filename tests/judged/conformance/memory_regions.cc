// SPDX-License-Identifier: Apache-2.0
// Memory regions and their keys.
#include <sys/mman.h>

#include <set>

#include "tests/judged/conformance/case.h"
#include "tests/judged/conformance/lab.h"

namespace uroce::conformance {
namespace {

constexpr Rule kLength{"a region is not empty", "kernel and providers; ibv_reg_mr(3) is silent"};
constexpr Rule kRemoteNeedsLocal{"remote write and remote atomic need local write",
                                 "IBTA Vol 1, 10.6.3.1; ibv_reg_mr(3)"};
constexpr Rule kKeys{"a region gets an lkey and an rkey", "IBTA Vol 1, 10.6.2 ?; ibv_reg_mr(3)"};
constexpr Rule kMapped{"the memory exists", "kernel: get_user_pages()"};
constexpr Rule kIova{"a region may have another address for WRs and peers", "ibv_reg_mr(3): ibv_reg_mr_iova()"};
constexpr Why kOnDemand = choice("what a process touches is always brought in on demand");
constexpr Rule kOptional{"a device may lack it, and says so", "ibv_reg_mr(3)"};
constexpr Rule kHint{"relaxed ordering is a hint", "<infiniband/verbs.h>: IBV_ACCESS_OPTIONAL_RANGE"};
constexpr Rule kStale{"a key of a region that is gone names no other soon", "IBTA Vol 1, 10.6.2 ? (8-bit key part)"};

/// "ok, lkey = rkey", or the errno.
std::string told(struct ibv_mr* mr) {
  if (mr == nullptr) return word(errno);
  std::string keys = mr->lkey == mr->rkey ? "ok, lkey = rkey" : "ok, lkey != rkey";
  EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  return keys;
}

std::string reg(std::size_t length, unsigned int access) {
  Side side(0);
  // Through the function that the macro of <infiniband/verbs.h> takes for flags that are not constants.
  return told(v().ibv_reg_mr_iova2(side.pd, side.memory.data(), length, side.address(), access));
}

std::string reg_unmapped() {
  Side side(0);
  // Where no other thread is given memory meanwhile.
  const std::uintptr_t low = 0x10000000;
  void* hole =
      mmap(reinterpret_cast<void*>(low), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  munmap(hole, 4096);
  return told(v().ibv_reg_mr(side.pd, hole, 4096, kAllAccess));
}

std::string reg_iova() {
  Side side(0);
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::string keys = told(v().ibv_reg_mr_iova(side.pd, page, 4096, 0x5000, kAllAccess));
  munmap(page, 4096);
  return keys;
}

std::string four_regions() {
  Side side(0);
  std::set<std::uint32_t> keys;
  bool equal = true;
  for (int i = 0; i < 4; ++i) {
    struct ibv_mr* mr = v().ibv_reg_mr(side.pd, side.memory.data(), 64, kAllAccess);
    keys.insert(mr->lkey);
    equal = equal && mr->lkey == mr->rkey;
    EXPECT_EQ(v().ibv_dereg_mr(mr), 0);
  }
  return std::to_string(keys.size()) + " different keys" + (equal ? ", lkey = rkey" : "");
}

}  // namespace

Chapter memory_regions() {
  const auto reg_with = [](std::size_t length, unsigned int access) { return [=] { return reg(length, access); }; };
  return {"memory_regions",
          "Memory regions",
          {
              {"reg_mr length 0", kLength, "EINVAL", "EINVAL", kSame, reg_with(0, kAllAccess)},
              {"reg_mr remote write without local write", kRemoteNeedsLocal, "EINVAL", "EINVAL", kSame,
               reg_with(64, IBV_ACCESS_REMOTE_WRITE)},
              {"reg_mr remote atomic without local write", kRemoteNeedsLocal, "EINVAL", "EINVAL", kSame,
               reg_with(64, IBV_ACCESS_REMOTE_ATOMIC)},
              {"reg_mr local read only", kKeys, "ok, lkey = rkey", "ok, lkey = rkey", kSame, reg_with(64, 0)},
              {"reg_mr of unmapped memory", kMapped, "EFAULT", "EFAULT", kSame, reg_unmapped},
              {"reg_mr with iova 0x5000", kIova, "ok, lkey = rkey", "ok, lkey = rkey", kSame, reg_iova},
              {"reg_mr zero based", kOptional, "EOPNOTSUPP", "EOPNOTSUPP", kSame,
               reg_with(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED)},
              {"reg_mr on demand paging", kOptional, "ok, lkey = rkey", "EOPNOTSUPP", kOnDemand,
               reg_with(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND)},
              {"reg_mr relaxed ordering", kHint, "ok, lkey = rkey", "ok, lkey = rkey", kSame,
               reg_with(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING)},
              {"four reg/dereg in a row: (lkey, rkey)", kStale, "4 different keys, lkey = rkey",
               "4 different keys, lkey = rkey", kSame, four_regions},
              {"MR without remote access: lkey, rkey", kKeys, "ok, lkey = rkey", "ok, lkey = rkey", kSame,
               reg_with(64, IBV_ACCESS_LOCAL_WRITE)},
          }};
}

}  // namespace uroce::conformance
