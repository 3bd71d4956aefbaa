// SPDX-License-Identifier: Apache-2.0
// How much may be under way to one peer, over all QPs that are connected to it. RC has no flow control of its own for
// packets; without a bound a sender overruns the receiver's socket buffer and go-back-N turns that into a storm. READ
// responses count as well: they land in our own buffer, and the requester is who can bound them.
//
// A window is a queue and a pipe (ADR 19). The queue is what may wait in buffers: it begins with what every receive
// buffer can take, shrinks when packets get lost or wait as long as when they were, and comes back. The pipe is what
// the path itself holds: it stays empty on one host, unless processors have other work, and grows with the round trip
// for as long as packets do not have to wait longer for it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "verbs/nic/model/tunables.h"
#include "verbs/nic/resources/line.h"

namespace uroce::nic {

class Qp;

class PeerWindow {
 public:
  /// `queue`: bytes to begin with. `most`: bytes that it can grow to. `crowded`: how many more than the queue there may
  /// be on one host while its processors have other work. `opened` learns of a window for which QPs wait and that has
  /// room again; it outlives the window.
  PeerWindow(std::uint64_t queue, std::uint64_t most, std::uint64_t crowded, std::vector<PeerWindow*>& opened)
      : most_queue_(queue), most_(std::max(queue, most)), crowded_(crowded), queue_(queue), opened_(opened) {}
  ~PeerWindow() { std::erase(opened_, this); }
  PeerWindow(const PeerWindow&) = delete;
  PeerWindow& operator=(const PeerWindow&) = delete;

  /// Bytes that the kernel charges a socket's receive buffer for one datagram: the buffer, rounded up to a power of
  /// two, and its descriptor (measured on Linux 6.x loopback).
  static constexpr std::uint64_t cost(std::uint32_t payload) { return std::bit_ceil(payload + 450u) + 256u; }

  /// For a packet behind `ahead` bytes that are about to be taken.
  bool has_room(std::uint64_t ahead = 0) const { return used_ + ahead < limit(); }
  std::uint64_t limit() const { return is_looking_ ? least_queue() : std::min(queue_ + pipe_, most_); }
  std::uint64_t used() const { return used_; }

  /// A packet goes out.
  void take(std::uint64_t bytes) {
    if (used_ == 0) pipe_ /= 2;  // What is sent at once into an empty path waits in the buffer at its end.
    used_ += bytes;
  }
  /// A packet is no longer under way, or nobody knows.
  void give_back(std::uint64_t bytes) {
    UROCE_ASSERT(bytes <= used_);
    used_ -= bytes;
    tell_if_open();
  }
  /// The peer has acknowledged it.
  void acknowledged(std::uint64_t bytes) {
    pipe_ = std::min(pipe_ + bytes, wanted_pipe_);
    give_back(bytes);
  }
  /// A QP could not send because of this window.
  void note_full() { was_full_ = true; }
  /// A packet that asked for an answer got it after `time`.
  void on_round_trip(Duration time, Instant now);
  /// The peer says that a packet is lost.
  void on_loss(Instant now);
  /// The peer has not answered since `since`.
  void on_silence(Instant since);

  /// After so long without progress packets are out of every buffer: read, or lost.
  Duration patience() const;

  void tell_if_open() {
    if (waiting.empty() || told_ || !has_room()) return;
    told_ = true;
    opened_.push_back(this);
  }
  /// What was said to `opened` has been heard.
  void heard() { told_ = false; }

  // The scheduler's:
  Line<Qp*> waiting;       ///< Had a packet that this window did not admit. Has room for all of its QPs.
  Qp* admitted = nullptr;  ///< One that waited, and whose turn it is now.

 private:
  std::uint64_t least_queue() const { return std::min(most_queue_, kLeastWindowBytes); }
  void note_least(Duration time, Instant now);
  Duration least() const;
  Duration path_time() const;
  void adapt_queue(Duration round_trip, Instant now);
  void adapt_pipe(std::uint64_t queued, bool was_full);

  const std::uint64_t most_queue_, most_;
  std::uint64_t crowded_;  ///< Halved by each loss.
  std::uint64_t queue_;
  std::uint64_t pipe_ = 0;         ///< Follows `wanted_pipe_` as ACKs come in: twice as much per round trip.
  std::uint64_t wanted_pipe_ = 0;  ///< Bytes.
  std::uint64_t used_ = 0;
  std::vector<PeerWindow*>& opened_;
  bool told_ = false;
  /// Little is sent for a moment, so that the round trip shows the path and not our own queue.
  bool is_looking_ = false;
  bool was_full_ = false;              ///< In this round.
  bool is_starting_ = true;            ///< Until packets have to wait, the window grows by half of itself.
  int samples_ = 0;                    ///< Up to kEvidence.
  int rounds_queued_ = 0;              ///< In a row, up to now.
  std::uint64_t least_queued_ = 0;     ///< In these rounds.
  Duration least_{}, least_before_{};  ///< Shortest round trip of this epoch and of the one before; 0: none.
  Duration round_trip_{};              ///< The last one, smoothed.
  Duration shortest_in_round_{};
  Duration too_long_{};  ///< When answers take so long, packets get lost; 0: not known.
  Instant epoch_ends_{}, round_begins_{}, round_ends_{}, look_ends_{}, recovered_{}, forgets_{}, last_answer_{},
      crowded_until_{};
};

}  // namespace uroce::nic
