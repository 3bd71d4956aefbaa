// SPDX-License-Identifier: Apache-2.0
// What the two UDP ports have in common: the sockets, the transmit frames and their addresses, taking a received packet
// apart, waiting. What they differ in is how packets enter and leave the kernel.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <span>
#include <vector>

#include "engine/os/interrupts.h"
#include "engine/port/frame_pool.h"
#include "engine/port/group_sockets.h"
#include "engine/port/port.h"
#include "engine/port/send_sockets.h"

namespace uroce::engine {

class UdpPort : public Port {
 public:
  std::uint16_t acquire_source_port(const proto::Gid& local, std::uint16_t wanted) final;
  void release_source_port(const proto::Gid& local, std::uint16_t port) final;
  int join_group(const proto::Gid& group) final;
  void leave_group(const proto::Gid& group) final;
  void follow_addresses() final;
  MutBytes tx_frame() final;
  void tx_commit(const proto::Transmit& transmit) final;
  bool wait(std::optional<Instant> deadline) final;
  bool doze(Instant earliest, Duration slack) final;
  void mask_packets(bool masked) final;
  std::span<const int> packet_fds() const final { return interrupts_.sockets(); }
  void wake() final { interrupts_.wake(); }
  /// Why wait() or wake() is impossible: a port that has this is of no use.
  const std::optional<Interrupts::Refusal>& refusal() const { return interrupts_.refusal(); }
  bool is_idle() const final { return frames_.free_count() + (lent_ ? 1 : 0) == kFrames; }
  /// Each time that `fd` becomes readable ends a wait(), or the next one, also while packets are masked.
  void also_wake_by(int fd) { interrupts_.add_bell(fd); }
  void abandon_after_fork() override;
  PortInfo info() const final { return info_; }
  PortCounters counters() const final { return counters_; }

 protected:
  static constexpr std::uint32_t kFrames = 256;
  /// Room for one received packet; a byte more than the largest, so that longer ones show (and are refused as such).
  static constexpr std::size_t kReceiveSize = FramePool::kStride;
  static_assert(kReceiveSize > proto::kMaxPacketSize);

  /// A frame in use: what the kernel has to be told to send it.
  struct Outgoing {
    SendIndex index;
    SocketAddress to;
    iovec bytes{};
    msghdr message{};       ///< Refers to the members around it.
    SendControl control{};  ///< In the message when the socket's own header fields are not those of the packet.
  };

  UdpPort(std::vector<ReceiveSocket> receivers, PortInfo info);

  /// Queues a frame whose `outgoing_` entry is filled in.
  virtual void enqueue(FrameIndex frame) = 0;

  /// Counts a packet as sent and frees its frame.
  void sent(FrameIndex frame);
  /// Counts a packet as refused (a hard error, an errno value) and frees its frame: lost, as on a wire.
  void refused(FrameIndex frame, int error);
  /// Whether sends are queued because a socket buffer is full: wait() then returns soon, so that they are tried again.
  void set_blocked(bool blocked) { blocked_.store(blocked, std::memory_order_relaxed); }
  static constexpr bool is_full(int error) { return error == EAGAIN || error == ENOBUFS || error == EINTR; }

  /// Hands a received packet, or those of a train, to `sink`. `message` holds the sender's address and the control
  /// messages.
  void deliver(ReceiveSocket& socket, const msghdr& message, Bytes payload, DatagramSink& sink);

  /// Takes what has come for multicast groups, at most `budget` packets; returns how many.
  std::size_t receive_groups(DatagramSink& sink, std::size_t budget);

  /// Asks the kernel what it has dropped, behind an exchange(): now and then, and when a full socket has been emptied.
  /// (With SO_RXQ_OVFL it tells by itself, but with the next packet only, and there may be none.)
  void count_overruns();

  std::vector<ReceiveSocket> receivers_;
  GroupSockets groups_;
  SendSockets senders_{SendSockets::fair_share()};
  FramePool frames_{kFrames};
  std::vector<Outgoing> outgoing_{kFrames};  ///< By frame.
  PortCounters counters_;
  PortInfo info_;

 private:
  /// The addresses of the port.
  std::vector<proto::Gid> locals() const;
  std::optional<SendIndex> sender_for(const proto::Path& path);
  /// After a change of `masked_` or `groups_`.
  void update_group_mask();

  /// Fewer packets fill no buffer: that of an ordinary user has room for some 50 of the largest (rmem_max is 208 KiB).
  static constexpr std::uint32_t kFewestThatOverrun = 16;

  std::optional<FrameIndex> lent_;  ///< By tx_frame(), not committed yet.
  Interrupts interrupts_;
  bool masked_ = false;
  bool groups_masked_ = false;  ///< While there are none, nobody masks them.
  std::atomic<bool> blocked_ = false;
};

}  // namespace uroce::engine
