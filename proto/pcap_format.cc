// SPDX-License-Identifier: Apache-2.0
#include "proto/pcap_format.h"

#include <pcap/dlt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

namespace uroce::proto::pcap_format {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint32_t kSnapLength = 262'144;
constexpr std::uint32_t kMaxBlock = 16 << 20;  ///< As Wireshark has it.

constexpr std::array<std::uint32_t, 6> kPcapHeader{0xA1B23C4D, 2 | 4 << 16, 0, 0, kSnapLength, DLT_EN10MB};
// pcapng: blocks of type, length, body, length again.
enum BlockType : std::uint32_t { kSection = 0x0A0D0D0A, kInterface = 1, kEnhancedPacket = 6 };
constexpr std::array<std::uint32_t, 7> kSectionHeader{kSection, 28, 0x1A2B3C4D, 1, 0xFFFFFFFF, 0xFFFFFFFF, 28};
// An option is a word of code and length, and its value, filled up to words. A word of zeros ends them.
enum OptionCode : std::uint32_t { kComment = 1, kInterfaceName = 2, kPacketFlags = 2, kTimeResolution = 9 };
constexpr std::uint8_t kNanoseconds = 9;  ///< 10^-9.

constexpr std::size_t padded(std::size_t size) { return (size + 3) / 4 * 4; }

void put(std::span<const std::uint32_t> words, std::vector<std::uint8_t>& out) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(words.data());
  out.insert(out.end(), bytes, bytes + words.size_bytes());
}

void put_padded(Bytes bytes, std::vector<std::uint8_t>& out) {
  out.insert(out.end(), bytes.begin(), bytes.end());
  out.resize(out.size() + padded(bytes.size()) - bytes.size());
}

void put_option(std::uint32_t code, Bytes value, std::vector<std::uint8_t>& out) {
  value = value.first(std::min<std::size_t>(value.size(), 0xFFFF));
  put(std::array{code | static_cast<std::uint32_t>(value.size()) << 16}, out);
  put_padded(value, out);
}

Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

/// A block of which type and a place for its length are at `begin`.
void end_block(std::size_t begin, std::vector<std::uint8_t>& out) {
  const auto size = static_cast<std::uint32_t>(out.size() + sizeof(std::uint32_t) - begin);
  put(std::array{size}, out);
  std::memcpy(out.data() + begin + 4, &size, sizeof size);
}

std::uint32_t word(Bytes bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

void put_header(Format format, std::vector<std::uint8_t>& out) {
  format == Format::kPcap ? put(kPcapHeader, out) : put(kSectionHeader, out);
}

void put_interface(std::string_view name, std::vector<std::uint8_t>& out) {
  const std::size_t begin = out.size();
  put(std::array<std::uint32_t, 4>{kInterface, 0, DLT_EN10MB, kSnapLength}, out);
  if (!name.empty()) put_option(kInterfaceName, bytes_of(name), out);
  put_option(kTimeResolution, std::array{kNanoseconds}, out);
  put(std::array{0u}, out);
  end_block(begin, out);
}

void put_packet(Format format, const Packet& packet, std::vector<std::uint8_t>& out) {
  const auto size = static_cast<std::uint32_t>(packet.frame.size());
  const std::uint32_t wire_size = std::max(size, packet.wire_size);
  if (format == Format::kPcap) {
    put(std::array{static_cast<std::uint32_t>(packet.time_ns / kNsPerSecond),
                   static_cast<std::uint32_t>(packet.time_ns % kNsPerSecond), size, wire_size},
        out);
    out.insert(out.end(), packet.frame.begin(), packet.frame.end());
    return;
  }
  const std::size_t begin = out.size();
  const auto time = static_cast<std::uint64_t>(packet.time_ns);
  put(std::array{std::uint32_t{kEnhancedPacket}, 0u, packet.interface, static_cast<std::uint32_t>(time >> 32),
                 static_cast<std::uint32_t>(time), size, wire_size},
      out);
  put_padded(packet.frame, out);
  const auto direction = static_cast<std::uint32_t>(packet.direction);
  if (direction != 0) put_option(kPacketFlags, std::bit_cast<std::array<std::uint8_t, 4>>(direction), out);
  if (!packet.comment.empty()) put_option(kComment, bytes_of(packet.comment), out);
  if (direction != 0 || !packet.comment.empty()) put(std::array{0u}, out);
  end_block(begin, out);
}

std::size_t header_size(Format format) { return format == Format::kPcap ? sizeof kPcapHeader : sizeof kSectionHeader; }

bool is_header(Format format, Bytes start) {
  if (start.size() < header_size(format)) return false;
  if (format == Format::kPcap) return word(start, 0) == kPcapHeader[0] && word(start, 20) == DLT_EN10MB;
  return word(start, 0) == kSection && word(start, 8) == kSectionHeader[2];
}

std::optional<Record> read_record(Format format, Bytes start) {
  if (format == Format::kPcap) {
    const std::uint32_t captured = word(start, 8);
    return captured <= kSnapLength ? std::optional(Record{16 + std::uint64_t{captured}}) : std::nullopt;
  }
  const std::uint32_t type = word(start, 0);
  const std::uint32_t size = word(start, 4);
  if (size < 12 || size > kMaxBlock || size % 4 != 0) return std::nullopt;
  return Record{size, type == kSection, type == kInterface};
}

}  // namespace uroce::proto::pcap_format
