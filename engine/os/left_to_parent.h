// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace uroce::engine {

/// In a child of fork(): `object`, which is the parent's and can't be destroyed here, stays where leak checkers find
/// it. It has a member `T* left_before` for that: to take memory may be impossible.
template <class T>
void leave_to_parent(T& object) {
  static constinit T* last = nullptr;
  object.left_before = std::exchange(last, &object);
}

}  // namespace uroce::engine
