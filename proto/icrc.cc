// SPDX-License-Identifier: Apache-2.0
#include "proto/icrc.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/base/check.h"
#include "proto/base/copy_packet.h"
#include "proto/crc32.h"
#include "proto/headers.h"

namespace uroce::proto {
namespace {

/// CRC over `words`, most significant byte first. They go to memory in the pieces that crc32() loads: a load that spans
/// several stores waits until they have left the store buffer, and behind a payload that was copied a moment ago that
/// takes longer than the CRC of all of it.
template <std::size_t kWords>
std::uint32_t crc_of(const std::array<std::uint64_t, kWords>& words) {
  using Piece [[gnu::vector_size(16)]] = std::uint64_t;
  std::array<Piece, (kWords + 1) / 2> pieces;
  for (std::size_t i = 0; i < kWords; i += 2) {
    pieces[i / 2] = Piece{__builtin_bswap64(words[i]), i + 1 < kWords ? __builtin_bswap64(words[i + 1]) : 0};
  }
  return crc32(0, {reinterpret_cast<const std::uint8_t*>(pieces.data()), 8 * kWords});
}

// What precedes the body of a packet, with ones for what may change on the way. Field by field: IP and UDP in
// proto/ip_udp.h, BTH in proto/headers.h.

constexpr std::uint64_t kDummy = ~std::uint64_t{0};  ///< Stands for the LRH of InfiniBand.

std::uint64_t udp_word(const Path& path, std::size_t udp_size) {
  return std::uint64_t{path.source_port} << 48 | std::uint64_t{kRocePort} << 32 | udp_size << 16 | 0xFFFF;
}

/// The first 8 bytes of IPv6 or of a GRH, which has its layout.
std::uint64_t ipv6_word(std::size_t payload_size, std::uint8_t next_header) {
  return std::uint64_t{0x6FFFFFFF} << 32 | payload_size << 16 | std::uint64_t{next_header} << 8 | 0xFF;
}

// BTH's byte of FECN, BECN and reserved bits counts as ones: switches change it.
static_assert(Bth::Fecn::first == 4);
std::uint64_t bth_first8(Bytes packet) { return load_be<8>(packet.data()) | std::uint64_t{0xFF} << 24; }
std::uint64_t bth_last8(Bytes packet) { return load_be<8>(packet.data() + 4) | std::uint64_t{0xFF} << 56; }

/// The CRC of what precedes the bytes of a packet, and of the first of these.
struct Beginning {
  std::uint32_t crc;
  std::size_t bytes;
};

/// `size`: of BTH .. pad. Of `packet`, BTH is read.
Beginning begin_icrc(const Path& path, const std::uint8_t* bth, std::size_t size, std::uint16_t id,
                     std::uint8_t flags) {
  const Bytes packet(bth, Bth::kSize);
  const std::size_t udp_size = Udp::kSize + size + kIcrcSize;
  const std::uint64_t udp = udp_word(path, udp_size);
  if (path.destination.is_v4()) {
    return {crc_of<6>({kDummy,
                       std::uint64_t{0x45FF} << 48 | (Ipv4::kSize + udp_size) << 32 | std::uint64_t{id} << 16 |
                           std::uint64_t{flags} << 13,
                       std::uint64_t{0xFF} << 56 | std::uint64_t{kProtocolUdp} << 48 | std::uint64_t{0xFFFF} << 32 |
                           load_be<4>(path.source.v4()),
                       load_be<4>(path.destination.v4()) << 32 | udp >> 32,  //
                       udp << 32 | load_be<4>(packet.data()),                //
                       bth_last8(packet)}),
            Bth::kSize};
  }
  const std::uint8_t* const source = path.source.raw.data();
  const std::uint8_t* const destination = path.destination.raw.data();
  return {crc_of<8>({kDummy, ipv6_word(udp_size, kProtocolUdp), load_be<8>(source), load_be<8>(source + 8),
                     load_be<8>(destination), load_be<8>(destination + 8), udp, bth_first8(packet)}),
          8};
}

// Arithmetic in GF(2)[x] mod P, polynomials in the reflected form of CRC-32: bit 31 is x^0, bit 0 is x^31.
constexpr std::uint32_t kOne = 0x80000000;  ///< x^0.

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (int i = 31; i >= 0; --i) {  // x^0 of `a` first; b is multiplied by x each round
    product ^= b & (0 - ((a >> i) & 1));
    b = (b >> 1) ^ (kCrcPolynomial & (0 - (b & 1)));
  }
  return product;
}

constexpr std::uint32_t divide_by_x(std::uint32_t a) {
  return (a & kOne) != 0 ? ((a ^ kCrcPolynomial) << 1) | 1 : a << 1;
}

/// x^(-8 * step * i) for i = 0..255.
constexpr std::array<std::uint32_t, 256> inverse_powers(unsigned step) {
  std::uint32_t factor = kOne;
  for (unsigned bit = 0; bit < 8 * step; ++bit) factor = divide_by_x(factor);
  std::array<std::uint32_t, 256> table{kOne};
  for (std::size_t i = 1; i < table.size(); ++i) table[i] = multiply(table[i - 1], factor);
  return table;
}
constexpr auto kInverseByte = inverse_powers(1);
constexpr auto kInversePage = inverse_powers(256);

static_assert(multiply(kInverseByte[1], kOne >> 8) == kOne);
static_assert(multiply(kInverseByte[255], kInverseByte[1]) == kInversePage[1]);

}  // namespace

