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
/// Smaller ones are quick either way, and their readers wait for them.
constexpr std::size_t kLargePacket = 1024;

Position& position(const Mapping& memory, std::size_t offset) {
  return *reinterpret_cast<Position*>(memory.data() + offset);
}
std::uint8_t* record_at(const Mapping& memory, std::uint64_t where) {
  return memory.data() + kRingHead + where % kRingBytes;
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
  advance(bytes);
  return true;
}

MutBytes RingWriter::frame() {
  if (!copier_.prefers_in_place() || broken_ || !has_room(kRecordMax)) return {};
  return {record_at(memory_, tail_) + sizeof(RecordHeader), proto::kMaxPacketSize};
}

void RingWriter::commit(const RecordHeader& header) {
  UROCE_ASSERT(header.size <= proto::kMaxPacketSize);
  std::memcpy(record_at(memory_, tail_), &header, sizeof header);
  if (header.size >= kLargePacket) copier_.count_in_place();
  advance(record_bytes(header.size));
}

void RingWriter::advance(std::size_t bytes) {
  tail_ += bytes;
  ++unpublished_packets_;
  // Packets of one size follow each other.
  if (!copier_.has_streamed()) fetch_for_writing(record_at(memory_, tail_), bytes);
}

void RingWriter::publish() {
  published_ = tail_;
  unpublished_packets_ = 0;
  copier_.finish();
  position(memory_, kTailOffset).store(tail_, std::memory_order_seq_cst);  // See Bell::set_asleep().
}

bool RingReader::is_empty() const {
  if (broken_.load(std::memory_order_relaxed)) return true;
  const std::uint64_t tail = position(memory_, kTailOffset).load(std::memory_order_seq_cst);
  return tail == head_.load(std::memory_order_relaxed);
}

std::optional<proto::Datagram> RingReader::read(const proto::Path& from_to, MutBytes out) {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  if (head == tail_) {
    if (is_broken()) return std::nullopt;
    const std::uint64_t tail = position(memory_, kTailOffset).load(std::memory_order_acquire);
    if (tail == head) return std::nullopt;
    if (tail - head > kRingBytes || tail % kRecordUnit != 0) {
      broken_.store(true, std::memory_order_relaxed);
      return std::nullopt;
    }
    tail_ = tail;
  }
  // From here on only copies count: the writer may change what is in the ring at any time.
  const std::uint8_t* const record = record_at(memory_, head);
  // One load: the compiler must not look again after the check.
  const auto header =
      std::bit_cast<RecordHeader>(reinterpret_cast<const Position*>(record)->load(std::memory_order_relaxed));
  if (header.size > proto::kMaxPacketSize || record_bytes(header.size) > tail_ - head) {
    tail_ = head;
    broken_.store(true, std::memory_order_relaxed);
    return std::nullopt;
  }
  proto::Datagram datagram{.path = from_to, .payload = Bytes(out).first(header.size)};
  datagram.path.source_port = header.source_port;
  datagram.path.tclass = header.tclass;
  datagram.path.hop_limit = header.hop_limit;
  datagram.icrc = proto::copy_with_icrc(datagram.path, out.data(), record + sizeof header, header.size);
  head_.store(head + record_bytes(header.size), std::memory_order_relaxed);
  return datagram;
}

void RingReader::release() {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  if (head == released_) return;
  released_ = head;
  position(memory_, kHeadOffset).store(head, std::memory_order_release);
}

}  // namespace uroce::engine
