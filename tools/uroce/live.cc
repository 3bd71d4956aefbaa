// SPDX-License-Identifier: Apache-2.0
#include "tools/uroce/live.h"

#include <fmt/core.h>

#include <array>

#include "proto/address.h"
#include "tools/uroce/process_name.h"

namespace uroce::tools {
namespace {

using Object = nlohmann::ordered_json;

}  // namespace

std::string type_text(nic::QpType type) {
  switch (type) {
    case nic::QpType::kRc:
      return "RC";
    case nic::QpType::kUc:
      return "UC";
    case nic::QpType::kUd:
      return "UD";
  }
  return "?";
}

std::string peer_text(const ibv::LiveQp& qp) {
  const nic::QpAttr& attr = qp.fixed.attr;
  if (qp.fixed.type == nic::QpType::kUd || attr.path.destination.is_zero()) return "";
  return fmt::format("{} QP {:#x}", proto::to_string(attr.path.destination), attr.dest_qpn);
}

std::uint32_t outstanding(const ibv::LiveQp& qp) {
  return (qp.moving.inside.next.value() - qp.moving.inside.una.value()) & proto::Psn::kMask;
}

Object to_json(const ibv::LiveQp& qp, Instant now) {
  const nic::QpAttr& attr = qp.fixed.attr;
  const nic::QpInside& inside = qp.moving.inside;
  Object object{
      {"qpn", qp.qpn},
      {"type", type_text(qp.fixed.type)},
      {"state", to_string(qp.moving.state)},
      {"address", proto::to_string(attr.path.source)},
      {"peer", proto::to_string(attr.path.destination)},
      {"dest_qpn", attr.dest_qpn},
      {"attributes",
       {{"path_mtu", 128u << std::min<unsigned>(attr.path_mtu, 5)},
        {"timeout", attr.timeout},
        {"retry_cnt", attr.retry_cnt},
        {"rnr_retry", attr.rnr_retry},
        {"min_rnr_timer", attr.min_rnr_timer},
        {"max_rd_atomic", attr.max_rd_atomic},
        {"max_dest_rd_atomic", attr.max_dest_rd_atomic},
        {"sq_psn", attr.sq_psn.value()},
        {"rq_psn", attr.rq_psn.value()},
        {"access", attr.access},
        {"qkey", attr.qkey},
        {"sgid_index", attr.sgid_index},
        {"source_port", attr.path.source_port},
        {"max_send_wr", qp.fixed.max_send_wr},
        {"max_recv_wr", qp.fixed.max_recv_wr}}},
      {"requester",
       {{"oldest_unacknowledged_psn", inside.una.value()},
        {"next_psn", inside.next.value()},
        {"highest_psn", inside.max.value()},
        {"outstanding_packets", outstanding(qp)},
        {"queued_sends", inside.queued_sends},
        {"begun_sends", inside.begun_sends},
        {"retries_left", inside.retries_left},
        {"rnr_retries_left", inside.rnr_retries_left},
        {"waits_for_window", inside.waits_for_window},
        {"probes", inside.probes},
        {"stalled", inside.stalled}}},
      {"responder", {{"expected_psn", inside.expected.value()}, {"msn", inside.msn}, {"receives", inside.receives}}},
      {"window", {{"used_bytes", inside.window_used}, {"limit_bytes", inside.window_limit}}},
      {"timers_ns", Object::object()},
      {"counts",
       {{"sent_packets", qp.counts.sent_packets},
        {"sent_bytes", qp.counts.sent_bytes},
        {"received_packets", qp.counts.received_packets},
        {"received_bytes", qp.counts.received_bytes},
        {"retransmitted", qp.counts.retransmitted},
        {"timeouts", qp.counts.timeouts},
        {"naks_received", qp.counts.naks_received},
        {"rnr_received", qp.counts.rnr_received},
        {"naks_sent", qp.counts.naks_sent},
        {"rnr_sent", qp.counts.rnr_sent},
        {"duplicates", qp.counts.duplicates},
        {"out_of_sequence", qp.counts.out_of_sequence},
        {"dropped_no_receive", qp.counts.dropped_no_receive}}}};
  object["responder"]["srq"] = inside.has_srq;
  object["silent_ns"] = nullptr;
  if (qp.counts.last_received_ns != 0)
    object["silent_ns"] = now.time_since_epoch().count() - qp.counts.last_received_ns;
  for (std::size_t i = 0; i < inside.timers.size(); ++i) {
    if (inside.timers[i] != Instant{})
      object["timers_ns"][nic::timer_names(qp.fixed.type)[i]] = (inside.timers[i] - now).count();
  }
  return object;
}

Object to_json(const ibv::LiveNic& nic) {
  return {{"pid", nic.pid},
          {"user", process_user(std::to_string(nic.pid))},
          {"program", nic.program},
          {"nic", "uroce" + std::to_string(nic.index)},
          {"address", nic.address}};
}

}  // namespace uroce::tools
