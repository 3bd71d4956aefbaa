// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/judged/fuzz/nic_victim.h"

namespace uroce::fuzz {
namespace {

using Place = VictimMemory::Place;

constexpr std::size_t kGuard = 256;
constexpr std::uint32_t kAll =
    nic::kLocalWrite | nic::kRemoteWrite | nic::kRemoteRead | nic::kRemoteAtomic | nic::kFlushGlobal;
constexpr std::uint64_t kFirstIova = 0x1'0000'0000, kIovaStep = 0x10'0000;

constexpr std::array<Place, kRegions> kPlaces = [] {
  std::array<Place, kRegions> places{{
      {0, 8192, 0, kAll, true},
      {0, 1024, 0, nic::kRemoteRead, true},
      {0, 4096, 0, nic::kLocalWrite, true},
      {0, 1024, 0, nic::kLocalWrite | nic::kRemoteWrite, true},
      {0, 1024, 0, kAll, false},
      {4, 520, 0, kAll, true},
  }};
  std::size_t begin = kGuard;
  std::uint64_t iova = kFirstIova;
  for (Place& p : places) {
    p.begin += begin;
    p.iova = iova;
    begin = (p.begin + p.size + kGuard + 7) / 8 * 8;
    iova += kIovaStep;
  }
  places[kWritable].iova = ~std::uint64_t{0} - places[kWritable].size + 1;
  return places;
}();
constexpr std::size_t kMemory = kPlaces.back().begin + kPlaces.back().size + kGuard;

constexpr bool peers_read(const Place& p) { return p.in_qp_pd && (p.access & nic::kRemoteRead) != 0; }
constexpr bool peers_write(const Place& p) {
  return p.in_qp_pd && (p.access & (nic::kRemoteWrite | nic::kRemoteAtomic)) != 0;
}

/// `byte` with the mark of what lies at `index` of the memory.
std::uint8_t marked(std::uint8_t byte, std::size_t index) {
  constexpr std::uint8_t kSecret = 0x80;
  const bool is_public = std::any_of(kPlaces.begin(), kPlaces.end(), [index](const Place& p) {
    return peers_read(p) && index >= p.begin && index < p.begin + p.size;
  });
  return static_cast<std::uint8_t>(is_public ? byte & ~kSecret : byte | kSecret);
}

}  // namespace

VictimMemory::VictimMemory() : writers_(kMemory) {
  static const std::vector<std::uint8_t> kFresh = [] {
    std::vector<std::uint8_t> bytes(kMemory);
    for (std::size_t i = 0; i < kMemory; ++i) bytes[i] = marked(static_cast<std::uint8_t>(i * 37 + (i >> 8)), i);
    return bytes;
  }();
  bytes_ = before_ = kFresh;
}

const Place& VictimMemory::place(std::uint8_t region) { return kPlaces[region]; }

void VictimMemory::grant_region(std::uint8_t region) {
  const Place& p = place(region);
  if (!peers_write(p)) return;
  for (std::size_t i = p.begin; i < p.begin + p.size; ++i) writers_[i] |= kByPeer;
}

void VictimMemory::grant_sge(std::uint8_t region, std::int64_t offset, std::uint64_t length) {
  const Place& p = place(region);
  if (!p.in_qp_pd || (p.access & nic::kLocalWrite) == 0) return;
  // One that leaves the region grants what lies inside: a long list is written packet by packet.
  const auto size = static_cast<std::int64_t>(p.size);
  const std::int64_t end = std::min(size, offset + static_cast<std::int64_t>(length));
  for (std::int64_t i = std::max<std::int64_t>(offset, 0); i < end; ++i) {
    writers_[p.begin + static_cast<std::size_t>(i)] |= kByOwnWrs;
  }
}

void VictimMemory::revoke(std::uint8_t region, int writers) {
  const Place& p = place(region);
  for (std::size_t i = p.begin; i < p.begin + p.size; ++i) writers_[i] &= static_cast<std::uint8_t>(~writers);
}

void VictimMemory::check(std::uint8_t writers) {
  constexpr std::size_t kBlock = 256;  // Few are touched by one packet.
  for (std::size_t begin = 0; begin < kMemory; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, kMemory);
    if (std::memcmp(bytes_.data() + begin, before_.data() + begin, end - begin) == 0) continue;
    for (std::size_t i = begin; i < end; ++i) {
      if (bytes_[i] == before_[i]) continue;
      UROCE_ASSERT((writers_[i] & writers) != 0 && "memory changed without a right to it");
      bytes_[i] = before_[i] = marked(bytes_[i], i);  // What a peer has written says nothing.
    }
  }
}

}  // namespace uroce::fuzz
