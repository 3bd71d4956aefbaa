#include "verbs/ibverbs/verbs_front.h"

namespace uroce::ibv {

const VerbsTable& uroce_verbs() {
  static constexpr VerbsTable kTable{
#define UROCE_VERB(ret, name, params, args, version) .name = &front::name,
#include "verbs/ibverbs/functions.def"
#undef UROCE_VERB
  };
  return kTable;
}

}  // namespace uroce::ibv
