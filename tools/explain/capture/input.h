// SPDX-License-Identifier: Apache-2.0
// The bytes of a capture, once from the front to the back: a file, a pipe, or a file that still grows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/fd.h"
#include "proto/base/result.h"
#include "proto/bytes.h"

namespace uroce::explain {

class Input {
 public:
  /// "-" is standard input. `follow`: at the end of a file, wait for more of it, until stop().
  static Result<Input, std::string> open(const std::string& path, bool follow);
  /// For tests: bytes that are there already.
  explicit Input(std::vector<std::uint8_t> bytes) : buffer_(std::move(bytes)), filled_(buffer_.size()), ended_(true) {}

  /// The next `size` bytes, without taking them; fewer when the capture ends before. Waits for them. They are valid
  /// until the next call.
  Bytes peek(std::size_t size);
  /// Takes bytes that peek() has shown.
  void skip(std::size_t size);
  /// Bytes that were taken.
  std::uint64_t position() const { return position_; }
  /// For a file; nothing for a pipe.
  std::optional<std::uint64_t> size() const { return size_; }
  /// What reading failed with, if it failed: the capture ends there.
  const std::string& error() const { return error_; }

  /// From now on who follows waits for no more bytes. For signal handlers.
  static void stop();

 private:
  Input() = default;
  /// Reads some more; false at the end.
  bool fill();
  bool wait_for_growth();

  Fd fd_;
  Fd watch_;  ///< inotify, of a file that is followed.
  std::vector<std::uint8_t> buffer_;
  std::size_t begin_ = 0, filled_ = 0;
  std::uint64_t position_ = 0;
  std::optional<std::uint64_t> size_;
  std::string error_;
  bool follows_ = false;
  bool ended_ = false;
};

}  // namespace uroce::explain
