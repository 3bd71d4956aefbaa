// SPDX-License-Identifier: Apache-2.0
// Large memory of tests, used again. The first touch of a page costs 10 us on some virtual machines: thousands of tests
// with megabytes of their own spent half of their time on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace uroce::test {

/// The bytes of an MR, or what was in one. For tests of one thread.
class Memory {
 public:
  /// All are 0.
  explicit Memory(std::size_t size) : block_(take(size)), size_(size) { std::memset(data(), 0, size); }
  Memory(const Memory& other) : block_(take(other.size_)), size_(other.size_) {
    std::memcpy(data(), other.data(), size_);
  }
  Memory& operator=(const Memory&) = delete;
  ~Memory() { spare(size_).push_back(std::move(block_)); }

  std::uint8_t* data() { return block_.get(); }
  const std::uint8_t* data() const { return block_.get(); }
  std::size_t size() const { return size_; }
  std::uint8_t* begin() { return data(); }
  std::uint8_t* end() { return data() + size_; }
  const std::uint8_t* begin() const { return data(); }
  const std::uint8_t* end() const { return data() + size_; }
  std::uint8_t& operator[](std::size_t at) { return block_[at]; }
  std::uint8_t operator[](std::size_t at) const { return block_[at]; }
  bool operator==(const Memory& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  using Block = std::unique_ptr<std::uint8_t[]>;

  /// Blocks of that size that were given back.
  static std::vector<Block>& spare(std::size_t size) {
    static std::map<std::size_t, std::vector<Block>> blocks;
    return blocks[size];
  }
  static Block take(std::size_t size) {
    std::vector<Block>& blocks = spare(size);
    if (blocks.empty()) return Block(new std::uint8_t[size]);
    Block block = std::move(blocks.back());
    blocks.pop_back();
    return block;
  }

  Block block_;
  std::size_t size_;
};

}  // namespace uroce::test
