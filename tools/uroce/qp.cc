// SPDX-License-Identifier: Apache-2.0
// Everything about a QP of a running process: what ibv_query_qp says, and its inner state.
#include <fmt/core.h>

#include <optional>

#include "engine/os/os_clock.h"
#include "proto/address.h"
#include "proto/base/number.h"
#include "proto/base/printable.h"
#include "tools/output/print.h"
#include "tools/uroce/commands.h"
#include "tools/uroce/live.h"
#include "verbs/ibverbs/host/flight_recorder.h"
#include "verbs/record/reasons.h"

namespace uroce::tools {
namespace {

constexpr std::size_t kEventsShown = 20;

double milliseconds(Duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

/// The last events of the QP, oldest first.
std::vector<uroce::record::Recording::Event> events_of(const std::vector<uroce::record::Recording>& rings,
                                                       std::uint32_t nic, std::uint32_t qpn) {
  std::vector<uroce::record::Recording::Event> chosen;
  for (const uroce::record::Recording& ring : rings) {
    if (ring.nic != nic) continue;
    for (const auto& event : ring.events) {
      if (event.event.qpn == qpn) chosen.push_back(event);
    }
  }
  if (chosen.size() > kEventsShown) chosen.erase(chosen.begin(), chosen.end() - kEventsShown);
  return chosen;
}

void print(const ibv::LiveNic& nic, const ibv::LiveQp& qp, const std::vector<uroce::record::Recording::Event>& events,
           Instant now) {
  const nic::QpAttr& a = qp.fixed.attr;
  const nic::QpInside& in = qp.moving.inside;
  const auto line = [](const char* name, const std::string& text) { print_to(stdout, "  {:<12}{}\n", name, text); };
  print_to(stdout, "QP {:#x}, {}, {}; {}[{}], uroce{} {}\n", qp.qpn, type_text(qp.fixed.type),
           to_string(qp.moving.state), proto::printable(nic.program), nic.pid, nic.index,
           proto::printable(nic.address));
  if (const std::string peer = peer_text(qp); !peer.empty()) line("peer", peer);
  line("attributes", fmt::format("MTU {}, timeout {}, retry_cnt {}, rnr_retry {}, min_rnr_timer {}, max_rd_atomic {}, "
                                 "max_dest_rd_atomic {}",
                                 128u << std::min<unsigned>(a.path_mtu, 5), a.timeout, a.retry_cnt, a.rnr_retry,
                                 a.min_rnr_timer, a.max_rd_atomic, a.max_dest_rd_atomic));
  line("", fmt::format("sq_psn {:#x}, rq_psn {:#x}, access {:#x}, sgid_index {}, source port {}, room for {} send WRs "
                       "and {} receives",
                       a.sq_psn.value(), a.rq_psn.value(), a.access, a.sgid_index, a.path.source_port,
                       qp.fixed.max_send_wr, qp.fixed.max_recv_wr));
  line("requester",
       fmt::format("{} WRs queued, {} of them begun; oldest unacknowledged PSN {:#x}, next {:#x}, highest "
                   "{:#x}: {} packets outstanding",
                   in.queued_sends, in.begun_sends, in.una.value(), in.next.value(), in.max.value(), outstanding(qp)));
  std::string more = fmt::format("{} retries left, {} RNR retries left", in.retries_left, in.rnr_retries_left);
  if (in.waits_for_window) more += "; waits for the window";
  if (in.probes) more += "; sends little after a timeout";
  if (in.stalled) more += "; the peer is silent";
  line("", more);
  line("responder", fmt::format("expects PSN {:#x}, MSN {}; {} receives posted{}", in.expected.value(), in.msn,
                                in.receives, in.has_srq ? " to its SRQ" : ""));
  // No "used of limit": the packet that fills it goes beyond, and the limit falls while packets are under way.
  line("window", fmt::format("{} bytes under way, of all QPs to this peer; from {} on, packets wait", in.window_used,
                             in.window_limit));
  for (std::size_t i = 0; i < in.timers.size(); ++i) {
    if (in.timers[i] == Instant{}) continue;
    const double left = milliseconds(in.timers[i] - now);  // Below 0: the NIC has not looked since.
    line("timer", left >= 0 ? fmt::format("{}: due in {:.1f} ms", nic::timer_names(qp.fixed.type)[i], left)
                            : fmt::format("{}: due {:.1f} ms ago", nic::timer_names(qp.fixed.type)[i], -left));
  }
  const ibv::QpCounts& c = qp.counts;
  line("sent", fmt::format("{} packets, {} bytes; {} again after {} timeouts and {} NAKs; {} RNR NAKs received",
                           c.sent_packets, c.sent_bytes, c.retransmitted, c.timeouts, c.naks_received, c.rnr_received));
  if (c.last_received_ns != 0) {
    line("heard",
         fmt::format("the last packet came {:.1f} ms ago", milliseconds(now - Instant(Duration(c.last_received_ns)))));
  }
  std::string received =
      fmt::format("{} packets, {} bytes; {} duplicates, {} behind a gap; {} NAKs and {} RNR NAKs sent",
                  c.received_packets, c.received_bytes, c.duplicates, c.out_of_sequence, c.naks_sent, c.rnr_sent);
  if (c.dropped_no_receive > 0) received += fmt::format("; {} dropped without a receive", c.dropped_no_receive);
  line("received", received);
  for (const auto& event : events) {
    line(&event == events.data() ? "events" : "",
         fmt::format("{:.3f} s ago  {}", std::chrono::duration<double>(now - event.event.when).count(),
                     uroce::record::words(event.event)));
  }
}

}  // namespace

int show_qp(const std::string& name, bool json) {
  const auto slash = name.find('/');
  const std::string_view text = name;
  const auto pid = parse_decimal_or_hex<std::uint32_t>(text.substr(0, slash));
  const auto qpn = slash == text.npos ? 0u : parse_decimal_or_hex<std::uint32_t>(text.substr(slash + 1));
  if (!pid || *pid == 0 || !qpn) {
    print_to(stderr, "uroce: '{}' is no QP of a process: give PID/QPN, such as 1234/0x11\n", name);
    return 2;
  }
  const std::vector<ibv::LiveNic> nics = ibv::live_nics(*pid);
  const std::vector<uroce::record::Recording> rings = ibv::rings_of(*pid);
  const Instant now = engine::os_now();
  auto found = nlohmann::ordered_json::array();
  for (const ibv::LiveNic& nic : nics) {
    for (const ibv::LiveQp& qp : nic.qps) {
      if (*qpn != 0 && qp.qpn != *qpn) continue;
      const auto events = events_of(rings, nic.index, qp.qpn);
      auto object = to_json(nic);
      object.update(to_json(qp, now));
      object["events"] = nlohmann::ordered_json::array();
      for (const auto& event : events) {
        object["events"].push_back(
            {{"ns_ago", (now - event.event.when).count()}, {"words", uroce::record::words(event.event)}});
      }
      found.push_back(std::move(object));
      if (!json) print(nic, qp, events, now);
    }
  }
  if (json) print_to(stdout, "{}\n", found.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!found.empty()) return 0;
  print_to(stderr, "uroce: process {} has {}\n", *pid,
           nics.empty() ? "no NIC of this build of uroce open, or we may not look into it"
           : *qpn == 0  ? "no QP"
                        : "no such QP");
  return 1;
}

}  // namespace uroce::tools
