// The capture file of a NIC (UROCE_PCAP) over the life of a process: programs open, close and open devices again.
#pragma once

#include <string>

#include "proto/pcap.h"

namespace uroce::ibv {

/// Opens the capture `file`: emptied by the first NIC of this process that writes to it, continued by those after it.
/// In a child that was forked from such a process the file is the parent's, and the child's own has ".PID" in its name.
/// The error is a sentence for people.
Result<proto::PcapWriter, std::string> open_capture(const std::string& file);

}  // namespace uroce::ibv
