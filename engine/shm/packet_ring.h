// SPDX-License-Identifier: Apache-2.0
// A ring of packets in memory that two processes share: one writes, the other reads. Neither trusts the other. The
// writer may be broken, or change a packet while it is read: so a reader copies each packet out before anybody looks at
// it, and believes no number that it has not checked. A writer believes no number of the reader.
//
// The memory: a head with the two positions, then kRingBytes of records, mapped twice in a row. Positions count bytes
// from the beginning of time and are multiples of kRecordUnit. What is published last also stands beside the writer's
// position, if it is little: the reader waits for that cache line, and needs no other then. The low bits of that
// position say how many words there are in use.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "engine/shm/line_copier.h"
#include "engine/shm/shared_memory.h"
#include "proto/bytes.h"
#include "proto/packet.h"

namespace uroce::engine {

/// Bytes of records. A NIC's window fits in, and that of its peer for the READ responses that this ring carries: up to
/// 640 KiB each of receive buffer as the kernel counts it, of which packets of 4 KiB take half. More would only leave
/// the cache.
inline constexpr std::size_t kRingBytes = 1024 * 1024;
/// The records are mapped from there on, so it is a multiple of every page size: aarch64 has 4, 16 and 64 KiB. Pages
/// that nobody touches cost nothing.
inline constexpr std::size_t kRingHead = kLargestPage;
inline constexpr std::size_t kRingMemory = kRingHead + kRingBytes;
/// A cache line, so that the two sides seldom write and read the same one.
inline constexpr std::size_t kRecordUnit = 64;

/// What stands in front of each packet.
struct RecordHeader {
  std::uint32_t size = 0;  ///< Bytes of the packet.
  std::uint16_t source_port = 0;
  std::uint8_t tclass = 0;
  std::uint8_t hop_limit = 0;
};
static_assert(sizeof(RecordHeader) == 8);

/// Bytes of the ring that a packet takes.
constexpr std::size_t record_bytes(std::size_t packet_size) {
  return (sizeof(RecordHeader) + packet_size + kRecordUnit - 1) / kRecordUnit * kRecordUnit;
}
inline constexpr std::size_t kRecordMax = record_bytes(proto::kMaxPacketSize);
static_assert(kRingBytes % kRecordUnit == 0 && kRingBytes >= 4 * kRecordMax);
static_assert(kRingHead % kLargestPage == 0 && kRingBytes % kLargestPage == 0);

/// Records that stand beside the tail, with nothing between them. Together with the tail they have two cache lines,
/// which processors fetch in pairs; an ACK and a SEND of up to 4 bytes take one.
struct BesideTail {
  static constexpr std::size_t kSize = 2 * kRecordUnit - sizeof(std::uint64_t);
  std::array<std::uint64_t, kSize / sizeof(std::uint64_t)> words{};
  std::size_t used = 0;  ///< Bytes.

  std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(words.data()); }
  std::size_t used_words() const { return (used + sizeof words[0] - 1) / sizeof words[0]; }
  /// False: there is no room.
  bool append(const RecordHeader& header, const std::uint8_t* packet);
};

class RingWriter {
 public:
  /// A ring that is empty.
  explicit RingWriter(Mapping memory) : memory_(std::move(memory)) {}

  /// Puts a packet (at most proto::kMaxPacketSize bytes) into the ring, where the reader does not see it yet. False:
  /// there is no room, or the reader is broken.
  bool write(const RecordHeader& header, const std::uint8_t* packet);
  /// Room in the ring itself to make the next packet in, which the reader does not see yet: proto::kMaxPacketSize
  /// bytes. Empty: there is no room, or it had better be copied there. The reader may change what is in it.
  MutBytes frame();
  /// Puts the packet that was made there into the ring.
  void commit(const RecordHeader& header);
  /// Lets the reader see what was written.
  void publish();
  /// Whether records of so many bytes would find room now. No: also when the reader is broken.
  bool has_room(std::size_t bytes);
  /// Bytes of the ring, and packets, that were written since.
  std::size_t unpublished_bytes() const { return static_cast<std::size_t>(tail_ - published_); }
  std::uint32_t unpublished_packets() const { return unpublished_packets_; }
  /// Whether the reader has broken the rules, ...
  bool is_broken() const { return broken_; }
  /// ... which it may have done elsewhere.
  void give_up() { broken_ = true; }
  void forget() { memory_.forget(); }

 private:
  void advance(const RecordHeader& header, const std::uint8_t* packet);

  Mapping memory_;
  LineCopier copier_;
  std::uint64_t tail_ = 0;       ///< Where the next record goes.
  std::uint64_t published_ = 0;  ///< The tail that the reader has been told.
  std::uint64_t head_ = 0;       ///< How far the reader was when we looked last.
  std::uint32_t unpublished_packets_ = 0;
  BesideTail beside_;          ///< The first ones of them.
  bool is_all_beside_ = true;  ///< And there are no others.
  bool broken_ = false;
};

class RingReader {
 public:
  explicit RingReader(Mapping memory) : memory_(std::move(memory)) {}

  /// Whether there is nothing to read now. Also for a thread that is not the reader's.
  bool is_empty() const;
  /// Copies the next packet to `out` (at least proto::kMaxPacketSize bytes). `from_to` has the addresses of the two;
  /// the rest of its path came with the packet. Nothing: there is none, or the writer is broken.
  std::optional<proto::Datagram> read(const proto::Path& from_to, MutBytes out);
  /// Gives the room of what was read back to the writer.
  void release();
  /// Whether the writer has broken the rules. Nothing that it wrote afterwards is read.
  bool is_broken() const { return broken_.load(std::memory_order_relaxed); }
  void forget() { memory_.forget(); }

 private:
  bool look_at_tail(std::uint64_t head);
  std::size_t take_beside_tail(std::uint64_t word, std::uint64_t head);
  void give_up(std::uint64_t head);

  Mapping memory_;
  std::atomic<std::uint64_t> head_ = 0;  ///< Changed by the reader only, seen by is_empty().
  std::uint64_t tail_ = 0;               ///< How far the writer was when we looked last.
  std::uint64_t released_ = 0;
  BesideTail beside_;  ///< Copied, and read up to beside_at_.
  std::size_t beside_at_ = 0;
  std::atomic<bool> broken_ = false;
};

}  // namespace uroce::engine
