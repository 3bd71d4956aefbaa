// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace uroce::ibv {

/// Whether a NIC's port is up. A fault can have it down, and so can the interface that has the NIC's address.
class PortState {
 public:
  /// Any thread may ask.
  bool is_up() const { return !by_fault_ && !by_interface_; }
  bool is_down_by_fault() const { return by_fault_; }
  /// A fault takes it down, or lets go of it. Returns whether the port has become another.
  bool set_fault(bool down) { return set(by_fault_, down); }
  /// The same for the interface.
  bool set_interface(bool down) { return set(by_interface_, down); }
  /// That is how the interface is found: no change.
  void find_interface(bool down) { by_interface_ = down; }
  /// How often a cause has come or gone.
  std::uint64_t changes() const { return changes_; }
  /// How often the port went down.
  std::uint64_t downs() const { return downs_; }

 private:
  bool set(std::atomic<bool>& cause, bool down) {
    if (cause == down) return false;
    const bool was_up = is_up();
    cause = down;
    ++changes_;
    if (was_up && down) ++downs_;
    return is_up() != was_up;
  }

  std::atomic<bool> by_fault_ = false, by_interface_ = false;
  std::uint64_t changes_ = 0, downs_ = 0;
};

}  // namespace uroce::ibv
