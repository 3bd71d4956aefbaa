// SPDX-License-Identifier: Apache-2.0
// The memory of the program that we are part of, touched so that the program survives when it is gone
// (docs/adr/0011-memory-that-goes.md).
#pragma once

#include "proto/base/clock.h"
#include "verbs/nic/model/user_memory.h"

namespace uroce::ibv {

/// One for each NIC, used under its lock. Copies are plain instructions whose faults a handler turns into failures; by
/// a thread whose faults would not reach the handler, the kernel is asked to copy.
class GuardedMemory final : public nic::UserMemory {
 public:
  GuardedMemory();

  /// To be called by each thread that is going to move packets, before it does.
  void begin_turn(Instant now) {
    now_ = now;
    is_known_ = false;
  }

  bool read(void* to, const void* from, std::size_t size) override;
  bool write(void* to, const void* from, std::size_t size) override;
  bool read_with_crc(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint32_t& crc) override;
  std::optional<std::uint64_t> fetch_add(std::uint64_t* word, std::uint64_t operand) override;
  std::optional<std::uint64_t> compare_swap(std::uint64_t* word, std::uint64_t expected,
                                            std::uint64_t desired) override;
  bool store(std::uint64_t* word, std::uint64_t value) override;

 private:
  bool can_fault() {
    if (!is_known_) look();
    return can_fault_;
  }
  void look();
  template <class Access>
  std::optional<std::uint64_t> in_one_step(std::uint64_t* word, Access access);

  Instant now_{};
  bool is_known_ = false;   ///< `can_fault_` is about this turn.
  bool can_fault_ = false;  ///< Our handler gets the faults of this thread.
};

}  // namespace uroce::ibv
