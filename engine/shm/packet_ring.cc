// SPDX-License-Identifier: Apache-2.0
#include "engine/shm/packet_ring.h"

#include <bit>
#include <cstring>

#include "proto/base/check.h"
#include "proto/icrc.h"

namespace uroce::engine {
namespace {

using Position = std::atomic<std::uint64_t>;
static_assert(Position::is_always_lock_free && sizeof(Position) == 8);

// Far apart: processors fetch cache lines in pairs.
constexpr std::size_t kTailOffset = 0;
constexpr std::size_t kHeadOffset = 256;
/// In the tail's word, where positions have zeros: how many words beside it are in use.
constexpr std::uint64_t kBesideBits = kRecordUnit - 1;
static_assert(BesideTail::kSize / sizeof(Position) <= kBesideBits);
static_assert(kTailOffset + sizeof(Position) + BesideTail::kSize <= kHeadOffset);
/// Smaller ones are quick either way, and their readers wait for them.
constexpr std::size_t kLargePacket = 1024;

Position& position(const Mapping& memory, std::size_t offset) {
  return *reinterpret_cast<Position*>(memory.data() + offset);
}
Position& beside_tail(const Mapping& memory, std::size_t word) {
  return position(memory, kTailOffset + sizeof(Position) * (1 + word));
}
std::uint8_t* record_at(const Mapping& memory, std::uint64_t where) {
  return memory.data() + kRingHead + where % kRingBytes;
}

RecordHeader header_of(const std::uint8_t* record) {
  RecordHeader header;
  std::memcpy(&header, record, sizeof header);
  return header;
}
/// In the ring. One load: the compiler must not look again after a check.
RecordHeader shared_header_of(const std::uint8_t* record) {
  return std::bit_cast<RecordHeader>(reinterpret_cast<const Position*>(record)->load(std::memory_order_relaxed));
}

/// Has this processor fetch the cache lines of the next record, which the reader's holds, while the program prepares
/// what goes in.
void fetch_for_writing(const std::uint8_t* record, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kRecordUnit) {
#if defined(__x86_64__)
    // Compilers make prefetcht0 of __builtin_prefetch(, 1) unless they are told that the processor knows this one; it
    // does nothing on one that does not. prefetcht0 leaves the reader its copy, and the write waits for that.
    asm volatile("prefetchw %0" : : "m"(record[at]));
#else
    __builtin_prefetch(record + at, 1);
#endif
  }
}

}  // namespace

bool RingWriter::has_room(std::size_t bytes) {
  if (broken_) return false;
  if (tail_ + bytes - head_ <= kRingBytes) return true;
  const std::uint64_t head = position(memory_, kHeadOffset).load(std::memory_order_acquire);
  // It moves on, and never beyond what was published.
  if (head - head_ > published_ - head_) broken_ = true;
  if (broken_) return false;
  head_ = head;
  return tail_ + bytes - head_ <= kRingBytes;
}

bool RingWriter::write(const RecordHeader& header, const std::uint8_t* packet) {
  UROCE_ASSERT(header.size <= proto::kMaxPacketSize);
  const std::size_t bytes = record_bytes(header.size);
  if (broken_ || !has_room(bytes)) return false;
  std::uint8_t* const record = record_at(memory_, tail_);
  std::memcpy(record, &header, sizeof header);
  if (header.size < kLargePacket) {
    std::memcpy(record + sizeof header, packet, header.size);
  } else {
    constexpr std::size_t kInFirstLine = kRecordUnit - sizeof header;
    std::memcpy(record + sizeof header, packet, kInFirstLine);
    copier_.copy(record + kRecordUnit, packet + kInFirstLine, header.size - kInFirstLine);
  }
  advance(header, packet);
  return true;
}

MutBytes RingWriter::frame() {
  if (!copier_.prefers_in_place() || broken_ || !has_room(kRecordMax)) return {};
  return {record_at(memory_, tail_) + sizeof(RecordHeader), proto::kMaxPacketSize};
}

void RingWriter::commit(const RecordHeader& header) {
  UROCE_ASSERT(header.size <= proto::kMaxPacketSize);
  std::uint8_t* const record = record_at(memory_, tail_);
  std::memcpy(record, &header, sizeof header);
  if (header.size >= kLargePacket) copier_.count_in_place();
  advance(header, record + sizeof header);
}

