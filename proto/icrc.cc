#include "proto/icrc.h"

#include <isa-l/crc.h>

#include <array>

#include "proto/base/check.h"
#include "proto/headers.h"

namespace uroce::proto {
namespace {

constexpr std::size_t kIpv4Size = 20;
constexpr std::size_t kIpv6Size = 40;
constexpr std::size_t kUdpSize = 8;
constexpr std::size_t kDummySize = 8;  ///< Stands for the LRH of InfiniBand, all ones.
constexpr std::size_t kPrefixMax = kDummySize + kIpv6Size + kUdpSize + Bth::kSize;

std::uint32_t crc32(std::uint32_t seed, const std::uint8_t* bytes, std::size_t size) {
  // ISA-L's prototype lacks the const.
  return crc32_gzip_refl(seed, const_cast<std::uint8_t*>(bytes), size);
}

std::uint8_t* put(std::uint8_t* at, Bytes bytes) { return std::copy(bytes.begin(), bytes.end(), at); }

/// IPv4 header of a RoCEv2 packet, without options, DF set; TOS, TTL and checksum as ones.
std::uint8_t* put_ipv4(std::uint8_t* at, const Path& path, std::size_t total, std::uint16_t id) {
  at[0] = 0x45;
  at[1] = 0xFF;
  store_be<2>(at + 2, total);
  store_be<2>(at + 4, id);
  store_be<2>(at + 6, 0x4000);
  at[8] = 0xFF;
  at[9] = 17;
  store_be<2>(at + 10, 0xFFFF);
  at = put(at + 12, {path.source.v4(), 4});
  return put(at, {path.destination.v4(), 4});
}

/// IPv6 header; traffic class, flow label and hop limit as ones.
std::uint8_t* put_ipv6(std::uint8_t* at, const Path& path, std::size_t udp_size) {
  store_be<4>(at, 0x6FFFFFFF);
  store_be<2>(at + 4, udp_size);
  at[6] = 17;
  at[7] = 0xFF;
  at = put(at + 8, path.source.raw);
  return put(at, path.destination.raw);
}

// Arithmetic in GF(2)[x] mod P, polynomials in the reflected form of CRC-32: bit 31 is x^0, bit 0 is x^31.
constexpr std::uint32_t kPolynomial = 0xEDB88320;
constexpr std::uint32_t kOne = 0x80000000;

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (int i = 31; i >= 0; --i) {  // x^0 of `a` first; b is multiplied by x each round
    product ^= b & (0 - ((a >> i) & 1));
    b = (b >> 1) ^ (kPolynomial & (0 - (b & 1)));
  }
  return product;
}

constexpr std::uint32_t divide_by_x(std::uint32_t a) { return (a & kOne) != 0 ? ((a ^ kPolynomial) << 1) | 1 : a << 1; }

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

std::uint32_t icrc(const Path& path, Bytes packet, std::uint16_t ip_id) {
  UROCE_ASSERT(packet.size() >= Bth::kSize);
  const std::size_t udp_size = kUdpSize + packet.size() + kIcrcSize;
  std::array<std::uint8_t, kPrefixMax> prefix;
  std::uint8_t* at = std::fill_n(prefix.data(), kDummySize, std::uint8_t{0xFF});
  at = path.destination.is_v4() ? put_ipv4(at, path, kIpv4Size + udp_size, ip_id) : put_ipv6(at, path, udp_size);
  store_be<2>(at, path.source_port);
  store_be<2>(at + 2, kRocePort);
  store_be<2>(at + 4, udp_size);
  store_be<2>(at + 6, 0xFFFF);
  at = put(at + kUdpSize, packet.first(Bth::kSize));
  at[4 - static_cast<int>(Bth::kSize)] = 0xFF;  // FECN, BECN, reserved: switches may change them

  const std::uint32_t crc = crc32(0, prefix.data(), static_cast<std::size_t>(at - prefix.data()));
  const Bytes rest = packet.subspan(Bth::kSize);
  return crc32(crc, rest.data(), rest.size());
}

IcrcCheck check_icrc(const Path& path, Bytes packet_with_icrc) {
  if (packet_with_icrc.size() < Bth::kSize + kIcrcSize) return {};
  const Bytes packet = packet_with_icrc.first(packet_with_icrc.size() - kIcrcSize);
  const std::uint32_t difference = load_icrc(packet_with_icrc.last(kIcrcSize)) ^ icrc(path, packet);
  if (difference == 0) return {true, 0};
  if (!path.destination.is_v4()) return {};

  // difference = ID(x) * x^(8n + 32) mod P, n = bytes behind the ID. Divided by x^(8n + 16) it is ID(x) * x^16: of
  // degree 16..31, that is, in the low half of the reflected form, first byte of the ID lowest.
  const std::size_t after_id = kIpv4Size - 6 + kUdpSize + packet.size() + 2;
  const std::uint32_t id =
      multiply(multiply(difference, kInverseByte[after_id & 0xFF]), kInversePage[(after_id >> 8) & 0xFF]);
  if (id > 0xFFFF) return {};
  return {true, static_cast<std::uint16_t>(id << 8 | id >> 8)};
}

}  // namespace uroce::proto
