// SPDX-License-Identifier: Apache-2.0
// Two processes on loopback, each with an emulated NIC: throughput, half round trip, many QPs, idling. The numbers that
// raw_udp.cc's are the ceiling of. Data is verified; retransmissions and ICRC errors are reported with every result.
//
//   uroce_bench_verbs bw    --op write|send|read --bytes N --qps Q --seconds S
//   uroce_bench_verbs lat   --op write|send --bytes N --seconds S [--events | --watch]
//   uroce_bench_verbs idle  --seconds S
//
// Prints one line of JSON.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <fstream>
#include <thread>

#include "tests/bench/latency.h"
#include "tests/bench/verbs_side.h"
#include "tools/cli/usage.h"

namespace uroce::bench {
namespace {

using nlohmann::json;

constexpr std::uint8_t kClientSalt = 17, kServerSalt = 177;

struct Options {
  std::string op = "write";
  Shape shape;
  double seconds = 1;
  bool watch = false;  ///< Of a ping-pong: only memory, and the CQ when many have completed.
};

enum ibv_wr_opcode opcode_of(const std::string& op) {
  if (op == "send") return IBV_WR_SEND;
  return op == "read" ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
}

unsigned int inline_flag(const Options& options) {
  return options.shape.bytes <= kInlineMax && options.op != "read" ? unsigned{IBV_SEND_INLINE} : 0u;
}

json of_usage(const Usage& usage, const ibv::NicFacts& facts, const ibv::NicFacts& before) {
  return {{"cpu_seconds", usage.cpu_seconds},
          {"sleeps", usage.sleeps},
          {"system_calls", facts.port_counters.system_calls - before.port_counters.system_calls},
          {"packets_sent", facts.port_counters.sent_packets - before.port_counters.sent_packets},
          {"retransmitted_packets", facts.counters.retransmitted_pkts - before.counters.retransmitted_pkts},
          {"receive_overruns", facts.port_counters.receive_overruns - before.port_counters.receive_overruns},
          {"icrc_errors", facts.counters.icrc_errors - before.counters.icrc_errors}};
}

/// Measures from construction to report().
class Meter {
 public:
  explicit Meter(const Side& side) : side_(side), before_(side.facts()), usage_(Usage::now()), start_(Clock::now()) {}
  double elapsed() const { return seconds_since(start_); }
  json report() const {
    const Usage usage = Usage::now() - usage_;  // Without what it costs to ask for the facts.
    return of_usage(usage, side_.facts(), before_);
  }

