// SPDX-License-Identifier: Apache-2.0
// Capture files, taken apart in one pass: pcap (micro- and nanoseconds) and pcapng, of either byte order. What libpcap
// does not tell is told: interface, direction and comment of each packet, and where a damaged file ends.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tools/explain/capture/input.h"

namespace uroce::explain {

enum class Direction : std::uint8_t { kUnknown, kReceived, kSent };

/// One record of a capture. Its bytes are valid until the next one is read.
struct Frame {
  std::int64_t time_ns = 0;     ///< Since 1970, UTC.
  Bytes bytes;                  ///< As far as they were captured.
  std::uint32_t wire_size = 0;  ///< Bytes that the packet had.
  std::uint32_t link_type = 0;  ///< LINKTYPE_...
  std::uint32_t interface = 0;  ///< In the file, from 0: where it was captured (the same one in several sections).
  Direction direction = Direction::kUnknown;
  std::string_view comment;
};

class Reader {
 public:
  enum class Next : std::uint8_t { kFrame, kEnd };

  /// Reads the start of the capture; an error when it is none.
  static Result<Reader, std::string> open(Input input);

  Next next(Frame& frame);

  /// Why the capture ended before its end, and where: "cut off in the packet at byte 1234"; empty when it is whole.
  const std::string& damage() const { return damage_; }
  /// "uroce0 (ib_write_bw 123)"; empty when the capture does not tell.
  std::string interface_name(std::uint32_t interface) const;
  const Input& input() const { return input_; }

 private:
  enum class Kind : std::uint8_t { kPcap, kPcapng };
  static constexpr std::int64_t kLongAgo = std::numeric_limits<std::int64_t>::min();
  struct Interface {
    std::uint32_t link_type = 0;
    std::uint32_t snap_length = 0;  ///< Bytes that it captures of a packet, 0: all.
    std::uint64_t ticks_per_second = 1'000'000;
    std::int64_t offset_seconds = 0;
    std::string name;
    std::uint32_t local = 0;           ///< In its section.
    std::optional<std::uint32_t> tap;  ///< Known with its first packet.
    std::int64_t last_ns = kLongAgo;   ///< Of those whose `tap` this is.
  };
  struct Options;

  explicit Reader(Input input) : input_(std::move(input)) {}
  bool read_pcap_header();
  bool read_pcap(Frame& frame);
  bool read_pcapng(Frame& frame);
  void begin_section();
  void add_interface(Bytes block);
  bool take_packet(Bytes block, std::uint32_t type, Frame& frame);
  bool broken(const std::string& what);
  /// The capture, or what could be read of it, ends in the middle of a `what`.
  bool ends_in(const char* what);
  std::uint32_t tap_of(std::uint32_t number, std::int64_t time_ns);
  std::int64_t time_of(std::uint64_t ticks, const Interface& interface) const;
  std::uint16_t half(Bytes bytes, std::size_t at) const;
  std::uint32_t word(Bytes bytes, std::size_t at) const;

  Input input_;
  Kind kind_ = Kind::kPcap;
  bool swapped_ = false;
  std::uint32_t first_interface_ = 0;  ///< In this section of a pcapng.
  std::size_t taken_ = 0;              ///< Size of the record that the last frame lies in.
  std::vector<Interface> interfaces_;
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::string>;  ///< Number in its section, link type, name.
  std::map<Key, std::vector<std::uint32_t>> taps_;                    ///< In the order of the file.
  std::string damage_;
};

}  // namespace uroce::explain
