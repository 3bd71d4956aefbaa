// SPDX-License-Identifier: Apache-2.0
// RDMA CM for programs that are written on <rdma/rdma_cma.h> and <rdma/rsocket.h>: the system's librdmacm, opened when
// it is asked for. rdmacm_forward.cc defines its functions and calls those that were found here.
#pragma once

#include <optional>
#include <string>

#include "tools/backend/backend.h"
#include "verbs/ibverbs/catalogue/tool_verbs.h"

namespace uroce::tools {

/// Makes RDMA CM usable with `backend`. Call it before select_backend() and before there are threads: librdmacm finds
/// the emulated NICs only in a process that was started with uroce's libibverbs preloaded, as by `uroce run`. When this
/// one was not, it is executed again, with `argv`. Returns the reason as one sentence when something is missing.
std::optional<std::string> select_rdma_cm(Backend backend, const char* const* argv);

/// With RDMA CM on the emulated NIC: the preloaded library's verbs, which librdmacm uses as well. Else null.
const ibv::ToolVerbs* rdma_cm_verbs();

}  // namespace uroce::tools
