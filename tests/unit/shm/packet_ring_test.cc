// SPDX-License-Identifier: Apache-2.0
// A ring between two who do not trust each other. The tests play the broken side by writing into the memory.
#include "engine/shm/packet_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "proto/crc32.h"
#include "proto/icrc.h"

namespace uroce::engine {
namespace {

const proto::Path kFromTo{proto::Gid::from_v4(127, 0, 0, 1), proto::Gid::from_v4(127, 0, 0, 2)};
const proto::Path kPath{kFromTo.source, kFromTo.destination, 7, 8, 9};
constexpr std::size_t kTail = 0, kHead = 256;  // Offsets of the positions in the memory.

struct RingTest : testing::Test {
  Fd memory = make_shared_memory(kRingMemory);
  RingWriter writer{*Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite)};
  RingReader reader{*Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite)};
  Mapping raw = *Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite);
  std::array<std::uint8_t, proto::kMaxPacketSize> out{};
  int made = 0;  ///< In the ring.

  static std::uint8_t byte(int fill, std::size_t at) {
    return static_cast<std::uint8_t>(static_cast<std::size_t>(fill) + at % 251);
  }
  bool write(std::size_t size, int fill = 0) {
    std::vector<std::uint8_t> packet(size + 1);  // Never null.
    for (std::size_t i = 0; i < size; ++i) packet[i] = byte(fill, i);
    return writer.write({.size = static_cast<std::uint32_t>(size), .source_port = 7, .tclass = 8, .hop_limit = 9},
                        packet.data());
  }
  /// The same in the ring itself, where that is possible.
  bool make(std::size_t size, int fill) {
    const MutBytes frame = writer.frame();
    if (frame.empty()) return write(size, fill);
    ++made;
    for (std::size_t i = 0; i < size; ++i) frame[i] = byte(fill, i);
    writer.commit({.size = static_cast<std::uint32_t>(size), .source_port = 7, .tclass = 8, .hop_limit = 9});
    return true;
  }
  void poke(std::size_t offset, std::uint64_t value) { std::memcpy(raw.data() + offset, &value, sizeof value); }
  void poke_size(std::size_t record, std::uint32_t size) {
    std::memcpy(raw.data() + kRingHead + record, &size, sizeof size);
  }
  std::uint64_t peek(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, raw.data() + offset, sizeof value);
    return value;
  }
};

TEST_F(RingTest, PacketsOfAllSizesComeOutInOrderManyTimesRound) {
  std::mt19937 random(1);
  std::deque<std::pair<std::size_t, std::uint8_t>> under_way;
  std::size_t received = 0;
  for (int number = 0; received < 5000; ++number) {
    const std::size_t size = random() % (proto::kMaxPacketSize + 1);
    if (number % 2 == 0 ? write(size, number) : make(size, number))
      under_way.emplace_back(size, static_cast<std::uint8_t>(number));
    writer.publish();
    if (random() % 64 != 0) continue;
    while (const auto datagram = reader.read(kFromTo, out)) {
      ASSERT_FALSE(under_way.empty());
      const auto [wanted, fill] = under_way.front();
      under_way.pop_front();
      ASSERT_EQ(datagram->path, kPath);
      ASSERT_EQ(datagram->payload.data(), out.data());
      ASSERT_EQ(datagram->payload.size(), wanted);
      ASSERT_EQ(datagram->icrc.has_value(), wanted >= proto::kOnePassLeast);
      if (datagram->icrc) {
        ASSERT_EQ(*datagram->icrc, proto::icrc(kPath, datagram->payload.first(wanted - proto::kIcrcSize)));
      }
      for (std::size_t i = 0; i < wanted; ++i) ASSERT_EQ(out[i], byte(fill, i));
      ++received;
    }
    ASSERT_TRUE(under_way.empty());
    reader.release();
  }
  EXPECT_FALSE(writer.is_broken() || reader.is_broken());
  EXPECT_GT(made, 0);
}

