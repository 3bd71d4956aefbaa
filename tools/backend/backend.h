// SPDX-License-Identifier: Apache-2.0
// Which verbs implementation this program talks to, chosen at run time. The program itself is written on plain
// <infiniband/verbs.h>: verbs_forward.cc defines those functions and sends each call to the table selected here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "verbs/ibverbs/catalogue/verbs_table.h"
#include "verbs/ibverbs/host/facts.h"

namespace uroce::tools {

enum class Backend { kUroce, kIbverbs };

std::string_view backend_name(Backend backend);

/// Directs every ibv_* call of this process to `backend`. kIbverbs opens the system's libibverbs with dlopen, so that
/// the binary needs it only when it is asked for. Returns the reason as one sentence when that fails. Call it before
/// any verb and not again while anything is open.
std::optional<std::string> select_backend(Backend backend);

/// The selected backend and its functions. Before select_backend(): uroce.
Backend selected_backend();
const ibv::VerbsTable& selected_verbs();

/// Why the last call of the selected backend failed, or "" where it says no more than errno.
std::string last_backend_error();

/// Has the emulated NIC, where UROCE_ADDR does not say it, be on `address` of this host when it is opened next; "": on
/// a loopback address, as at first. Returns whether that is elsewhere than until now; never for other backends.
bool place_nic(const std::string& address);

/// Facts about the NIC behind `context`; nothing when the backend is not uroce.
std::optional<ibv::NicFacts> nic_facts(ibv_context* context);

/// Fills `table` from the shared library `soname`. Returns the reason as one sentence when that fails.
std::optional<std::string> load_verbs(const char* soname, ibv::VerbsTable& table);

}  // namespace uroce::tools
