// SPDX-License-Identifier: Apache-2.0
// Not for programs: see catalogue/tool_verbs.h.
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/catalogue/tool_verbs.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/ibverbs/host/facts.h"

extern "C" __attribute__((visibility("default"))) const uroce::ibv::ToolVerbs liburoce_tool_verbs;

const uroce::ibv::ToolVerbs liburoce_tool_verbs{&uroce::ibv::uroce_verbs(), &uroce::ibv::nic_facts,
                                                &uroce::ibv::last_error, &uroce::ibv::place_automatic};
