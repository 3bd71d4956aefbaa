// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/campaign.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <optional>

#include "proto/describe/describe.h"
#include "proto/pcap.h"
#include "tests/judged/sim/crash_report.h"
#include "tests/judged/sim/scenario_wrap.h"
#include "tools/output/print.h"

namespace uroce::simulator {
namespace {

using engine::sim::Packet;
using engine::sim::TapPoint;

/// Writes what is sent, as the sender made it; whole frames at once, so that a crash loses nothing.
class Capture {
 public:
  explicit Capture(const std::string& path) {
    auto writer = proto::PcapWriter::create(path);
    if (!writer) {
      tools::print_to(stderr, "uroce-sim: {}\n", writer.error());
      return;
    }
    writer_.emplace(std::move(*writer));
  }
  void write(const Packet& packet, Instant now) {
    if (!writer_) return;
    const proto::FrameFields fields = proto::frame_fields_for(packet.path);
    frame_.resize(proto::frame_size(fields, packet.bytes.size()));
    proto::build_frame(fields, packet.bytes, frame_);
    writer_->write(now.time_since_epoch().count(), frame_);
    writer_->flush();
  }

 private:
  std::optional<proto::PcapWriter> writer_;
  std::vector<std::uint8_t> frame_;
};

void print_packet(TapPoint point, const Packet& packet, Instant now) {
  constexpr const char* kPoints[] = {"sent", "arrives", "LOST", "UNROUTABLE", "impaired"};
  const double us = static_cast<double>(now.time_since_epoch().count()) / 1000.0 - 1e9;
  tools::print_to(stdout, "{:12.3f} {:>10} {:>6} {} > {} {}{}\n", us, kPoints[static_cast<int>(point)], packet.number,
                  packet.path.source.raw[15] - 1, packet.path.destination.raw[15] - 1, proto::one_line(packet.bytes),
                  packet.corrupted ? " CORRUPTED" : "");
}

}  // namespace

void Campaign::set_range(const std::string& range) {
  const std::size_t dots = range.find("..");
  std::uint64_t last = 0;
  if (dots == std::string::npos || !CLI::detail::lexical_cast(range.substr(0, dots), first) ||
      !CLI::detail::lexical_cast(range.substr(dots + 2), last) || last < first) {
    throw CLI::ValidationError("--seeds", "'" + range + "' is not a range like 1..300");
  }
  count = last - first + 1;
}

int Campaign::run_seed(std::uint64_t seed, std::uint64_t& packets, Tally& sum) const {
  const Scenario scenario = wrap ? draw_wrap_scenario(seed) : draw_scenario(seed);
  if (verbose) tools::print_to(stdout, "{}", describe(scenario));
  RunOptions options;
  options.sabotage = sabotage;
  std::optional<Capture> capture;
  if (!pcap.empty()) capture.emplace(pcap);
  if (capture || verbose) {
    options.on_packet = [&](TapPoint point, const Packet& packet, Instant now) {
      if (capture && point == TapPoint::kSent) capture->write(packet, now);
      if (verbose) print_packet(point, packet, now);
    };
  }
  const RunResult result = simulator::run(scenario, options);
  packets += result.packets;
  sum.add(result.tally);
  if (!result.violation) return 0;

  const bool liveness = result.violation->breach == Breach::kLiveness;
  tools::print_to(stdout, "seed {}: {} violated {}\n", seed, liveness ? "liveness" : "correctness",
                  result.violation->what);
  if (!capture) {
    // Again, with a capture: the run is the same.
    const std::string path = fmt::format("{}/uroce-sim-seed-{}.pcap", folder, seed);
    Capture file(path);
    RunOptions again;
    again.sabotage = sabotage;
    again.on_packet = [&](TapPoint point, const Packet& packet, Instant now) {
      if (point == TapPoint::kSent) file.write(packet, now);
    };
    simulator::run(scenario, again);
    tools::print_to(stdout, "capture: {}\n", path);
  }
  tools::print_to(stdout, "replay: {} --seed {} --verbose\n", program, seed);
  std::fflush(stdout);
  return liveness ? kExitLiveness : kExitCorrectness;
}

int Campaign::run() const {
  if (!pcap.empty()) {
    if (const auto writer = proto::PcapWriter::create(pcap); !writer) {
      tools::print_to(stderr, "uroce-sim: {}\n", writer.error());
      return kExitUsage;
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  CrashReport crash(program, folder, pcap.empty());
  std::uint64_t packets = 0, failed = 0, done = 0;
  Tally sum;
  int status = 0;
  for (; done < count; ++done) {
    crash.running(first + done);
    const int result = run_seed(first + done, packets, sum);
    if (result == 0) continue;
    ++failed;
    if (status == 0) status = result;
    if (!keep_going) {
      ++done;
      break;
    }
  }
  if (tally) {
    for (const auto& [what, n] : sum.counts) tools::print_to(stdout, "{:>10}  {}\n", n, what);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  tools::print_to(stdout,
                  "{} seeds from {} on, {} failed: {} packets in {:.2f} s, {:.0f} packets/s, {:.1f} ms per seed\n",
                  done, first, failed, packets, seconds, static_cast<double>(packets) / seconds,
                  1000 * seconds / static_cast<double>(std::max<std::uint64_t>(done, 1)));
  return status;
}

}  // namespace uroce::simulator
