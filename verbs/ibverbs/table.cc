// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/catalogue/verbs_front.h"

namespace uroce::ibv {

const VerbsTable& uroce_verbs() {
  static constexpr VerbsTable kTable{
#define UROCE_VERB(ret, name, params, args, version) .name = &front::name,
#include "verbs/ibverbs/catalogue/functions.def"
#undef UROCE_VERB
  };
  return kTable;
}

}  // namespace uroce::ibv
