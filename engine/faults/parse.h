// SPDX-License-Identifier: Apache-2.0
// The words of the fault language: numbers, times, probabilities, names. Nothing when the text is not one.
#pragma once

#include <string_view>
#include <utility>

#include "engine/faults/spec.h"

namespace uroce::engine::faults {

std::vector<std::string_view> split(std::string_view text, char separator);
/// What is before and behind the first `separator`; no second part when there is none.
std::pair<std::string_view, std::optional<std::string_view>> split_at(std::string_view text, char separator);
/// The rest of `text` behind `prefix`, if it begins so.
std::optional<std::string_view> after(std::string_view text, std::string_view prefix);

/// Decimal or 0x...; up to 24 bits, as PSNs and QP numbers are.
std::optional<std::uint32_t> parse_24_bits(std::string_view text);
/// "0x101", "0x101..0x110", "+0", "+0..15".
std::optional<PsnRange> parse_psns(std::string_view text);
/// A QP number, or "1st", "2nd", "13th".
std::optional<QpName> parse_qp(std::string_view text);
/// "5%" or "0.05", less than 1.
std::optional<double> parse_probability(std::string_view text);
/// "50us", "1.5ms", "2s", "100ns", "1h".
std::optional<Duration> parse_duration(std::string_view text);
/// "5ms" or "50us..2ms".
std::optional<std::pair<Duration, Duration>> parse_duration_range(std::string_view text);
/// "3", "2..5", or "2.." to the end; counted from 1.
std::optional<Which> parse_which(std::string_view text);
/// "ENOMEM", or a number.
std::optional<int> parse_errno(std::string_view text);
/// "RETRY_EXC_ERR": the name of an error in enum ibv_wc_status without IBV_WC_.
std::optional<int> parse_status(std::string_view text);
/// Why a connection is rejected: a number that a REJ can have, or one of the names in docs/faults.md.
std::optional<int> parse_reason(std::string_view text);
/// The first words of an opcode's name, in small letters with underscores, with or without the service in front
/// ("send", "rc_send_first"); or "read" for READ requests, "atomic" for both operations, "ack", "nak", "rnr"; or "cm",
/// "cm_req" ... for messages of connection management. Restricts `fault` to it; false when nothing is called that.
bool parse_operation(std::string_view text, PacketFault& fault);

}  // namespace uroce::engine::faults
