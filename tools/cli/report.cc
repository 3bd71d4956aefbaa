// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/report.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/output/print.h"

namespace uroce::tools {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} MB", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.1f} kB", value / 1e3);
  return fmt::format("{} B", bytes);
}

std::string rate_text(double amount, std::uint64_t bytes, double span) {
  if (span <= 0) return "";  // One message, or all of them in one poll.
  return fmt::format(": {:.2f} Gb/s, {:.0f} op/s", static_cast<double>(bytes) * 8e-9 / span, amount / span);
}

std::string latency_text(const Histogram& latency) {
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
  return fmt::format("min {:.1f}  p50 {:.1f}  p99 {:.1f}  p99.9 {:.1f}  max {:.1f} us (post to completion)",
                     us(latency.min()), us(latency.percentile(0.5)), us(latency.percentile(0.99)),
                     us(latency.percentile(0.999)), us(latency.max()));
}

std::string workload_text(const Workload& w) {
  return fmt::format(
      "{}, {} of {} x {} each{}, MTU {}, depth {}{}{}{}", w.qps == 1 ? "1 QP" : fmt::format("{} QPs", w.qps),
      mix_name(w.mix), size_text(w.size), w.iterations, w.bidirectional ? " both ways" : "", w.mtu, w.depth,
      w.sges > 1 ? fmt::format(", {} SGEs", w.sges) : "", w.inline_data ? ", inline" : "", w.events ? ", events" : "");
}

/// What was injected, "" when nothing.
std::string faults_text(const engine::faults::FaultCounters& f) {
  using engine::faults::Kind;
  struct Row {
    const char *one, *many;
    std::uint64_t count;
  };
  const auto same = [](const char* name, std::uint64_t count) { return Row{name, name, count}; };
  const Row all[] = {same("dropped", f.of(Kind::kDrop)),
                     same("duplicated", f.of(Kind::kDuplicate)),
                     same("reordered", f.of(Kind::kReorder)),
                     same("delayed", f.of(Kind::kDelay)),
                     same("corrupted", f.of(Kind::kCorrupt)),
                     same("ECN-marked", f.of(Kind::kEcn)),
                     same("lost in blackouts", f.blackout),
                     same("too many to hold back", f.overfull),
                     {"RNR NAK", "RNR NAKs", f.rnr},
                     {"failed work request", "failed work requests", f.wrs},
                     {"failed call", "failed calls", f.calls},
                     {"fault of RDMA CM", "faults of RDMA CM", f.connections},
                     {"event", "events", f.events}};
  std::string text;
  for (const auto& [one, many, count] : all) {
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, count == 1 ? one : many);
  }
  return text;
}

std::string nic_text(const ibv::NicFacts& nic) {
  const nic::Counters& c = nic.counters;
  std::string text = fmt::format("  engine     {} ({})\n", nic.port.engine, nic.port.reason);
  text += fmt::format(
      "  NIC        {} packets sent, {} received, {} retransmitted, {} timeouts, {} ICRC errors, {} RNR NAKs\n",
      c.sent_pkts, c.rcvd_pkts, c.retransmitted_pkts, c.local_ack_timeout_err, c.icrc_errors,
      c.rcvd_rnr_err + c.send_rnr_err);
  if (nic.port_counters.sent_by_shm + nic.port_counters.received_by_shm > 0) {
    text += fmt::format("  wire       {} packets sent and {} received through shared memory{}{}, the others by UDP\n",
                        nic.port_counters.sent_by_shm, nic.port_counters.received_by_shm,
                        nic.port.by_shm.empty() ? "" : ", to ", fmt::join(nic.port.by_shm, ", "));
  }
  if (const engine::PortCounters& p = nic.port_counters; p.last_send_error != 0) {
    text += fmt::format(
        "  refused    {} packets by this host's kernel, the last one with \"{}\": they are on no wire; see: uroce "
        "doctor\n",
        p.send_errors, std::strerror(p.last_send_error));
  }
  if (const std::string faults = faults_text(nic.faults); !faults.empty()) text += "  injected   " + faults + '\n';
  for (const std::string& sentence : nic.faults_without_effect) text += "  no effect  " + sentence + '\n';
  if (nic.pcap.empty()) return text;
  text += fmt::format("  capture    {}\n", nic.pcap);
  if (!nic.pcap_error.empty()) {
    text +=
        fmt::format("             it has ended early, {} packets are missing: {}\n", nic.pcap_missed, nic.pcap_error);
  }
  return text;
}

}  // namespace

void Report::describe_device(const RdmaResources& resources) {
  if (resources.context == nullptr) return;
  device = ibv_get_device_name(resources.context->device);
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, resources.gid.raw, text, sizeof text);
  gid = text;
  gid_index = resources.choice.gid_index;
  nic = nic_facts(resources.context);
}

std::string text_report(const Report& report) {
  const Outcome& o = report.outcome;
  if (!o.workload) return "";
  std::string text = fmt::format("{}: {}\n", report.exit_code == kExitOk ? "ok" : "FAILED", workload_text(*o.workload));
  for (const std::string& note : o.notes) text += fmt::format("  note       {}\n", note);
  if (o.initiated && o.initiated->operations > 0) {
    const InitiatorStats& s = *o.initiated;
    const double span = seconds_between(s.started, s.ended);
    text += fmt::format("  initiated  {} operations, {} in {:.3f} s{}\n", s.operations, bytes_text(s.bytes), span,
                        rate_text(static_cast<double>(s.operations), s.bytes, span));
    text += fmt::format("  latency    {}\n", latency_text(s.latency));
  }
  if (o.received && o.received->receives > 0) {
    const TargetStats& s = *o.received;
    const double span = seconds_between(s.first, s.last);
    text += fmt::format("  received   {} messages, {} in {:.3f} s{}\n", s.receives, bytes_text(s.bytes), span,
                        rate_text(static_cast<double>(s.receives), s.bytes, span));
  }
  if (o.workload->verify) {
    const std::uint64_t peer_messages = o.peer_verdict ? o.peer_verdict->checked_messages : 0;
    text += fmt::format("  verified   {} messages ({}) here, {} at the peer; {} wrong\n",
                        o.verification.checked_messages, bytes_text(o.verification.checked_bytes), peer_messages,
                        o.verification.wrong_messages + (o.peer_verdict ? o.peer_verdict->wrong_messages : 0));
  }
  text += fmt::format("  device     {}, GID {} (index {}), backend {}, peer {}\n", report.device, report.gid,
                      report.gid_index.value_or(report.options->device.gid_index),
                      backend_name(report.options->backend), o.peer_address);
  if (report.nic) text += nic_text(*report.nic);
  return text;
}

ExitCode print_report(const Report& report) {
  const Options& options = *report.options;
  const std::string& program = options.program;
  const std::string result = options.json ? json_report(report) + "\n" : text_report(report);
  print_to(stdout, "{}", result);
  // A reader that has gone does not change how the transfer went; a full disk takes the result away.
  const bool lost = std::fflush(stdout) != 0 && errno != EPIPE;
  if (lost) print_to(stderr, "{}: can't write the result to stdout: {}\n", program, std::strerror(errno));
  if (!report.error.empty()) print_to(stderr, "{}: {}\n", program, report.error);
  if (report.exit_code == kExitFailed && report.nic && report.nic->last_cause) {
    print_to(stderr, "{}: {}\n", program, *report.nic->last_cause);
  }
  return lost && report.exit_code == kExitOk ? kExitFailed : report.exit_code;
}

}  // namespace uroce::tools
