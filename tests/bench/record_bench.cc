// SPDX-License-Identifier: Apache-2.0
// What a flight recorder costs: an event, and a packet.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "verbs/ibverbs/host/published_qps.h"
#include "verbs/record/ring.h"

namespace uroce::record {
namespace {

void record_event(benchmark::State& state) {
  const auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  nic::TraceEvent event{.kind = nic::TraceKind::kRetransmitted, .qpn = 0x11};
  for (auto _ : state) {
    ++event.a;
    writer.add(event, Phase::kSending);
  }
}
BENCHMARK(record_event);

/// With UROCE_RECORD, for each packet that is sent or received.
void record_packet(benchmark::State& state) {
  const auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  const std::vector<std::uint8_t> packet(static_cast<std::size_t>(state.range(0)), 7);
  const proto::Path path{proto::Gid::from_v4(127, 0, 0, 1), proto::Gid::from_v4(127, 0, 0, 2)};
  Instant now{};
  for (auto _ : state) writer.add_sent(path, packet, 0x11, now += Duration(1));
}
BENCHMARK(record_packet)->Arg(64)->Arg(4096);

/// What makes a QP visible to `uroce top`: a packet, and the end of a turn in which it was the only one.
void publish_packet(benchmark::State& state) {
  nic::Nic nic({.gids = {proto::Gid{}}});
  nic::QpInit init;
  init.pd = nic.alloc_pd();
  init.send_cq = init.recv_cq = *nic.create_cq(16, nullptr);
  const nic::Qp& qp = **nic.create_qp(init);
  const auto published = ibv::PublishedQps::make("bench", 0, proto::Gid{});
  if (published == nullptr) return state.SkipWithError("no shared memory");
  published->show(qp);
  const bool ends_turn = state.range(0) != 0;
  for (auto _ : state) {
    published->sent(qp.qpn(), 64);
    if (ends_turn) published->publish(nic);
  }
}
BENCHMARK(publish_packet)->ArgName("ends_turn")->Arg(0)->Arg(1);

}  // namespace
}  // namespace uroce::record
