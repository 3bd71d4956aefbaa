// SPDX-License-Identifier: Apache-2.0
// The verbs as a table: one struct of function pointers with the signatures of <infiniband/verbs.h>, filled by uroce or
// by the system's libibverbs. A program written on plain verbs chooses at run time which one it talks to.
#pragma once

#include <infiniband/verbs.h>

// The header hides some functions behind macros of the same name; the table needs the functions.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace uroce::ibv {

struct VerbsTable {
#define UROCE_VERB(ret, name, params, args, version) ret(*name) params = nullptr;
#include "verbs/ibverbs/catalogue/functions.def"
#undef UROCE_VERB
};

/// The emulated NIC's functions.
const VerbsTable& uroce_verbs();

}  // namespace uroce::ibv
