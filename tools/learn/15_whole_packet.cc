// Lesson 15: a conversation that never took place. Writes a capture with a WRITE of three packets and its ACK, every
// byte made here, for Wireshark to dissect.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "proto/entropy.h"
#include "proto/frame.h"
#include "proto/packet.h"
#include "proto/pcap.h"
#include "proto/syndrome.h"

namespace {

using namespace uroce::proto;

constexpr std::uint32_t kAliceQp = 0x11, kBobQp = 0x22, kMtu = 256, kFirstPsn = 0x1000;
constexpr Gid kAlice = Gid::from_v4(192, 0, 2, 1), kBob = Gid::from_v4(192, 0, 2, 2);

Path path_from(const Gid& source, const Gid& destination) {
  return {.source = source, .destination = destination, .source_port = flow_source_port(0, kAliceQp, kBobQp)};
}

/// One frame into the capture, `at` microseconds after the first (at 1 s after 1970).
void write_frame(PcapWriter& capture, int at, const Path& path, PacketBuilder& builder,
                 const std::array<std::uint8_t, 512>& packet) {
  const std::uint32_t size = builder.finish(path);
  std::array<std::uint8_t, 600> frame{};
  const std::size_t frame_size = build_frame(frame_fields_for(path), {packet.data(), size}, frame);
  capture.write(1'000'000'000 + 1'000 * std::int64_t{at}, {frame.data(), frame_size});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: 15_whole_packet FILE.pcap\n");
    return 2;
  }
  auto capture = PcapWriter::create(argv[1]);
  if (!capture) {
    std::fprintf(stderr, "%s\n", capture.error().c_str());
    return 1;
  }

  // 600 bytes at path MTU 256: FIRST 256, MIDDLE 256, LAST 88. Each packet takes the next PSN.
  constexpr std::uint32_t kLength = 600;
  constexpr std::array kWriteOpcodes{Opcode::kRcWriteFirst, Opcode::kRcWriteMiddle, Opcode::kRcWriteLast};
  constexpr std::string_view kText = "written by hand ";
  for (std::uint32_t i = 0; i < kWriteOpcodes.size(); ++i) {
    std::array<std::uint8_t, 512> packet{};
    PacketBuilder builder(packet, kWriteOpcodes[i]);
    builder.bth().set<Bth::DestQp>(kBobQp).set<Bth::PsnField>(kFirstPsn + i);
    if (i == 0) {
      builder.header<Reth>().set<Reth::Va>(0x10000).set<Reth::RKey>(0x1234).set<Reth::DmaLength>(kLength);
    }
    if (i == 2) builder.bth().set<Bth::AckReq>(1);  // Only the last one asks for an answer.
    uroce::MutBytes payload = builder.payload(std::min(kMtu, kLength - i * kMtu));
    for (std::size_t k = 0; k < payload.size(); ++k) payload[k] = static_cast<std::uint8_t>(kText[k % kText.size()]);
    write_frame(*capture, static_cast<int>(i), path_from(kAlice, kBob), builder, packet);
  }

  // One ACK for all three: the PSN of the last, and one message completed.
  std::array<std::uint8_t, 512> packet{};
  PacketBuilder builder(packet, Opcode::kRcAcknowledge);
  builder.bth().set<Bth::DestQp>(kAliceQp).set<Bth::PsnField>(kFirstPsn + 2);
  builder.header<Aeth>().set<Aeth::SyndromeField>(encode_syndrome(syndrome::Ack{})).set<Aeth::Msn>(1);
  write_frame(*capture, 10, path_from(kBob, kAlice), builder, packet);

  if (const auto error = capture->flush()) {
    std::fprintf(stderr, "%s\n", error->c_str());
    return 1;
  }
  std::printf("%s: 4 packets\n", argv[1]);
}
