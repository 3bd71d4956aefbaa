// SPDX-License-Identifier: Apache-2.0
#include "proto/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace uroce {

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "uroce: broken invariant: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace uroce