TEST_F(RingTest, NothingIsSeenBeforeItIsPublished) {
  ASSERT_TRUE(write(100));
  EXPECT_TRUE(reader.is_empty());
  EXPECT_FALSE(reader.read(kFromTo, out));
  EXPECT_GT(writer.unpublished_bytes(), 0u);
  writer.publish();
  EXPECT_FALSE(reader.is_empty());
  EXPECT_TRUE(reader.read(kFromTo, out));
  EXPECT_TRUE(reader.is_empty());
}

/// They stand beside the tail, which the reader may be copying while the writer publishes the next ones.
TEST_F(RingTest, SmallPacketsThatArePublishedMeanwhileAreWhole) {
  constexpr std::uint32_t kCount = 2'000'000;
  constexpr std::uint32_t kSizes[] = {20, 84};
  const auto size_of = [&](std::uint32_t number) { return kSizes[number % 2]; };
  const auto byte_of = [](std::uint32_t number) { return static_cast<std::uint8_t>(number % 251); };
  std::thread other([&] {
    std::array<std::uint8_t, 84> packet;
    for (std::uint32_t number = 0; number < kCount;) {
      packet.fill(byte_of(number));
      if (!writer.write({.size = size_of(number)}, packet.data())) continue;
      writer.publish();
      ++number;
    }
  });
  std::uint32_t wrong = 0;
  for (std::uint32_t number = 0; number < kCount && !reader.is_broken();) {
    const auto datagram = reader.read(kFromTo, out);
    if (!datagram) continue;
    const bool is_whole = datagram->payload.size() == size_of(number) &&
                          std::ranges::all_of(datagram->payload, [&](auto one) { return one == byte_of(number); });
    wrong += is_whole ? 0u : 1u;
    ++number;
    if (number % 64 == 0) reader.release();
  }
  other.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_FALSE(writer.is_broken() || reader.is_broken());
}

/// The reader that has taken all that was there before finds what is small beside the tail, and does not look at the
/// ring itself.
TEST_F(RingTest, WhatIsSmallStandsBesideTheTail) {
  const auto read_sizes = [this](const std::vector<std::size_t>& sizes) {
    for (const std::size_t size : sizes) write(size, 3);
    writer.publish();
    const std::uint64_t at = peek(kTail) / kRecordUnit * kRecordUnit;
    std::uint64_t records = 0;
    for (const std::size_t size : sizes) records += record_bytes(size);
    std::memset(raw.data() + kRingHead + (at - records), 0xEE, records);
    int whole = 0;
    for (const std::size_t size : sizes) {
      const auto datagram = reader.read(kFromTo, out);
      if (!datagram || datagram->payload.size() != size) return whole;
      for (std::size_t i = 0; i < size; ++i) {
        if (out[i] != byte(3, i)) return whole;
      }
      ++whole;
    }
    return whole;
  };
  EXPECT_EQ(read_sizes({20}), 1);
  EXPECT_EQ(read_sizes({112}), 1);
  EXPECT_EQ(read_sizes({20, 84}), 2);
  EXPECT_EQ(read_sizes({0, 1, 2, 3}), 4);
  EXPECT_EQ(read_sizes({20, 85}), 0);
  EXPECT_TRUE(reader.is_broken()) << "the sizes there were overwritten";
}

TEST_F(RingTest, WhoIsBehindReadsFromTheRing) {
  write(20, 1);
  writer.publish();
  write(20, 2);
  writer.publish();
  for (int fill : {1, 2}) {
    ASSERT_TRUE(reader.read(kFromTo, out));
    EXPECT_EQ(out[0], byte(fill, 0));
  }
  EXPECT_FALSE(reader.read(kFromTo, out));
}

