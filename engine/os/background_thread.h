// SPDX-License-Identifier: Apache-2.0
// A thread that lives inside somebody else's program.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace uroce::engine {

/// Starts a thread named "uroce" with all signals blocked: the program's signals are for the program's threads.
std::unique_ptr<std::thread> start_background_thread(std::function<void()> body);

}  // namespace uroce::engine