std::uint32_t icrc(const Path& path, Bytes packet, std::uint16_t ip_id, std::uint8_t ip_flags) {
  UROCE_ASSERT(packet.size() >= Bth::kSize);
  const Beginning beginning = begin_icrc(path, packet.data(), packet.size(), ip_id, ip_flags);
  return crc32(beginning.crc, packet.subspan(beginning.bytes));
}

std::uint32_t icrc_so_far(const Path& path, Bytes beginning, std::size_t size) {
  UROCE_ASSERT(beginning.size() >= Bth::kSize && beginning.size() <= size);
  const Beginning first = begin_icrc(path, beginning.data(), size, 0, kDontFragment);
  return crc32(first.crc, beginning.subspan(first.bytes));
}

std::optional<std::uint32_t> copy_with_icrc(const Path& path, std::uint8_t* to, const std::uint8_t* from,
                                            std::size_t size) {
  if (size < kOnePassLeast) {
    copy_packet(to, from, size);
    return std::nullopt;
  }
  // Before it is read, for who owns `from` may change it, and in the pieces in which it is read.
  static_assert(Bth::kSize == 12);
  std::memcpy(to, from, 4);
  std::memcpy(to + 4, from + 4, 8);
  const std::size_t covered = size - kIcrcSize;
  const std::uint32_t crc = copy_with_crc32(icrc_so_far(path, {to, Bth::kSize}, covered), to + Bth::kSize,
                                            from + Bth::kSize, covered - Bth::kSize);
  std::copy_n(from + covered, kIcrcSize, to + covered);
  return crc;
}

std::uint32_t icrc_v1(const Path& path, Bytes packet) {
  UROCE_ASSERT(packet.size() >= Bth::kSize);
  const std::uint8_t* const source = path.source.raw.data();
  const std::uint8_t* const destination = path.destination.raw.data();
  const std::uint32_t crc =
      crc_of<7>({kDummy, ipv6_word(packet.size() + kIcrcSize, kNextHeaderIba), load_be<8>(source),
                 load_be<8>(source + 8), load_be<8>(destination), load_be<8>(destination + 8), bth_first8(packet)});
  return crc32(crc, packet.subspan(8));
}

IcrcCheck check_icrc(const Datagram& datagram) {
  const Path& path = datagram.path;
  if (datagram.payload.size() < Bth::kSize + kIcrcSize) return {};
  const Bytes packet = datagram.payload.first(datagram.payload.size() - kIcrcSize);
  const std::uint32_t right = datagram.icrc ? *datagram.icrc : icrc(path, packet);
  const std::uint32_t difference = load_icrc(datagram.payload.last(kIcrcSize)) ^ right;
  if (difference == 0) return {.ok = true};
  if (!path.destination.is_v4()) return {};

  // difference = ID(x) * x^(8n + 32) mod P, n = bytes behind the ID. Divided by x^(8n + 16) it is ID(x) * x^16: of
  // degree 16..31, that is, in the low half of the reflected form, first byte of the ID lowest. In the high half are
  // the two bytes behind it, which begin with the flags.
  constexpr std::size_t kIdEnd = Ipv4::Id::first + Ipv4::Id::count;
  const std::size_t after_id = Ipv4::kSize - kIdEnd + Udp::kSize + packet.size() + 2;
  const std::uint32_t id =
      multiply(multiply(difference, kInverseByte[after_id & 0xFF]), kInversePage[(after_id >> 8) & 0xFF]);
  constexpr std::uint32_t kWithoutDf = std::uint32_t{kDontFragment} << 21;
  if (id == kWithoutDf) return {.ok = true, .ip_flags = 0};
  if (id > 0xFFFF) return {};
  return {.ok = true, .ip_id = static_cast<std::uint16_t>(id << 8 | id >> 8)};
}

}  // namespace uroce::proto
