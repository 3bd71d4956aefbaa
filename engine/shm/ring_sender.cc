// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/ring_sender.h"

#include <algorithm>
#include <utility>

#include "proto/address.h"
#include "proto/base/copy_packet.h"
#include "proto/base/mix.h"
#include "proto/headers.h"

namespace uroce::engine {
namespace {

using namespace std::chrono_literals;

/// How long it takes until a peer that had no link is asked for one again.
constexpr Duration kAskAgain = 1s;
/// Names that are remembered, with or without a link.
constexpr std::size_t kNamesMost = 4096;
/// The reader is told of so many bytes, or packets, at once, so that it begins while the writer goes on. Without that,
/// posts that wait for the ACKs of those before them come in one lump, and the two sides work in turns.
constexpr std::size_t kPublishBytes = 16 * 1024;
constexpr std::uint32_t kPublishPackets = 16;
/// A full ring holds everybody back until so much of it is free, but no longer than so. A reader that lives needs a
/// millisecond for it, but on a busy machine tens of them until it gets a processor. Peers that wait for our answers
/// have more patience than that.
constexpr std::size_t kRoomAgain = kRingBytes / 2;
constexpr Duration kFullPatience = 100ms;
/// Packets that nobody acknowledges find room where so much is left for others. Enough of them are in the ring to keep
/// its reader busy until room is looked for again, and fewer than receives are posted, mostly.
constexpr std::size_t kAckedBytes = kRingBytes - 384 * 1024;
/// After so many packets in a row to one peer the next one is made in its ring. A packet for another peer that was made
/// there can be changed by the wrong one, and has to be copied from lines that are that one's.
constexpr std::uint32_t kRow = 4;

constexpr std::uint32_t kLastManagementQp = 1;

}  // namespace

std::size_t RingSender::NameHash::operator()(const LinkName& name) const {
  std::uint64_t hash = name.slot;
  for (const proto::Gid* gid : {&name.source, &name.destination}) {
    hash = mix(hash ^ load_be<8>(gid->raw.data()));
    hash = mix(hash ^ load_be<8>(gid->raw.data() + 8));
  }
  return hash;
}

/// The peer that gets this packet, if it may have a link.
RingSender::Peer* RingSender::peer_for(const proto::Transmit& transmit, Bytes packet) {
  if (packet.size() < proto::Bth::kSize) return nullptr;
  const proto::Path& path = transmit.path;
  const auto qpn = proto::ConstView<proto::Bth>{packet.data()}.get<proto::Bth::DestQp>();
  if (qpn <= kLastManagementQp || path.destination.is_multicast()) return nullptr;
  const LinkName name{
      .source = path.source, .destination = path.destination, .slot = static_cast<std::uint8_t>(qpn >> 16)};
  Peer* peer = known_peer(name);
  if (peer == nullptr) {
    if (peers_.size() >= kNamesMost) forget_peers();
    try {
      dirty_.reserve(peers_.size() + 1);  // To send takes no memory, ...
      full_.reserve(peers_.size() + 1);   // ... neither to wait.
      peer = peers_.emplace(name, std::make_unique<Peer>()).first->second.get();
    } catch (const std::bad_alloc&) {  // It goes by UDP.
      return nullptr;
    }
    peer->name = name;
  }
  if (peer != last_peer_) in_row_ = 0;
  return last_peer_ = peer;
}

RingSender::Peer* RingSender::known_peer(const LinkName& name) const {
  if (last_peer_ != nullptr && last_peer_->name == name) return last_peer_;
  const auto known = peers_.find(name);
  return known == peers_.end() ? nullptr : known->second.get();
}

/// Those without a link.
void RingSender::forget_peers() {
  publish();
  last_peer_ = nullptr;
  in_row_ = 0;
  std::erase_if(peers_, [](const auto& entry) { return !entry.second->link; });
}

/// Whether packets go through the link from now on. Asks for one if there is none.
bool RingSender::may_use_link(Peer& peer) {
  if (peer.uses_link) return true;
  if (!peer.link) {
    const Instant now = os_now();
    if (now < peer.ask_again) return false;
    peer.ask_again = now + kAskAgain;
    keeper_.want(peer.name);
    return false;
  }
  if (!udp_.is_idle()) udp_.flush();
  peer.uses_link = udp_.is_idle();
  peer.has_used_link |= peer.uses_link;
  return peer.uses_link;
}

MutBytes RingSender::tx_frame() {
  frame_peer_ = nullptr;
  if (full_.are_any() && must_wait()) return frame_ = {};
  frame_ = udp_.tx_frame();
  // Where the last packets went, the next one goes, most likely: it is made there, and not copied.
  if (frame_.empty() || in_row_ < kRow || !last_peer_->uses_link) return frame_;
  const MutBytes in_ring = last_peer_->link->ring.frame();
  if (in_ring.empty()) return frame_;
  frame_peer_ = last_peer_;
  return frame_ = in_ring;
}

/// After a packet was written to the peer's ring.
void RingSender::note_room(Peer& peer) {
  RingWriter& ring = peer.link->ring;
  if (peer.no_room_since != Instant{} && ring.has_room(kAckedBytes)) peer.no_room_since = {};
  if (peer.is_full || ring.has_room(peer.is_stuck ? kRoomAgain : kRecordMax)) {
    peer.is_stuck = false;
    return;
  }
  if (peer.is_stuck) return;
  publish(peer);
  peer.is_stuck = is_given_up(peer);
  if (peer.is_stuck) return;
  peer.is_full = true;
  peer.full_since = os_now();
  full_.add(peer);
}

/// Whether a full ring is worth waiting for.
bool RingSender::must_wait() {
  return full_.recheck([](Peer& peer) {
    if (peer.link && !peer.link->ring.has_room(kRoomAgain)) {
      peer.is_stuck = peer.link->ring.is_broken() || os_now() - peer.full_since > kFullPatience;
      if (!peer.is_stuck) return false;
    }
    peer.is_full = false;
    return true;
  });
}

/// Puts the packet in frame_ into the peer's ring.
bool RingSender::put(Peer& peer, const proto::Transmit& transmit) {
  const RecordHeader header{.size = transmit.size,
                            .source_port = transmit.path.source_port,
                            .tclass = transmit.path.tclass,
                            .hop_limit = std::max<std::uint8_t>(transmit.path.hop_limit, 1)};
  if (frame_peer_ == nullptr) return peer.link->ring.write(header, frame_.data());
  peer.link->ring.commit(header);
  return true;
}

void RingSender::tx_commit(const proto::Transmit& transmit) {
  Peer* const peer = peer_for(transmit, Bytes(frame_).first(transmit.size));
  if (frame_peer_ != nullptr && peer != frame_peer_) {  // It is for somebody else after all.
    const MutBytes own = udp_.tx_frame();
    copy_packet(own.data(), frame_.data(), transmit.size);
    frame_ = own;
    frame_peer_ = nullptr;
  }
  if (peer == nullptr || !may_use_link(*peer)) {
    sent_by_udp_ = true;
    return udp_.tx_commit(transmit);
  }
  ++in_row_;
  // Unless the packet is in the ring already it has been copied there, and the frame stays lent.
  RingWriter& ring = peer->link->ring;
  if (!put(*peer, transmit)) {
    ++counters_.send_errors;
    if (ring.is_broken()) {
      keeper_.drop(peer->link->id);
      end(peer->link->id);
    }
    return;
  }
  ++counters_.sent_packets;
  counters_.sent_bytes += transmit.size;
  note_room(*peer);
  if (ring.unpublished_bytes() >= kPublishBytes ||
      (reader_runs_meanwhile_ && ring.unpublished_packets() >= kPublishPackets)) {
    publish(*peer);
  } else if (!peer->is_dirty) {
    dirty_.push_back(peer);
    peer->is_dirty = true;
  }
}

proto::Room RingSender::room(const proto::Path& path, std::uint32_t qpn) {
  if (qpn <= kLastManagementQp) return proto::Room::kUnknown;
  const LinkName name{
      .source = path.source, .destination = path.destination, .slot = static_cast<std::uint8_t>(qpn >> 16)};
  Peer* const peer = known_peer(name);
  if (peer == nullptr || !peer->uses_link) return proto::Room::kUnknown;
  if (peer->link->ring.has_room(kAckedBytes)) {
    peer->no_room_since = {};
    return peer->link->program_bell.is_reading() ? proto::Room::kRead : proto::Room::kEnough;
  }
  if (peer->no_room_since == Instant{}) peer->no_room_since = os_now();
  return is_given_up(*peer) ? proto::Room::kUnknown : proto::Room::kNone;
}

/// Whether it has read too little for too long.
bool RingSender::is_given_up(const Peer& peer) {
  return peer.link->ring.is_broken() ||
         (peer.no_room_since != Instant{} && os_now() - peer.no_room_since > kFullPatience);
}

void RingSender::publish(Peer& peer) {
  peer.link->ring.publish();
  for (BellRope* const bell : {&peer.link->thread_bell, &peer.link->program_bell}) {
    if (bell->ring_if_asleep()) counters_.system_calls += 2;
    if (bell->is_broken()) peer.link->ring.give_up();
  }
}

void RingSender::publish() {
  for (Peer* const peer : dirty_) {
    peer->is_dirty = false;
    if (peer->link && peer->link->ring.unpublished_bytes() > 0) publish(*peer);
  }
  dirty_.clear();
}

void RingSender::add(OutgoingLink link) {
  const auto peer = peers_.find(link.name);
  if (peer == peers_.end()) return keeper_.drop(link.id);
  peer->second->link.emplace(std::move(link));
}

void RingSender::end(LinkId id) {
  for (auto& [name, peer] : peers_) {
    if (!peer->link || peer->link->id != id) continue;
    peer->link.reset();
    peer->uses_link = peer->is_full = peer->is_stuck = false;
    peer->no_room_since = {};
    full_.remove(*peer);
  }
}

std::vector<std::string> RingSender::destinations() const {
  std::vector<std::string> addresses;
  for (const auto& [name, peer] : peers_) {
    if (peer->has_used_link) addresses.push_back(proto::to_string(name.destination));
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

void RingSender::abandon() {
  for (auto& [name, peer] : peers_) {
    if (!peer->link) continue;
    peer->link->ring.forget();
    peer->link->thread_bell.close();
    peer->link->program_bell.close();
  }
}

}  // namespace uroce::engine
