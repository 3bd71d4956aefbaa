// SPDX-License-Identifier: Apache-2.0
// What was told, in plain words. One place for what the transcript and the summary both say.
#pragma once

#include <string>

#include "tools/explain/story/story.h"

namespace uroce::explain {

/// "SEND FIRST", "NAK PSN sequence error", "ACK", "REQ", ...
std::string what(const Packet& packet);
/// "message 3, bytes 1024..2047 of 8192"; empty when the packet carries no part of a message.
std::string part_text(const Packet& packet, const Told& told);
/// Why the packet was sent, and what is to be noted about it.
std::string why(const Packet& packet, const Told& told, const Names& names);
/// "because of the NAK #9, 0.30 ms before it"
std::string because(Reason reason, bool sure, Place cause, std::int64_t wait_ns, const Names& names);

/// "10.77.0.11 QP 0x93"
std::string text_of(const Endpoint& endpoint);
std::string text_of(Pairing pairing);
std::string text_of(proto::Service service);
/// "1 SEND of 8192 bytes", "12 RDMA READs of 1 to 4096 bytes"
std::string operation_text(Operation operation, const Numbers::PerOperation& row);
/// "10.0.0.2: the ICRC of all its 8 packets is wrong ...": what that may be.
std::string never_right_text(const NeverRight& sender);
/// "3.20 Gbit/s"
std::string rate_text(std::uint64_t bytes, std::int64_t ns);

}  // namespace uroce::explain
