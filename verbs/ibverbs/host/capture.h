// SPDX-License-Identifier: Apache-2.0
// The capture file of a NIC (UROCE_PCAP) over the life of a process: programs open, close and open devices again.
#pragma once

#include <cstdint>
#include <string>

#include "proto/pcap.h"

namespace uroce::ibv {

/// What is wrong with a value of UROCE_PCAP, as a sentence for people; "" when nothing is.
std::string capture_complaint(const std::string& value);

/// Opens the capture that UROCE_PCAP names, `value`, for NIC `index` of this
/// process. A name is that of a new capture: what a former run
/// has left there goes. ">>" before it means that this one goes on there. Either way, NICs and processes that capture
/// into one file at the same time share it, forked children too, and a process that opens its NIC again goes on.
/// The error is a sentence for people.
Result<proto::PcapWriter, std::string> open_capture(const std::string& value, std::uint32_t index);

}  // namespace uroce::ibv
