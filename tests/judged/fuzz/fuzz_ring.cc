// SPDX-License-Identifier: Apache-2.0
// A ring in shared memory whose other side writes what it likes, whenever it likes. While nobody does, packets arrive
// whole and in order. Afterwards: nothing outside of the buffers changes, no packet is longer than packets are, nothing
// is read beyond a tail or written beyond a head that was ever there, and once the other side is known to be broken, it
// stays so.
//
// In a build for fuzzing, clang tells of each load that packet_ring.cc makes, and memory changes just before the one
// that the input names: what is looked at twice is found every time. Other builds change memory between calls only.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "engine/shm/packet_ring.h"
#include "proto/base/check.h"
#include "proto/crc32.h"
#include "proto/icrc.h"
#include "tests/judged/fuzz/ring_commands.h"

namespace uroce::fuzz {
namespace {

using namespace engine;

const proto::Path kFromTo{proto::Gid::from_v4(127, 0, 0, 1), proto::Gid::from_v4(127, 0, 0, 2)};
constexpr std::size_t kTailAt = 0, kHeadAt = 256;  // Offsets of the positions in the memory.

/// What is beside the tail, whose word also says how much that is.
using Beside = std::array<std::uint8_t, 120>;
constexpr std::size_t kReadsOfBeside = sizeof(Beside) / sizeof(RecordHeader);  ///< At most.
constexpr std::size_t kBesideAt = kTailAt + 8;
constexpr std::uint64_t position_in(std::uint64_t tail_word) { return tail_word & ~std::uint64_t{kRecordUnit - 1}; }

/// One that remembers where it is: rings keep theirs to themselves.
struct Place {
  const std::uint8_t* begin = nullptr;
  bool contains(const void* address) const {
    const auto distance = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(begin);
    return distance < kRingMemory + kRingBytes;
  }
};

Mapping map(const Fd& memory, Place* place = nullptr) {
  auto mapping = Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite);
  UROCE_ASSERT(mapping);
  if (place != nullptr) place->begin = mapping->data();
  return std::move(*mapping);
}

class RingVictim {
 public:
  void run(Reader in) {
    while (const auto record = next_record(in)) {
      Reader body(record->body);
      switch (record->kind % kRingCommands) {
        case kRingWrite: {
          const auto spec = body.spec<WriteSpec>();
          for (int left = spec.more; left >= 0; --left) write(spec);
          break;
        }
        case kRingPublish:
          publish();
          break;
        case kRingRead:
          for (int left = body.spec<CountSpec>().more; left >= 0; --left) read();
          break;
        case kRingRelease:
          release();
          break;
        case kRingPump: {
          const auto spec = body.spec<WriteSpec>();
          for (int left = spec.more; left >= 0; --left) write(spec), publish(), read(), release();
          break;
        }
        case kRingPoke:
          poke(body.spec<PokeSpec>());
          break;
        case kRingRace:
          race_ = body.spec<RaceSpec>();
          break;
        default:
          break;
      }
    }
    while (!is_deceived_ && !under_way_.empty()) publish(), read(), release();
  }

  /// The code under test is going to load from there.
  void on_load(const void* address) {
    if (!race_ || !(readers_.contains(address) || writers_.contains(address)) || race_->later-- > 0) return;
    const PokeSpec change = race_->poke;
    race_.reset();
    poke(change);
  }

 private:
  struct Packet {
    std::uint32_t size;
    std::uint16_t source_port;
    std::uint8_t fill;
  };

  std::uint64_t peek(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, raw_.data() + offset, sizeof value);
    return value;
  }
  std::uint8_t* record_at(std::uint64_t position) const { return raw_.data() + kRingHead + position % kRingBytes; }

  void write(const WriteSpec& spec) {
    const Packet packet{spec.size % static_cast<std::uint32_t>(proto::kMaxPacketSize + 1), next_port_++, spec.fill};
    const std::vector<std::uint8_t> bytes(packet.size + 1, packet.fill);  // Never null.
    const bool was_broken = writer_.is_broken();
    const std::size_t size = record_bytes(packet.size);
    const bool has_room = tail_ + size - head_ <= kRingBytes;
    const bool written = put({.size = packet.size, .source_port = packet.source_port}, bytes);
    if (!is_deceived_) UROCE_ASSERT(written == has_room && !writer_.is_broken());
    UROCE_ASSERT(!(written && was_broken));
    if (!written) return;
    tail_ += size;
    UROCE_ASSERT(was_there(heads_, [this](std::uint64_t head) { return tail_ - head <= kRingBytes; }));
    if (!is_deceived_) under_way_.push_back(packet);
  }

  /// Some are made in the ring where that is possible.
  bool put(const RecordHeader& header, const std::vector<std::uint8_t>& bytes) {
    const MutBytes frame = bytes[0] % 2 != 0 ? writer_.frame() : MutBytes();
    if (frame.empty()) return writer_.write(header, bytes.data());
    UROCE_ASSERT(!writer_.is_broken());
    std::copy_n(bytes.data(), header.size, frame.data());
    writer_.commit(header);
    return true;
  }

  void publish() {
    writer_.publish();
    UROCE_ASSERT(position_in(peek(kTailAt)) == tail_ && writer_.unpublished_bytes() == 0);
    tails_.push_back(tail_);
    published_ = tail_;
  }

