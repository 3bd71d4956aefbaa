// SPDX-License-Identifier: Apache-2.0
// Taking back what a descriptor was made readable with.
#pragma once

#include <cstddef>

namespace uroce::engine {

enum class TakenBack {
  kToken,
  kNothing,  ///< Another thread has read it.
  kNotOpen   ///< `fd` is not open.
};

/// Reads a token of `size` bytes (8 at most) from a pipe or an eventfd, and throws it away. Never waits for one,
/// whether the descriptor is non-blocking or not.
TakenBack take_back(int fd, std::size_t size);

}  // namespace uroce::engine
