// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>

namespace uroce::engine {

/// To be called when a library is loaded: exit() runs `last` when it has run all else, handlers of atexit() and the
/// destructors of the program and its libraries, which may use what `last` takes away. So the kernel closes
/// descriptors. (What std::atexit() registers, runs before whatever was registered earlier.) Returns 0, or another
/// number without memory. The library must never be unloaded.
template <void (*last)()>
int at_end_of_exit() {
  // Without an argument: ThreadSanitizer takes this for atexit(), and passes none on.
  return abi::__cxa_atexit([](void*) { last(); }, nullptr, nullptr);
}

}  // namespace uroce::engine
