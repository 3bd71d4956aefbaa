// SPDX-License-Identifier: Apache-2.0
// Memory that a program registers and then takes away.
#pragma once

#include <sys/mman.h>

#include "tests/unit/ibverbs/support.h"

namespace uroce::ibv::test {

inline constexpr std::size_t kPage = 4096;
inline constexpr int kEveryRight =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Two pages, of which the second can go.
class TwoPages {
 public:
  enum class Loss : std::uint8_t { kUnmapped, kNoAccess, kReadOnly };

  TwoPages()
      : base_(static_cast<std::uint8_t*>(
            mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    std::memset(base_, 0x11, 2 * kPage);
  }
  ~TwoPages() { munmap(base_, 2 * kPage); }
  TwoPages(const TwoPages&) = delete;
  TwoPages& operator=(const TwoPages&) = delete;

  std::uint8_t* data() const { return base_; }
  std::uint64_t address(std::size_t offset = 0) const { return reinterpret_cast<std::uintptr_t>(base_) + offset; }
  void lose(Loss loss = Loss::kUnmapped) const {
    if (loss == Loss::kUnmapped) {
      EXPECT_EQ(munmap(base_ + kPage, kPage), 0);
    } else {
      EXPECT_EQ(mprotect(base_ + kPage, kPage, loss == Loss::kNoAccess ? PROT_NONE : PROT_READ), 0);
    }
  }
  /// The second page again, full of zeros, or not: replaced in one step, so that nobody else's memory comes to lie
  /// there.
  void replace(bool by_memory) const {
    const int protection = by_memory ? PROT_READ | PROT_WRITE : PROT_NONE;
    EXPECT_NE(mmap(base_ + kPage, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), MAP_FAILED);
  }

 private:
  std::uint8_t* base_;
};

/// A WR of a peer that names `remote`.
inline struct ibv_send_wr remote_wr(enum ibv_wr_opcode opcode, struct ibv_sge* sge, std::uint64_t remote,
                                    std::uint32_t rkey) {
  struct ibv_send_wr wr = send_wr(7, opcode, sge);
  const bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  if (atomic) {
    wr.wr.atomic = {remote, 1, 2, rkey};
  } else {
    wr.wr.rdma = {remote, rkey};
  }
  return wr;
}

}  // namespace uroce::ibv::test