 private:
  const Side& side_;
  ibv::NicFacts before_;
  Usage usage_;
  Clock::time_point start_;
};

/// Takes part passively until the client says that it has finished; receives are posted again.
void serve(Side& side, const Line& line, const Options& options) {
  if (options.op != "send") {
    char done = 0;
    line.read(&done, 1);  // One-sided: the server sleeps.
    return;
  }
  constexpr int kLookEvery = 1000;
  std::vector<std::uint32_t> missing(options.shape.qps, 0);
  const std::uint32_t refill = std::max(options.shape.depth / 4, 1u);
  for (int idle = 0;;) {
    const auto completions = side.poll();
    idle = completions.empty() ? idle + 1 : 0;
    if (idle == kLookEvery) {
      if (line.readable()) break;
      idle = 0;
    }
    for (const ibv_wc& wc : completions) {
      const auto qp = static_cast<std::uint32_t>(wc.wr_id);
      if (++missing[qp] < refill) continue;
      side.post_recv(qp, std::exchange(missing[qp], 0));
    }
  }
  char done = 0;
  line.read(&done, 1);
}

/// Sends as fast as completions come, over the first `qps` QPs in turns; returns how many messages.
std::uint64_t pump(Side& side, const Options& options, std::uint32_t qps, double seconds) {
  const enum ibv_wr_opcode opcode = opcode_of(options.op);
  const std::uint32_t batch = std::max(options.shape.depth / 4, 1u);
  const unsigned int flags = inline_flag(options);
  std::uint64_t completed = 0, outstanding = 0;
  const auto start = Clock::now();
  // A burst to begin with: with many QPs one batch each, so that all of them have something to send.
  std::deque<std::uint32_t> turns;
  for (std::uint32_t round = 0; round < (qps < 16 ? 4u : 1u); ++round) {
    for (std::uint32_t qp = 0; qp < qps; ++qp) turns.push_back(qp);
  }
  bool more = true;
  while (more || outstanding > 0) {
    for (; more && !turns.empty(); turns.pop_front()) {
      side.post(turns.front(), opcode, batch, flags);
      ++outstanding;
    }
    for (const ibv_wc& wc : side.poll()) {
      completed += batch;
      --outstanding;
      turns.push_back(static_cast<std::uint32_t>(wc.wr_id));
    }
    more = seconds_since(start) < seconds;
  }
  return completed;
}

json throughput(const json& client, const json& server, std::uint64_t messages, std::uint32_t bytes, double seconds) {
  const double total = static_cast<double>(messages) * bytes;
  const double cpu = client["cpu_seconds"].get<double>() + server["cpu_seconds"].get<double>();
  return {{"messages_per_second", static_cast<double>(messages) / seconds},
          {"gigabits_per_second", total * 8e-9 / seconds},
          {"cpu_seconds_per_gib", cpu / (total / (1 << 30))},
          {"client", client},
          {"server", server}};
}

void serve_bw(Side& side, const Line& line, const Options& options) {
  options.op == "read" ? side.fill_own() : side.fill(0);
  if (options.op == "send") {
    // Twice what the sender may have under way: it learns of an ACK before we come to post again.
    for (std::uint32_t qp = 0; qp < options.shape.qps; ++qp) side.post_recv(qp, 2 * options.shape.depth);
  }
  line.meet();
  const Meter meter(side);
  serve(side, line, options);
  json report = meter.report();
  report["verified"] = options.op == "read" || side.holds(kClientSalt, options.shape.qps);
  line.tell(report);
  line.meet();
}

json run_bw(Side& side, const Line& line, const Options& options) {
  options.op == "read" ? side.fill(0) : side.fill_own();
  line.meet();
  const Meter meter(side);
  const std::uint64_t messages = pump(side, options, options.shape.qps, options.seconds);
  const double elapsed = meter.elapsed();
  json client = meter.report();
  line.write("", 1);
  const json server = line.hear();
  line.meet();
  client["verified"] = options.op != "read" || side.holds(kServerSalt, options.shape.qps);
  return throughput(client, server, messages, options.shape.bytes, elapsed);
}

/// Half round trips: each side answers a message of the other.
class PingPong {
 public:
  PingPong(Side& side, const Options& options) : side_(side), options_(options), is_send_(options.op == "send") {
    if (is_send_) side_.post_recv(0, options.shape.depth / 2);
    if (options.shape.events) side_.arm();
  }
  void send(std::uint8_t mark) {
    if (!is_send_) {
      // What arrives lands in our slot, which is also what we send: the mark tells the two apart.
      last()[0] = mark;
    }
    side_.post(0, opcode_of(options_.op), 1, inline_flag(options_));
    ++unfinished_;
  }
  /// Waits for the peer's message; with RDMA WRITE that is the `mark` in memory.
  void await(std::uint8_t mark) {
    bool here = false;
    if (options_.watch) {
      while (last()[0] != mark) continue;
      here = true;
      if (unfinished_ < kMostUnseen) return;
    }
    while (!here || unfinished_ > kMaxUnfinished) {
      const auto completions = side_.poll();
      for (const ibv_wc& wc : completions) {
        if (wc.opcode == IBV_WC_RECV) {
          here = true;
          side_.post_recv(0);
        } else {
          --unfinished_;
        }
      }
      if (!is_send_) here = here || last()[0] == mark;
      if (options_.shape.events && completions.empty() && !here) side_.sleep();
    }
  }

 private:
  static constexpr int kMaxUnfinished = 4, kMostUnseen = 12;
  volatile std::uint8_t* last() { return side_.slot(0) + options_.shape.bytes - 1; }

