// SPDX-License-Identifier: Apache-2.0
// Captures of pcaps/, written anew as others would have captured them: other file formats, link layers and wrappings.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/bytes.h"

namespace uroce::explain::test {

using Octets = std::vector<std::uint8_t>;

/// Numbers as a capture file has them, of either byte order.
struct Writer {
  Octets out;
  bool swapped = false;

  Writer& word(std::uint32_t value);
  Writer& half(std::uint16_t value);
  Writer& bytes(Bytes more);
};

/// Time in nanoseconds, and the Ethernet frame, of each packet.
std::vector<std::pair<std::int64_t, Octets>> frames_of(const std::string& name);

struct Rewriting {
  std::uint32_t link_type = 1;
  /// From a frame of Ethernet.
  std::function<Octets(const Octets&)> convert = [](const Octets& frame) { return frame; };
  bool swapped = false, microseconds = false;
  std::size_t snap = 65535;         ///< Most bytes of a packet.
  std::int64_t clock_ns = 0;        ///< To add to each time.
  std::set<std::size_t> without{};  ///< Packets to leave out, from 1.
};
/// `name` as pcap.
Octets pcap(const std::string& name, const Rewriting& how = {});
/// Frames with their times, as pcap.
Octets pcap_of(std::vector<std::pair<std::int64_t, Octets>> frames, const Rewriting& how = {});

/// Takes Ethernet off, and puts `header` bytes in front; `type_at`: where the EtherType goes in them, if anywhere.
Octets behind_ethernet(const Octets& frame, std::size_t header, std::optional<std::size_t> type_at = {});

}  // namespace uroce::explain::test
