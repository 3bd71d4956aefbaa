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
#include <unordered_map>
#include <vector>

#include "engine/os/processors.h"
#include "engine/port/udp_port.h"
#include "engine/shm/blockers.h"
#include "engine/shm/link_keeper.h"

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
  MutBytes tx_frame() override;
  void tx_commit(const proto::Transmit& transmit) override;
  proto::Room room(const proto::Path& path, std::uint32_t qpn) override;
  void flush() override;
  bool is_idle() const override { return dirty_.empty() && udp_->is_idle(); }
  std::size_t exchange(DatagramSink& sink, std::size_t rx_budget) override;
  bool was_quick() const override { return was_quick_; }
  bool wait(std::optional<Instant> deadline) override;
  void mask_packets(bool masked) override;
  std::span<const int> packet_fds() const override { return packet_fds_; }
  bool expect_packets(bool expected) override;
  void put_off(Instant until) override { udp_->put_off(until); }
  void wake() override { udp_->wake(); }
  void before_fork() override { keeper_->before_fork(); }
  void after_fork_in_parent() override { keeper_->after_fork_in_parent(); }
  void abandon_after_fork() override;
  PortInfo info() const override;
  PortCounters counters() const override;
  /// Rings that others write into.
  std::size_t links_in() const { return sources_.size(); }

 private:
  /// Where packets with one name go.
  struct Peer {
    LinkName name;
    std::optional<OutgoingLink> link;
    bool uses_link = false;  ///< Since all that was sent by UDP has left.
    bool is_dirty = false;   ///< In dirty_.
    bool is_full = false;    ///< In full_.
    bool is_stuck = false;   ///< Was full for too long. Until half of the ring is free.
    Instant full_since{};
    Instant no_room_since{};  ///< See room(); else Instant{}.
    Instant ask_again{};      ///< Without a link: not before.
  };
  struct Source {
    std::unique_ptr<IncomingLink> link;
    bool is_open = false;  ///< What came by UDP before has been received.
    bool is_over = false;  ///< Its writer is gone.
  };
  struct NameHash {
    std::size_t operator()(const LinkName& name) const;
  };

  ShmPort(std::unique_ptr<UdpPort> udp, Bells bells);
  Peer* peer_for(const proto::Transmit& transmit, Bytes packet);
  Peer* known_peer(const LinkName& name) const;
  bool may_use_link(Peer& peer);
  bool put(Peer& peer, const proto::Transmit& transmit);
  void publish(Peer& peer);
  void publish_all();
  void note_room(Peer& peer);
  static bool is_given_up(const Peer& peer);
  bool is_held_back();
  void take_news();
  void end_link(LinkId id);
  void forget_peers();
  std::size_t receive(DatagramSink& sink, std::size_t budget);
  std::size_t read_from(Source& source, DatagramSink& sink, std::size_t budget);
  std::size_t exchange_udp(DatagramSink& sink, std::size_t budget);
  bool is_udp_due(std::size_t received);
  bool has_packets() const;
  void set_waiting(bool waiting);

  std::unique_ptr<UdpPort> udp_;
  Bells bells_;
  /// With a single processor they would only take turns more often.
  const bool reader_runs_meanwhile_ = !has_one_processor();
  std::vector<int> packet_fds_;
  std::unique_ptr<LinkKeeper> keeper_;
  PortCounters counters_;  ///< What goes through links.

  MutBytes frame_;              ///< Lent.
  Peer* frame_peer_ = nullptr;  ///< It is in the ring of this one.
  std::unordered_map<LinkName, std::unique_ptr<Peer>, NameHash> peers_;
  Peer* last_peer_ = nullptr;
  std::uint32_t in_row_ = 0;  ///< Packets to it since there was another.
  std::vector<Peer*> dirty_;  ///< Written to and not published.
  Blockers<Peer> full_;       ///< Whose readers everybody waits for.

  std::vector<std::unique_ptr<Source>> sources_;  ///< Changed with wait_mutex_ held.
  std::size_t next_source_ = 0;
  alignas(64) std::array<std::uint8_t, FramePool::kStride> received_;

  bool udp_sent_ = false;   ///< Since the last look.
  bool was_quick_ = false;  ///< The last exchange(), for a NIC that is answered by rings.
  Instant udp_busy_until_{};
  Instant udp_look_at_{};
  std::uint32_t idle_turns_ = 0;
  std::atomic<bool> udp_ready_ = false;  ///< wait() ended for another reason than time.

  mutable std::mutex wait_mutex_;  ///< Guards what follows, and sources_ against wait().
  bool waiting_ = false;
  bool expecting_ = false;    ///< See expect_packets().
  Instant socket_look_at_{};  ///< In a row of wait() that do not sleep.
  bool masked_ = false;
};

}  // namespace uroce::engine
