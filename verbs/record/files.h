// SPDX-License-Identifier: Apache-2.0
// A recording as files: a pcapng whose packets have the NIC's own reasons as comments, and a JSON document.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/record/ring.h"

namespace uroce::record {

/// The packets, each as far as it was kept.
std::vector<std::uint8_t> pcapng_of(const Recording& recording);

/// How each JSON document begins.
inline constexpr std::string_view kDocumentBegin = "{\"schema\": \"uroce-record-1\"";

/// Schema "uroce-record-1" (docs/explain.md). `why`: what the recording was written for.
std::string json_of(const Recording& recording, const std::string& why);

}  // namespace uroce::record
