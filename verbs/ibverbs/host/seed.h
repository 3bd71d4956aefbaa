// SPDX-License-Identifier: Apache-2.0
// The numbers by which peers name things of a NIC: QPNs and keys. Nobody is to guess them, so they begin anywhere;
// unless somebody wants them to be the same in every run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proto/base/result.h"
#include "verbs/nic/model/config.h"

namespace uroce::ibv {

/// Reads the value of UROCE_SEED ("" = not set): a whole number. The error is a sentence for people.
Result<std::optional<std::uint64_t>, std::string> parse_seed(const std::string& value);

/// Has NIC `index` begin its numbers where `seed` says: 0, with 0x11 and 0x1f8; another, the same for the same seed;
/// none, anywhere.
void choose_numbers(nic::NicConfig& config, std::optional<std::uint64_t> seed, std::uint32_t index);

}  // namespace uroce::ibv
