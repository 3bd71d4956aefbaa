// SPDX-License-Identifier: Apache-2.0
// What our libibverbs.so.1 offers to tools of the same build that find themselves with it in one process: the NICs are
// there, not in the copy of uroce that the tools contain.
#pragma once

#include <optional>
#include <string>

#include "verbs/ibverbs/catalogue/verbs_table.h"

namespace uroce::ibv {

struct NicFacts;

struct ToolVerbs {
  const VerbsTable* verbs;
  std::optional<NicFacts> (*nic_facts)(struct ibv_context*);
  std::string (*last_error)();
  bool (*place_automatic)(const std::string& address);
};

/// The symbol, an object of that type, without a version.
inline constexpr const char* kToolVerbsSymbol = "liburoce_tool_verbs";

}  // namespace uroce::ibv
