// SPDX-License-Identifier: Apache-2.0
// What the device can do beyond ibv_query_device(), and its clock.
#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/os/os_clock.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/impl.h"
#include "verbs/ibverbs/catalogue/newer.h"
#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv::impl {

// Programs know structures of different sizes; what is not set stays 0: not offered.
int query_device_ex(struct ibv_context* context, const struct ibv_query_device_ex_input* input,
                    struct ibv_device_attr_ex* attr, std::size_t attr_size) {
  if (input != nullptr && input->comp_mask != 0) return refuse(EINVAL, "comp_mask: no attribute of the query exists");
  struct ibv_device_attr_ex ours {};
  if (const int error = impl::ibv_query_device(context, &ours.orig_attr)) return error;
  // Memory is the program's and is touched when a packet needs it: on demand (see reg_mr).
  constexpr std::uint32_t kReceives = IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  ours.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  ours.odp_caps.per_transport_caps.rc_odp_caps = kReceives | IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE |
                                                 IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | newer::kOdpFlush |
                                                 newer::kOdpAtomicWrite;
  ours.odp_caps.per_transport_caps.uc_odp_caps = kReceives | IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;
  ours.odp_caps.per_transport_caps.ud_odp_caps = kReceives | IBV_ODP_SUPPORT_SEND;
  // Completions are stamped with CLOCK_MONOTONIC, in nanoseconds.
  ours.completion_timestamp_mask = ~std::uint64_t{0};
  ours.hca_core_clock = 1'000'000;  // kHz
  ours.device_cap_flags_ex = ours.orig_attr.device_cap_flags | newer::kDeviceFlushGlobal | newer::kDeviceAtomicWrite;
  ours.cq_mod_caps.max_cq_count = std::numeric_limits<std::uint16_t>::max();
  ours.cq_mod_caps.max_cq_period = std::numeric_limits<std::uint16_t>::max();
  ours.phys_port_cnt_ex = ours.orig_attr.phys_port_cnt;
  std::memset(static_cast<void*>(attr), 0, attr_size);
  std::memcpy(static_cast<void*>(attr), &ours, std::min(attr_size, sizeof ours));
  return 0;
}

// The clock of completion time stamps, in its ticks, as mlx5 gives it: all of it in tv_nsec.
int query_rt_values(struct ibv_context*, struct ibv_values_ex* values) {
  if ((values->comp_mask & ~static_cast<std::uint32_t>(IBV_VALUES_MASK_RAW_CLOCK)) != 0) {
    return refuse(EOPNOTSUPP, "comp_mask: only IBV_VALUES_MASK_RAW_CLOCK can be queried");
  }
  if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
    values->raw_clock.tv_sec = 0;
    values->raw_clock.tv_nsec = engine::os_now().time_since_epoch().count();
  }
  return 0;
}

}  // namespace uroce::ibv::impl
