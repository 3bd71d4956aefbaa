// Lesson 13: the frame around it. RoCEv2 is IP (EtherType 0x0800 or 0x86DD) and can be routed; RoCEv1 is EtherType
// 0x8915 with a Global Route Header in the place of IP and UDP, and stays within one Ethernet.
#include <array>
#include <cstdint>
#include <string>

#include "proto/describe/describe.h"
#include "proto/frame.h"
#include "proto/packet.h"
#include "tools/learn/hex.h"

namespace {

using uroce::proto::FrameFields;
using uroce::proto::Gid;

constexpr uroce::proto::Path kIpv4{.source = Gid::from_v4(192, 0, 2, 1), .destination = Gid::from_v4(192, 0, 2, 2)};
constexpr uroce::proto::Path kIpv6{.source = Gid{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
                                   .destination = Gid{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}}};

void show(const char* what, FrameFields fields) {
  fields.source.raw = {0x02, 0, 0, 0, 0, 0x01};
  fields.destination.raw = {0x02, 0, 0, 0, 0, 0x02};

  // BTH .. ICRC of an empty SEND. The builder's ICRC is that of v2; v1 covers other headers.
  std::array<std::uint8_t, 64> packet{};
  uroce::proto::PacketBuilder builder(packet, uroce::proto::Opcode::kRcSendOnly);
  std::size_t size = builder.finish(fields.path);
  if (fields.version == uroce::proto::RoceVersion::kV1) {
    uroce::MutBytes icrc{packet.data() + size - 4, 4};
    uroce::proto::store_icrc(icrc, uroce::proto::icrc_v1(fields.path, {packet.data(), size - 4}));
  }

  std::array<std::uint8_t, 128> frame{};
  const std::size_t frame_size = build_frame(fields, {packet.data(), size}, frame);
  std::printf("%s: %zu bytes\n", what, frame_size);
  learn::hex("  Ethernet", {frame.data(), 14});
  std::printf("             EtherType 0x%02x%02x\n", frame[12], frame[13]);
  std::printf("  read back: %s\n\n", uroce::proto::frame_line({frame.data(), frame_size}).c_str());
}

}  // namespace

int main() {
  show("RoCEv2 over IPv4", uroce::proto::frame_fields_for(kIpv4));
  show("RoCEv2 over IPv6", uroce::proto::frame_fields_for(kIpv6));

  FrameFields tagged = uroce::proto::frame_fields_for(kIpv4);
  tagged.vlan_tci = static_cast<std::uint16_t>(3 << 13 | 100);  // Priority 3 (the lossless class of many networks).
  show("RoCEv2 over IPv4 in VLAN 100, priority 3", tagged);

  FrameFields v1 = uroce::proto::frame_fields_for(kIpv6);
  v1.version = uroce::proto::RoceVersion::kV1;
  v1.path.source_port = 0;
  show("RoCEv1", v1);
}
