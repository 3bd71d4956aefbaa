// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/numbering.h"

#include "engine/sim/random.h"
#include "proto/headers.h"
#include "proto/icrc.h"

namespace uroce::simulator {

Numbering::Numbering(const Scenario& scenario) {
  engine::sim::Random random = engine::sim::Random{scenario.seed}.split(0x1D);
  for (const HostPlan& host : scenario.hosts) {
    const auto first = static_cast<std::uint16_t>(random.next());
    first_.push_back(host.numbers_packets ? std::max<std::uint16_t>(1, first) : 0);
  }
}

void Numbering::apply(engine::sim::Packet& packet) {
  if (packet.from >= first_.size() || first_[packet.from] == 0) return;
  std::uint16_t& id = next_.try_emplace({packet.from, packet.path.destination.raw}, first_[packet.from]).first->second;
  const std::size_t covered = packet.bytes.size() - proto::kIcrcSize;
  proto::store_icrc(packet.bytes.subspan(covered), proto::icrc(packet.path, packet.bytes.first(covered), id));
  if (++id == 0) ++id;
}

}  // namespace uroce::simulator