void RingWriter::advance(const RecordHeader& header, const std::uint8_t* packet) {
  is_all_beside_ = is_all_beside_ && beside_.append(header, packet);
  const std::size_t bytes = record_bytes(header.size);
  tail_ += bytes;
  ++unpublished_packets_;
  // Packets of one size follow each other.
  if (!copier_.has_streamed()) fetch_for_writing(record_at(memory_, tail_), bytes);
}

void RingWriter::publish() {
  Position& tail = position(memory_, kTailOffset);
  const std::size_t words = is_all_beside_ ? beside_.used_words() : 0;
  if (words > 0) {
    // Who reads these words while they change sees another tail afterwards.
    tail.store(published_, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < words; ++i) beside_tail(memory_, i).store(beside_.words[i], std::memory_order_relaxed);
  }
  published_ = tail_;
  unpublished_packets_ = 0;
  is_all_beside_ = true;
  beside_.used = 0;
  copier_.finish();
  tail.store(tail_ | words, std::memory_order_seq_cst);  // See Bell::set_asleep().
}

bool BesideTail::append(const RecordHeader& header, const std::uint8_t* packet) {
  if (sizeof header + header.size > kSize - used) return false;
  std::memcpy(bytes() + used, &header, sizeof header);
  std::memcpy(bytes() + used + sizeof header, packet, header.size);
  used += sizeof header + header.size;
  return true;
}

bool RingReader::is_empty() const {
  if (broken_.load(std::memory_order_relaxed)) return true;
  const std::uint64_t tail = position(memory_, kTailOffset).load(std::memory_order_seq_cst);
  return (tail & ~kBesideBits) == head_.load(std::memory_order_relaxed);
}

std::optional<proto::Datagram> RingReader::read(const proto::Path& from_to, MutBytes out) {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  if (head == tail_ && !look_at_tail(head)) return std::nullopt;
  const bool is_beside = beside_at_ < beside_.used;
  const std::uint8_t* const record = is_beside ? beside_.bytes() + beside_at_ : record_at(memory_, head);
  // From here on only copies count: the writer may change what is in the ring at any time.
  const RecordHeader header = is_beside ? header_of(record) : shared_header_of(record);
  if (header.size > proto::kMaxPacketSize || record_bytes(header.size) > tail_ - head) {
    give_up(head);
    return std::nullopt;
  }
  if (is_beside) beside_at_ += sizeof header + header.size;
  proto::Datagram datagram{.path = from_to, .payload = Bytes(out).first(header.size)};
  datagram.path.source_port = header.source_port;
  datagram.path.tclass = header.tclass;
  datagram.path.hop_limit = header.hop_limit;
  datagram.icrc = proto::copy_with_icrc(datagram.path, out.data(), record + sizeof header, header.size);
  head_.store(head + record_bytes(header.size), std::memory_order_relaxed);
  return datagram;
}

/// Learns how far the writer is. False: no further.
bool RingReader::look_at_tail(std::uint64_t head) {
  if (is_broken()) return false;
  const std::uint64_t word = position(memory_, kTailOffset).load(std::memory_order_acquire);
  const std::uint64_t tail = word & ~kBesideBits;
  if (tail - head > kRingBytes || (word & kBesideBits) > beside_.words.size()) {
    give_up(head);
    return false;
  }
  if (tail == head) return false;
  tail_ = tail;
  beside_at_ = 0;
  beside_.used = take_beside_tail(word, head);
  return true;
}

/// Copies what is beside the tail, whose word was `word`. How many bytes of it count: those of all records that there
/// are to read, or 0.
std::size_t RingReader::take_beside_tail(std::uint64_t word, std::uint64_t head) {
  const std::size_t words = word & kBesideBits;
  if (words == 0) return 0;
  for (std::size_t i = 0; i < words; ++i) beside_.words[i] = beside_tail(memory_, i).load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (position(memory_, kTailOffset).load(std::memory_order_relaxed) != word) return 0;
  const std::size_t size = words * sizeof(Position);
  std::size_t at = 0;
  while (head < tail_) {
    if (size - at < sizeof(RecordHeader)) return 0;
    const RecordHeader header = header_of(beside_.bytes() + at);
    at += sizeof header;
    if (size - at < header.size) return 0;
    at += header.size;
    head += record_bytes(header.size);
  }
  return head == tail_ ? at : 0;
}

void RingReader::give_up(std::uint64_t head) {
  tail_ = head;
  broken_.store(true, std::memory_order_relaxed);
}

void RingReader::release() {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  if (head == released_) return;
  released_ = head;
  position(memory_, kHeadOffset).store(head, std::memory_order_release);
}

}  // namespace uroce::engine