  Side& side_;
  const Options& options_;
  bool is_send_;
  int unfinished_ = 0;
};

std::uint8_t mark_of(std::uint64_t round) { return static_cast<std::uint8_t>(1 + round % 250); }

void serve_lat(Side& side, const Line& line, const Options& options) {
  PingPong end(side, options);
  std::uint64_t rounds = 0;
  line.meet();
  line.read(&rounds, sizeof rounds);
  const Meter meter(side);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    end.await(mark_of(2 * i));
    end.send(mark_of(2 * i + 1));
  }
  line.tell(meter.report());
  line.meet();
}

json run_lat(Side& side, const Line& line, const Options& options) {
  PingPong end(side, options);
  line.meet();
  // As many rounds as fit, going by what both kinds of waiting typically take.
  const auto rounds =
      static_cast<std::uint64_t>(options.seconds * (options.shape.events || options.watch ? 20'000 : 80'000));
  line.write(&rounds, sizeof rounds);
  const Meter meter(side);
  std::vector<double> microseconds;
  microseconds.reserve(rounds);
  auto before = Clock::now();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    end.send(mark_of(2 * i));
    end.await(mark_of(2 * i + 1));
    const auto after = Clock::now();
    microseconds.push_back(std::chrono::duration<double, std::micro>(after - before).count() / 2);
    before = after;
  }
  json client = meter.report();
  const json server = line.hear();
  line.meet();
  json result = latencies(std::move(microseconds));
  result["client"] = client;
  result["server"] = server;
  return result;
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

int threads() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int count = 0;
    if (word == "Threads:" && status >> count) return count;
  }
  return 0;
}

/// Either process of a pair: makes its side and does its part.
json take_part(const std::string& mode, const Options& options, const Line& line, bool is_client) {
  const std::size_t memory_before = resident_bytes();
  const auto start = Clock::now();
  Side side(options.shape, line, is_client ? kClientSalt : kServerSalt);
  const double setup_seconds = seconds_since(start);
  const double bytes_per_qp = static_cast<double>(resident_bytes() - memory_before) / options.shape.qps;
  json result;
  if (mode == "lat") {
    if (is_client) {
      result = run_lat(side, line, options);
    } else {
      serve_lat(side, line, options);
    }
  } else if (mode == "idle") {
    line.meet();
    const Meter meter(side);
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
    result = meter.report();
    result["processor_share"] = result["cpu_seconds"].get<double>() / meter.elapsed();
  } else if (is_client) {
    result = run_bw(side, line, options);
  } else {
    serve_bw(side, line, options);
  }
  result["setup_seconds"] = setup_seconds;
  result["bytes_per_qp"] = bytes_per_qp;
  result["threads"] = threads();
  result["engine"] = side.facts().port.engine;
  return result;
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using namespace uroce::bench;
  CLI::App app{"Benchmark of the verbs between two emulated NICs."};
  std::string mode;
  Options options;
  app.add_option("mode", mode)->required()->check(CLI::IsMember({"bw", "lat", "idle"}));
  app.add_option("--op", options.op)->check(CLI::IsMember({"write", "send", "read"}));
  app.add_option("--bytes", options.shape.bytes)->check(CLI::Range(1, 1 << 28));
  app.add_option("--qps", options.shape.qps)->check(CLI::Range(1, 60'000));
  app.add_option("--depth", options.shape.depth)->check(CLI::Range(4, 256));
  app.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber);
  app.add_flag("--events", options.shape.events);
  app.add_flag("--watch", options.watch);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "uroce_bench_verbs: %s\n", uroce::tools::usage_error(app, error, "uroce_bench_verbs").c_str());
    return 2;
  }

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) die("socketpair");
  const pid_t child = fork();
  if (child < 0) die("fork");
  const Line line(ends[child == 0 ? 0 : 1]);
  close(ends[child == 0 ? 1 : 0]);
  const json result = take_part(mode, options, line, child != 0);
  if (child == 0) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("%s\n", result.dump().c_str());
  return status == 0 ? 0 : 1;
}
