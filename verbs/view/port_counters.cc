// SPDX-License-Identifier: Apache-2.0
#include "verbs/view/port_counters.h"

#include <vector>

#include "proto/base/made_once.h"

namespace uroce::view {
namespace {

std::uint64_t never(const NicView&) { return 0; }

/// A packet is sent again because of a NAK, a gap in the responses, or silence.
std::uint64_t times_gone_back(const NicView& nic) {
  return nic.counters.rcvd_seq_err + nic.counters.implied_nak + nic.counters.local_ack_timeout_err;
}

/// What arrived and was no packet for any of our QPs.
std::uint64_t bad_packets(const NicView& nic) {
  return nic.counters.parse_errors + nic.counters.icrc_errors + nic.counters.unknown_qp + nic.counters.wrong_pkey +
         nic.counters.wrong_source + nic.counters.wrong_state_or_service;
}

std::vector<CounterRow> make_hw_counters() {
  std::vector<CounterRow> rows;
  const auto add = [&rows](const char* name, std::uint64_t (*value)(const NicView&)) {
    if (*name != '\0') rows.push_back({name, value});
  };
  // What the NIC counts, as rxe calls it, and as mlx5 does.
#define UROCE_COUNTER(name, also, meaning)                                           \
  add(#name, [](const NicView& nic) -> std::uint64_t { return nic.counters.name; }); \
  add(also, [](const NicView& nic) -> std::uint64_t { return nic.counters.name; });
#include "verbs/nic/model/events.def"
  // What follows from it, or comes from elsewhere.
  add("ack_deferred", never);
  add("completer_retry_err", times_gone_back);
  add("send_err", [](const NicView& nic) { return nic.wire.send_errors; });
  add("link_downed", [](const NicView& nic) { return nic.link_downed; });
  add("np_cnp_sent", never);
  add("rp_cnp_handled", never);
  add("rp_cnp_ignored", never);
  add("receive_overruns", [](const NicView& nic) { return nic.wire.receive_overruns; });
  return rows;
}

constexpr std::uint64_t kBytesPerUnit = 4;  ///< PortXmitData and PortRcvData count words.

constexpr CounterRow kPortCounters[] = {
    {"port_xmit_data", [](const NicView& nic) { return nic.wire.sent_bytes / kBytesPerUnit; }},
    {"port_rcv_data", [](const NicView& nic) { return nic.wire.received_bytes / kBytesPerUnit; }},
    {"port_xmit_packets", [](const NicView& nic) { return nic.wire.sent_packets; }},
    {"port_rcv_packets", [](const NicView& nic) { return nic.wire.received_packets; }},
    {"unicast_xmit_packets", [](const NicView& nic) { return nic.wire.sent_packets; }},
    {"unicast_rcv_packets", [](const NicView& nic) { return nic.wire.received_packets; }},
    {"multicast_xmit_packets", never},
    {"multicast_rcv_packets", never},
    {"port_xmit_discards", [](const NicView& nic) { return nic.wire.send_errors; }},
    {"port_xmit_wait", never},
    {"port_xmit_constraint_errors", never},
    {"port_rcv_errors", bad_packets},
    {"port_rcv_constraint_errors", never},
    {"port_rcv_remote_physical_errors", never},
    {"port_rcv_switch_relay_errors", never},
    {"excessive_buffer_overrun_errors", [](const NicView& nic) { return nic.wire.receive_overruns; }},
    {"link_downed", [](const NicView& nic) { return nic.link_downed; }},
    {"link_error_recovery", never},
    {"local_link_integrity_errors", never},
    {"symbol_error", never},
    {"VL15_dropped", never},
};

}  // namespace

std::span<const CounterRow> hw_counters() {
  static constinit std::atomic<std::vector<CounterRow>*> rows = nullptr;
  return made_once(rows, [] { return std::make_unique<std::vector<CounterRow>>(make_hw_counters()); });
}
std::span<const CounterRow> port_counters() { return kPortCounters; }

}  // namespace uroce::view
