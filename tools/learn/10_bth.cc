// Lesson 10: the Base Transport Header (BTH), 12 bytes that every RoCE packet has. First by hand, then with the
// library.
#include <array>
#include <cstdint>

#include "proto/packet.h"
#include "tools/learn/hex.h"

namespace {

using uroce::proto::Bth;

std::uint8_t byte(unsigned value) { return static_cast<std::uint8_t>(value); }

/// A BTH with shifts and masks alone. Network byte order: the highest byte comes first.
std::array<std::uint8_t, 12> by_hand(unsigned opcode, unsigned dest_qp, unsigned psn) {
  const unsigned solicited = 0;    // 1 bit:  raise an event at a receiver that waits for solicited ones (lesson 22)
  const unsigned migrated = 1;     // 1 bit:  path migration; 1 = the ordinary state
  const unsigned pad = 1;          // 2 bits: 0..3 bytes that fill the payload up to a multiple of four
  const unsigned version = 0;      // 4 bits: of the transport header; always 0
  const unsigned pkey = 0xFFFF;    // 16 bits: partition; RoCE uses the default one
  const unsigned fecn_becn = 0;    // 2 bits + 6 reserved ones: congestion marks; not covered by the ICRC
  const unsigned ack_request = 1;  // 1 bit + 7 reserved ones: "please acknowledge this packet"
  return {byte(opcode),           byte(solicited << 7 | migrated << 6 | pad << 4 | version),
          byte(pkey >> 8),        byte(pkey),
          byte(fecn_becn),        byte(dest_qp >> 16),
          byte(dest_qp >> 8),     byte(dest_qp),
          byte(ack_request << 7), byte(psn >> 16),
          byte(psn >> 8),         byte(psn)};
}

/// The same with fields that have names: a field of another header would not compile.
std::array<std::uint8_t, 12> with_library(std::uint8_t opcode, std::uint32_t dest_qp, std::uint32_t psn) {
  std::array<std::uint8_t, 12> bytes{};
  uroce::proto::MutView<Bth>{bytes.data()}
      .set<Bth::Opcode>(opcode)
      .set<Bth::MigReq>(1)
      .set<Bth::PadCount>(1)
      .set<Bth::PKey>(0xFFFF)
      .set<Bth::DestQp>(dest_qp)
      .set<Bth::AckReq>(1)
      .set<Bth::PsnField>(psn);
  return bytes;
}

}  // namespace

int main() {
  const auto hand = by_hand(0x04, 0x000012, 0xABCDEF);
  learn::hex("by hand", hand);
  learn::hex("library", with_library(0x04, 0x000012, 0xABCDEF));
  std::printf("equal: %s\n\n", hand == with_library(0x04, 0x000012, 0xABCDEF) ? "yes" : "no");

  // The header's table of fields, in the coordinates of the specification's drawing.
  std::printf("field    bit  width  value\n");
  for (const uroce::proto::FieldInfo& field : Bth::All::table) {
    std::printf("%-8.*s %3u  %5u  0x%llx\n", static_cast<int>(field.name.size()), field.name.data(), field.bit,
                field.width, static_cast<unsigned long long>(field.load(hand.data())));
  }

  // The first byte decides everything that follows: service, operation, place in the message, further headers.
  std::printf("\nopcode  name                     headers\n");
  for (unsigned opcode : {0x00u, 0x01u, 0x02u, 0x04u, 0x06u, 0x0Au, 0x0Cu, 0x10u, 0x11u, 0x13u, 0x24u, 0x64u}) {
    const uroce::proto::OpcodeInfo& row = *uroce::proto::find_opcode(byte(opcode));
    std::printf("0x%02X    %-24.*s", opcode, static_cast<int>(row.name.size()), row.name.data());
    for (std::size_t i = 0; i < row.stack.count; ++i) {
      const std::string_view header = uroce::proto::header_info(row.stack.ids[i]).name;
      std::printf(" %.*s", static_cast<int>(header.size()), header.data());
    }
    std::printf("%s\n", row.has_payload ? " payload" : "");
  }
}
