// SPDX-License-Identifier: Apache-2.0
// Tells, step by step, what the program does (--trace). On stderr, as stdout belongs to the result.
#pragma once

#include <utility>

#include "tools/output/print.h"

namespace uroce::tools {

inline bool g_trace = false;  ///< Set once, from the options.

template <class... Args>
void trace(fmt::format_string<Args...> format, Args&&... args) {
  if (!g_trace) return;
  print_to(stderr, "  {}\n", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace uroce::tools
