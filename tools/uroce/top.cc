// SPDX-License-Identifier: Apache-2.0
// What all QPs of this user's processes do, like top(1).
#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <tuple>

#include "engine/os/os_clock.h"
#include "proto/base/fd.h"
#include "proto/base/printable.h"
#include "tools/output/print.h"
#include "tools/uroce/commands.h"
#include "tools/uroce/live.h"
#include "tools/uroce/process_name.h"

namespace uroce::tools {
namespace {

struct Look {
  Instant when{};
  std::vector<ibv::LiveNic> nics;
};

Look look() {
  Look now;
  now.nics = ibv::live_nics();
  now.when = engine::os_now();
  return now;
}

/// By process, NIC and QP, what it had done at the look before.
using Before = std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, ibv::QpCounts>;

Before counts_of(const Look& look) {
  Before counts;
  for (const ibv::LiveNic& nic : look.nics) {
    for (const ibv::LiveQp& qp : nic.qps) counts[{nic.pid, nic.index, qp.qpn}] = qp.counts;
  }
  return counts;
}

struct Rates {
  double sent_bits = 0, received_bits = 0, sent_packets = 0, received_packets = 0, retransmitted = 0;
};

/// Per second. A QP that is new has done everything since it was created.
Rates rates(const ibv::LiveQp& qp, const ibv::QpCounts& before, double seconds) {
  const auto rate = [seconds](std::uint64_t now, std::uint64_t then) {
    return now > then ? static_cast<double>(now - then) / seconds : 0;
  };
  const ibv::QpCounts& now = qp.counts;
  return {.sent_bits = 8 * rate(now.sent_bytes, before.sent_bytes),
          .received_bits = 8 * rate(now.received_bytes, before.received_bytes),
          .sent_packets = rate(now.sent_packets, before.sent_packets),
          .received_packets = rate(now.received_packets, before.received_packets),
          .retransmitted = rate(now.retransmitted, before.retransmitted)};
}

/// Waits for ^C and other ends; they do not come as signals any more.
class Patience {
 public:
  Patience() {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
    ::sigprocmask(SIG_BLOCK, &ends, nullptr);
    ends_ = Fd(::signalfd(-1, &ends, SFD_CLOEXEC));
  }
  /// False when it is the end.
  bool wait(double seconds) const {
    pollfd waited{ends_.get(), POLLIN, 0};
    return ::poll(&waited, 1, static_cast<int>(seconds * 1000)) == 0;
  }

