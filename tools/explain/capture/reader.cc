// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/capture/reader.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>

namespace uroce::explain {
namespace {

constexpr std::uint32_t kMicroseconds = 0xA1B2C3D4, kNanoseconds = 0xA1B23C4D;
constexpr std::uint32_t kSectionType = 0x0A0D0D0A, kByteOrder = 0x1A2B3C4D;
constexpr std::size_t kPcapHeader = 24, kPcapRecord = 16, kBlockStart = 12;
/// More than any packet, so that a damaged length is noticed and does not fill the memory.
constexpr std::uint32_t kLongestFrame = 262'144, kLongestBlock = 16 << 20;
constexpr std::size_t kMostInterfaces = 100'000;
enum BlockType : std::uint32_t { kInterfaceBlock = 1, kOldPacket = 2, kSimplePacket = 3, kEnhancedPacket = 6 };
enum OptionCode : std::uint16_t { kEnd = 0, kComment = 1, kName = 2, kFlags = 2, kResolution = 9, kOffset = 14 };

std::int64_t clamp_time(std::int64_t seconds, std::int64_t nanoseconds) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1'000'000'000 - 10;
  return std::clamp(seconds, -kMost, kMost) * 1'000'000'000 + nanoseconds;
}

/// How compressed files begin, and what expands them.
struct Compression {
  std::string_view magic, name, remedy;
};
constexpr Compression kCompressions[] = {
    {"\x1F\x8B", "gzip", "gunzip"},
    {"\x28\xB5\x2F\xFD", "zstd", "unzstd"},
    {"\xFD"
     "7zXZ",
     "xz", "unxz"},
    {"BZh", "bzip2", "bunzip2"},
    {"\x04\x22\x4D\x18", "lz4", "unlz4"},
};

/// Null: none that is known.
const Compression* compression_of(Bytes start) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  const auto* const known = std::find_if(std::begin(kCompressions), std::end(kCompressions),
                                         [&](const Compression& row) { return text.starts_with(row.magic); });
  return known == std::end(kCompressions) ? nullptr : known;
}

}  // namespace

std::uint16_t Reader::half(Bytes bytes, std::size_t at) const {
  std::uint16_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return swapped_ ? __builtin_bswap16(value) : value;
}

std::uint32_t Reader::word(Bytes bytes, std::size_t at) const {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return swapped_ ? __builtin_bswap32(value) : value;
}

bool Reader::broken(const std::string& what) {
  damage_ = what + " at byte " + std::to_string(input_.position());
  return false;
}

bool Reader::ends_in(const char* what) {
  if (!input_.error().empty()) return broken("can't be read further (" + input_.error() + ")");
  return broken(std::string("cut off in the ") + what);
}

Result<Reader, std::string> Reader::open(Input input) {
  Reader reader(std::move(input));
  const Bytes start = reader.input_.peek(kPcapHeader);
  if (start.empty() && reader.input_.error().empty()) return Err{std::string("it is empty")};
  if (!reader.input_.error().empty()) return Err{reader.input_.error()};
  if (start.size() >= 4 && reader.word(start, 0) == kSectionType) {
    reader.kind_ = Kind::kPcapng;
    return reader;
  }
  if (const Compression* const compression = compression_of(start)) {
    return Err{"it is compressed by " + std::string(compression->name) + ": " + std::string(compression->remedy) +
               " it first"};
  }
  if (start.size() < kPcapHeader || !reader.read_pcap_header()) {
    return Err{std::string("it is neither pcap nor pcapng")};
  }
  return reader;
}

bool Reader::read_pcap_header() {
  const Bytes start = input_.peek(kPcapHeader);
  const auto known = [&] { return word(start, 0) == kMicroseconds || word(start, 0) == kNanoseconds; };
  if (!known()) swapped_ = true;
  if (!known()) return false;
  // The upper bits of the link type tell of a frame check sequence.
  interfaces_.push_back({.link_type = word(start, 20) & 0xFFFF,
                         .ticks_per_second = word(start, 0) == kNanoseconds ? 1'000'000'000u : 1'000'000u,
                         .offset_seconds = 0,
                         .name = {},
                         .tap = {}});
  input_.skip(kPcapHeader);
  return true;
}

Reader::Next Reader::next(Frame& frame) {
  input_.skip(taken_);
  taken_ = 0;
  if (!damage_.empty()) return Next::kEnd;
  frame = {};
  const bool got = kind_ == Kind::kPcap ? read_pcap(frame) : read_pcapng(frame);
  if (!got && damage_.empty() && !input_.error().empty()) ends_in("block");
  return got ? Next::kFrame : Next::kEnd;
}

