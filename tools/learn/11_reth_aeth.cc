// Lesson 11: the two extended headers that matter most. RETH: where in the peer's memory (WRITE, READ). AETH: what the
// responder says (acknowledgement, "not ready", error) and how many messages it has completed.
#include <array>
#include <cstdint>
#include <string>

#include "proto/describe/describe.h"
#include "proto/psn.h"
#include "tools/learn/hex.h"

namespace {

using uroce::proto::Aeth;
using uroce::proto::Reth;

void show_reth() {
  std::array<std::uint8_t, Reth::kSize> bytes{};
  uroce::proto::MutView<Reth>{bytes.data()}
      .set<Reth::Va>(0x00007F1234567000)  // Address in the peer's address space, as the peer told us.
      .set<Reth::RKey>(0x00012345)        // The key that proves that we may.
      .set<Reth::DmaLength>(3000);        // The whole message's; only its first packet has a RETH.
  learn::hex("RETH", bytes);
  std::printf("  16 bytes: virtual address (8), rkey (4), length (4)\n");
  std::printf("  a WRITE of 3000 bytes at path MTU 1024: FIRST with RETH 1024, MIDDLE 1024, LAST 952\n");
  std::printf("  a READ of 3000 bytes: one request with RETH, three PSNs: one for each packet of the response\n\n");
}

void show_syndrome(std::uint8_t syndrome) {
  const std::string words = uroce::proto::describe(uroce::proto::decode_syndrome(syndrome));
  std::printf("  0x%02x  %d%d%d %d%d%d%d%d  %s\n", syndrome, syndrome >> 7, syndrome >> 6 & 1, syndrome >> 5 & 1,
              syndrome >> 4 & 1, syndrome >> 3 & 1, syndrome >> 2 & 1, syndrome >> 1 & 1, syndrome & 1, words.c_str());
}

}  // namespace

int main() {
  show_reth();

  std::array<std::uint8_t, Aeth::kSize> bytes{};
  uroce::proto::MutView<Aeth>{bytes.data()}.set<Aeth::SyndromeField>(0x1F).set<Aeth::Msn>(7);
  learn::hex("AETH", bytes);
  std::printf("  4 bytes: syndrome (1), message sequence number MSN (3)\n\n");

  // The first bit is 0, the next two say what it is: 00 ACK, 01 RNR NAK, 11 NAK. The low five: how much, or why.
  std::printf("syndromes\n");
  for (int syndrome : {0x1F, 0x00, 0x0A, 0x2C, 0x3F, 0x60, 0x61, 0x62, 0x63}) {
    show_syndrome(static_cast<std::uint8_t>(syndrome));
  }

  // PSN counts packets, MSN counts messages that the responder has completed. Both have 24 bits and wrap.
  std::printf("\nPSN and MSN of three messages at path MTU 1024, first PSN 0xFFFFFE\n");
  uroce::proto::Psn psn{0xFFFFFE};
  int msn = 0;
  for (unsigned bytes_of_message : {3000u, 8u, 0u}) {
    const unsigned packets = bytes_of_message == 0 ? 1 : (bytes_of_message + 1023) / 1024;
    const uroce::proto::Psn last = psn + (packets - 1);
    std::printf("  %4u bytes: %u packets, PSN 0x%06x..0x%06x, then acknowledged by PSN 0x%06x, MSN %d\n",
                bytes_of_message, packets, psn.value(), last.value(), last.value(), ++msn);
    psn = last + 1;
  }
  std::printf("  0x000001 comes after 0xfffffe: distance %d\n", uroce::proto::Psn{1} - uroce::proto::Psn{0xFFFFFE});
}
