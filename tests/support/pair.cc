// SPDX-License-Identifier: Apache-2.0
#include "tests/support/pair.h"

namespace uroce::test {

void Pair::record(const engine::sim::Packet& packet) {
  const auto parsed = proto::parse_packet(packet.bytes);
  ASSERT_TRUE(parsed.ok()) << "a NIC sent what does not parse";
  Seen s{.from = packet.from == a.node ? 'a' : 'b', .opcode = parsed->op().code, .psn = parsed->psn().value()};
  s.payload = parsed->payload().size();
  s.ack_req = parsed->bth().get<proto::Bth::AckReq>() != 0;
  if (parsed->has<proto::Aeth>()) s.syndrome = parsed->header<proto::Aeth>().get<proto::Aeth::SyndromeField>();
  if (parsed->has<proto::Reth>()) s.read_length = parsed->header<proto::Reth>().get<proto::Reth::DmaLength>();
  seen.push_back(s);
}

}  // namespace uroce::test
