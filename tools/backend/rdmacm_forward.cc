// SPDX-License-Identifier: Apache-2.0
// Defines the functions that <rdma/rdma_cma.h> and <rdma/rsocket.h> declare: each call goes to the librdmacm that
// select_rdma_cm() has loaded. Hidden, as those of verbs_forward.cc.
#include <cstdarg>

#include "tools/backend/rdmacm_table.h"

namespace uroce::tools {

RdmaCmTable& rdma_cm_table() {
  static RdmaCmTable table;
  return table;
}

}  // namespace uroce::tools

#define UROCE_CM(ret, name, params, args)                            \
  extern "C" __attribute__((visibility("hidden"))) ret name params { \
    return uroce::tools::rdma_cm_table().name args; /* NOLINT */     \
  }
#define UROCE_CM_VARIADIC(ret, name, params)
#include "tools/backend/rdmacm_functions.def"
#undef UROCE_CM

extern "C" __attribute__((visibility("hidden"))) int rfcntl(int socket, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const int argument = va_arg(arguments, int);  // We only set flags.
  va_end(arguments);
  return uroce::tools::rdma_cm_table().rfcntl(socket, command, argument);  // NOLINT: set by select_rdma_cm()
}
