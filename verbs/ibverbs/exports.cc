// SPDX-License-Identifier: Apache-2.0
// The C functions of libibverbs.so.1. Versions: the script that CMakeLists.txt makes from the same rows.
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/verbs_front.h"

namespace {
[[maybe_unused]] const bool kPlainVerbs = (uroce::ibv::explain_settings(), true);
}  // namespace

extern "C" {
// NOLINTBEGIN(bugprone-macro-parentheses): parameter lists are not expressions.
#define UROCE_VERB(ret, name, params, args, version) \
  __attribute__((visibility("default"))) ret name params { return uroce::ibv::front::name args; }
#include "verbs/ibverbs/catalogue/functions.def"
#include "verbs/ibverbs/catalogue/functions_extra.def"
#include "verbs/ibverbs/catalogue/functions_newer.def"
#undef UROCE_VERB
// NOLINTEND(bugprone-macro-parentheses)
}
