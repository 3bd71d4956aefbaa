// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/explain/scripted.h"

#include "proto/frame.h"
#include "proto/icrc.h"
#include "proto/pcap_format.h"

namespace uroce::explain::test {
namespace {

/// In network order.
Writer network() {
  Writer writer;
  writer.swapped = true;
  return writer;
}

Octets scripted_frame(const Scripted& packet, const Ends& ends) {
  proto::Path path{packet.from_a ? ends.a : ends.b, packet.from_a ? ends.b : ends.a};
  path.source_port = packet.source_port;
  const std::size_t pad = (4 - packet.payload % 4) % 4;
  Writer writer = network();
  const unsigned flags = packet.migrated ? 0x40 : 0;
  writer.half(static_cast<std::uint16_t>(static_cast<unsigned>(packet.op) << 8 | flags | pad << 4)).half(0xFFFF);
  writer.word(packet.from_a ? ends.qp_b : ends.qp_a).word(0x80000000u | packet.psn).bytes(packet.headers);
  Octets bytes = writer.out;
  bytes.resize(bytes.size() + packet.payload + pad);
  const std::uint32_t icrc = proto::icrc(path, bytes) + (packet.damaged ? 1 : 0);
  bytes.resize(bytes.size() + proto::kIcrcSize);
  proto::store_icrc(MutBytes(bytes).last(proto::kIcrcSize), icrc);
  const proto::FrameFields fields = proto::frame_fields_for(path);
  Octets frame(proto::frame_size(fields, bytes.size()));
  proto::build_frame(fields, bytes, frame);
  return frame;
}

}  // namespace

Octets reth(std::uint32_t length, std::uint32_t offset) {
  return network().word(0).word(0x1000 + offset).word(0x77).word(length).out;
}
Octets aeth(std::uint32_t msn) { return network().word(0x1F000000u | msn).out; }
Octets nak(std::uint32_t msn, std::uint32_t code) { return network().word((0x60u | code) << 24 | msn).out; }

Octets rnr_nak(std::uint32_t msn) { return network().word(0x21u << 24 | msn).out; }

Octets scripted_pcap(const std::vector<Scripted>& packets, const Ends& ends) {
  std::vector<std::pair<std::int64_t, Octets>> frames;
  std::int64_t time_ns = 1'000'000'000;
  for (const Scripted& packet : packets) {
    frames.emplace_back(time_ns += packet.wait_us * 1'000, scripted_frame(packet, ends));
  }
  return pcap_of(std::move(frames));
}

Octets scripted_pcapng(const std::vector<Sighting>& sightings, const Ends& ends) {
  namespace format = proto::pcap_format;
  Octets file;
  format::put_header(format::Format::kPcapng, file);
  format::put_interface("a", file);
  format::put_interface("b", file);
  std::int64_t time_ns = 1'000'000'000;
  for (const Sighting& seen : sightings) {
    time_ns += seen.packet.wait_us * 1'000;
    const Octets frame = scripted_frame(seen.packet, ends);
    format::put_packet(
        format::Format::kPcapng,
        {.time_ns = time_ns,
         .frame = frame,
         .comment = seen.comment,
         .interface = seen.at_a ? 0u : 1u,
         .direction = seen.packet.from_a == seen.at_a ? format::Direction::kSent : format::Direction::kReceived},
        file);
  }
  return file;
}

Octets told_by_turns(const std::vector<Said>& packets) {
  constexpr std::ptrdiff_t kFileHeader = 24;
  Octets file;
  for (const Said& said : packets) {
    const Octets one = scripted_pcap({said.packet}, said.ends);
    file.insert(file.end(), one.begin() + (file.empty() ? 0 : kFileHeader), one.end());
  }
  return file;
}

}  // namespace uroce::explain::test
