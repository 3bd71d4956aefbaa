#include "verbs/view/port_counters.h"

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

constexpr CounterRow kHwCounters[] = {
    // rxe
    {"sent_pkts", [](const NicView& nic) { return nic.counters.sent_pkts; }},
    {"rcvd_pkts", [](const NicView& nic) { return nic.counters.rcvd_pkts; }},
    {"duplicate_request", [](const NicView& nic) { return nic.counters.duplicate_request; }},
    {"out_of_seq_request", [](const NicView& nic) { return nic.counters.out_of_seq_request; }},
    {"rcvd_rnr_err", [](const NicView& nic) { return nic.counters.rcvd_rnr_err; }},
    {"send_rnr_err", [](const NicView& nic) { return nic.counters.send_rnr_err; }},
    {"rcvd_seq_err", [](const NicView& nic) { return nic.counters.rcvd_seq_err; }},
    {"ack_deferred", never},
    {"retry_exceeded_err", [](const NicView& nic) { return nic.counters.retry_exceeded_err; }},
    {"retry_rnr_exceeded_err", [](const NicView& nic) { return nic.counters.retry_rnr_exceeded_err; }},
    {"completer_retry_err", times_gone_back},
    {"send_err", [](const NicView& nic) { return nic.wire.send_errors; }},
    {"link_downed", [](const NicView& nic) { return nic.link_downed; }},
    {"rdma_sends", [](const NicView& nic) { return nic.counters.rdma_sends; }},
    {"rdma_recvs", [](const NicView& nic) { return nic.counters.rdma_recvs; }},
    // mlx5, for the same things
    {"out_of_sequence", [](const NicView& nic) { return nic.counters.out_of_seq_request; }},
    {"out_of_buffer", [](const NicView& nic) { return nic.counters.send_rnr_err; }},
    {"packet_seq_err", [](const NicView& nic) { return nic.counters.rcvd_seq_err; }},
    {"implied_nak_seq_err", [](const NicView& nic) { return nic.counters.implied_nak; }},
    {"local_ack_timeout_err", [](const NicView& nic) { return nic.counters.local_ack_timeout_err; }},
    {"rnr_nak_retry_err", [](const NicView& nic) { return nic.counters.rcvd_rnr_err; }},
    {"rx_icrc_encapsulated", [](const NicView& nic) { return nic.counters.icrc_errors; }},
    {"np_ecn_marked_roce_packets", [](const NicView& nic) { return nic.counters.ecn_marked_pkts; }},
    {"np_cnp_sent", never},
    {"rp_cnp_handled", never},
    {"rp_cnp_ignored", never},
    // our own
    {"sent_payload_bytes", [](const NicView& nic) { return nic.counters.sent_payload_bytes; }},
    {"rcvd_payload_bytes", [](const NicView& nic) { return nic.counters.rcvd_payload_bytes; }},
    {"qkey_violations", [](const NicView& nic) { return nic.counters.qkey_violations; }},
    {"icrc_id_recovered", [](const NicView& nic) { return nic.counters.icrc_id_recovered; }},
    {"ghost_acks", [](const NicView& nic) { return nic.counters.ghost_acks; }},
    {"retransmitted_pkts", [](const NicView& nic) { return nic.counters.retransmitted_pkts; }},
    {"receive_overruns", [](const NicView& nic) { return nic.wire.receive_overruns; }},
};

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

std::span<const CounterRow> hw_counters() { return kHwCounters; }
std::span<const CounterRow> port_counters() { return kPortCounters; }

}  // namespace uroce::view
