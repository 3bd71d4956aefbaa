// SPDX-License-Identifier: Apache-2.0
// The executor of one process: waits until that is gone, and sends the wills that it has left (wills.h).
#pragma once

namespace uroce::engine {

/// `connection`: the end that came from Wills. Returns when everything has been sent, at once if there is nothing to be
/// sent; false: what came is no memory with wills.
bool execute_wills(int connection);

}  // namespace uroce::engine
