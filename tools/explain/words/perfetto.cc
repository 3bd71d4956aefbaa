// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/words/perfetto.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "proto/address.h"
#include "tools/explain/words/sentences.h"

namespace uroce::explain {
namespace {

/// The process of packets that belong to no connection.
constexpr std::uint64_t kNobody = Story::kMostConnections + 1;
/// Numbers of tracks are none of processes: viewers take a track with the number of its process for the main one.
constexpr std::uint64_t kTracks = 100'000;
constexpr std::size_t kMostAddresses = 1000;
/// Tracks of a side, by sort index: packets, waits, messages.
constexpr std::uint64_t kSideTracks = 10'000;

std::string json_text(std::string_view text) {
  // Comments of a capture may be no UTF-8.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::uint64_t place_key(Place place) { return std::uint64_t{place.file} << 48 | place.frame; }

std::string_view category(const Packet& packet, const Told& told) {
  if (packet.is_gone() || packet.icrc == Icrc::kWrong) return "lost";
  if (packet.cm) return "management";
  if (is_resent(told.reason)) return "again";
  return packet.refuses() ? "refusal" : packet.is_response() ? "answer" : "request";
}

/// What viewers show of a packet, and colour it by.
std::string title(const Packet& packet, const Told& told) {
  std::string text = what(packet);
  if (is_resent(told.reason) || told.reason == Reason::kAnswerAgain || told.reason == Reason::kManagementAgain)
    text += " again";
  if (told.reason == Reason::kNetworkCopy) text += " (copy)";
  if (packet.is_lost()) text += " LOST";
  if (packet.fate == Fate::kDamaged || packet.icrc == Icrc::kWrong) text += " DAMAGED";
  return text;
}

std::string wait_title(Reason reason) {
  switch (reason) {
    case Reason::kNak:
      return "goes back for a NAK";
    case Reason::kTimeout:
      return "waits for an answer: timeout";
    case Reason::kRnr:
      return "waits: receiver not ready";
    case Reason::kImpliedNak:
      return "goes back for a missing answer";
    default:
      return "goes back";
  }
}

}  // namespace

Perfetto::Perfetto(const std::string& path, const Names& names, const Filter& filter)
    : path_(path), file_(std::fopen(path.c_str(), "we")), names_(&names), filter_(filter) {
  if (!file_) {
    fail("can't write");
    return;
  }
  std::fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [", file_.get());
}

void Perfetto::fail(const char* what) {
  if (error_.empty()) error_ = fmt::format("{} {}: {}", what, path_, std::strerror(errno));
}

/// Microseconds since the first packet. Clocks that go back before it stop there.
std::string Perfetto::at(std::int64_t time_ns) const {
  const std::int64_t ns = std::max<std::int64_t>(time_ns - start_ns_, 0);
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

void Perfetto::event(const std::string& members) {
  if (!error_.empty()) return;
  const std::string line = (first_ ? "\n{" : ",\n{") + members + "}";
  first_ = false;
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size()) fail("can't write");
}

std::uint64_t Perfetto::packet_track(const Packet& packet, const Told& told) {
  if (told.connection != 0) {
    Side& side = connections_[told.connection][told.from_left ? 0 : 1];
    if (side.packets == 0) side.packets = kTracks + ++tracks_;
    return side.packets;
  }
  const auto known = addresses_.find(packet.source.raw);
  if (known != addresses_.end()) return known->second;
  if (addresses_.size() >= kMostAddresses) return addresses_.begin()->second;
  return addresses_[packet.source.raw] = kTracks + ++tracks_;
}

void Perfetto::packet(const Packet& packet, const Told& told, const Story& story) {
  start_ns_ = story.totals().first_ns;
  const Seen here{told.connection != 0 ? told.connection : kNobody, packet_track(packet, told), packet.time_ns};
  std::string arguments = fmt::format("\"packet\":{}", json_text((*names_)(packet.place)));
  if (!packet.cm) arguments += fmt::format(",\"PSN\":{}", json_text(hex(packet.psn)));
  if (packet.op->has(proto::HeaderId::kAeth)) arguments += fmt::format(",\"MSN\":{}", packet.msn);
  if (const std::string part = part_text(packet, told); !part.empty()) arguments += ",\"part\":" + json_text(part);
  if (const std::string reason = why(packet, told, *names_); !reason.empty())
    arguments += ",\"why\":" + json_text(reason);
  if (packet.other) arguments += ",\"at the other end\":" + json_text((*names_)(packet.other));
  event(fmt::format(R"("ph":"i","s":"t","pid":{},"tid":{},"ts":{},"name":{},"cat":"{}","args":{{{}}})", here.process,
                    here.track, at(packet.time_ns), json_text(title(packet, told)), category(packet, told), arguments));
  remember(packet.place, here);
  if (told.goes_back) wait(packet, told);
  const bool answers = told.reason == Reason::kAnswer || told.reason == Reason::kAnswerAgain;
  if (!told.cause || !(answers || told.goes_back || told.reason == Reason::kManagementAgain)) return;
  const auto cause = seen_.find(place_key(told.cause));
  if (cause != seen_.end()) arrow(cause->second, here, answers ? "answer" : "cause");
}

void Perfetto::remember(Place place, const Seen& seen) {
  if (!seen_.insert_or_assign(place_key(place), seen).second) return;
  order_.push_back(place_key(place));
  if (order_.size() <= kArrowPackets) return;
  seen_.erase(order_.front());
  order_.pop_front();
}

/// Bound to the packets at both ends.
void Perfetto::arrow(const Seen& from, const Seen& to, std::string_view name) {
  const std::uint64_t id = ++arrows_;
  event(fmt::format(R"("ph":"s","id":{},"pid":{},"tid":{},"ts":{},"name":"{}","cat":"arrow")", id, from.process,
                    from.track, at(from.time_ns), name));
  event(fmt::format(R"("ph":"f","bp":"e","id":{},"pid":{},"tid":{},"ts":{},"name":"{}","cat":"arrow")", id, to.process,
                    to.track, at(std::max(from.time_ns, to.time_ns)), name));
}

/// A slice in the first row that is free; false when all are taken.
bool Perfetto::slice(std::vector<Row>& rows, std::uint64_t process, std::int64_t begin_ns, std::int64_t end_ns,
                     const std::string& name, std::string_view category, const std::string& arguments) {
  auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& each) { return each.free_ns <= begin_ns; });
  if (row == rows.end()) {
    if (rows.size() >= kMostRows) return false;
    row = rows.insert(rows.end(), {kTracks + ++tracks_, begin_ns});
  }
  row->free_ns = end_ns;
  const std::int64_t begin = std::max(begin_ns, start_ns_);
  event(fmt::format(R"("ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"{}","args":{{{}}})", process,
                    row->track, at(begin), at(start_ns_ + std::max<std::int64_t>(end_ns - begin, 0)), json_text(name),
                    category, arguments));
  return true;
}

