// SPDX-License-Identifier: Apache-2.0
// The functions of librdmacm as a table; null: not loaded, or the library is too old for it.
#pragma once

#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>

#include <cstdint>

namespace uroce::tools {

struct RdmaCmTable {
#define UROCE_CM(ret, name, params, args) ret(*name) params = nullptr;
#include "tools/backend/rdmacm_functions.def"
#undef UROCE_CM
};

RdmaCmTable& rdma_cm_table();

}  // namespace uroce::tools
