// SPDX-License-Identifier: Apache-2.0
// The verbs of rdma-core 59 to 65.
#include "verbs/ibverbs/catalogue/newer.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/objects/objects.h"

/// Memory that the library has allocated for the program.
struct ibv_buf {
  struct ibv_pd* pd;
  std::uint8_t* memory;
  std::size_t size;
};

namespace uroce::ibv::impl {
namespace {

constexpr char kNoDmaHandle[] = "the NIC has no DMA: there is nothing to steer";
constexpr char kNoCounter[] = "the NIC has no completion counters";

/// EINVAL: the range is not inside `buffer`, or the buffer is another protection domain's.
int check_range(const struct ibv_pd* pd, const struct ibv_buf& buffer, const void* addr, std::size_t length) {
  const auto start = reinterpret_cast<std::uintptr_t>(buffer.memory), at = reinterpret_cast<std::uintptr_t>(addr);
  if (buffer.pd == pd && at >= start && at - start <= buffer.size && length <= buffer.size - (at - start)) return 0;
  return refuse(EINVAL, "the range is not inside the buffer, or the buffer belongs to another protection domain");
}

}  // namespace

struct ibv_dmah* ibv_alloc_dmah(struct ibv_context*, struct ibv_dmah_init_attr*) {
  return refuse_null(EOPNOTSUPP, kNoDmaHandle);
}
int ibv_dealloc_dmah(struct ibv_dmah*) { return refuse(EOPNOTSUPP, kNoDmaHandle); }

struct ibv_mr* ibv_reg_mr_ex(struct ibv_pd* pd, struct ibv_mr_init_attr* init) {
  constexpr std::uint64_t kKnown = newer::kIova | newer::kAddr | newer::kBuf;
  const auto& attr = *reinterpret_cast<const newer::MrInitAttr*>(init);
  if ((attr.comp_mask & ~kKnown) != 0) {
    return refuse_null(EOPNOTSUPP, "comp_mask: the NIC registers memory of this process, without DMA handles");
  }
  if ((attr.comp_mask & newer::kAddr) == 0) return refuse_null(EINVAL, "a memory region needs an address");
  if ((attr.comp_mask & newer::kBuf) != 0) {
    if (const int error = attr.buf == nullptr ? EINVAL : check_range(pd, *attr.buf, attr.addr, attr.length)) {
      errno = error;
      return nullptr;
    }
  }
  const bool has_iova = (attr.comp_mask & newer::kIova) != 0;
  return impl::ibv_reg_mr_iova2(pd, attr.addr, attr.length,
                                has_iova ? attr.iova : reinterpret_cast<std::uintptr_t>(attr.addr),
                                static_cast<unsigned int>(attr.access));
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm*) {
  refuse(EOPNOTSUPP, "the NIC has no device memory");
  return -1;
}

// In units of 100 Mb/s.
int ibv_query_port_speed(struct ibv_context*, std::uint32_t port_num, std::uint64_t* speed) {
  if (port_num != 1) return refuse(EINVAL, "the NIC has port 1 only");
  *speed = 100;
  return 0;
}

void* ibv_alloc_buf(struct ibv_pd* pd, std::size_t size, struct ibv_buf** buf) {
  if (size == 0) return refuse_null(EINVAL, "a buffer cannot be empty");
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // Beyond PTRDIFF_MAX nothing can be allocated, and rounding up might wrap.
  const bool possible = size <= static_cast<std::size_t>(PTRDIFF_MAX) - page;
  void* const memory = possible ? std::aligned_alloc(page, (size + page - 1) / page * page) : nullptr;
  if (memory == nullptr) return refuse_null(ENOMEM, "no memory for a buffer of " + std::to_string(size) + " bytes");
  *buf = new (std::nothrow) ibv_buf{pd, static_cast<std::uint8_t*>(memory), size};
  if (*buf != nullptr) return memory;
  std::free(memory);
  throw std::bad_alloc();
}

void ibv_free_buf(struct ibv_buf* buf) {
  if (buf == nullptr) return;
  std::free(buf->memory);
  delete buf;
}

struct ibv_mr* ibv_reg_buf_mr(struct ibv_pd* pd, struct ibv_buf* buf, void* addr, std::size_t length, int access) {
  if (const int error = buf == nullptr ? EINVAL : check_range(pd, *buf, addr, length)) {
    errno = error;
    return nullptr;
  }
  return impl::ibv_reg_mr(pd, addr, length, access);
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf*) {
  refuse(ENODATA, "the buffer is ordinary memory, no dma-buf");
  return -1;
}

int _ibv_query_comp_cntr_caps(struct ibv_context*, struct ibv_comp_cntr_caps*, std::size_t) {
  return refuse(EOPNOTSUPP, kNoCounter);
}
struct ibv_comp_cntr* ibv_create_comp_cntr(struct ibv_context*, struct ibv_comp_cntr_init_attr*) {
  return refuse_null(EOPNOTSUPP, kNoCounter);
}
int ibv_destroy_comp_cntr(struct ibv_comp_cntr*) { return refuse(EOPNOTSUPP, kNoCounter); }
int ibv_set_comp_cntr(struct ibv_comp_cntr*, std::uint64_t) { return refuse(EOPNOTSUPP, kNoCounter); }
int ibv_set_err_comp_cntr(struct ibv_comp_cntr*, std::uint64_t) { return refuse(EOPNOTSUPP, kNoCounter); }
int ibv_inc_comp_cntr(struct ibv_comp_cntr*, std::uint64_t) { return refuse(EOPNOTSUPP, kNoCounter); }
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr*, std::uint64_t) { return refuse(EOPNOTSUPP, kNoCounter); }
int ibv_read_comp_cntr(struct ibv_comp_cntr*, std::uint64_t*) { return refuse(EOPNOTSUPP, kNoCounter); }
int ibv_read_err_comp_cntr(struct ibv_comp_cntr*, std::uint64_t*) { return refuse(EOPNOTSUPP, kNoCounter); }
int ibv_qp_attach_comp_cntr(struct ibv_qp*, struct ibv_comp_cntr*, struct ibv_qp_attach_comp_cntr_attr*) {
  return refuse(EOPNOTSUPP, kNoCounter);
}

}  // namespace uroce::ibv::impl
