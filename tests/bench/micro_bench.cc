// SPDX-License-Identifier: Apache-2.0
// What one packet costs in proto/: build, check, parse, describe.
#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include "proto/describe/describe.h"
#include "proto/icrc.h"
#include "proto/packet.h"

namespace uroce::proto {
namespace {

using Buffer = std::vector<std::uint8_t>;
const Path kPath{Gid::from_v4(127, 0, 0, 1), Gid::from_v4(127, 0, 0, 2)};

std::uint32_t build_write(MutBytes out, Bytes data, std::uint32_t psn) {
  PacketBuilder builder(out, Opcode::kRcWriteOnly);
  builder.bth().set<Bth::DestQp>(0x11).set<Bth::PsnField>(psn).set<Bth::AckReq>(1);
  builder.header<Reth>()
      .set<Reth::Va>(0x10000000)
      .set<Reth::RKey>(7)
      .set<Reth::DmaLength>(static_cast<std::uint32_t>(data.size()));
  std::copy(data.begin(), data.end(), builder.payload(data.size()).begin());
  return builder.finish(kPath);
}

Buffer write_packet(std::size_t payload) {
  Buffer data(payload);
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  Buffer packet(kMaxPacketSize);
  packet.resize(build_write(packet, data, 1));
  return packet;
}

void count_payload(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
  state.SetItemsProcessed(state.iterations());
}

/// Headers, copy of the payload, ICRC.
void build(benchmark::State& state) {
  const Buffer data(static_cast<std::size_t>(state.range(0)), 7);
  Buffer out(kMaxPacketSize);
  std::uint32_t psn = 0;
  for (auto _ : state) benchmark::DoNotOptimize(build_write(out, data, ++psn));
  count_payload(state);
}
BENCHMARK(build)->Arg(64)->Arg(1024)->Arg(4096);

void parse(benchmark::State& state) {
  const Buffer packet = write_packet(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(packet.data());
    const auto parsed = parse_packet(packet);
    benchmark::DoNotOptimize(parsed->header<Reth>().get<Reth::Va>() + parsed->payload().size());
  }
  count_payload(state);
}
BENCHMARK(parse)->Arg(64)->Arg(1024)->Arg(4096);

void icrc_bytes(benchmark::State& state) {
  const Buffer packet = write_packet(static_cast<std::size_t>(state.range(0)));
  const Bytes covered = Bytes(packet).first(packet.size() - kIcrcSize);
  for (auto _ : state) benchmark::DoNotOptimize(icrc(kPath, covered));
  count_payload(state);
}
BENCHMARK(icrc_bytes)->Arg(0)->Arg(64)->Arg(1024)->Arg(4096);

void check(benchmark::State& state, std::uint16_t id) {
  Buffer packet = write_packet(static_cast<std::size_t>(state.range(0)));
  store_icrc(MutBytes(packet).last(kIcrcSize), icrc(kPath, Bytes(packet).first(packet.size() - kIcrcSize), id));
  for (auto _ : state) {
    IcrcCheck result = check_icrc(kPath, packet);
    if (!result.ok || result.ip_id != id) return state.SkipWithError("wrong ICRC");
    benchmark::DoNotOptimize(result);
  }
  count_payload(state);
}
BENCHMARK_CAPTURE(check, id_zero, 0)->Arg(0)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK_CAPTURE(check, id_unknown, 0xBEEF)->Arg(0)->Arg(64)->Arg(1024)->Arg(4096);

void describe_line(benchmark::State& state) {
  const Buffer packet = write_packet(64);
  for (auto _ : state) benchmark::DoNotOptimize(one_line(packet));
}
BENCHMARK(describe_line);

void describe_tree(benchmark::State& state) {
  const Buffer packet = write_packet(64);
  for (auto _ : state) benchmark::DoNotOptimize(tree(packet));
}
BENCHMARK(describe_tree);

}  // namespace
}  // namespace uroce::proto