bool Reader::read_pcap(Frame& frame) {
  Bytes record = input_.peek(kPcapRecord);
  if (record.empty()) return false;
  if (record.size() < kPcapRecord) return ends_in("packet");
  const std::uint32_t captured = word(record, 8);
  if (captured > kLongestFrame) return broken("damaged: a packet of " + std::to_string(captured) + " bytes");
  record = input_.peek(kPcapRecord + captured);
  if (record.size() < kPcapRecord + captured) return ends_in("packet");
  const Interface& interface = interfaces_.front();
  const std::int64_t fraction = interface.ticks_per_second == 1'000'000 ? 1000 : 1;
  frame.time_ns = clamp_time(word(record, 0), word(record, 4) * fraction);
  frame.bytes = record.subspan(kPcapRecord);
  frame.wire_size = std::max(word(record, 12), captured);
  frame.link_type = interface.link_type;
  taken_ = record.size();
  return true;
}

bool Reader::read_pcapng(Frame& frame) {
  while (true) {
    const Bytes start = input_.peek(kBlockStart);
    if (start.empty()) return false;
    if (start.size() < kBlockStart) return ends_in("block");
    std::uint32_t type = 0;
    std::memcpy(&type, start.data(), sizeof type);  // That of a section reads the same in both orders.
    if (type == kSectionType) {
      swapped_ = false;
      if (word(start, 8) != kByteOrder) swapped_ = true;
      if (word(start, 8) != kByteOrder) return broken("damaged: a section without byte order");
    }
    type = word(start, 0);
    const std::uint32_t size = word(start, 4);
    if (size < kBlockStart || size > kLongestBlock || size % 4 != 0) {
      return broken("damaged: a block of " + std::to_string(size) + " bytes");
    }
    const Bytes block = input_.peek(size);
    if (block.size() < size) return ends_in("block");
    bool packet = false;
    if (type == kSectionType) begin_section();
    if (type == kInterfaceBlock) add_interface(block);
    if (type == kEnhancedPacket || type == kOldPacket || type == kSimplePacket) {
      packet = take_packet(block, type, frame);
      if (!damage_.empty()) return false;
    }
    if (packet) {
      taken_ = size;
      return true;
    }
    input_.skip(size);
  }
}

/// The options of a block, one after another.
struct Reader::Options {
  const Reader& reader;
  Bytes rest;

  /// False at the end.
  bool next(std::uint16_t& code, Bytes& value) {
    if (rest.size() < 4) return false;
    code = reader.half(rest, 0);
    const std::size_t size = reader.half(rest, 2);
    const std::size_t padded = (size + 3) / 4 * 4;
    if (code == kEnd || rest.size() < 4 + size) return false;
    value = rest.subspan(4, size);
    rest = rest.subspan(std::min(rest.size(), 4 + padded));
    return true;
  }
};

/// Forgets the last section's interfaces, but those that stand for others: a live capture of several processes has a
/// section whenever another one writes.
void Reader::begin_section() {
  while (interfaces_.size() > first_interface_ && interfaces_.back().tap != interfaces_.size() - 1) {
    interfaces_.pop_back();
  }
  first_interface_ = static_cast<std::uint32_t>(interfaces_.size());
}

void Reader::add_interface(Bytes block) {
  if (block.size() < 20 || interfaces_.size() >= kMostInterfaces) return;
  Interface interface {
    .link_type = half(block, 8), .snap_length = word(block, 12), .name = {},
    .local = static_cast<std::uint32_t>(interfaces_.size()) - first_interface_, .tap = {}
  };
  Options options{*this, block.subspan(16, block.size() - 20)};
  std::uint16_t code = 0;
  Bytes value;
  while (options.next(code, value)) {
    if (code == kName) interface.name.assign(value.begin(), value.end());
    if (code == kResolution && !value.empty()) {
      const unsigned exponent = value[0] & 0x7F;
      const bool binary = (value[0] & 0x80) != 0;
      std::uint64_t ticks = 1;
      for (unsigned i = 0; i < std::min(exponent, binary ? 40u : 12u); ++i) ticks *= binary ? 2 : 10;
      interface.ticks_per_second = ticks;
    }
    if (code == kOffset && value.size() == 8) {
      std::uint64_t seconds;
      std::memcpy(&seconds, value.data(), sizeof seconds);
      interface.offset_seconds = static_cast<std::int64_t>(swapped_ ? __builtin_bswap64(seconds) : seconds);
    }
  }
  interfaces_.push_back(std::move(interface));
}

