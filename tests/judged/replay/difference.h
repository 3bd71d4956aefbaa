// SPDX-License-Identifier: Apache-2.0
// What our NIC did otherwise than rxe.
#pragma once

#include <string>
#include <vector>

#include "proto/frame.h"
#include "proto/packet.h"

namespace uroce::replay {

struct Difference {
  std::string aspect;  ///< "AETH syndrome", "packet", "time", "completion status", ...
  std::string rxe;
  std::string ours;
  std::string where;  ///< For people: which packet or completion.
};
using Differences = std::vector<Difference>;

/// "RC ACK psn=0x100 ...": a packet in words, its payload by its length.
std::string words(Bytes packet);

/// Every field of addressing and of every header, payload and pad. Not the IPv4 Identification, which is a counter in
/// rxe and 0 in ours, and so not the ICRC, which covers it; that ours is right under Identification 0 is checked.
Differences compare_packets(const proto::FrameView& rxe, const proto::Path& path, Bytes ours);

}  // namespace uroce::replay
