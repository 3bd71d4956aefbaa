// SPDX-License-Identifier: Apache-2.0
// What rdma-core 45 to 65 have added to <infiniband/verbs.h>, for builds with an older one.
#pragma once

#include <cstddef>
#include <cstdint>

struct ibv_pd;
struct ibv_buf;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

namespace uroce::ibv::newer {

/// FLUSH. The numbers of ATOMIC WRITE are those of rdma-core 44.
inline constexpr unsigned int kAccessFlushGlobal = 1u << 8, kAccessFlushPersistent = 1u << 9;
inline constexpr int kWrFlush = 14, kWcFlush = 8;
inline constexpr std::uint64_t kQpExWithFlush = 1u << 11;
/// ibv_odp_transport_cap_bits.
inline constexpr std::uint32_t kOdpFlush = 1u << 6, kOdpAtomicWrite = 1u << 7;
/// Bits of device_cap_flags_ex, as the kernel has them.
inline constexpr std::uint64_t kDeviceFlushGlobal = std::uint64_t{1} << 38, kDeviceAtomicWrite = std::uint64_t{1} << 40;

/// ibv_mr_init_attr, as programs compiled with rdma-core 65 lay it out. Members whose bit in comp_mask is clear may not
/// be there.
struct MrInitAttr {
  std::size_t length;
  int access;
  std::uint64_t comp_mask;
  std::uint64_t iova;
  void* addr;
  int fd;
  std::uint64_t fd_offset;
  struct ibv_dmah* dmah;
  struct ibv_buf* buf;
};
enum MrInitMask : std::uint64_t { kIova = 1u << 0, kAddr = 1u << 1, kDmah = 1u << 4, kBuf = 1u << 5 };

}  // namespace uroce::ibv::newer
