// SPDX-License-Identifier: Apache-2.0
// Defines the verbs functions that <infiniband/verbs.h> declares: each call goes to the selected backend. Inline verbs
// (ibv_post_send, ibv_poll_cq, ...) go through the context that the backend made and need nothing here.
#include <cerrno>
#include <type_traits>

#include "tools/backend/backend.h"

namespace {

/// Calls `function`, or answers as a verb that the backend does not have: EOPNOTSUPP.
template <class R, class... Args>
struct Forward {
  R (*function)(Args...);

  R operator()(Args... args) const {
    if (function != nullptr) return function(args...);
    errno = EOPNOTSUPP;
    if constexpr (std::is_pointer_v<R>) {
      return nullptr;
    } else if constexpr (!std::is_void_v<R>) {
      return static_cast<R>(EOPNOTSUPP);
    }
  }
};
template <class R, class... Args>
Forward(R (*)(Args...)) -> Forward<R, Args...>;

}  // namespace

// Hidden: a libibverbs that the process loads must not bind to these.
#define UROCE_VERB(ret, name, params, args, version)                       \
  extern "C" __attribute__((visibility("hidden"))) ret name params {       \
    return Forward{uroce::tools::selected_verbs().name} args; /* NOLINT */ \
  }
#include "verbs/ibverbs/catalogue/functions.def"
#undef UROCE_VERB
