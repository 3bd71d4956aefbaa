// SPDX-License-Identifier: Apache-2.0
// `uroce doctor --peer` and `--listen`: which packets arrive between the NICs of two hosts, each direction by itself.
// What both find they tell each other by TCP, so that either names the direction that is dead.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

#include "proto/address.h"
#include "tools/control/control.h"
#include "tools/control/interrupt.h"
#include "tools/control/reach.h"
#include "tools/output/print.h"
#include "tools/uroce/commands.h"
#include "tools/uroce/findings.h"
#include "tools/uroce/probe.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/device.h"

namespace uroce::tools {
namespace {

using namespace std::chrono_literals;

/// Packets of each size. So few, and so slowly, that no queue is full.
constexpr std::uint64_t kPackets = 10;
constexpr std::chrono::milliseconds kPeriod = 10ms;
/// How long the last ones may be on their way, after the peer has said that it has sent them.
constexpr std::chrono::milliseconds kOnTheWay = 300ms;
constexpr std::chrono::milliseconds kConnectPatience = 5s;

struct OneWay {
  std::string from, to;
  Probe::Arrivals arrived;
  std::uint64_t damaged = 0;  ///< Of those that did not.
  std::uint32_t large = 0;    ///< Bytes of the large packets; 0: there were none.
  bool is_translated = false;
};

/// The addresses of the TCP connection, as one of its ends has them.
struct Ends {
  std::string own, peer;
};

/// What the peer has found out.
struct FoundThere {
  Probe::Arrivals arrivals;
  std::uint64_t damaged = 0;
  Ends ends;
};

void judge(const OneWay& way, Findings& findings) {
  const std::string what = fmt::format("{} -> {}: ", way.from, way.to);
  const std::uint64_t sent = kPackets * (way.large != 0 ? 2 : 1), arrived = way.arrived.small + way.arrived.large;
  if (arrived == sent) return findings.good(fmt::format("{}all {} packets arrived", what, sent));
  if (arrived == 0 && way.damaged != 0 && !way.is_translated) {
    return findings.bad(
        fmt::format("{}none of {} packets arrived as it was sent, {} came with a wrong ICRC", what, sent, way.damaged),
        "something on the way changes them, as an address translation (NAT) that chooses other source ports: leave UDP "
        "port 4791 untranslated");
  }
  if (arrived == 0) {
    return findings.bad(
        fmt::format("{}none of {} packets arrived", what, sent),
        way.is_translated
            ? "packets of NICs do not pass an address translation (NAT)"
            : fmt::format("let UDP port 4791 into {}, and out of {} (firewall, security group: docs/hosts.md)", way.to,
                          way.from));
  }
  if (way.large != 0 && way.arrived.large == 0) {  // Some of the small ones may be lost as well.
    return findings.bad(
        fmt::format("{}packets of {} bytes arrive, those of {} do not", what, Probe::kSmallBytes, way.large),
        "a link on the way has a smaller MTU than the interfaces of the NICs: give these the same MTU");
  }
  findings.note(fmt::format("{}{} of {} packets arrived", what, arrived, sent),
                "the network loses packets; they are sent again, so all works, but slowly");
}

std::string address_of(const PeerMetadata& side) {
  proto::Gid gid;
  std::copy(std::begin(side.gid), std::end(side.gid), gid.raw.begin());
  return proto::to_string(gid);
}

/// Sends all packets, and takes in those of the peer until it has sent all of its own.
Probe::Arrivals exchange_packets(Probe& probe, Control& control, std::uint32_t large) {
  Probe::Arrivals arrivals;
  const auto collect_for = [&](std::chrono::milliseconds span) {
    const Deadline end = after(span);
    do {
      throw_if_interrupted();
      probe.collect(arrivals);
      std::this_thread::sleep_for(100us);
    } while (std::chrono::steady_clock::now() < end);
  };
  for (std::uint64_t i = 0; i < kPackets; ++i) {
    probe.send(Probe::kSmallBytes);
    if (large != 0) probe.send(large);
    collect_for(kPeriod);
  }
  barrier(control);
  collect_for(kOnTheWay);
  return arrivals;
}

/// The text of a Verdict has room for the ends of the connection; it is empty from a version that did not tell them.
FoundThere exchange_findings(Control& control, const Probe::Arrivals& ours, std::uint64_t damaged) {
  Verdict verdict;
  verdict.checked_messages = ours.small;
  verdict.checked_bytes = ours.large;
  verdict.wrong_messages = damaged;
  verdict.first_error = control.local_address() + ' ' + control.peer_address();
  control.send(MessageType::kVerdict, encode(verdict));
  const auto peers = decode_verdict(control.expect(MessageType::kVerdict));
  if (!peers) throw Failure(kExitUsage, control.peer_role() + " sent numbers that we can't read");
  FoundThere found{.arrivals = {.small = peers->checked_messages, .large = peers->checked_bytes},
                   .damaged = peers->wrong_messages,
                   .ends = {}};
  std::istringstream(peers->first_error) >> found.ends.own >> found.ends.peer;
  return found;
}

/// A link-local address has an interface behind it, whose name each host chooses.
std::string without_interface(const std::string& address) { return address.substr(0, address.find('%')); }

/// Whether `seen` is how the other end sees the one that calls itself `own`, and that is something else.
bool differ(const std::string& own, const std::string& seen) {
  return !own.empty() && !seen.empty() && without_interface(own) != without_interface(seen);
}

/// Says whether an address translation is on the way of the TCP connection: each end sees the other as another one.
bool find_translation(const Control& control, const Ends& there, Findings& findings) {
  bool found = false;
  const auto look_at = [&](const std::string& own, const std::string& seen) {
    if (!differ(own, seen)) return;
    found = true;
    findings.note(fmt::format("{} is translated on the way: its peer sees {}", own, seen),
                  "packets of NICs do not pass an address translation (NAT): put both hosts into one network, or leave "
                  "UDP port 4791 untranslated");
  };
  look_at(control.local_address(), there.peer);
  look_at(there.own, control.peer_address());
  return found;
}

int examine(Control& control) {
  Findings findings;
  const std::string own = control.is_local() ? "" : control.local_address();
  ibv::place_automatic(own);
  Probe probe(own);
  Hello hello;
  hello.qps = 1;
  hello.active_mtu = probe.mtu();
  const std::uint32_t mtu = std::min(probe.mtu(), exchange_hello(control, hello).active_mtu);
  const std::uint32_t large = mtu > Probe::kSmallBytes ? mtu : 0;
  const PeerMetadata local = probe.describe(), peer = exchange_metadata(control, local);
  const std::string here = address_of(local), there = address_of(peer);
  findings.good(fmt::format("TCP: {} reaches {}", control.local_address(), control.peer_address()));
  check_gids_reach(local, peer, control, "set UROCE_ADDR=");
  probe.aim_at(peer);
  barrier(control);  // Both have receives posted.
  const Probe::Arrivals arrived = exchange_packets(probe, control, large);
  const std::uint64_t damaged = probe.damaged();
  const FoundThere found = exchange_findings(control, arrived, damaged);
  const bool is_translated = find_translation(control, found.ends, findings);
  if (!is_translated && there != control.peer_address() && !control.is_local()) {
    findings.note(
        fmt::format("the NIC of the peer has the address {}, TCP reaches it as {}", there, control.peer_address()),
        "if an address translation (NAT) is on the way: packets of NICs do not pass it; see docs/hosts.md");
  }
  judge({.from = here,
         .to = there,
         .arrived = found.arrivals,
         .damaged = found.damaged,
         .large = large,
         .is_translated = is_translated},
        findings);
  judge({.from = there,
         .to = here,
         .arrived = arrived,
         .damaged = damaged,
         .large = large,
         .is_translated = is_translated},
        findings);
  return findings.any_bad() ? 1 : 0;
}

Connection meet(const PeerOptions& options) {
  if (!options.listens)
    return connect_to(options.peer, options.port, kConnectPatience, "", kTcpCalls, "uroce doctor --listen");
  const Listener listener = listen_on("", options.port);
  print_to(stderr, "waits on TCP port {} for `uroce doctor --peer` of another host\n", listener.port);
  return accept_client(listener);
}

}  // namespace

int examine_peer(const PeerOptions& options) {
  install_interrupt_handlers();
  try {
    Control control(meet(options), "the peer");
    try {
      return examine(control);
    } catch (const Failure& failure) {
      control.abort(failure.what());
      throw;
    }
  } catch (const Failure& failure) {
    print_to(stderr, "uroce: {}\n", failure.what());
    return failure.exit_code();
  }
}

}  // namespace uroce::tools
