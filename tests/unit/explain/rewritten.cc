// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/explain/rewritten.h"

#include <algorithm>

#include "tests/unit/explain/retold.h"
#include "tools/explain/capture/reader.h"

namespace uroce::explain::test {

Writer& Writer::word(std::uint32_t value) {
  if (swapped) value = __builtin_bswap32(value);
  const auto* const octets = reinterpret_cast<const std::uint8_t*>(&value);
  out.insert(out.end(), octets, octets + 4);
  return *this;
}

Writer& Writer::half(std::uint16_t value) {
  if (swapped) value = __builtin_bswap16(value);
  const auto* const octets = reinterpret_cast<const std::uint8_t*>(&value);
  out.insert(out.end(), octets, octets + 2);
  return *this;
}

Writer& Writer::bytes(Bytes more) {
  out.insert(out.end(), more.begin(), more.end());
  return *this;
}

std::vector<std::pair<std::int64_t, Octets>> frames_of(const std::string& name) {
  auto reader = Reader::open(Input(read_capture(name)));
  std::vector<std::pair<std::int64_t, Octets>> frames;
  Frame frame;
  while (reader->next(frame) == Reader::Next::kFrame) {
    frames.emplace_back(frame.time_ns, Octets(frame.bytes.begin(), frame.bytes.end()));
  }
  return frames;
}

Octets pcap(const std::string& name, const Rewriting& how) { return pcap_of(frames_of(name), how); }

// NOLINTNEXTLINE(performance-unnecessary-value-param): the frames change below, through a structured binding.
Octets pcap_of(std::vector<std::pair<std::int64_t, Octets>> frames, const Rewriting& how) {
  Writer writer;
  writer.swapped = how.swapped;
  writer.word(how.microseconds ? 0xA1B2C3D4 : 0xA1B23C4D).half(2).half(4).word(0).word(0).word(65535);
  writer.word(how.link_type);
  std::size_t number = 0;
  for (auto& [time, frame] : frames) {
    time += how.clock_ns;
    if (how.without.contains(++number)) continue;
    const Octets converted = how.convert(frame);
    const std::size_t captured = std::min(how.snap, converted.size());
    writer.word(static_cast<std::uint32_t>(time / 1'000'000'000))
        .word(static_cast<std::uint32_t>(time % 1'000'000'000 / (how.microseconds ? 1000 : 1)))
        .word(static_cast<std::uint32_t>(captured))
        .word(static_cast<std::uint32_t>(converted.size()))
        .bytes(Bytes(converted).first(captured));
  }
  return writer.out;
}

Octets behind_ethernet(const Octets& frame, std::size_t header, std::optional<std::size_t> type_at) {
  Octets out(header);
  if (type_at) std::copy_n(frame.begin() + 12, 2, out.begin() + static_cast<std::ptrdiff_t>(*type_at));
  out.insert(out.end(), frame.begin() + 14, frame.end());
  return out;
}

}  // namespace uroce::explain::test
