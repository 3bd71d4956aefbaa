// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/shm_port.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
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
/// How soon it is tried again when nobody polls.
constexpr Duration kRetryFull = 100us;
/// After a packet by UDP more of them are expected for so long; else a look now and then is enough, for it is a system
/// call. A thread that sleeps is woken by them all the same.
constexpr Duration kUdpBusy = 1ms;
constexpr Duration kUdpLook = 100us;
/// The same for a thread that lingers, which it does not do for long.
constexpr Duration kUdpLookLingering = 20us;
constexpr std::uint32_t kTurnsPerClock = 8;
/// After so many packets in a row to one peer the next one is made in its ring. A packet for another peer that was made
/// there can be changed by the wrong one, and has to be copied from lines that are that one's.
constexpr std::uint32_t kRow = 4;

constexpr std::uint32_t kLastManagementQp = 1;

}  // namespace

std::size_t ShmPort::NameHash::operator()(const LinkName& name) const {
  std::uint64_t hash = name.slot;
  for (const proto::Gid* gid : {&name.source, &name.destination}) {
    hash = mix(hash ^ load_be<8>(gid->raw.data()));
    hash = mix(hash ^ load_be<8>(gid->raw.data() + 8));
  }
  return hash;
}

Result<std::unique_ptr<ShmPort>, SetupError> ShmPort::open(std::unique_ptr<Port>& udp,
                                                           std::span<const proto::Gid> locals, std::uint8_t slot) {
  auto* const below = dynamic_cast<UdpPort*>(udp.get());
  if (below == nullptr) return Err{SetupError{EOPNOTSUPP, "the NIC's port has no UDP sockets"}};
  auto thread = Bell::make();
  auto program = Bell::make();
  const bool has_room = thread && program && make_shared_memory(kRingMemory);
  if (!has_room) {
    const int error = errno;
    const char* const remedy = error == EFBIG ? "; raise RLIMIT_FSIZE (ulimit -f)" : "";
    return Err{SetupError{error, std::string("can't make shared memory: ") + std::strerror(error) + remedy}};
  }
  std::unique_ptr<ShmPort> port(new ShmPort(nullptr, {std::move(*thread), std::move(*program)}));
  auto keeper = LinkKeeper::start(locals, slot, port->bells_, [below] { below->wake(); });
  if (!keeper) return Err{keeper.error()};
  port->keeper_ = std::move(*keeper);
  static_cast<void>(udp.release());
  port->udp_.reset(below);
  port->udp_->also_wake_by(port->bells_.thread.fd());
  const auto sockets = port->udp_->packet_fds();
  port->packet_fds_.assign(sockets.begin(), sockets.end());
  port->packet_fds_.push_back(port->bells_.program.fd());
  return port;
}

ShmPort::ShmPort(std::unique_ptr<UdpPort> udp, Bells bells) : udp_(std::move(udp)), bells_(std::move(bells)) {}

/// The peer that gets this packet, if it may have a link.
ShmPort::Peer* ShmPort::peer_for(const proto::Transmit& transmit, Bytes packet) {
  if (packet.size() < proto::Bth::kSize) return nullptr;
  const proto::Path& path = transmit.path;
  const auto qpn = proto::ConstView<proto::Bth>{packet.data()}.get<proto::Bth::DestQp>();
  if (qpn <= kLastManagementQp || path.destination.is_multicast()) return nullptr;
  const LinkName name{
      .source = path.source, .destination = path.destination, .slot = static_cast<std::uint8_t>(qpn >> 16)};
  Peer* peer = known_peer(name);
  if (peer == nullptr) {
    if (peers_.size() >= kNamesMost) forget_peers();
    peer = peers_.emplace(name, std::make_unique<Peer>()).first->second.get();
    peer->name = name;
  }
  if (peer != last_peer_) in_row_ = 0;
  return last_peer_ = peer;
}

ShmPort::Peer* ShmPort::known_peer(const LinkName& name) const {
  if (last_peer_ != nullptr && last_peer_->name == name) return last_peer_;
  const auto known = peers_.find(name);
  return known == peers_.end() ? nullptr : known->second.get();
}

