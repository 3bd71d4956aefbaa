// SPDX-License-Identifier: Apache-2.0
// UDP port 4791 through io_uring. One io_uring_enter submits the sends and a receive per address, and everything
// completes inside it: sends and receives carry MSG_DONTWAIT, so that no request stays armed in a thread (its
// completions would be that thread's task work, wherever it is by then). Waiting for packets is done outside of the
// ring. So is what is cheaper without: to send a packet that is alone, and to look for packets when there is no row of
// them to send, for most looks find nothing, or a packet or two.
//
// Measured on Linux 6.18, loopback, one CPU, medians of a few runs, 4096-byte packets unless noted:
// - Sending, per packet in batches of 32: send with address 2.70 us, sendmmsg 2.68, sendmsg 2.82, sendmsg with control
//   messages 2.95, zero-copy send from registered frames 3.04 (loopback copies all the same, and its second
//   completion is task work). Hence: plain send with address; sendmsg only for packets whose TOS or TTL
//   differ from their socket's; no zero-copy, no registered frames.
// - Sending one packet of 64 bytes on an AMD EPYC (25/17): send with address 3.27 us, sendmmsg 3.13, sendto 2.78. Two
//   packets: 5.58, 5.37, 5.53.
// - Suppressing the completions of successful sends gained nothing. Fixed files gained 2 %.
// - Receiving, per packet: multishot into a buffer ring 0.64 us in batches of 32, 1.67 alone; recvmmsg 0.60 and 1.17.
//   Finding nothing costs 0.6 us (recvmmsg: 0.3). On an AMD EPYC (25/17) a poll for nothing took 1.18 us by the ring
//   and 0.69 by recvmmsg.
// - A multishot receive with MSG_DONTWAIT takes up to 33 packets, then ends with EAGAIN although there are more
//   (the kernel would requeue it after 32 rounds, and MSG_DONTWAIT forbids that).
#pragma once

#include <bitset>
#include <memory>

#include "engine/port/receive_batch.h"
#include "engine/port/ring.h"
#include "engine/port/udp_port.h"

namespace uroce::engine {

class UringPort final : public UdpPort {
 public:
  /// Takes over `receivers`, one per address (at least one, at most kAddressesMax), or leaves them alone when it fails.
  /// `reason`: why this engine was chosen, for PortInfo.
  static Result<std::unique_ptr<UringPort>, SetupError> open(std::vector<ReceiveSocket>& receivers, std::string reason);

  void flush() override;
  std::size_t exchange(DatagramSink& sink, std::size_t rx_budget) override;
  void abandon_after_fork() override;

 private:
  static constexpr unsigned kEntries = 128;
  static constexpr unsigned kCompletions = 1024;
  static constexpr std::uint16_t kReceiveBuffers = 256;
  /// A multishot receive that got as many packets as this may have left some.
  static constexpr std::size_t kShot = 32;
  /// Packets that a look takes at most.
  static constexpr std::size_t kLook = 8;
  static constexpr std::size_t kAddressesMax = kReceiveBuffers / (kShot + 1);

  UringPort(Ring ring, BufferRing buffers, std::vector<ReceiveSocket> receivers, PortInfo info);
  void enqueue(FrameIndex frame) override { queue_.push_back(frame); }
  /// What a ring did not take stays in it, and has to be submitted first.
  bool is_ring_empty() const { return io_uring_sq_ready(ring_.get()) == 0; }
  bool may_send_alone() const { return queue_.size() == 1 && is_ring_empty(); }
  void send_alone();
  bool look(std::size_t receiver, DatagramSink& sink, std::size_t rx_budget);
  void queue_sends();
  void queue_receives();
  bool submit_and_reap(DatagramSink* sink);
  void on_sent(FrameIndex frame, int result);
  void on_received(std::size_t receiver, const io_uring_cqe& cqe, DatagramSink* sink);

  Ring ring_;
  BufferRing buffers_;
  msghdr receive_layout_{};                  ///< Sizes of name and control messages in a receive buffer.
  std::vector<FrameIndex> queue_;            ///< Committed, not submitted yet.
  std::vector<FrameIndex> full_;             ///< Came back because a socket buffer was full.
  std::bitset<SendSockets::kMax> is_fixed_;  ///< By send index: whether the socket is a fixed file of the ring.
  struct Shot {
    bool armed = false;
    std::size_t received = 0;
    bool maybe_more = false;
  };
  std::vector<Shot> shots_;  ///< By receiver.
  ReceiveBatch looks_{kLook, kReceiveSize};
};

}  // namespace uroce::engine
