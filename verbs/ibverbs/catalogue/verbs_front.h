// SPDX-License-Identifier: Apache-2.0
// Our verbs as programs reach them: impl.h's, with the failures in front that were asked for (call_faults.h).
#pragma once

#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::ibv::front {

#define UROCE_VERB(ret, name, params, args, version) ret name params;
#include "verbs/ibverbs/catalogue/functions.def"
#include "verbs/ibverbs/catalogue/functions_extra.def"
#include "verbs/ibverbs/catalogue/functions_newer.def"
#undef UROCE_VERB

#define UROCE_OP(member, verb, ret, params, args) ret member params;
#define UROCE_EXTENDED UROCE_OP
#define UROCE_OF_OBJECT UROCE_OP
#include "verbs/ibverbs/catalogue/slots.def"

}  // namespace uroce::ibv::front
