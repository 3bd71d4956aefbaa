// Lesson 12: what carries the transport headers. RoCEv2 is UDP with destination port 4791; the source port is not a
// port but a hint for routers, and the UDP checksum is left out.
#include <array>
#include <cstdint>

#include "proto/entropy.h"
#include "proto/frame.h"
#include "proto/packet.h"
#include "tools/learn/hex.h"

namespace {

using uroce::proto::Gid;
using uroce::proto::Ipv4;
using uroce::proto::Udp;

constexpr Gid kAlice = Gid::from_v4(192, 0, 2, 1), kBob = Gid::from_v4(192, 0, 2, 2);

/// A SEND ONLY of five bytes in a whole frame; returns the frame's size.
std::size_t build(std::array<std::uint8_t, 128>& frame, const uroce::proto::Path& path) {
  std::array<std::uint8_t, 64> packet{};
  uroce::proto::PacketBuilder builder(packet, uroce::proto::Opcode::kRcSendOnly);
  builder.payload(5)[0] = 'h';
  const std::size_t size = builder.finish(path);
  return build_frame(frame_fields_for(path), {packet.data(), size}, frame);
}

}  // namespace

int main() {
  // 1. The source port: the same for all packets of a QP (or they would overtake each other on different ways through
  // the network), different for different QPs (or they would all take the same way).
  std::printf("QPs          source port\n");
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t ours = 0x11 + i, theirs = 0x21 + i;
    std::printf("0x%x, 0x%x   %u  and back: %u\n", ours, theirs, uroce::proto::flow_source_port(0, ours, theirs),
                uroce::proto::flow_source_port(0, theirs, ours));
  }

  // 2. IPv4 and UDP.
  std::array<std::uint8_t, 128> frame{};
  const uroce::proto::Path path{.source = kAlice,
                                .destination = kBob,
                                .source_port = uroce::proto::flow_source_port(0, 0x11, 0x21),
                                .tclass = 26 << 2 | 2};  // DSCP 26, ECN 10: "I understand congestion marks"
  const std::size_t size = build(frame, path);
  const uroce::Bytes all{frame.data(), size};
  const uroce::Bytes ip = all.subspan(14, 20), udp = all.subspan(34, 8);
  const uroce::proto::ConstView<Ipv4> i{ip.data()};
  const uroce::proto::ConstView<Udp> u{udp.data()};
  std::printf("\n");
  learn::hex("IPv4", ip);
  std::printf("  DSCP %u, ECN %u, length %u, ID %u, don't fragment %u, TTL %u, protocol %u\n", i.get<Ipv4::Tos>() >> 2,
              i.get<Ipv4::Tos>() & 3, i.get<Ipv4::TotalLength>(), i.get<Ipv4::Id>(), i.get<Ipv4::Flags>() >> 1 & 1,
              i.get<Ipv4::Ttl>(), i.get<Ipv4::Protocol>());
  learn::hex("UDP", udp);
  std::printf("  source port %u, destination port %u, length %u, checksum %u: the ICRC protects the packet instead\n",
              u.get<Udp::SourcePort>(), u.get<Udp::DestinationPort>(), u.get<Udp::Length>(), u.get<Udp::Checksum>());

  // 3. What a packet costs besides its payload.
  std::printf("\nbytes on the wire for 5 bytes of data: %zu\n", size);
  std::printf("  14 Ethernet + 20 IPv4 + 8 UDP + 12 BTH + 5 data + 3 pad + 4 ICRC\n");
  for (unsigned mtu : {256u, 1024u, 4096u}) {
    const unsigned header = 14 + 20 + 8 + 12 + 4;
    std::printf("  path MTU %4u: %.1f %% of the frame is data\n", mtu, 100.0 * mtu / (mtu + header));
  }
}
