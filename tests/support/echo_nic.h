// SPDX-License-Identifier: Apache-2.0
// The smallest NIC that exercises an engine: it sends what it is told to, answers requests, and runs one timer. Not a
// RoCE NIC: its packets are BTH-sized byte strings of which only the first bytes mean something to it.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "proto/base/clock.h"
#include "proto/path.h"

namespace uroce::test {

class EchoNic {
 public:
  static constexpr std::uint8_t kRequest = 1;
  static constexpr std::uint8_t kReply = 2;

  explicit EchoNic(proto::Gid gid) : gid_(gid) {}

  /// Queues a request of `size` >= 16 bytes that carries `tag`; the peer answers with a packet of the same size.
  void post(const proto::Gid& to, std::uint64_t tag, std::size_t size = 64) {
    proto::Path path;
    path.source = gid_;
    path.destination = to;
    path.source_port = source_port;
    queue_.push_back({path, make(kRequest, tag, size)});
  }
  /// Packets that it has to send.
  std::size_t queued() const { return queue_.size(); }
  void set_timer(Instant deadline) { deadline_ = deadline; }

  void on_datagram(const proto::Datagram& datagram, Instant now) {
    last_activity = now;
    received.emplace_back(datagram.payload.begin(), datagram.payload.end());
    last_path = datagram.path;
    if (datagram.payload.size() < 16) return;
    std::uint64_t tag = 0;
    std::memcpy(&tag, datagram.payload.data() + 8, sizeof tag);
    if (datagram.payload[0] == kReply) {
      replies.push_back(tag);
    } else if (answers) {
      proto::Path back = datagram.path;
      std::swap(back.source, back.destination);
      back.source_port = source_port;
      queue_.push_back({back, make(kReply, tag, datagram.payload.size())});
    }
  }
  void on_timeout(Instant now) {
    if (!deadline_ || *deadline_ > now) return;
    last_activity = now;
    deadline_.reset();
    ++timeouts;
  }
  std::optional<proto::Transmit> poll_transmit(Instant, MutBytes frame) {
    if (queue_.empty()) return std::nullopt;
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    std::copy(next.bytes.begin(), next.bytes.end(), frame.begin());
    return proto::Transmit{next.path, static_cast<std::uint32_t>(next.bytes.size())};
  }
  std::optional<Instant> next_deadline() const { return deadline_; }

  bool answers = true;
  std::uint16_t source_port = 0xC123;
  std::vector<std::uint64_t> replies;
  std::vector<std::vector<std::uint8_t>> received;
  proto::Path last_path;
  int timeouts = 0;
  Instant last_activity{};

 private:
  struct Queued {
    proto::Path path;
    std::vector<std::uint8_t> bytes;
  };

  static std::vector<std::uint8_t> make(std::uint8_t kind, std::uint64_t tag, std::size_t size) {
    std::vector<std::uint8_t> bytes(std::max<std::size_t>(size, 16));
    for (std::size_t i = 16; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(tag + i);
    bytes[0] = kind;
    std::memcpy(bytes.data() + 8, &tag, sizeof tag);
    return bytes;
  }

  proto::Gid gid_;
  std::deque<Queued> queue_;
  std::optional<Instant> deadline_;
};

}  // namespace uroce::test
