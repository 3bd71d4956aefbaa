// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <nlohmann/json.hpp>

#include "tools/cli/report.h"

namespace uroce::tools {
namespace {

using Json = nlohmann::ordered_json;

/// What is not known has no text.
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

double rate(double amount, double span) { return span > 0 ? amount / span : 0; }

Json workload_json(const Workload& w) {
  return {{"op", mix_name(w.mix)},
          {"size", w.size},
          {"iters", w.iterations},
          {"num_qp", w.qps},
          {"mtu", w.mtu},
          {"depth", w.depth},
          {"receive_depth", w.receive_depth},
          {"sges", w.sges},
          {"bidir", w.bidirectional},
          {"verify", w.verify},
          {"inline", w.inline_data},
          {"events", w.events}};
}

Json initiated_json(const InitiatorStats& s) {
  const double span = seconds_between(s.started, s.ended);
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
  Json json = {{"operations", s.operations},
               {"bytes", s.bytes},
               {"seconds", span},
               {"gbit_per_s", rate(static_cast<double>(s.bytes) * 8e-9, span)},
               {"operations_per_s", rate(static_cast<double>(s.operations), span)}};
  json["latency_us"] = {{"min", us(s.latency.min())},
                        {"mean", s.latency.mean() / 1000},
                        {"p50", us(s.latency.percentile(0.5))},
                        {"p99", us(s.latency.percentile(0.99))},
                        {"p999", us(s.latency.percentile(0.999))},
                        {"max", us(s.latency.max())}};
  Json per_op = Json::object();
  for (std::size_t i = 0; i < kOpCount; ++i) {
    if (s.per_op[i] > 0) per_op[std::string(op_name(static_cast<Op>(i)))] = s.per_op[i];
  }
  json["per_op"] = per_op;
  return json;
}

Json received_json(const TargetStats& s) {
  const double span = seconds_between(s.first, s.last);
  return {{"messages", s.receives},
          {"bytes", s.bytes},
          {"seconds", span},
          {"gbit_per_s", rate(static_cast<double>(s.bytes) * 8e-9, span)}};
}

template <class V>
Json verification_json(const V& v) {
  Json json = {{"messages", v.checked_messages}, {"bytes", v.checked_bytes}, {"wrong_messages", v.wrong_messages}};
  if (!v.first_error.empty()) json["first_error"] = v.first_error;
  return json;
}

Json counters_json(const nic::Counters& c) {
  return {{"sent_pkts", c.sent_pkts},
          {"rcvd_pkts", c.rcvd_pkts},
          {"sent_payload_bytes", c.sent_payload_bytes},
          {"rcvd_payload_bytes", c.rcvd_payload_bytes},
          {"parse_errors", c.parse_errors},
          {"icrc_errors", c.icrc_errors},
          {"icrc_id_recovered", c.icrc_id_recovered},
          {"unknown_qp", c.unknown_qp},
          {"wrong_pkey", c.wrong_pkey},
          {"wrong_source", c.wrong_source},
          {"wrong_state_or_service", c.wrong_state_or_service},
          {"ecn_marked_pkts", c.ecn_marked_pkts},
          {"duplicate_request", c.duplicate_request},
          {"out_of_seq_request", c.out_of_seq_request},
          {"rcvd_rnr_err", c.rcvd_rnr_err},
          {"send_rnr_err", c.send_rnr_err},
          {"rcvd_seq_err", c.rcvd_seq_err},
          {"implied_nak", c.implied_nak},
          {"local_ack_timeout_err", c.local_ack_timeout_err},
          {"retry_exceeded_err", c.retry_exceeded_err},
          {"retry_rnr_exceeded_err", c.retry_rnr_exceeded_err},
          {"retransmitted_pkts", c.retransmitted_pkts},
          {"ghost_acks", c.ghost_acks}};
}

Json faults_json(const engine::faults::FaultCounters& f) {
  Json json = {{"blackout", f.blackout}, {"overfull", f.overfull}, {"rnr", f.rnr},     {"wr", f.wrs},
               {"call", f.calls},        {"cm", f.connections},    {"event", f.events}};
  for (std::size_t i = 0; i < f.packets.size(); ++i) {
    json[to_string(static_cast<engine::faults::Kind>(i))] = f.packets[i];
  }
  return json;
}

Json nic_json(const ibv::NicFacts& nic) {
  const engine::PortCounters& p = nic.port_counters;
  return {{"addresses", nic.addresses},
          {"engine", {{"name", nic.port.engine}, {"reason", nic.port.reason}, {"features", nic.port.features}}},
          {"peers_by_shm", nic.port.by_shm},
          {"receive_buffer_bytes", nic.port.receive_buffer_bytes},
          {"pcap", text_or_null(nic.pcap)},
          {"pcap_error", text_or_null(nic.pcap_error)},
          {"pcap_missed", nic.pcap_missed},
          {"last_cause", nic.last_cause ? Json(*nic.last_cause) : Json(nullptr)},
          {"counters", counters_json(nic.counters)},
          {"injected_faults", faults_json(nic.faults)},
          {"faults_without_effect", nic.faults_without_effect},
          {"port",
           {{"sent_packets", p.sent_packets},
            {"sent_bytes", p.sent_bytes},
            {"received_packets", p.received_packets},
            {"received_bytes", p.received_bytes},
            {"send_errors", p.send_errors},
            {"receive_overruns", p.receive_overruns},
            {"system_calls", p.system_calls},
            {"sent_by_shm", p.sent_by_shm},
            {"received_by_shm", p.received_by_shm}}}};
}

Json loss_json(const PeerLoss& loss) {
  return {{"outstanding", loss.outstanding},
          {"probed", loss.probed},
          {"status", text_or_null(loss.status)},
          {"seconds", loss.seconds},
          {"promised_seconds", loss.promised_seconds}};
}

}  // namespace

std::string json_report(const Report& report) {
  const Options& options = *report.options;
  const Outcome& outcome = report.outcome;
  Json json = {{"role", options.session.role == Role::kClient ? "client" : "server"},
               {"ok", report.exit_code == kExitOk},
               {"exit", static_cast<int>(report.exit_code)},
               {"error", text_or_null(report.error)},
               {"backend", backend_name(options.backend)},
               {"device", text_or_null(report.device)},
               {"gid_index", report.gid_index.value_or(options.device.gid_index)},
               {"gid", text_or_null(report.gid)},
               {"peer", text_or_null(outcome.peer_address)}};
  if (outcome.workload) json["workload"] = workload_json(*outcome.workload);
  if (!outcome.notes.empty()) json["notes"] = outcome.notes;
  if (outcome.initiated) json["initiated"] = initiated_json(*outcome.initiated);
  if (outcome.received) json["received"] = received_json(*outcome.received);
  if (outcome.workload && outcome.workload->verify) {
    json["verified"] = verification_json(outcome.verification);
    if (outcome.peer_verdict) json["peer_verified"] = verification_json(*outcome.peer_verdict);
  }
  if (outcome.peer_loss) json["peer_loss"] = loss_json(*outcome.peer_loss);
  if (report.nic) json["nic"] = nic_json(*report.nic);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace uroce::tools
