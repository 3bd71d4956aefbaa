// SPDX-License-Identifier: Apache-2.0
#include "proto/icrc.h"

#include <gtest/gtest.h>

#include <random>

#include "proto/headers.h"
#include "tests/unit/proto/hex.h"

namespace uroce::proto {
namespace {

using test::from_hex;
using Buffer = std::vector<std::uint8_t>;

const Path kPath4{Gid::from_v4(10, 77, 0, 11), Gid::from_v4(10, 77, 0, 12), 0xC144};
const Path kPath6{Gid{{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11}},
                  Gid{{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12}}, 0xFA24};

/// CRC-32 bit by bit: the definition.
std::uint32_t slow_crc(const Buffer& bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

Buffer random_packet(std::mt19937_64& random, std::size_t size) {
  Buffer packet(size);
  for (std::uint8_t& byte : packet) byte = static_cast<std::uint8_t>(random());
  return packet;
}

Buffer with_icrc(const Path& path, Buffer packet, std::uint16_t id, std::uint8_t flags = kDontFragment) {
  const std::uint32_t value = icrc(path, packet, id, flags);
  packet.resize(packet.size() + kIcrcSize);
  store_icrc(MutBytes(packet).last(kIcrcSize), value);
  return packet;
}

// Packets that the kernel's rxe sent.
TEST(Icrc, KnownAnswerIpv4) {
  const Buffer packet = from_hex("0430ffff 00000012 80000100 10000000");
  EXPECT_EQ(icrc(kPath4, packet, 0x5B07), 0x94926C62u);
  const Buffer wire = from_hex("0430ffff 00000012 80000100 10000000 626c9294");
  const IcrcCheck check = check_icrc(kPath4, wire);
  EXPECT_TRUE(check.ok);
  EXPECT_EQ(check.ip_id, 0x5B07);
}

TEST(Icrc, KnownAnswerIpv6) {
  const Buffer packet = from_hex("0430ffff 0000007a 80000100 10000000");
  EXPECT_EQ(icrc(kPath6, packet), 0x59E1E4B0u);
  EXPECT_EQ(icrc(kPath6, packet, 77), 0x59E1E4B0u);  // IPv6 has no Identification
}

// The recipe written down byte by byte, independent of the header types.
TEST(Icrc, IsTheDefinition) {
  std::mt19937_64 random(1);
  for (const std::size_t size : {12u, 16u, 17u, 63u, 64u, 1040u, 4140u}) {
    const Buffer packet = random_packet(random, size);
    const auto length = [](std::size_t n) {
      return Buffer{static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)};
    };
    Buffer v4(8, 0xFF), v6(8, 0xFF), v1(8, 0xFF);
    const auto add = [](Buffer& to, const Buffer& more) { to.insert(to.end(), more.begin(), more.end()); };
    add(v4, from_hex("45ff"));
    add(v4, length(28 + size + 4));
    add(v4, from_hex("beef 4000 ff11 ffff 0a4d000b 0a4d000c c144 12b7"));
    add(v4, length(8 + size + 4));
    add(v4, from_hex("ffff"));
    const Buffer gids = from_hex("fd770000000000000000000000000011 fd770000000000000000000000000012");
    add(v6, from_hex("6fffffff"));
    add(v6, length(8 + size + 4));
    add(v6, from_hex("11ff"));
    add(v6, gids);
    add(v6, from_hex("fa24 12b7"));
    add(v6, length(8 + size + 4));
    add(v6, from_hex("ffff"));
    add(v1, from_hex("6fffffff"));
    add(v1, length(size + 4));
    add(v1, from_hex("1bff"));
    add(v1, gids);
    Buffer masked = packet;
    masked[4] = 0xFF;
    for (Buffer* covered : {&v4, &v6, &v1}) add(*covered, masked);
    EXPECT_EQ(icrc(kPath4, packet, 0xBEEF), slow_crc(v4));
    EXPECT_EQ(icrc(kPath6, packet), slow_crc(v6));
    EXPECT_EQ(icrc_v1(kPath6, packet), slow_crc(v1));
  }
}

TEST(Icrc, IgnoresWhatRoutersChange) {
  const Buffer wire = with_icrc(kPath4, from_hex("0430ffff 00000012 80000100 10000000"), 0);
  Path other = kPath4;
  other.tclass = 0xFF;
  other.hop_limit = 1;
  other.flow_label = 5;
  EXPECT_TRUE(check_icrc(other, wire).ok);
  Buffer marked = wire;
  marked[4] = 0xC0;  // FECN and BECN
  EXPECT_TRUE(check_icrc(other, marked).ok);
}

TEST(Icrc, CoversTheAddressesAndPorts) {
  for (const Path& path : {kPath4, kPath6}) {
    const Buffer wire = with_icrc(path, from_hex("0430ffff 00000012 80000100 10000000"), 0);
    ASSERT_TRUE(check_icrc(path, wire).ok);
    Path other = path;
    other.source.raw[15] ^= 1;
    EXPECT_FALSE(check_icrc(other, wire).ok);
    other = path;
    other.destination.raw[14] ^= 0x80;
    EXPECT_FALSE(check_icrc(other, wire).ok);
    other = path;
    other.source_port ^= 1;
    EXPECT_FALSE(check_icrc(other, wire).ok);
  }
}

TEST(Icrc, RecoversEveryId) {
  std::mt19937_64 random(2);
  const Buffer packet = random_packet(random, 1052);
  for (unsigned id = 0; id < 0x10000; ++id) {
    const IcrcCheck check = check_icrc(kPath4, with_icrc(kPath4, packet, static_cast<std::uint16_t>(id)));
    ASSERT_TRUE(check.ok) << id;
    ASSERT_EQ(check.ip_id, id);
  }
}

TEST(Icrc, RecoversTheIdAtEveryLength) {
  std::mt19937_64 random(3);
  for (std::size_t size = Bth::kSize; size < 4200; ++size) {
    const auto id = static_cast<std::uint16_t>(random() | 1);
    const IcrcCheck check = check_icrc(kPath4, with_icrc(kPath4, random_packet(random, size), id));
    ASSERT_TRUE(check.ok) << size;
    ASSERT_EQ(check.ip_id, id) << size;
  }
  const IcrcCheck check = check_icrc(kPath4, with_icrc(kPath4, random_packet(random, 65500), 0x1234));
  EXPECT_TRUE(check.ok && check.ip_id == 0x1234);
}

// A sender that always has ID 0 need not set DF.
TEST(Icrc, IsRightWithoutDf) {
  std::mt19937_64 random(6);
  for (std::size_t size = Bth::kSize; size < 4200; ++size) {
    const Buffer packet = random_packet(random, size);
    const IcrcCheck check = check_icrc(kPath4, with_icrc(kPath4, packet, 0, 0));
    ASSERT_TRUE(check.ok) << size;
    ASSERT_EQ(check.ip_id, 0) << size;
    ASSERT_EQ(check.ip_flags, 0) << size;
    ASSERT_EQ(check_icrc(kPath4, with_icrc(kPath4, packet, 0)).ip_flags, kDontFragment);
    ASSERT_FALSE(check_icrc(kPath4, with_icrc(kPath4, packet, 1, 0)).ok) << "with another ID";
    ASSERT_FALSE(check_icrc(kPath4, with_icrc(kPath4, packet, 0, 0b100)).ok) << "a reserved flag";
    ASSERT_FALSE(check_icrc(kPath4, with_icrc(kPath4, packet, 0, 0b001)).ok) << "a fragment";
  }
}

// With the ID known or recovered.
TEST(Icrc, FindsEveryFlippedBit) {
  std::mt19937_64 random(4);
  for (const Path& path : {kPath4, kPath6}) {
    for (const std::uint16_t id : std::array<std::uint16_t, 2>{0, 0xABCD}) {
      const Buffer wire = with_icrc(path, random_packet(random, 300), id);
      for (std::size_t bit = 0; bit < wire.size() * 8; ++bit) {
        if (bit / 8 == Bth::Fecn::first) continue;  // masked
        Buffer damaged = wire;
        damaged[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
        EXPECT_FALSE(check_icrc(path, damaged).ok) << bit;
      }
    }
  }
}

// 16 of the 32 bits of redundancy are left when the ID is unknown: of random damage about 1 in 65536 passes.
TEST(Icrc, RandomDamagePassesAsRarelyAsItShould) {
  std::mt19937_64 random(5);
  const Buffer wire = with_icrc(kPath4, random_packet(random, 40), 0);
  int passed = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    Buffer damaged = wire;
    store_icrc(MutBytes(damaged).last(kIcrcSize), static_cast<std::uint32_t>(random()));
    passed += check_icrc(kPath4, damaged).ok ? 1 : 0;
  }
  EXPECT_GT(passed, 2);  // 15.3 expected
  EXPECT_LT(passed, 40);
}

TEST(Icrc, TooShortIsNotOk) {
  const Buffer bytes(16);
  for (std::size_t size = 0; size < 16; ++size) EXPECT_FALSE(check_icrc(kPath4, Bytes(bytes).first(size)).ok);
}

}  // namespace
}  // namespace uroce::proto
