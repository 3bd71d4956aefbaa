// Tells, step by step, what the program does (--trace). On stderr, as stdout belongs to the result.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace uroce::tools {

inline bool g_trace = false;  ///< Set once, from the options.

template <class... Args>
void trace(fmt::format_string<Args...> format, Args&&... args) {
  if (!g_trace) return;
  fmt::print(stderr, "  {}\n", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace uroce::tools
