// SPDX-License-Identifier: Apache-2.0
// The steps of an RDMA program, numbered and named in the order of a textbook, for --trace: what was called, what came
// back, and one sentence why. The same number is the same step at both sides, so that their outputs can be read side by
// side. In English or Chinese (--lang).
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "tools/rdma/trace.h"

namespace uroce::tools {

enum class Step {
  kDeviceList,
  kDevice,
  kPort,
  kGid,
  kPd,
  kCq,
  kMr,
  kQpList,
  kInit,
  kReceives,
  kExchange,
  kRtr,
  kRts,
  kReady,
  kSends,
  kCompletions,
  kVerdicts,
  kCleanUp,
  kCount
};

struct StepText {
  std::string_view name;
  std::string_view what;  ///< A format string of fmt for what was called.
  std::string_view why;
};

enum class Language { kEnglish, kChinese };
inline Language g_language = Language::kEnglish;  ///< For the steps. Set once, from the options.

StepText step_text(Step step, Language language);

namespace detail {
void print_step(Step step, fmt::format_args arguments);
}

/// With --trace: prints the step. The arguments are those that the step's format names.
template <class... Args>
void trace_step(Step step, const Args&... args) {
  if (g_trace) detail::print_step(step, fmt::make_format_args(args...));
}

/// With --trace: a line within a step, in the language of the steps.
template <class... Args>
void trace_words(fmt::format_string<Args...> english, fmt::format_string<Args...> chinese, Args&&... args) {
  trace(g_language == Language::kChinese ? chinese : english, std::forward<Args>(args)...);
}

}  // namespace uroce::tools
