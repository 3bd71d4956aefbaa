// SPDX-License-Identifier: Apache-2.0
// Packets between NICs of one user on one host go through rings in shared memory (packet_ring.h), everything else by
// UDP as before. Peer by peer, and no peer has to be told: the first packets to an address and slot go by UDP while a
// link is looked for, and the rest through the link if there is one.
//
// - Order. A sender changes to the link when all that it sent by UDP is in the receiver's socket; the receiver reads a
//   new link only after it has found its sockets empty.
// - What nobody acknowledges (UC and UD) gets a part of the ring, and waits for room there by itself: see room(). The
//   rest is for RC, whose windows of full packets fit into it.
// - A full ring, which is rare so, holds the sender back, as flow control on a link does, until half of it is free
//   again. A reader that takes too long for either is taken for a stopped one: packets to it are lost, and nobody has
//   to wait for it.
// - Management packets (QP 0 and QP 1) and multicast always go by UDP: the kernel knows whom they are for.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/port/udp_port.h"
#include "engine/shm/link_keeper.h"
#include "engine/shm/ring_receiver.h"
#include "engine/shm/ring_sender.h"

namespace uroce::engine {

class ShmPort final : public Port {
 public:
  /// `udp` is the port of a NIC that has `slot` of each of `locals`: a UdpPort. The error says why shared memory is
  /// impossible here; `udp` is left alone then.
  static Result<std::unique_ptr<ShmPort>, SetupError> open(std::unique_ptr<Port>& udp,
                                                           std::span<const proto::Gid> locals, std::uint8_t slot);

  std::uint16_t acquire_source_port(const proto::Gid& local, std::uint16_t wanted) override {
    return udp_->acquire_source_port(local, wanted);
  }
  void release_source_port(const proto::Gid& local, std::uint16_t port) override {
    udp_->release_source_port(local, port);
  }
  int join_group(const proto::Gid& group) override { return udp_->join_group(group); }
  void leave_group(const proto::Gid& group) override { udp_->leave_group(group); }
  void follow_addresses() override { udp_->follow_addresses(); }
  MutBytes tx_frame() override { return sender_.tx_frame(); }
  void tx_commit(const proto::Transmit& transmit) override { sender_.tx_commit(transmit); }
  proto::Room room(const proto::Path& path, std::uint32_t qpn) override { return sender_.room(path, qpn); }
  void flush() override;
  bool is_idle() const override { return sender_.is_idle() && udp_->is_idle(); }
  std::size_t exchange(DatagramSink& sink, std::size_t rx_budget) override;
  bool was_quick() const override { return was_quick_; }
  bool wait(std::optional<Instant> deadline) override;
  bool doze(Instant earliest, Duration slack) override;
  void mask_packets(bool masked) override;
  std::span<const int> packet_fds() const override { return packet_fds_; }
  bool expect_packets(bool expected) override;
  void look_everywhere() override { udp_ready_.store(true, std::memory_order_relaxed); }
  void wake() override { udp_->wake(); }
  void before_fork() override { keeper_->before_fork(); }
  void after_fork_in_parent() override { keeper_->after_fork_in_parent(); }
  void abandon_after_fork() override;
  PortInfo info() const override;
  PortCounters counters() const override;
  /// Rings that others write into.
  std::size_t links_in() const { return receiver_.size(); }

 private:
  ShmPort(std::unique_ptr<UdpPort> udp, std::unique_ptr<Bells> bells, std::unique_ptr<LinkKeeper> keeper);
  void take_news();
  std::size_t receive_by_rings(DatagramSink& sink, std::size_t budget);
  std::size_t exchange_udp(DatagramSink& sink, std::size_t budget);
  bool is_udp_due(std::size_t received);
  bool has_packets() const { return keeper_->has_news() || receiver_.has_packets(); }
  void set_waiting(bool waiting);
  template <class Sleep>
  bool sleep(const Sleep& sleep_by_udp);
  void note_udp(bool woken);

  std::unique_ptr<UdpPort> udp_;
  std::unique_ptr<Bells> bells_;
  std::vector<int> packet_fds_;
  std::unique_ptr<LinkKeeper> keeper_;
  RingSender sender_;
  RingReceiver receiver_;  ///< Gets and loses links with wait_mutex_ held.

  bool was_quick_ = false;  ///< The last exchange(), for a NIC that is answered by rings.
  Instant udp_busy_until_{};
  Instant udp_look_at_{};
  std::uint32_t idle_turns_ = 0;
  std::atomic<bool> udp_ready_ = false;  ///< wait() ended for another reason than time, or packets may be there.

  mutable std::mutex wait_mutex_;  ///< Guards what follows, and receiver_'s links against wait().
  bool waiting_ = false;
  bool expecting_ = false;    ///< See expect_packets().
  Instant socket_look_at_{};  ///< In a row of wait() that do not sleep.
  bool masked_ = false;
};

}  // namespace uroce::engine
