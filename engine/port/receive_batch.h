// SPDX-License-Identifier: Apache-2.0
// Receiving some datagrams with one recvmmsg(2).
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "engine/port/socket_address.h"
#include "engine/port/udp_socket.h"
#include "proto/bytes.h"

namespace uroce::engine {

/// Buffers for `count` datagrams of up to `size` bytes; longer ones are cut.
class ReceiveBatch {
 public:
  ReceiveBatch(std::size_t count, std::size_t size) : size_(size), memory_(count * size), slots_(count), batch_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      slots_[i].bytes = {.iov_base = memory_.data() + i * size, .iov_len = size};
      prepare(i);
    }
  }

  std::size_t count() const { return slots_.size(); }

  /// Takes what is there, `most` and count() at most, and calls `deliver(message, payload)` for each, which may use
  /// both until it returns. Returns how many. Does not wait; one system call.
  template <class Deliver>
  std::size_t receive(int fd, std::size_t most, const Deliver& deliver) {
    const auto wanted = static_cast<unsigned>(std::min(most, count()));
    const int result = ::recvmmsg(fd, batch_.data(), wanted, MSG_DONTWAIT, nullptr);
    const std::size_t got = result > 0 ? static_cast<std::size_t>(result) : 0;
    for (std::size_t i = 0; i < got; ++i) {
      deliver(batch_[i].msg_hdr, Bytes{memory_.data() + i * size_, batch_[i].msg_len});
      prepare(i);
    }
    return got;
  }

 private:
  struct Slot {
    SocketAddress from;
    alignas(cmsghdr) std::array<char, kReceiveTrainControlSize> control;
    iovec bytes;
  };
  /// The kernel overwrites the lengths of the entries that it used, and only of those.
  void prepare(std::size_t index) {
    Slot& slot = slots_[index];
    msghdr& message = batch_[index].msg_hdr;
    message = msghdr{};
    message.msg_name = &slot.from.v6;
    message.msg_namelen = sizeof slot.from.v6;
    message.msg_iov = &slot.bytes;
    message.msg_iovlen = 1;
    message.msg_control = slot.control.data();
    message.msg_controllen = slot.control.size();
  }

  std::size_t size_;
  std::vector<std::uint8_t> memory_;
  std::vector<Slot> slots_;
  std::vector<mmsghdr> batch_;
};

}  // namespace uroce::engine
