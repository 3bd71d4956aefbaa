// SPDX-License-Identifier: Apache-2.0
#include "proto/icrc.h"

#include <isa-l/crc.h>

#include <array>

#include "proto/base/check.h"
#include "proto/headers.h"

namespace uroce::proto {
namespace {

std::uint32_t crc32(std::uint32_t seed, const std::uint8_t* bytes, std::size_t size) {
  // ISA-L's prototype lacks the const.
  return crc32_gzip_refl(seed, const_cast<std::uint8_t*>(bytes), size);
}

/// The masked copy of what precedes the packet's body: dummy, IP and UDP (or GRH), BTH. The body is read in place.
class Prefix {
 public:
  Prefix() { std::fill_n(bytes_.data(), kDummySize, std::uint8_t{0xFF}); }

  template <class H>
  MutView<H> put() {
    const MutView<H> header{bytes_.data() + size_};
    size_ += H::kSize;
    return header;
  }

  /// CRC over the prefix and `packet`, of which BTH's FECN, BECN and reserved bits count as ones: switches change them.
  std::uint32_t crc_with(Bytes packet) {
    std::uint8_t* bth = bytes_.data() + size_;
    size_ += Bth::kSize;
    std::copy_n(packet.data(), Bth::kSize, bth);
    bth[Bth::Fecn::first] = 0xFF;
    const Bytes body = packet.subspan(Bth::kSize);
    return crc32(crc32(0, bytes_.data(), size_), body.data(), body.size());
  }

 private:
  static constexpr std::size_t kDummySize = 8;  ///< Stands for the LRH of InfiniBand.
  std::array<std::uint8_t, kDummySize + Ipv6::kSize + Udp::kSize + Bth::kSize> bytes_{};
  std::size_t size_ = kDummySize;
};

constexpr std::uint8_t kOnes8 = 0xFF;
constexpr std::uint16_t kOnes16 = 0xFFFF;
constexpr std::uint32_t kOnes20 = 0xFFFFF;

void put_ipv4(Prefix& prefix, const Path& path, std::size_t udp_size, std::uint16_t id, std::uint8_t flags) {
  prefix.put<Ipv4>()
      .set<Ipv4::Version>(4)
      .set<Ipv4::HeaderWords>(5)
      .set<Ipv4::Tos>(kOnes8)
      .set<Ipv4::TotalLength>(static_cast<std::uint16_t>(Ipv4::kSize + udp_size))
      .set<Ipv4::Id>(id)
      .set<Ipv4::Flags>(flags)
      .set<Ipv4::Ttl>(kOnes8)
      .set<Ipv4::Protocol>(kProtocolUdp)
      .set<Ipv4::Checksum>(kOnes16)
      .set<Ipv4::Source>(static_cast<std::uint32_t>(load_be<4>(path.source.v4())))
      .set<Ipv4::Destination>(static_cast<std::uint32_t>(load_be<4>(path.destination.v4())));
}

void put_ipv6(Prefix& prefix, const Path& path, std::size_t payload_size, std::uint8_t next_header) {
  prefix.put<Ipv6>()
      .set<Ipv6::Version>(6)
      .set<Ipv6::TClass>(kOnes8)
      .set<Ipv6::FlowLabel>(kOnes20)
      .set<Ipv6::PayloadLength>(static_cast<std::uint16_t>(payload_size))
      .set<Ipv6::NextHeader>(next_header)
      .set<Ipv6::HopLimit>(kOnes8)
      .set<Ipv6::SourceHigh>(load_be<8>(path.source.raw.data()))
      .set<Ipv6::SourceLow>(load_be<8>(path.source.raw.data() + 8))
      .set<Ipv6::DestinationHigh>(load_be<8>(path.destination.raw.data()))
      .set<Ipv6::DestinationLow>(load_be<8>(path.destination.raw.data() + 8));
}

void put_udp(Prefix& prefix, const Path& path, std::size_t udp_size) {
  prefix.put<Udp>()
      .set<Udp::SourcePort>(path.source_port)
      .set<Udp::DestinationPort>(kRocePort)
      .set<Udp::Length>(static_cast<std::uint16_t>(udp_size))
      .set<Udp::Checksum>(kOnes16);
}

// Arithmetic in GF(2)[x] mod P, polynomials in the reflected form of CRC-32: bit 31 is x^0, bit 0 is x^31.
constexpr std::uint32_t kPolynomial = 0xEDB88320;
constexpr std::uint32_t kOne = 0x80000000;  ///< x^0.

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

std::uint32_t icrc(const Path& path, Bytes packet, std::uint16_t ip_id, std::uint8_t ip_flags) {
  UROCE_ASSERT(packet.size() >= Bth::kSize);
  const std::size_t udp_size = Udp::kSize + packet.size() + kIcrcSize;
  Prefix prefix;
  if (path.destination.is_v4()) {
    put_ipv4(prefix, path, udp_size, ip_id, ip_flags);
  } else {
    put_ipv6(prefix, path, udp_size, kProtocolUdp);
  }
  put_udp(prefix, path, udp_size);
  return prefix.crc_with(packet);
}

std::uint32_t icrc_v1(const Path& path, Bytes packet) {
  UROCE_ASSERT(packet.size() >= Bth::kSize);
  Prefix prefix;
  put_ipv6(prefix, path, packet.size() + kIcrcSize, kNextHeaderIba);  // a GRH has the layout of IPv6
  return prefix.crc_with(packet);
}

IcrcCheck check_icrc(const Path& path, Bytes packet_with_icrc) {
  if (packet_with_icrc.size() < Bth::kSize + kIcrcSize) return {};
  const Bytes packet = packet_with_icrc.first(packet_with_icrc.size() - kIcrcSize);
  const std::uint32_t difference = load_icrc(packet_with_icrc.last(kIcrcSize)) ^ icrc(path, packet);
  if (difference == 0) return {true, 0};
  if (!path.destination.is_v4()) return {};

  // difference = ID(x) * x^(8n + 32) mod P, n = bytes behind the ID. Divided by x^(8n + 16) it is ID(x) * x^16: of
  // degree 16..31, that is, in the low half of the reflected form, first byte of the ID lowest.
  constexpr std::size_t kIdEnd = Ipv4::Id::first + Ipv4::Id::count;
  const std::size_t after_id = Ipv4::kSize - kIdEnd + Udp::kSize + packet.size() + 2;
  const std::uint32_t id =
      multiply(multiply(difference, kInverseByte[after_id & 0xFF]), kInversePage[(after_id >> 8) & 0xFF]);
  if (id > 0xFFFF) return {};
  return {true, static_cast<std::uint16_t>(id << 8 | id >> 8)};
}

}  // namespace uroce::proto