void Perfetto::finished(const Finished& message, std::uint32_t connection, const Story& story) {
  start_ns_ = story.totals().first_ns;
  Side& side = connections_[connection][message.by_left ? 0 : 1];
  std::string name = fmt::format("{} {}", to_string(operation_of(message.kind)), message.message);
  if (!message.completed) name += " NOT COMPLETED";
  const bool shown =
      slice(side.messages, connection, message.begin_ns, message.end_ns, name, "message",
            fmt::format("\"bytes\":{},\"first packet\":{}", message.bytes, json_text((*names_)(message.place))));
  if (!shown) ++left_out_;
}

/// The time for which a requester waited until it went back.
void Perfetto::wait(const Packet& packet, const Told& told) {
  const bool shown = slice(connections_[told.connection][told.from_left ? 0 : 1].waits, told.connection,
                           packet.time_ns - told.wait_ns, packet.time_ns, wait_title(told.reason), "wait",
                           "\"why\":" + json_text(because(told.reason, told.sure, told.cause, told.wait_ns, *names_)));
  if (!shown) ++left_out_;
}

void Perfetto::name(std::string_view what, std::uint64_t process, std::uint64_t track, const std::string& text) {
  event(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}})", process, track, what,
                    json_text(text)));
}

void Perfetto::sort(std::string_view what, std::uint64_t process, std::uint64_t track, std::uint64_t index) {
  event(
      fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"{}","args":{{"sort_index":{}}})", process, track, what, index));
}

void Perfetto::name_rows(std::uint64_t process, const std::vector<Row>& rows, const std::string& title,
                         std::uint64_t index) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    name("thread_name", process, rows[i].track, i == 0 ? title : fmt::format("{} {}", title, i + 1));
    sort("thread_sort_index", process, rows[i].track, index + i);
  }
}

/// At the end, when both QP numbers are known.
void Perfetto::name_tracks(const Story& story) {
  for (const auto& [number, sides] : connections_) {
    const Connection& connection = *story.connection(number);
    std::string title = fmt::format("connection {}, {}: A = {}, B = {}", number, text_of(connection.service),
                                    text_of(connection.left), text_of(connection.right));
    if (connection.part_of) {
      title = fmt::format("connection {}, the other direction of connection {}", number, *connection.part_of);
    }
    name("process_name", number, 0, title);
    sort("process_sort_index", number, 0, number);
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::string side = i == 0 ? "A" : "B";
      const std::string end = side + " " + text_of(i == 0 ? connection.left : connection.right);
      const std::uint64_t first = i * kSideTracks;
      if (sides[i].packets != 0) name_rows(number, {{sides[i].packets, 0}}, end, first);
      name_rows(number, sides[i].waits, side + " waits", first + 1);
      name_rows(number, sides[i].messages, side + " messages", first + 1 + kMostRows);
    }
  }
  if (addresses_.empty()) return;
  name("process_name", kNobody, 0, "no connection: connection manager, others");
  sort("process_sort_index", kNobody, 0, kNobody);
  std::uint64_t index = 0;
  for (const auto& [address, track] : addresses_) {
    name_rows(kNobody, {{track, 0}}, proto::to_string(proto::Gid{address}), index++);
  }
}

void Perfetto::end(const Story& story, const std::vector<FileFacts>& files) {
  if (!file_) return;
  for (const auto& each : story.connections()) {
    if (each->part_of || each->service == proto::Service::kUd || !filter_.takes(*each)) continue;
    for (const bool by_left : {true, false}) {
      for (Finished& message : (by_left ? each->to_right : each->to_left).unfinished(story.totals().last_ns)) {
        message.by_left = by_left;
        finished(message, each->number, story);
      }
    }
  }
  name_tracks(story);
  nlohmann::ordered_json facts{{"written by", "uroce explain"},
                               {"start_ns", story.totals().first_ns},
                               {"files", nlohmann::ordered_json::array()},
                               {"slices left out", left_out_},
                               {"warnings", warnings_}};
  for (const FileFacts& file : files) facts["files"].push_back(file.name);
  const std::string tail =
      "],\n\"otherData\": " + facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "}\n";
  std::FILE* const file = file_.release();
  const bool written = std::fwrite(tail.data(), 1, tail.size(), file) == tail.size();
  if (std::fclose(file) != 0 || !written) fail("can't write");
}

}  // namespace uroce::explain
