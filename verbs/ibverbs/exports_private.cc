// SPDX-License-Identifier: Apache-2.0
// The private symbols of libibverbs.so.1: two functions and a flag under many names, each name in the node of every
// series of rdma-core releases, so that the provider libraries of any of them load.
#include <infiniband/verbs.h>

#include <cerrno>

#include "verbs/ibverbs/catalogue/impl.h"

extern "C" {

__attribute__((visibility("default"), used)) long uroce_private_refused() {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}
__attribute__((visibility("default"), used)) void* uroce_private_null() {
  errno = EOPNOTSUPP;
  return nullptr;
}
/// The system's library writes to it, and takes ours for its own where it is loaded as well, by its path.
__attribute__((visibility("default"), used)) bool uroce_private_flag = false;
/// The only private function that programs call (ibv_devinfo, pyverbs).
__attribute__((visibility("default"), used)) int uroce_private_query_gid_type(struct ibv_context* context,
                                                                              uint8_t port_num, unsigned int index,
                                                                              int* type) {
  return uroce::ibv::impl::ibv_query_gid_type(context, port_num, index, type);
}

}  // extern "C"

#define UROCE_ALIAS(function, name, node) __asm__(".symver " #function ", " #name "@IBVERBS_PRIVATE_" #node);
#define UROCE_IN_ALL_NODES(function, name) \
  UROCE_ALIAS(function, name, 25)          \
  UROCE_ALIAS(function, name, 33)          \
  UROCE_ALIAS(function, name, 34)          \
  UROCE_ALIAS(function, name, 57)          \
  UROCE_ALIAS(function, name, 59)          \
  UROCE_ALIAS(function, name, 64)          \
  UROCE_ALIAS(function, name, 65)
#define UROCE_PRIVATE(name) UROCE_IN_ALL_NODES(uroce_private_refused, name)
#define UROCE_PRIVATE_NULL(name) UROCE_IN_ALL_NODES(uroce_private_null, name)
#define UROCE_PRIVATE_FLAG(name) UROCE_IN_ALL_NODES(uroce_private_flag, name)
#include "verbs/ibverbs/catalogue/private_symbols.def"
UROCE_IN_ALL_NODES(uroce_private_query_gid_type, ibv_query_gid_type)

// Drivers from before 2007 registered themselves so.
__asm__(".symver uroce_private_refused, ibv_register_driver@IBVERBS_1.1");

// The one name that changes with the series: providers register themselves when they are loaded.
UROCE_ALIAS(uroce_private_refused, verbs_register_driver_25, 25)
UROCE_ALIAS(uroce_private_refused, verbs_register_driver_33, 33)
UROCE_ALIAS(uroce_private_refused, verbs_register_driver_34, 34)
UROCE_ALIAS(uroce_private_refused, verbs_register_driver_57, 57)
UROCE_ALIAS(uroce_private_refused, verbs_register_driver_59, 59)
UROCE_ALIAS(uroce_private_refused, verbs_register_driver_64, 64)
UROCE_ALIAS(uroce_private_refused, verbs_register_driver_65, 65)