 private:
  Fd ends_;
};

std::string scaled(double value) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return value == 0 ? "0" : fmt::format("{:.{}f}{}", value, value < 100 ? 1 : 0, kUnits[unit]);
}

std::string bytes_text(std::uint64_t bytes) {
  return bytes < 10'000 ? fmt::format("{}", bytes) : fmt::format("{}K", bytes / 1024);
}

void print_json(const Look& now, const Before& before, double seconds) {
  nlohmann::ordered_json nics = nlohmann::ordered_json::array();
  for (const ibv::LiveNic& nic : now.nics) {
    auto row = to_json(nic);
    row["qps"] = nlohmann::ordered_json::array();
    for (const ibv::LiveQp& qp : nic.qps) {
      auto object = to_json(qp, now.when);
      const auto known = before.find({nic.pid, nic.index, qp.qpn});
      const Rates r = rates(qp, known == before.end() ? ibv::QpCounts{} : known->second, seconds);
      object["per_second"] = {{"sent_bits", r.sent_bits},
                              {"received_bits", r.received_bits},
                              {"sent_packets", r.sent_packets},
                              {"received_packets", r.received_packets},
                              {"retransmitted", r.retransmitted}};
      row["qps"].push_back(std::move(object));
    }
    nics.push_back(std::move(row));
  }
  const nlohmann::ordered_json document{{"schema", "uroce-top-1"}, {"seconds", seconds}, {"nics", nics}};
  print_to(stdout, "{}\n", document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// At most `lines` of it; 0: all.
void print_table(const Look& now, const Before& before, double seconds, std::size_t lines) {
  struct Row {
    const ibv::LiveNic* nic;
    const ibv::LiveQp* qp;
    Rates rates;
  };
  std::vector<Row> rows;
  for (const ibv::LiveNic& nic : now.nics) {
    for (const ibv::LiveQp& qp : nic.qps) {
      const auto known = before.find({nic.pid, nic.index, qp.qpn});
      rows.push_back({&nic, &qp, rates(qp, known == before.end() ? ibv::QpCounts{} : known->second, seconds)});
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.rates.sent_bits + a.rates.received_bits > b.rates.sent_bits + b.rates.received_bits;
  });
  print_to(stdout, "{} NICs, {} QPs; rates over {:.1f} s; the busiest first\n\n", now.nics.size(), rows.size(),
           seconds);
  print_to(stdout,
           "{:>8} {:<8} {:<15} {:<8} {:>8} {:<4} {:<5} {:<26} {:>8} {:>8} {:>8} {:>7} {:>7} {:>6} {:>6} {:>6} {:>13}\n",
           "PID", "USER", "PROGRAM", "NIC", "QP", "TYPE", "STATE", "PEER", "TX bit/s", "RX bit/s", "pkt/s", "RESENT",
           "TIMEOUT", "RNR", "UNACK", "QUEUED", "WINDOW");
  std::size_t shown = 0;
  for (const Row& row : rows) {
    if (lines != 0 && ++shown > lines) break;
    const ibv::LiveQp& qp = *row.qp;
    const nic::QpInside& inside = qp.moving.inside;
    print_to(
        stdout,
        "{:>8} {:<8} {:<15} {:<8} {:>#8x} {:<4} {:<5} {:<26} {:>8} {:>8} {:>8} {:>7} {:>7} {:>6} {:>6} {:>6} {:>13}\n",
        row.nic->pid, process_user(std::to_string(row.nic->pid)), proto::printable(row.nic->program),
        fmt::format("uroce{}", row.nic->index), qp.qpn, type_text(qp.fixed.type), to_string(qp.moving.state),
        peer_text(qp), scaled(row.rates.sent_bits), scaled(row.rates.received_bits),
        scaled(row.rates.sent_packets + row.rates.received_packets), qp.counts.retransmitted, qp.counts.timeouts,
        qp.counts.rnr_received + qp.counts.rnr_sent, outstanding(qp), inside.queued_sends,
        bytes_text(inside.window_used) + "/" + bytes_text(inside.window_limit));
  }
}

std::size_t rows_of_terminal() {
  winsize size{};
  constexpr std::size_t kHead = 4;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row <= kHead) return 20;
  return size.ws_row - kHead;
}

}  // namespace

int top(const TopOptions& options) {
  const bool once = options.json || options.once;
  const bool screen = !once && ::isatty(STDOUT_FILENO) == 1;
  const Patience patience;
  Look last = look();
  while (patience.wait(options.interval)) {
    const Look now = look();
    const double seconds = std::chrono::duration<double>(now.when - last.when).count();
    const Before before = counts_of(last);
    if (options.json) {
      print_json(now, before, seconds);
    } else {
      if (screen) print_to(stdout, "\x1b[H\x1b[J");
      print_table(now, before, seconds, screen ? rows_of_terminal() : 0);
      if (std::fflush(stdout) != 0) return 1;  // Nobody can read it; main() says so.
    }
    if (once && now.nics.empty()) {
      print_to(stderr, "uroce top: no process has a NIC of this build of uroce open, or we may not look into it\n");
      return 1;
    }
    if (once) return 0;
    last = now;
  }
  if (once) print_to(stderr, "uroce top: ended before the second of its two looks\n");
  return once ? 1 : 0;
}

}  // namespace uroce::tools
