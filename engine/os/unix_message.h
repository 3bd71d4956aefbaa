// SPDX-License-Identifier: Apache-2.0
// Messages over Unix sockets that keep their bounds (SOCK_SEQPACKET), with descriptors.
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "engine/os/fd.h"

namespace uroce::engine {

/// Sends `size` bytes and copies of `descriptors` (at most 253). Never blocks, never raises SIGPIPE. False: errno says
/// why not; ETOOMANYREFS: this user has more descriptors under way than RLIMIT_NOFILE, the hard limit of this process.
bool send_message(int socket, const void* bytes, std::size_t size, std::span<const int> descriptors = {});

/// Receives a message of exactly `size` bytes without blocking, with `flags` of recvmsg(2); its descriptors go to
/// `descriptors`, close-on-exec. False: nothing there (errno EAGAIN), no room for its descriptors (EMFILE: it is gone),
/// end of the connection, or a message of another size (both: errno EPROTO).
bool receive_message(int socket, void* bytes, std::size_t size, std::vector<Fd>& descriptors, int flags = 0);

template <class T>
bool send_message(int socket, const T& message, std::span<const int> descriptors = {}) {
  static_assert(std::is_trivially_copyable_v<T>);
  return send_message(socket, &message, sizeof message, descriptors);
}
template <class T>
bool receive_message(int socket, T& message, std::vector<Fd>& descriptors) {
  static_assert(std::is_trivially_copyable_v<T>);
  return receive_message(socket, &message, sizeof message, descriptors);
}

}  // namespace uroce::engine
