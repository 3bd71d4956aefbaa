// SPDX-License-Identifier: Apache-2.0
// The writers of a capture: locks on bytes of the file, which end with the process, however it ends. They concern
// nothing but each other.
#pragma once

namespace uroce::proto {

/// Keeps a place among the writers of the file `fd`, as long as the open file description lives. 0, or an errno value.
int take_place(int fd);
/// Whether anybody else has a place.
bool others_have_places(int fd);

/// The right to write, which one has at a time.
class Pen {
 public:
  /// Waits for it, a second at most.
  explicit Pen(int fd);
  ~Pen();
  Pen(const Pen&) = delete;
  Pen& operator=(const Pen&) = delete;
  /// 0, or an errno value: EAGAIN when somebody keeps it, ENOLCK and others when the file system has no locks.
  int error() const { return error_; }

 private:
  int fd_;
  int error_;
};

}  // namespace uroce::proto