/// Those without a link.
void ShmPort::forget_peers() {
  publish_all();
  last_peer_ = nullptr;
  in_row_ = 0;
  std::erase_if(peers_, [](const auto& entry) { return !entry.second->link; });
}

/// Whether packets go through the link from now on. Asks for one if there is none.
bool ShmPort::may_use_link(Peer& peer) {
  if (peer.uses_link) return true;
  if (keeper_->has_news()) take_news();
  if (!peer.link) {
    const Instant now = os_now();
    if (now < peer.ask_again) return false;
    peer.ask_again = now + kAskAgain;
    keeper_->want(peer.name);
    return false;
  }
  if (!udp_->is_idle()) udp_->flush();
  return peer.uses_link = udp_->is_idle();
}

MutBytes ShmPort::tx_frame() {
  frame_peer_ = nullptr;
  if (full_.are_any() && is_held_back()) return frame_ = {};
  frame_ = udp_->tx_frame();
  // Where the last packets went, the next one goes, most likely: it is made there, and not copied.
  if (frame_.empty() || in_row_ < kRow || !last_peer_->uses_link) return frame_;
  const MutBytes in_ring = last_peer_->link->ring.frame();
  if (in_ring.empty()) return frame_;
  frame_peer_ = last_peer_;
  return frame_ = in_ring;
}

