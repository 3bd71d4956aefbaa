// SPDX-License-Identifier: Apache-2.0
// A capture of two kernels, with our connection manager in the place of one of them. What its program did is read from
// the packets: a REQ that has not been seen before is a connect(), and so on; everything else has to come by itself, at
// its time. Compared field by field, but for numbers that everybody draws for himself.
#pragma once

#include <string>
#include <vector>

#include "proto/base/clock.h"
#include "proto/cm/message.h"

namespace uroce::cm::test {

/// A message as it was captured.
struct Captured {
  Instant time;
  bool ours = false;  ///< Sent by the side that we replace.
  proto::Path path;
  std::vector<std::uint8_t> mad;
  proto::cm::MessageView view() const { return *proto::cm::parse_message(mad); }
};

struct ReplayResult {
  std::vector<std::string> differences;
  std::vector<std::string> events;  ///< As librdmacm calls them, with their status.
  std::size_t compared = 0, fed = 0;
};

/// `guid`: of the side that we replace; `backlog`: of its listeners.
ReplayResult replay(std::vector<Captured> messages, std::uint64_t guid, std::uint32_t backlog);

}  // namespace uroce::cm::test
