// SPDX-License-Identifier: Apache-2.0
// `uroce explain`: tells what happened in captures of RoCE.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace uroce::explain {

struct Options {
  std::vector<std::string> files;
  bool packets = false;  ///< The transcript too.
  std::string only;      ///< "problems": the transcript of these alone.
  std::string qp;        ///< At either end: decimal, or 0x...
  std::string peer;      ///< Address of either end.
  bool json = false;
  std::string html;      ///< Where to write the page; empty: nowhere.
  std::string perfetto;  ///< Where to write the trace; empty: nowhere.
  bool follow = false;   ///< Wait for more at the end of the file.
};

/// Prints the story to stdout. 0; 1: a capture is not whole, or has nothing of RoCE; 2: can't be read.
int explain(const Options& options);

}  // namespace uroce::explain
