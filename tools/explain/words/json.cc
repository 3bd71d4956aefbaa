// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/words/json.h"

#include <nlohmann/json.hpp>

#include "proto/address.h"
#include "tools/explain/words/sentences.h"

namespace uroce::explain {
namespace {

// Members stay in the order in which they are written.
using Object = nlohmann::ordered_json;

std::string dump(const Object& object) {
  // Comments of a capture may be no UTF-8.
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Object place(Place place) {
  if (!place) return nullptr;
  return {{"file", place.file}, {"frame", place.frame}};
}

Object steps(const std::vector<ClockStep>& steps) {
  Object rows = Object::array();
  for (const ClockStep& step : steps) rows.push_back({{"frame", step.frame}, {"ns", step.ns}});
  return rows;
}

std::string_view word(Icrc icrc) {
  return icrc == Icrc::kRight ? "right" : icrc == Icrc::kWrong ? "wrong" : "not_captured";
}

std::string_view word(Fate fate) {
  constexpr std::array<std::string_view, 4> kNames{"unknown", "arrived", "lost", "damaged"};
  return kNames[static_cast<std::size_t>(fate)];
}

Object note(const Note& note) {
  return {{"severity", to_string(note.severity)}, {"code", note.code}, {"text", note.text}};
}

Object endpoint(const Endpoint& endpoint) {
  Object object{{"address", proto::to_string(endpoint.gid)}, {"qpn", nullptr}};
  if (endpoint.qpn) object["qpn"] = *endpoint.qpn;
  return object;
}

Object direction(const Stream& stream) {
  const Numbers& n = stream.numbers();
  Object object{{"path_mtu", stream.mtu()},
                {"requests", n.packets},
                {"responses", n.responses},
                {"resent", n.resent()},
                {"reasons", Object::object()},
                {"nak_sequence", n.sequence_naks},
                {"nak_rnr", n.rnr_naks},
                {"nak_fatal", n.fatal_naks},
                {"answer_gaps", n.read_gaps},
                {"missing", n.missing},
                {"lost", n.lost},
                {"lost_to_faults", n.lost_to_faults},
                {"icrc_wrong", n.damaged},
                {"most_transmissions", n.most_transmissions},
                {"not_completed", n.unanswered},
                {"completed_bytes", n.acked_bytes},
                {"first_ns", n.first_ns},
                {"last_answer_ns", n.answered_ns},
                {"failure", stream.failure()}};
  for (std::size_t i = 0; i < kReasons; ++i) {
    if (n.reasons[i] != 0) object["reasons"][std::string(to_string(static_cast<Reason>(i)))] = n.reasons[i];
  }
  object["operations"] = Object::array();
  for (std::size_t i = 0; i < kOperations; ++i) {
    const auto& row = n.operations[i];
    if (row.count == 0) continue;
    object["operations"].push_back({{"operation", to_string(static_cast<Operation>(i))},
                                    {"count", row.count},
                                    {"completed", row.completed},
                                    {"bytes", row.bytes},
                                    {"least_bytes", row.least},
                                    {"most_bytes", row.most}});
  }
  object["latency_ns"] = {{"count", n.latency.count()},
                          {"min", n.latency.min()},
                          {"median", n.latency.percentile(0.5)},
                          {"p99", n.latency.percentile(0.99)},
                          {"max", n.latency.max()}};
  object["rounds"] = Object::array();
  for (const Round& round : n.rounds) {
    object["rounds"].push_back({{"reason", to_string(round.reason)},
                                {"sure", round.sure},
                                {"first", place(round.first)},
                                {"time_ns", round.time_ns},
                                {"psn", round.psn.value()},
                                {"packets", round.packets},
                                {"cause", place(round.cause)},
                                {"wait_ns", round.wait_ns},
                                {"finding", round.finding}});
  }
  object["more_rounds"] = n.more_rounds;
  object["incidents"] = Object::array();
  for (const Incident& incident : n.incidents) {
    Object row = note(incident.note);
    row["place"] = place(incident.place);
    row["time_ns"] = incident.time_ns;
    object["incidents"].push_back(std::move(row));
  }
  object["more_incidents"] = n.more_incidents;
  return object;
}

Object connection(const Connection& connection) {
  Object object{{"connection", connection.number},
                {"service", text_of(connection.service)},
                {"a", endpoint(connection.left)},
                {"b", endpoint(connection.right)},
                {"pairing", to_string(connection.pairing)},
                {"part_of", nullptr},
                {"packets", connection.packets},
                {"first_ns", connection.first_ns},
                {"last_ns", connection.last_ns},
                {"icrc_wrong", connection.icrc_wrong},
                {"ecn_marked", connection.marked},
                {"cnps", connection.cnps}};
  if (connection.part_of) object["part_of"] = *connection.part_of;
  if (connection.service == proto::Service::kUd) {
    object["datagrams"] = {{"count", connection.datagrams.count}, {"bytes", connection.datagrams.bytes}};
    return object;
  }
  object["a_to_b"] = direction(connection.to_right);
  object["b_to_a"] = direction(connection.to_left);
  return object;
}

}  // namespace

void Json::open() {
  if (begun_) return;
  begun_ = true;
  std::fputs("{\"schema\": \"uroce-explain-1\",\n\"packets\": [", out_);
}

void Json::packet(const Packet& packet, const Told& told, const Story&) {
  if (!packets_) return;
  open();
  Object object{{"place", place(packet.place)},
                {"time_ns", packet.time_ns},
                {"connection", told.connection},
                {"from", told.from_left ? "a" : "b"},
                {"source", proto::to_string(packet.source)},
                {"destination", proto::to_string(packet.destination)},
                {"dest_qp", packet.dest_qp},
                {"psn", packet.psn.value()},
                {"what", what(packet)},
                {"payload", packet.payload},
                {"icrc", word(packet.icrc_on_arrival())},
                {"message", told.part.message},
                {"offset", told.part.offset},
                {"total", told.part.total},
                {"reason", to_string(told.reason)},
                {"sure", told.sure},
                {"cause", place(told.cause)},
                {"wait_ns", told.wait_ns},
                {"transmission", told.transmission},
                {"fate", word(packet.fate)},
                {"other", place(packet.other)},
                {"notes", Object::array()},
                {"why", why(packet, told, *names_)}};
  for (const Note& each : told.notes) object["notes"].push_back(note(each));
  std::fputs(first_packet_ ? "\n" : ",\n", out_);
  first_packet_ = false;
  std::fputs(dump(object).c_str(), out_);
}

void Json::end(const Story& story, const std::vector<FileFacts>& files) {
  open();
  std::fputs("],\n\"connections\": [", out_);
  bool first = true;
  for (const auto& each : story.connections()) {
    if (each->packets == 0 || !filter_.takes(*each)) continue;
    std::fputs(first ? "\n" : ",\n", out_);
    first = false;
    std::fputs(dump(connection(*each)).c_str(), out_);
  }
  const Totals& totals = story.totals();
  const auto& manager = story.manager().counts();
  Object rows = Object::array();
  for (const FileFacts& file : files) {
    rows.push_back({{"name", file.name},
                    {"frames", file.frames},
                    {"not_roce", file.not_roce},
                    {"broken", file.broken},
                    {"damage", file.damage},
                    {"clock_ahead_ns", nullptr},
                    {"clock_set_back", steps(file.set_back)},
                    {"clock_steps", steps(file.clock_steps)}});
    if (file.clock_ahead_ns) rows.back()["clock_ahead_ns"] = *file.clock_ahead_ns;
  }
  Object causes = Object::array();
  for (const Verdict& verdict : verdicts_) {
    causes.push_back({{"time_ns", verdict.time_ns}, {"cause", verdict.sentence}, {"place", verdict.place}});
  }
  Object never_right = Object::array();
  for (const NeverRight& sender : story.icrcs().never_right()) {
    never_right.push_back({{"address", proto::to_string(sender.address)},
                           {"packets", sender.packets},
                           {"text", never_right_text(sender)}});
  }
  const Object tail{{"connection_manager",
                     {{"messages", manager.messages},
                      {"again", manager.again},
                      {"lost", manager.lost},
                      {"requests", manager.requests},
                      {"replies", manager.replies},
                      {"rejects", manager.rejects},
                      {"disconnects", manager.disconnects}}},
                    {"warnings", warnings_},
                    {"packets", totals.packets},
                    {"untold", totals.untold},
                    {"icrc_right", totals.icrc_right},
                    {"icrc_wrong", totals.icrc_wrong},
                    {"icrc_not_captured", totals.icrc_unknown},
                    {"icrc_never_right", never_right}};
  std::fputs(
      ("],\n\"causes\": " + dump(causes) + ",\n\"files\": " + dump(rows) + ",\n\"totals\": " + dump(tail) + "}\n")
          .c_str(),
      out_);
  flush();
}

}  // namespace uroce::explain
