// SPDX-License-Identifier: Apache-2.0
// Requests and work requests that were refused, in words: what they were, and why.
#pragma once

#include <string>

#include "verbs/record/evidence.h"

namespace uroce::record {

/// "0x1f".
std::string hex(std::uint64_t value);
/// "1 packet", "2 packets".
std::string counted(std::uint64_t count, const std::string& what);

/// " (RC WRITE ONLY of 4096 bytes at 0x7f00 with R_Key 0x1234)"; "" where the packet is not known.
std::string request_text(const Recording::Packet* packet);

bool is_read(const Recording::Packet* packet);
/// READs and atomics.
bool is_answered_with_data(const Recording::Packet* packet);

/// Why the peer refused `request` as invalid, as far as that can be known here: ": perhaps ...".
std::string invalid_there(const Recording::Packet* request);
/// Why memory there is refused to `request`.
std::string no_access_there(const Recording::Packet* request);
/// Why the peer could not execute `request`.
std::string not_done_there(const Recording::Packet* request);
/// Why we refuse the request of the peer as invalid, or the memory it names.
std::string invalid_here(const Evidence& evidence, const Recording::Packet* request);
std::string no_access_here(const Evidence& evidence);
/// Why memory of a work request of ours can't be used. `writes`: it is to be written.
std::string bad_memory(const Evidence& evidence, bool writes);

}  // namespace uroce::record