/// After a packet was written to the peer's ring.
void ShmPort::note_room(Peer& peer) {
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
bool ShmPort::is_held_back() {
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
bool ShmPort::put(Peer& peer, const proto::Transmit& transmit) {
  const RecordHeader header{.size = transmit.size,
                            .source_port = transmit.path.source_port,
                            .tclass = transmit.path.tclass,
                            .hop_limit = std::max<std::uint8_t>(transmit.path.hop_limit, 1)};
  if (frame_peer_ == nullptr) return peer.link->ring.write(header, frame_.data());
  peer.link->ring.commit(header);
  return true;
}

void ShmPort::tx_commit(const proto::Transmit& transmit) {
  Peer* const peer = peer_for(transmit, Bytes(frame_).first(transmit.size));
  if (frame_peer_ != nullptr && peer != frame_peer_) {  // It is for somebody else after all.
    const MutBytes own = udp_->tx_frame();
    copy_packet(own.data(), frame_.data(), transmit.size);
    frame_ = own;
    frame_peer_ = nullptr;
  }
  if (peer == nullptr || !may_use_link(*peer)) {
    udp_sent_ = true;
    return udp_->tx_commit(transmit);
  }
  ++in_row_;
  // Unless the packet is in the ring already it has been copied there, and the frame stays lent.
  RingWriter& ring = peer->link->ring;
  if (!put(*peer, transmit)) {
    ++counters_.send_errors;
    if (ring.is_broken()) {
      keeper_->drop(peer->link->id);
      end_link(peer->link->id);
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
    peer->is_dirty = true;
    dirty_.push_back(peer);
  }
}

proto::Room ShmPort::room(const proto::Path& path, std::uint32_t qpn) {
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
bool ShmPort::is_given_up(const Peer& peer) {
  return peer.link->ring.is_broken() ||
         (peer.no_room_since != Instant{} && os_now() - peer.no_room_since > kFullPatience);
}

void ShmPort::publish(Peer& peer) {
  peer.link->ring.publish();
  for (BellRope* const bell : {&peer.link->thread_bell, &peer.link->program_bell}) {
    if (bell->ring_if_asleep()) ++counters_.system_calls;
  }
}

void ShmPort::publish_all() {
  for (Peer* const peer : dirty_) {
    peer->is_dirty = false;
    if (peer->link && peer->link->ring.unpublished_bytes() > 0) publish(*peer);
  }
  dirty_.clear();
}

void ShmPort::flush() {
  publish_all();
  udp_->flush();
}

void ShmPort::take_news() {
  LinkNews news = keeper_->take_news();
  {
    const std::lock_guard lock(wait_mutex_);
    for (auto& link : news.incoming) {
      sources_.push_back(std::make_unique<Source>());
      sources_.back()->link = std::move(link);
    }
  }
  for (OutgoingLink& link : news.outgoing) {
    const auto peer = peers_.find(link.name);
    if (peer == peers_.end()) {
      keeper_->drop(link.id);
    } else {
      peer->second->link.emplace(std::move(link));
    }
  }
  for (const LinkId id : news.ended) end_link(id);
}

void ShmPort::end_link(LinkId id) {
  for (auto& [name, peer] : peers_) {
    if (!peer->link || peer->link->id != id) continue;
    peer->link.reset();
    peer->uses_link = peer->is_full = peer->is_stuck = false;
    peer->no_room_since = {};
    full_.remove(*peer);
  }
  for (const auto& source : sources_) {
    if (source->link->id == id) source->is_over = true;
  }
}

std::size_t ShmPort::exchange(DatagramSink& sink, std::size_t rx_budget) {
  publish_all();
  if (keeper_->has_news()) take_news();
  // A NIC that sends by a ring has links, too, without answers (UD and UC). But it says nothing of being quick: it
  // would send at once what is posted first, which costs a stream more than it saves.
  const bool has_links = !sources_.empty() || (last_peer_ != nullptr && last_peer_->uses_link);
  was_quick_ = !sources_.empty();
  if (!has_links) {
    udp_sent_ = false;
    return udp_->exchange(sink, rx_budget);
  }
  std::size_t received = receive(sink, rx_budget);
  if (is_udp_due(received)) received += exchange_udp(sink, rx_budget);
  return received;
}

bool ShmPort::is_udp_due(std::size_t received) {
  if (udp_sent_) return true;
  if (udp_ready_.load(std::memory_order_relaxed)) {
    udp_ready_.store(false, std::memory_order_relaxed);
    return true;
  }
  // A turn that finds nothing takes less time than some looks at the clock.
  idle_turns_ = received > 0 ? 0 : idle_turns_ + 1;
  if (idle_turns_ % kTurnsPerClock != 0) return false;
  const Instant now = os_now();
  return now < udp_busy_until_ || now >= udp_look_at_;
}

std::size_t ShmPort::exchange_udp(DatagramSink& sink, std::size_t budget) {
  was_quick_ = false;
  const std::size_t received = udp_->exchange(sink, budget);
  const Instant now = os_now();
  if (received > 0 || udp_sent_) udp_busy_until_ = now + kUdpBusy;
  udp_sent_ = false;
  udp_look_at_ = now + kUdpLook;
  return received;
}

std::size_t ShmPort::receive(DatagramSink& sink, std::size_t budget) {
  std::size_t received = 0;
  bool is_any_over = false;
  for (std::size_t i = 0; i < sources_.size() && received < budget; ++i) {
    Source& source = *sources_[(next_source_ + i) % sources_.size()];
    if (!source.link->ring.is_empty()) {
      if (!source.is_open) {
        const std::size_t by_udp = exchange_udp(sink, budget);
        received += by_udp;
        if (by_udp > 0) continue;
        source.is_open = true;
      }
      received += read_from(source, sink, budget - received);
    }
    is_any_over |= source.is_over;
  }
  if (received >= budget) ++next_source_;  // One busy link must not starve the others.
  if (is_any_over) {
    const std::lock_guard lock(wait_mutex_);
    std::erase_if(sources_, [](const auto& source) { return source->is_over && source->link->ring.is_empty(); });
  }
  return received;
}

std::size_t ShmPort::read_from(Source& source, DatagramSink& sink, std::size_t budget) {
  const proto::Path from_to{.source = source.link->name.source, .destination = source.link->name.destination};
  RingReader& ring = source.link->ring;
  std::size_t received = 0;
  for (; received < budget; ++received) {
    const auto datagram = ring.read(from_to, received_);
    if (!datagram) break;
    ++counters_.received_packets;
    counters_.received_bytes += datagram->payload.size();
    sink.on_datagram(*datagram);
  }
  ring.release();
  if (ring.is_broken() && !source.is_over) {
    keeper_->drop(source.link->id);
    source.is_over = true;
  }
  return received;
}

bool ShmPort::has_packets() const {
  return keeper_->has_news() || std::any_of(sources_.begin(), sources_.end(),
                                            [](const auto& source) { return !source->link->ring.is_empty(); });
}

/// With wait_mutex_ held.
void ShmPort::set_waiting(bool waiting) {
  waiting_ = waiting;
  bells_.thread.set_asleep(waiting_ && !masked_);
}

bool ShmPort::wait(std::optional<Instant> deadline) {
  const bool is_held = full_.are_any();
  const Instant now = deadline || is_held ? os_now() : Instant{};
  if (is_held) deadline = std::min(deadline.value_or(Instant::max()), now + kRetryFull);
  const bool is_look = deadline && *deadline <= now;
  {
    const std::lock_guard lock(wait_mutex_);
    if (!is_look) set_waiting(true);
    if (!masked_ && has_packets()) {
      if (!is_look) set_waiting(false);
      return true;
    }
    // A thread that looks again and again looks at the rings: the sockets need a system call.
    if (is_look && !sources_.empty() && now < socket_look_at_) return false;
    socket_look_at_ = now + kUdpLookLingering;
  }
  const bool woken = udp_->wait(deadline);
  const std::lock_guard lock(wait_mutex_);
  if (!is_look) set_waiting(false);
  if (woken && !has_packets()) udp_ready_.store(true, std::memory_order_relaxed);
  return woken;
}

void ShmPort::mask_packets(bool masked) {
  udp_->mask_packets(masked);
  const std::lock_guard lock(wait_mutex_);
  masked_ = masked;
  bells_.program.set_reading(masked);
  set_waiting(waiting_);
  if (waiting_ && !masked_ && has_packets()) udp_->wake();
}

bool ShmPort::expect_packets(bool expected) {
  const std::lock_guard lock(wait_mutex_);
  if (std::exchange(expecting_, expected) == expected) return !has_packets();
  bells_.program.set_asleep(expected);
  const bool is_quiet = !has_packets();
  if (expected) return is_quiet;
  std::uint64_t times_rung = 0;
  [[maybe_unused]] const ssize_t n = ::read(bells_.program.fd(), &times_rung, sizeof times_rung);
  if (is_quiet) udp_ready_.store(true, std::memory_order_relaxed);
  return true;
}

void ShmPort::abandon_after_fork() {
  keeper_->after_fork_in_child();
  for (auto& [name, peer] : peers_) {
    if (!peer->link) continue;
    peer->link->ring.forget();
    peer->link->thread_bell.close();
    peer->link->program_bell.close();
  }
  for (const auto& source : sources_) source->link->ring.forget();
  bells_.thread.close();
  bells_.program.close();
  packet_fds_.clear();
  udp_->abandon_after_fork();
}

PortInfo ShmPort::info() const {
  PortInfo info = udp_->info();
  info.features += " shared-memory";
  for (const auto& [name, peer] : peers_) {
    if (peer->uses_link) info.by_shm.push_back(proto::to_string(name.destination));
  }
  std::sort(info.by_shm.begin(), info.by_shm.end());
  info.by_shm.erase(std::unique(info.by_shm.begin(), info.by_shm.end()), info.by_shm.end());
  return info;
}

PortCounters ShmPort::counters() const {
  PortCounters sum = udp_->counters();
  sum.sent_packets += counters_.sent_packets;
  sum.sent_bytes += counters_.sent_bytes;
  sum.received_packets += counters_.received_packets;
  sum.received_bytes += counters_.received_bytes;
  sum.send_errors += counters_.send_errors;
  sum.system_calls += counters_.system_calls;
  sum.sent_by_shm = counters_.sent_packets;
  sum.received_by_shm = counters_.received_packets;
  return sum;
}

}  // namespace uroce::engine