std::int64_t Reader::time_of(std::uint64_t ticks, const Interface& interface) const {
  const std::uint64_t per_second = interface.ticks_per_second;
  const std::uint64_t fraction = ticks % per_second;
  constexpr std::uint64_t kPerSecond = 1'000'000'000;
  const auto nanoseconds = static_cast<std::int64_t>(
      kPerSecond % per_second == 0
          ? fraction * (kPerSecond / per_second)
          : static_cast<std::uint64_t>(static_cast<double>(fraction) / static_cast<double>(per_second) * 1e9));
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const auto seconds = static_cast<std::int64_t>(std::min<std::uint64_t>(ticks / per_second, kMost));
  return clamp_time(seconds + std::clamp(interface.offset_seconds, -kMost, kMost), nanoseconds);
}

/// The first interface of the file that is the same as this one, which may be itself. A capture that was cut into files
/// which were joined again (`cat`) has a section for each of them. What the same interface has seen later was seen by
/// the same tap; what seems to have been seen at the same time was captured by somebody else, at the other end say.
std::uint32_t Reader::tap_of(std::uint32_t number, std::int64_t time_ns) {
  constexpr std::size_t kMostTaps = 1000;  // Of one name: a file of many sections must not take long.
  Interface& interface = interfaces_[number];
  if (!interface.tap) {
    std::vector<std::uint32_t>& taps = taps_[{interface.local, interface.link_type, interface.name}];
    // The oldest one: of both ends' files that take turns (first A, first B, second A, second B), that of this end.
    const auto before =
        std::find_if(taps.begin(), taps.end(), [&](std::uint32_t tap) { return interfaces_[tap].last_ns <= time_ns; });
    interface.tap = before == taps.end() ? number : *before;
    if (before == taps.end() && taps.size() < kMostTaps) taps.push_back(number);
  }
  std::int64_t& last = interfaces_[*interface.tap].last_ns;
  last = std::max(last, time_ns);
  return *interface.tap;
}

/// False for a packet that can't be used; the capture goes on behind it.
bool Reader::take_packet(Bytes block, std::uint32_t type, Frame& frame) {
  const std::size_t header = type == kSimplePacket ? 12 : 28;
  if (block.size() < header + 4) return broken("damaged: a packet without header");
  const std::uint32_t local = type == kEnhancedPacket ? word(block, 8) : type == kOldPacket ? half(block, 8) : 0;
  const std::uint64_t number = std::uint64_t{first_interface_} + local;
  if (number >= interfaces_.size()) return broken("damaged: a packet of an unknown interface");
  const Interface& interface = interfaces_[number];
  const std::size_t room = block.size() - header - 4;
  frame = {};
  frame.wire_size = word(block, type == kSimplePacket ? 8 : 24);
  // A Simple Packet Block does not say how much was captured; it ends with padding.
  const std::uint32_t most = interface.snap_length == 0 ? UINT32_MAX : interface.snap_length;
  const std::size_t captured =
      type == kSimplePacket ? std::min<std::size_t>({frame.wire_size, most, room}) : word(block, 20);
  if (captured > room) return broken("damaged: a packet longer than its block");
  frame.bytes = block.subspan(header, captured);
  frame.wire_size = std::max(frame.wire_size, static_cast<std::uint32_t>(captured));
  frame.link_type = interface.link_type;
  if (type != kSimplePacket) {
    frame.time_ns = time_of(std::uint64_t{word(block, 12)} << 32 | word(block, 16), interface);
  }
  frame.interface = tap_of(static_cast<std::uint32_t>(number), frame.time_ns);
  if (type == kSimplePacket) return true;
  Options options{*this, block.subspan(header + std::min(room, (captured + 3) / 4 * 4),
                                       room - std::min(room, (captured + 3) / 4 * 4))};
  std::uint16_t code = 0;
  Bytes value;
  while (options.next(code, value)) {
    if (code == kComment) frame.comment = {reinterpret_cast<const char*>(value.data()), value.size()};
    if (code == kFlags && value.size() == 4 && (word(value, 0) & 3) != 3) {
      frame.direction = Direction{static_cast<std::uint8_t>(word(value, 0) & 3)};
    }
  }
  return true;
}

std::string Reader::interface_name(std::uint32_t interface) const {
  return interface < interfaces_.size() ? interfaces_[interface].name : std::string();
}

}  // namespace uroce::explain
