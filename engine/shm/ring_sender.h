// SPDX-License-Identifier: Apache-2.0
// The sending half of ShmPort (shm_port.h, which has the rules): which packets go through which ring, and who waits
// when one is full.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/os/processors.h"
#include "engine/port/udp_port.h"
#include "engine/shm/blockers.h"
#include "engine/shm/link_keeper.h"

namespace uroce::engine {

class RingSender {
 public:
  /// What has no link goes through `udp`. Links are asked for from `keeper`. Both must outlive this.
  RingSender(UdpPort& udp, LinkKeeper& keeper) : udp_(udp), keeper_(keeper) {}

  /// Port::tx_frame().
  MutBytes tx_frame();
  /// Port::tx_commit().
  void tx_commit(const proto::Transmit& transmit);
  /// Port::room().
  proto::Room room(const proto::Path& path, std::uint32_t qpn);
  /// Shows their readers all that was sent, and wakes those that sleep.
  void publish();
  /// Whether there is nothing to publish.
  bool is_idle() const { return dirty_.empty(); }

  /// A link that was asked for is there.
  void add(OutgoingLink link);
  /// It is gone; nothing happens if it is none of these.
  void end(LinkId id);

  /// Whether the last packet went through a link.
  bool uses_link() const { return last_peer_ != nullptr && last_peer_->uses_link; }
  /// Whether packets have gone by UDP since forget_udp().
  bool has_sent_by_udp() const { return sent_by_udp_; }
  void forget_udp() { sent_by_udp_ = false; }
  /// Whether a full ring holds everybody back. Any thread.
  bool is_held_back() const { return full_.are_any(); }

  /// Of what goes through links.
  const PortCounters& counters() const { return counters_; }
  /// To which addresses packets have gone through links, as those in counters(), in order.
  std::vector<std::string> destinations() const;
  /// In a child of fork().
  void abandon();

 private:
  /// Where packets with one name go.
  struct Peer {
    LinkName name;
    std::optional<OutgoingLink> link;
    bool uses_link = false;  ///< Since all that was sent by UDP has left.
    bool has_used_link = false;
    bool is_dirty = false;  ///< In dirty_.
    bool is_full = false;   ///< In full_.
    bool is_stuck = false;  ///< Was full for too long. Until half of the ring is free.
    Instant full_since{};
    Instant no_room_since{};  ///< See room(); else Instant{}.
    Instant ask_again{};      ///< Without a link: not before.
  };
  struct NameHash {
    std::size_t operator()(const LinkName& name) const;
  };

  Peer* peer_for(const proto::Transmit& transmit, Bytes packet);
  Peer* known_peer(const LinkName& name) const;
  void forget_peers();
  bool may_use_link(Peer& peer);
  bool put(Peer& peer, const proto::Transmit& transmit);
  void publish(Peer& peer);
  void note_room(Peer& peer);
  static bool is_given_up(const Peer& peer);
  bool must_wait();

  UdpPort& udp_;
  LinkKeeper& keeper_;
  /// With a single processor they would only take turns more often.
  const bool reader_runs_meanwhile_ = !has_one_processor();
  PortCounters counters_;
  MutBytes frame_;              ///< Lent.
  Peer* frame_peer_ = nullptr;  ///< It is in the ring of this one.
  std::unordered_map<LinkName, std::unique_ptr<Peer>, NameHash> peers_;
  Peer* last_peer_ = nullptr;
  std::uint32_t in_row_ = 0;  ///< Packets to it since there was another.
  std::vector<Peer*> dirty_;  ///< Written to and not published.
  Blockers<Peer> full_;       ///< Whose readers everybody waits for.
  bool sent_by_udp_ = false;
};

}  // namespace uroce::engine
