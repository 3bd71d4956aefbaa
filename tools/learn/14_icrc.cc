// Lesson 14: the Invariant CRC, the last four bytes of every packet. It covers what no router may change; what routers
// do change is counted as ones. Computed here bit by bit, then checked against packets of Linux's Soft-RoCE.
#include <array>
#include <cstdint>
#include <vector>

#include "proto/frame.h"
#include "proto/packet.h"
#include "proto/pcap_reader.h"
#include "tools/learn/hex.h"

namespace {

/// CRC-32 as Ethernet has it, one bit at a time.
std::uint32_t crc32(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
  }
  return ~crc;
}

/// The ICRC of an IPv4 frame without VLAN tag: Ethernet (14 bytes), IPv4 (20), UDP (8), BTH (12), ..., ICRC (4).
std::uint32_t icrc_by_hand(uroce::Bytes frame) {
  // 8 bytes of ones stand for the local route header of InfiniBand, which RoCE does not have.
  std::vector<std::uint8_t> covered(8, 0xFF);
  covered.insert(covered.end(), frame.begin() + 14, frame.end() - 4);
  std::uint8_t* ip = covered.data() + 8;
  std::uint8_t* udp = ip + 20;
  std::uint8_t* bth = udp + 8;
  ip[1] = 0xFF;            // Type of service: switches set the ECN bits, routers change the DSCP.
  ip[8] = 0xFF;            // Time to live: every router counts it down,
  ip[10] = ip[11] = 0xFF;  // and then the header checksum changes, too.
  udp[6] = udp[7] = 0xFF;  // UDP checksum.
  bth[4] = 0xFF;           // FECN, BECN and six reserved bits: may change on the way.
  return crc32(covered);
}

void check_capture(const char* file) {
  auto reader = uroce::proto::PcapReader::open(file);
  if (!reader) {
    std::printf("%s: %s\n", file, reader.error().c_str());
    std::exit(1);
  }
  int frames = 0, right = 0, numbered = 0;
  for (;;) {
    const auto next = reader->next();
    if (!next || !*next) break;
    const auto frame = uroce::proto::parse_frame((*next)->bytes);
    if (!frame || !frame->fields.path.source.is_v4()) continue;
    const std::uint32_t stored = uroce::proto::load_icrc(frame->packet.last(4));
    const std::uint32_t computed = icrc_by_hand((*next)->bytes);
    if (frames++ == 0) std::printf("first packet: the packet says 0x%08x, by hand 0x%08x\n", stored, computed);
    right += stored == computed;
    numbered += frame->fields.ip_id != 0;
  }
  std::printf("%d packets, %d with the right ICRC, %d with an IPv4 identification other than 0\n", frames, right,
              numbered);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: 14_icrc CAPTURE.pcap\n");
    return 2;
  }
  check_capture(argv[1]);

  // What a router changes does not matter; what it must not change does.
  const auto path = uroce::proto::Path{.source = uroce::proto::Gid::from_v4(192, 0, 2, 1),
                                       .destination = uroce::proto::Gid::from_v4(192, 0, 2, 2)};
  std::array<std::uint8_t, 64> packet{};
  uroce::proto::PacketBuilder builder(packet, uroce::proto::Opcode::kRcSendOnly);
  const uroce::Bytes bytes{packet.data(), builder.finish(path)};
  auto changed = path;
  changed.hop_limit = 3;
  changed.tclass = 3;
  std::printf("TTL and ECN changed:   %s\n", uroce::proto::check_icrc(changed, bytes).ok ? "right" : "wrong");
  packet[4] = 0x80;  // FECN
  std::printf("FECN set:              %s\n", uroce::proto::check_icrc(path, bytes).ok ? "right" : "wrong");
  packet[11] ^= 1;  // The lowest bit of the PSN.
  std::printf("one bit of the PSN:    %s\n", uroce::proto::check_icrc(path, bytes).ok ? "right" : "wrong");
}
