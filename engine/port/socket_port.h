// SPDX-License-Identifier: Apache-2.0
// UDP port 4791 through sendmmsg() and recvmmsg(): for hosts where io_uring is off or too old, and for segmentation
// offload, where there are few messages and their number does not matter.
//
// A train is a row of packets that passes the kernel's network stack as one message (UDP GSO and GRO), up to 64 KiB. On
// loopback it stays one; a network card, or the kernel in front of it, cuts it apart. All its packets have one size,
// but for the last, which may be shorter, and go to one QP: who shares a port among processes looks at the first only.
// The price: UDP checksums are not zero, and what leaves the host in IPv4 trains is numbered by the kernel
// (Identification 0, 1, 2 ... within a train), while the ICRC of each was made for 0.
#pragma once

#include <memory>

#include "engine/port/receive_batch.h"
#include "engine/port/udp_port.h"

namespace uroce::engine {

class SocketPort final : public UdpPort {
 public:
  enum class Trains : bool { kNo, kYes };
  /// `receivers`: one per address, at least one. `reason`: why this engine was chosen, for PortInfo.
  SocketPort(std::vector<ReceiveSocket> receivers, std::string reason, Trains trains = Trains::kNo);

  void flush() override;
  std::size_t exchange(DatagramSink& sink, std::size_t rx_budget) override;

 private:
  static constexpr std::size_t kBatch = 64;
  static constexpr std::size_t kTrainBytes = 65'000;  ///< A little less than an IPv4 packet can have.
  static constexpr std::size_t kTrainPackets = 64;    ///< UDP_MAX_SEGMENTS
  /// Few, so that they stay in the cache.
  static constexpr std::size_t kTrainsReceived = 4;

  void enqueue(FrameIndex frame) override;
  bool send_queue_of(SendIndex index);
  std::size_t prepare_to_send(std::span<const FrameIndex> queue);
  std::size_t train_length(std::span<const FrameIndex> queue);
  std::size_t receive_from(ReceiveSocket& socket, DatagramSink& sink, std::size_t budget);

  std::vector<std::vector<FrameIndex>> queues_;  ///< By send index: sendmmsg() sends from one socket.
  std::vector<SendIndex> active_;                ///< Sockets with a queue that is not empty.
  std::array<mmsghdr, kBatch> send_batch_{};
  std::array<std::size_t, kBatch> batch_packets_{};  ///< How many packets each message of `send_batch_` is.
  std::array<SendControl, kBatch> train_controls_{};
  std::vector<iovec> train_bytes_;
  bool send_trains_ = false;

  ReceiveBatch receives_;
  std::size_t next_receiver_ = 0;
};

}  // namespace uroce::engine
