// SPDX-License-Identifier: Apache-2.0
// The bytes of capture files, as far as we write them: pcap with nanoseconds, and pcapng
// (draft-ietf-opsawg-pcapng), both in the byte order of this machine, which readers recognise, and of link type
// Ethernet.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "proto/bytes.h"

namespace uroce::proto::pcap_format {

enum class Format : std::uint8_t { kPcap, kPcapng };

/// Which way a packet went. Files that are pcapng tell it.
enum class Direction : std::uint8_t { kUnknown = 0, kReceived = 1, kSent = 2 };

struct Packet {
  std::int64_t time_ns = 0;  ///< Since 1970, UTC.
  Bytes frame;
  std::string_view comment;     ///< pcapng only; at most 65535 bytes of it.
  std::uint32_t interface = 0;  ///< pcapng only: counts from 0 in the order of the interface blocks of a section.
  Direction direction = Direction::kUnknown;
  std::uint32_t wire_size = 0;  ///< Bytes that the frame had, if more than those that are there.
};

// Each appends to `out`.
/// What a file begins with. In pcapng, a section.
void put_header(Format format, std::vector<std::uint8_t>& out);
/// pcapng: the next interface of the section.
void put_interface(std::string_view name, std::vector<std::uint8_t>& out);
void put_packet(Format format, const Packet& packet, std::vector<std::uint8_t>& out);

/// The size of what put_header() appends.
std::size_t header_size(Format format);
/// Whether a file that begins so is one that we could have written.
bool is_header(Format format, Bytes start);

/// A record of pcap, or a block of pcapng.
struct Record {
  std::uint64_t size = 0;
  bool is_section = false;
  bool is_interface = false;
};
/// So many bytes tell what a record is. No record is smaller.
inline constexpr std::size_t kRecordStart = 12;
/// The record that begins with these kRecordStart bytes; nothing when no record does.
std::optional<Record> read_record(Format format, Bytes start);

}  // namespace uroce::proto::pcap_format
