// SPDX-License-Identifier: Apache-2.0
#include "verbs/nic/model/user_memory.h"

#include <cstring>

#include "proto/crc32.h"

namespace uroce::nic {
namespace {

class SteadyMemory final : public UserMemory {
 public:
  bool read(void* to, const void* from, std::size_t size) override {
    std::memcpy(to, from, size);
    return true;
  }
  bool write(void* to, const void* from, std::size_t size) override { return read(to, from, size); }
  bool read_with_crc(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::uint32_t& crc) override {
    crc = proto::copy_with_crc32(crc, to, from, size);
    return true;
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t* word, std::uint64_t operand) override {
    return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
  }
  std::optional<std::uint64_t> compare_swap(std::uint64_t* word, std::uint64_t expected,
                                            std::uint64_t desired) override {
    __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
  }
  bool store(std::uint64_t* word, std::uint64_t value) override {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return true;
  }
};

}  // namespace

UserMemory& steady_memory() {
  static SteadyMemory memory;
  return memory;
}

}  // namespace uroce::nic
