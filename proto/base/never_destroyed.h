// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace uroce {

/// For `constinit` variables that destructors of programs may want after ours would have run. They take no memory,
/// which may be missing, and no lock, which a child of fork() may find held.
template <class T>
union NeverDestroyed {
  constexpr NeverDestroyed() : value() {}
  constexpr ~NeverDestroyed() {}
  NeverDestroyed(const NeverDestroyed&) = delete;
  NeverDestroyed& operator=(const NeverDestroyed&) = delete;
  T value;
};

}  // namespace uroce