  void read() {
    const bool was_broken = reader_.is_broken();
    const bool is_raced = race_.has_value();
    std::fill(out_.begin(), out_.end(), std::uint8_t{0xA5});
    note_beside();
    const auto datagram = reader_.read(kFromTo, out_);
    UROCE_ASSERT(!(was_broken && datagram));
    if (reader_.is_broken()) UROCE_ASSERT(is_deceived_ && !datagram && reader_.is_empty());
    if (!datagram) {
      if (!is_deceived_) UROCE_ASSERT(position_ == published_);
      UROCE_ASSERT(std::ranges::all_of(out_, [](std::uint8_t byte) { return byte == 0xA5; }));
      return;
    }
    const Bytes packet = datagram->payload;
    UROCE_ASSERT(packet.data() == out_.data() && packet.size() <= proto::kMaxPacketSize);
    const Bytes behind = Bytes(out_).subspan(packet.size());
    UROCE_ASSERT(std::ranges::all_of(behind, [](std::uint8_t byte) { return byte == 0xA5; }));
    UROCE_ASSERT(datagram->icrc.has_value() == (packet.size() >= proto::kOnePassLeast));
    if (datagram->icrc) {
      UROCE_ASSERT(*datagram->icrc == proto::icrc(datagram->path, packet.first(packet.size() - proto::kIcrcSize)));
    }
    if (is_raced) {
      unsure_reads_ = kReadsOfBeside;
    } else if (unsure_reads_ > 0) {
      --unsure_reads_;
    } else {
      UROCE_ASSERT(std::equal(packet.begin(), packet.end(), record_at(position_) + sizeof(RecordHeader)) ||
                   was_beside(packet));
    }
    position_ += record_bytes(packet.size());
    UROCE_ASSERT(was_there(tails_, [this](std::uint64_t tail) { return tail - position_ <= kRingBytes; }));
    if (is_deceived_) return;
    UROCE_ASSERT(!under_way_.empty());
    const Packet& wanted = under_way_.front();
    UROCE_ASSERT(packet.size() == wanted.size && datagram->path.source_port == wanted.source_port);
    UROCE_ASSERT(std::ranges::all_of(packet, [&wanted](std::uint8_t byte) { return byte == wanted.fill; }));
    under_way_.pop_front();
  }

  /// The reader copies all that is beside the tail, and gives it away one by one.
  void note_beside() {
    std::memcpy(besides_[reads_++ % besides_.size()].data(), raw_.data() + kBesideAt, sizeof(Beside));
  }
  bool was_beside(Bytes packet) const {
    return std::ranges::any_of(besides_, [packet](const Beside& beside) {
      return std::search(beside.begin(), beside.end(), packet.begin(), packet.end()) != beside.end();
    });
  }

  void release() {
    const bool has_news = position_ != head_;
    reader_.release();
    head_ = position_;
    if (!has_news) return;
    UROCE_ASSERT(peek(kHeadAt) == head_);
    heads_.push_back(head_);
  }

  void poke(const PokeSpec& spec) {
    const auto at = [&]() -> std::size_t {
      switch (spec.place % PokeSpec::kPlaces) {
        case PokeSpec::kTail:
          return kTailAt;
        case PokeSpec::kHead:
          return kHeadAt;
        case PokeSpec::kRecord:
          return kRingHead + (position_ + spec.offset) % (kRingBytes - sizeof spec.value + 1);
        case PokeSpec::kBeside:
          return kBesideAt + spec.offset % (sizeof(Beside) - sizeof spec.value + 1);
        default:
          return spec.offset % (kRingMemory - sizeof spec.value + 1);
      }
    };
    const std::size_t offset = at();
    const std::uint64_t value =
        spec.value + (spec.base % PokeSpec::kBases == PokeSpec::kWhatIsThere ? peek(offset) : 0);
    std::memcpy(raw_.data() + offset, &value, sizeof value);
    is_deceived_ = true;
    tails_.push_back(position_in(peek(kTailAt)));
    heads_.push_back(peek(kHeadAt));
  }

  template <class Predicate>
  static bool was_there(const std::vector<std::uint64_t>& positions, Predicate fits) {
    return std::any_of(positions.rbegin(), positions.rend(), fits);
  }

  const Fd memory_ = make_shared_memory(kRingMemory);
  const Mapping raw_ = map(memory_);
  Place writers_, readers_;
  RingWriter writer_{map(memory_, &writers_)};
  RingReader reader_{map(memory_, &readers_)};
  std::vector<std::uint8_t> out_ = std::vector<std::uint8_t>(proto::kMaxPacketSize);  ///< The sanitizer knows its end.

  // What has to be.
  std::uint64_t tail_ = 0, published_ = 0;  ///< Of the writer.
  std::uint64_t position_ = 0, head_ = 0;   ///< How far the reader is, and how far it says that it is.
  std::deque<Packet> under_way_;
  std::uint16_t next_port_ = 0;
  std::array<Beside, kReadsOfBeside> besides_{};  ///< Before each of the last reads.
  std::size_t reads_ = 0;
  std::size_t unsure_reads_ = 0;                          ///< What the reader has copied changed while it did.
  bool is_deceived_ = false;                              ///< Somebody has written what the rules do not allow.
  std::vector<std::uint64_t> tails_ = {0}, heads_ = {0};  ///< Values that the two positions in the memory have had.
  std::optional<RaceSpec> race_;
};

RingVictim* victim = nullptr;

}  // namespace
}  // namespace uroce::fuzz

#ifdef UROCE_FUZZ_SEES_LOADS
// What clang calls before each load (-fsanitize-coverage=trace-loads).
#define ON_LOAD(bytes)                                                         \
  extern "C" void __sanitizer_cov_load##bytes(void* address) {                 \
    if (uroce::fuzz::victim != nullptr) uroce::fuzz::victim->on_load(address); \
  }
ON_LOAD(1)
ON_LOAD(2)
ON_LOAD(4)
ON_LOAD(8)
ON_LOAD(16)
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  uroce::fuzz::RingVictim victim;
  uroce::fuzz::victim = &victim;
  victim.run(uroce::fuzz::Reader({data, size}));
  uroce::fuzz::victim = nullptr;
  return 0;
}
