// SPDX-License-Identifier: Apache-2.0
// Our verbs, each under the name of the C function it stands for. One file per object: device_list.cc, context.cc, ...
#pragma once

#include "verbs/ibverbs/catalogue/newer.h"
#include "verbs/ibverbs/catalogue/verbs_table.h"

struct ibv_sa_path_rec;
struct ib_user_path_rec;
struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;

namespace uroce::ibv::impl {

#define UROCE_VERB(ret, name, params, args, version) ret name params;
#include "verbs/ibverbs/catalogue/functions.def"
#include "verbs/ibverbs/catalogue/functions_extra.def"
#include "verbs/ibverbs/catalogue/functions_newer.def"
#undef UROCE_VERB

// Verbs that <infiniband/verbs.h> reaches through an object.
#define UROCE_OP(member, verb, ret, params, args) ret member params;
#define UROCE_EXTENDED UROCE_OP
#define UROCE_OF_OBJECT UROCE_OP
#include "verbs/ibverbs/catalogue/slots.def"
// Exported under private version nodes (exports_private.cc).
int ibv_query_gid_type(struct ibv_context* context, uint8_t port_num, unsigned int index, int* type);

}  // namespace uroce::ibv::impl