/// What stands beside the tail has to be what the tail says. Else the ring counts, which may be true.
TEST_F(RingTest, LiesBesideTheTailAreNotRead) {
  constexpr std::size_t kBeside = kTail + 8;
  int fill = 0;
  const auto position = [this] { return peek(kTail) / kRecordUnit * kRecordUnit; };
  /// Whether a packet comes out as it went into the ring, where `lie` has changed what is beside the tail.
  const auto comes_out = [&](std::size_t size, const auto& lie) {
    EXPECT_TRUE(write(size, ++fill));
    writer.publish();
    lie();
    const auto datagram = reader.read(kFromTo, out);
    return datagram && datagram->payload.size() == size && out[0] == byte(fill, 0) &&
           out[size - 1] == byte(fill, size - 1);
  };
  EXPECT_TRUE(comes_out(20, [&] { poke(kBeside, 100); })) << "a size beyond what is there, and beyond the tail";
  EXPECT_TRUE(comes_out(20, [&] { poke(kBeside, 0xFFFF'FFFF); }));
  EXPECT_TRUE(comes_out(20, [&] { poke(kTail, position() | 1); })) << "fewer words than the packet has";
  EXPECT_TRUE(comes_out(4000, [&] { poke(kBeside, 4000), poke(kTail, position() | 1); })) << "as the tail says";
  EXPECT_TRUE(comes_out(40, [&] { poke(kBeside, 60), poke(kTail, position() | 15); })) << "more than the tail says";
  EXPECT_FALSE(reader.is_broken());
  EXPECT_FALSE(comes_out(20, [&] { poke(kTail, position() | 16); })) << "more words than there can be";
  EXPECT_TRUE(reader.is_broken());
}

TEST_F(RingTest, AFullRingTakesNothingUntilTheReaderGivesRoomBack) {
  std::size_t count = 0;
  while (write(proto::kMaxPacketSize)) ++count;
  EXPECT_EQ(count, kRingBytes / kRecordMax);
  writer.publish();
  ASSERT_TRUE(reader.read(kFromTo, out));
  EXPECT_FALSE(write(proto::kMaxPacketSize)) << "not given back yet";
  reader.release();
  EXPECT_TRUE(write(proto::kMaxPacketSize));
  EXPECT_FALSE(writer.is_broken());
}

TEST_F(RingTest, ATailThatCannotBeBreaksTheRing) {
  for (const std::uint64_t tail : {std::uint64_t{16}, std::uint64_t{63}, kRingBytes + kRecordUnit,
                                   std::uint64_t{0} - kRecordUnit, std::uint64_t{1} << 63}) {
    RingReader fresh{*Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite)};
    poke(kTail, tail);
    EXPECT_FALSE(fresh.read(kFromTo, out)) << tail;
    EXPECT_TRUE(fresh.is_broken()) << tail;
    EXPECT_TRUE(fresh.is_empty()) << "nobody waits for it to be read: " << tail;
  }
}

TEST_F(RingTest, ATailThatGoesBackBreaksTheRing) {
  for (int i = 0; i < 3; ++i) write(100);
  writer.publish();
  while (reader.read(kFromTo, out)) continue;
  poke(kTail, kRecordUnit);
  EXPECT_FALSE(reader.read(kFromTo, out));
  EXPECT_TRUE(reader.is_broken());
}

TEST_F(RingTest, ALengthThatCannotBeBreaksTheRing) {
  struct Lie {
    std::size_t published;
    std::uint32_t size;
  };
  const Lie lies[] = {{4 * kRecordMax, proto::kMaxPacketSize + 1},
                      {kRingBytes, kRingBytes - 64},
                      {2 * kRecordUnit, 0x7FFF'FFFF},
                      {2 * kRecordUnit, 0xFFFF'FFFF},
                      {2 * kRecordUnit, 2 * kRecordUnit}};
  for (const auto& [published, size] : lies) {
    RingReader fresh{*Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite)};
    poke(kTail, published);
    poke_size(0, size);
    EXPECT_FALSE(fresh.read(kFromTo, out)) << size;
    EXPECT_TRUE(fresh.is_broken()) << size;
    poke_size(0, 10);
    EXPECT_FALSE(fresh.read(kFromTo, out)) << "once broken, always broken";
  }
}

TEST_F(RingTest, AHeadThatCannotBeBreaksTheRing) {
  for (const std::uint64_t head : {kRingBytes + kRecordUnit, std::uint64_t{0} - 1, std::uint64_t{1} << 63}) {
    RingWriter fresh{*Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite)};
    const std::vector<std::uint8_t> packet(proto::kMaxPacketSize);
    poke(kHead, head);
    const RecordHeader header{.size = proto::kMaxPacketSize};
    for (std::size_t i = 0; i <= kRingBytes / kRecordMax; ++i) fresh.write(header, packet.data());
    EXPECT_TRUE(fresh.is_broken()) << head;
    EXPECT_FALSE(fresh.write(header, packet.data()));
  }
}

TEST_F(RingTest, ALengthThatChangesMeanwhileIsReadOnce) {
  write(64, 1);
  writer.publish();
  std::atomic<bool> stop = false;
  std::thread hostile([&] {
    while (!stop) {
      poke_size(0, 64);
      poke_size(0, 0xFFFF'FFF0);
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    RingReader fresh{*Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite)};
    const auto datagram = fresh.read(kFromTo, out);
    ASSERT_EQ(datagram ? datagram->payload.size() : 64u, 64u);
  }
  stop = true;
  hostile.join();
}

/// The ICRC is that of the copy, and not of what stood in the ring before or after it.
TEST_F(RingTest, BytesThatChangeMeanwhileAreCopiedAndCheckedAtOnce) {
  write(proto::kMaxPacketSize, 1);
  writer.publish();
  std::atomic<bool> stop = false;
  std::thread hostile([&] {
    for (std::size_t at = 0; !stop; at = (at + 1) % (proto::kMaxPacketSize / 8)) poke(kRingHead + 8 + 8 * at, at);
  });
  for (int i = 0; i < 20'000; ++i) {
    RingReader fresh{*Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite)};
    const auto datagram = fresh.read(kFromTo, out);
    ASSERT_TRUE(datagram && datagram->icrc);
    ASSERT_EQ(*datagram->icrc, proto::icrc(datagram->path, Bytes(out).first(out.size() - proto::kIcrcSize)));
  }
  stop = true;
  hostile.join();
}

/// Random damage, to positions above all. Whatever is read fits; nothing crashes; who is broken stays so.
TEST_F(RingTest, RandomBytesDoNoHarm) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    RingWriter victim_writer{*Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite)};
    RingReader victim{*Mapping::make(memory.get(), kRingHead, kRingBytes, Mapping::Access::kReadWrite)};
    poke(kTail, 0);
    poke(kHead, 0);
    const std::vector<std::uint8_t> packet(proto::kMaxPacketSize, 0xFF);
    for (int step = 0; step < 200; ++step) {
      switch (random() % 8) {
        case 0:
          poke(kTail, random() % 4 == 0 ? random() : peek(kTail) + random() % 4096 * kRecordUnit);
          break;
        case 1:
          poke(kHead, random() % 4 == 0 ? random() : peek(kHead) + random() % 4096 * kRecordUnit);
          break;
        case 2:
          poke_size(random() % (kRingBytes / kRecordUnit) * kRecordUnit, static_cast<std::uint32_t>(random() % 5000));
          break;
        case 3:
          poke(kRingHead + random() % (kRingBytes - 8), random());
          break;
        case 4:
          victim_writer.publish();
          break;
        case 5:
          victim_writer.write({.size = static_cast<std::uint32_t>(random() % (proto::kMaxPacketSize + 1))},
                              packet.data());
          break;
        default:
          const bool was_broken = victim.is_broken();
          const auto datagram = victim.read(kFromTo, out);
          ASSERT_LE(datagram ? datagram->payload.size() : 0, proto::kMaxPacketSize) << seed;
          ASSERT_FALSE(was_broken && datagram) << seed;
          if (random() % 4 == 0) victim.release();
      }
    }
  }
}

}  // namespace
}  // namespace uroce::engine
