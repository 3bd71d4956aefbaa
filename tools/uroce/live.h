// SPDX-License-Identifier: Apache-2.0
// What `uroce top` and `uroce qp` know about QPs of running processes, in words and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "verbs/ibverbs/host/published_qps.h"
#include "verbs/nic/model/names.h"

namespace uroce::tools {

std::string type_text(nic::QpType type);
/// "127.0.0.2 QP 0x11", or "" of a QP without a peer.
std::string peer_text(const ibv::LiveQp& qp);
/// PSNs between the oldest that is not acknowledged and the next one.
std::uint32_t outstanding(const ibv::LiveQp& qp);
/// Everything that is published, as of `now` of this machine's monotonic clock. docs/command.md describes it.
nlohmann::ordered_json to_json(const ibv::LiveQp& qp, Instant now);
/// The process and the NIC, without its QPs.
nlohmann::ordered_json to_json(const ibv::LiveNic& nic);

}  // namespace uroce::tools
