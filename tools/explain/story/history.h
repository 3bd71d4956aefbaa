// SPDX-License-Identifier: Apache-2.0
// What a requester has sent, as far back as somebody may come back to it: packets and messages by PSN, bounded.
#pragma once

#include <deque>

#include "tools/explain/story/causes.h"
#include "tools/explain/story/numbers.h"

namespace uroce::explain {

/// A request packet: a READ is one packet, whatever its PSNs.
struct SentPacket {
  PsnIndex index = 0;
  Place first, last;         ///< The first and the last time that it was sent.
  std::int64_t time_ns = 0;  ///< The last time.
  const proto::OpcodeInfo* op = nullptr;
  std::uint32_t content = 0, icrc = 0;
  std::uint16_t ip_id = 0;
  std::uint32_t times = 1;
  Fate fate = Fate::kUnknown;
  bool resent = false;      ///< The requester has sent it again, or this was not the first time.
  bool copied = false;      ///< The NIC's comment says that the next one is a copy of the network that it plays.
  bool late = false;        ///< A later PSN came before it ...
  bool behind_gap = false;  ///< ... or an earlier one was missing when it came.
};

struct Message {
  std::uint64_t number = 0;  ///< From 1.
  proto::Kind kind{};
  PsnIndex first = 0;
  std::int64_t psns = 0;                      ///< So far; of a READ: all, 0 while the MTU is not known.
  std::uint64_t length = 0;                   ///< As RETH says; else the bytes so far.
  bool length_known = false;                  ///< RETH says it.
  std::uint64_t bytes = 0;                    ///< So far.
  bool whole = false;                         ///< Its last packet was sent ...
  std::optional<std::uint32_t> last_payload;  ///< ... and is in the capture, with so many bytes.
  bool begun = true;                          ///< Its first packet is in the capture.
  bool gap = false;                           ///< Packets of it were missing when later ones came.
  bool done = false;                          ///< Acknowledged, or answered.
  Place place;
  std::int64_t time_ns = 0;
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  // Answers to READs and atomics.
  PsnIndex next_answer = 0;
  std::int64_t answered_psns = 0;    ///< How many PSNs have been answered, the gaps not counted ...
  std::uint64_t answered_bytes = 0;  ///< ... with so many bytes.
  Place asked_again;                 ///< The request that came last, if there was more than one ...
  PsnIndex asked_again_from = 0;     ///< ... and where it began ...
  PsnIndex asked_again_end = 0;      ///< ... and ends, which may be before the end of the READ; 0: not known.
  std::optional<std::uint64_t> original;

  bool is_read() const { return kind == proto::Kind::kReadRequest; }
  bool is_atomic() const { return kind == proto::Kind::kCompareSwap || kind == proto::Kind::kFetchAdd; }
  /// ATOMIC WRITE and FLUSH: the answer is a READ response without bytes.
  bool is_answered_empty() const { return kind == proto::Kind::kAtomicWrite || kind == proto::Kind::kFlush; }
  bool is_answered() const { return is_read() || is_atomic() || is_answered_empty(); }
  PsnIndex end() const { return first + std::max<std::int64_t>(psns, 1); }
};

/// PSNs that a later packet has passed over.
struct Hole {
  PsnIndex begin = 0, end = 0;
  std::int64_t time_ns = 0;
  Place behind;     ///< The packet that showed it.
  Place damaged{};  ///< The packet that should have been here; nowhere when the capture lacks it.
};

class History {
 public:
  SentPacket* packet(PsnIndex index);
  const SentPacket* packet(PsnIndex index) const;
  Message* message(PsnIndex index);
  const Message* message(PsnIndex index) const;
  Hole* hole(PsnIndex index);
  /// The message that begins last before `index`.
  Message* before(PsnIndex index);

  /// Behind all others.
  SentPacket& add_packet(const SentPacket& packet);
  Message& add_message(const Message& message);
  void remove(const Message& message);
  void add_hole(const Hole& hole);
  /// What was missing has come, or what had been damaged. How many PSNs of it were missing.
  std::uint64_t fill_hole(PsnIndex index, std::int64_t psns);

  std::deque<Message>& messages() { return messages_; }
  /// The first message that ends behind `index`.
  std::deque<Message>::iterator from(PsnIndex index);
  const std::deque<Message>& messages() const { return messages_; }
  std::deque<Hole>& holes() { return holes_; }
  Message* newest() { return messages_.empty() ? nullptr : &messages_.back(); }
  /// Forgets what nobody asks for: what lies far before `una`.
  void trim(PsnIndex una);

 private:
  static constexpr std::size_t kPackets = 8'192, kMessages = 4'096, kHoles = 64;
  std::deque<SentPacket> packets_;  ///< By index.
  std::deque<Message> messages_;
  std::deque<Hole> holes_;
};

}  // namespace uroce::explain
