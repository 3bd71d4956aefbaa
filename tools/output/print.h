// SPDX-License-Identifier: Apache-2.0
// Output that can't fail: a closed stdout or stderr means that nobody wants to read it, which is no reason to end.
// (fmt::print throws.) A program whose output is all it does asks stdout_is_whole() at its end.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace uroce::tools {

template <class... Args>
void print_to(std::FILE* file, fmt::format_string<Args...> format, Args&&... args) {
  static_cast<void>(std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), file));
}

}  // namespace uroce::tools
