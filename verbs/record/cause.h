// SPDX-License-Identifier: Apache-2.0
// What broke a connection, in one sentence, from what its NIC remembers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verbs/record/ring.h"

namespace uroce::record {

struct Cause {
  std::uint32_t qpn = 0;
  Instant when{};
  std::string status;    ///< "RETRY_EXC_ERR", "QP_ACCESS_ERR", ...
  std::string sentence;  ///< "RETRY_EXC_ERR on QP 0x11: 8 transmissions of PSN 0x105, no answer: ..."
};

/// The errors in `recording` that came from within, oldest first; not what was only flushed behind them. At most
/// `most`, the last ones.
std::vector<Cause> causes(const Recording& recording, std::size_t most = 16);
/// The last one of `qpn`, or of all QPs (0).
std::optional<Cause> last_cause(const Recording& recording, std::uint32_t qpn = 0);

}  // namespace uroce::record
