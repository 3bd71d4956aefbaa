// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/words/html.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "proto/address.h"
#include "tools/explain/words/fields.h"
#include "tools/explain/words/page.h"
#include "tools/explain/words/sentences.h"
#include "tools/explain/words/text.h"

namespace uroce::explain {
namespace {

using Object = nlohmann::ordered_json;

/// For a place inside of <script>: nothing in it ends that.
std::string in_script(const Object& object) {
  std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
    text.replace(at, 1, "\\u003c");
  return text;
}

/// The colour.
std::string_view kind(const Packet& packet) {
  if (packet.cm) return "cm";
  if (packet.refuses()) return "bad";
  switch (packet.op->kind) {
    case proto::Kind::kSend:
      return "send";
    case proto::Kind::kWrite:
    case proto::Kind::kAtomicWrite:
      return "write";
    case proto::Kind::kReadRequest:
    case proto::Kind::kReadResponse:
      return "read";
    case proto::Kind::kCompareSwap:
    case proto::Kind::kFetchAdd:
    case proto::Kind::kAtomicAcknowledge:
      return "atomic";
    case proto::Kind::kAcknowledge:
      return "ack";
    default:
      return "other";
  }
}

std::string_view arrow(const Packet& packet) {
  if (packet.is_lost()) return "lost";
  return packet.fate == Fate::kDamaged ? "damaged" : packet.fate == Fate::kArrived ? "arrived" : "";
}

std::uint64_t key(Place place) { return std::uint64_t{place.file} << 48 | place.frame; }

Object headers() {
  Object all = Object::array();
  for (const proto::HeaderInfo& header : proto::kHeaders) {
    Object fields = Object::array();
    for (const proto::FieldInfo& field : header.fields) {
      fields.push_back(Object::array({field.name, field.bit, field.width, meaning(header.id, field.name)}));
    }
    all.push_back({{"name", header.name}, {"size", header.size}, {"fields", fields}});
  }
  return all;
}

Object opcodes() {
  Object all = Object::object();
  for (const proto::OpcodeInfo& op : proto::kOpcodes) {
    Object stack = Object::array();
    for (std::size_t i = 0; i < op.stack.count; ++i) stack.push_back(static_cast<int>(op.stack.ids[i]));
    all[std::to_string(static_cast<int>(op.code))] = stack;
  }
  return all;
}

std::string summary(const Story& story, const std::vector<FileFacts>& files, const Names& names, const Filter& filter) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const memory = ::open_memstream(&text, &size);
  if (memory == nullptr) return {};
  Text writer(memory, names, filter, {});
  writer.end(story, files);
  std::fclose(memory);
  std::string result(text, size);
  std::free(text);
  return result;
}

/// `page` with each @NAME@ replaced.
std::string fill(std::string_view page, std::string_view name, std::string_view content) {
  const std::size_t at = page.find(name);
  std::string text(page.substr(0, at));
  text += content;
  return text += page.substr(at + name.size());
}

}  // namespace

/// The addresses and all that is the same in most packets: kept once.
std::size_t Html::network(const Packet& packet) {
  Object rows = Object::array();
  const auto row = [&rows](std::string_view name, const std::string& value, std::string_view means) {
    rows.push_back(Object::array({name, value, means}));
  };
  row("source", proto::to_string(packet.source), "");
  row("destination", proto::to_string(packet.destination), "");
  row("tclass", hex(std::uint64_t{packet.tclass}),
      (packet.tclass & proto::kEcnMask) == proto::kEcnMask ? "DSCP and ECN: congestion experienced"
                                                           : "DSCP (6 bits) and ECN (2 bits)");
  row("sport", std::to_string(packet.source_port),
      "entropy, by which networks choose a way; port 4791 is the destination's");
  row("ICRC",
      packet.icrc_on_arrival() == Icrc::kRight   ? "right"
      : packet.icrc_on_arrival() == Icrc::kWrong ? "WRONG"
                                                 : "not captured",
      "covers all that does not change on the way");
  const std::string text = in_script(rows);
  const auto [at, fresh] = networks_.try_emplace(text, networks_.size());
  if (fresh) networks_json_ += (networks_json_.empty() ? "\n" : ",\n") + text;
  return at->second;
}

void Html::packet(const Packet& packet, const Told& told, const Story&) {
  if (count_ == kMostPackets) {
    ++left_out_;
    return;
  }
  std::string head;
  const std::size_t size = std::min<std::size_t>(packet.op->stack.bytes, packet.head.size());
  for (std::size_t i = 0; i < size; ++i) head += fmt::format("{:02x}", packet.head[i]);
  const auto cause = indices_.find(key(told.cause));
  const std::int64_t way = packet.fate == Fate::kArrived || packet.fate == Fate::kDamaged
                               ? std::abs(packet.other_time_ns - packet.time_ns)
                               : 0;
  std::string psn = packet.cm ? "" : hex(packet.psn);
  if (packet.op->has(proto::HeaderId::kAeth)) psn += fmt::format(" msn {}", packet.msn);
  const Object line =
      Object::array({(*names_)(packet.place), packet.time_ns, told.connection, told.from_left ? 1 : 0, what(packet),
                     psn, part_text(packet, told), why(packet, told, *names_), kind(packet), told.is_problem() ? 1 : 0,
                     arrow(packet), cause == indices_.end() ? -1 : static_cast<std::int64_t>(cause->second), way,
                     to_string(told.reason), head, network(packet)});
  packets_ += (packets_.empty() ? "\n" : ",\n") + in_script(line);
  indices_.emplace(key(packet.place), count_++);
}

std::string Html::data(const Story& story, const std::vector<FileFacts>& files) const {
  std::string title = "uroce explain";
  // The summary has the paths; they would push a small window's edge out.
  for (const FileFacts& file : files)
    title += (title.size() == 13 ? ": " : ", ") + std::filesystem::path(file.name).filename().string();
  std::string words = warning_ + summary(story, files, *names_, filter_);
  if (left_out_ != 0) {
    words = fmt::format(
                "This page has the first {} packets. {} more are left out: choose with --qp, --peer or --only "
                "problems.\n\n",
                count_, left_out_) +
            words;
  }
  Object connections = Object::array();
  for (const auto& each : story.connections()) {
    if (each->packets == 0 || !filter_.takes(*each)) continue;
    connections.push_back(Object::array(
        {each->number, text_of(each->service) + " A = " + text_of(each->left) + ", B = " + text_of(each->right)}));
  }
  return "{\"title\": " + in_script(title) + ",\n\"summary\": " + in_script(words) +
         ",\n\"start\": " + std::to_string(story.totals().first_ns) + ",\n\"connections\": " + in_script(connections) +
         ",\n\"headers\": " + in_script(headers()) + ",\n\"opcodes\": " + in_script(opcodes()) + ",\n\"networks\": [" +
         networks_json_ + "],\n\"packets\": [" + packets_ + "]}";
}

void Html::end(const Story& story, const std::vector<FileFacts>& files) {
  std::string page = fill(kPage_html, "@CSS@", kPage_css);
  page = fill(page, "@SCRIPT@", kPage_js);
  page = fill(page, "@TRACKS@", kTracks_js);
  page = fill(page, "@DATA@", data(story, files));
  std::FILE* const file = std::fopen(path_.c_str(), "we");
  const bool opened = file != nullptr;
  bool written = opened && std::fwrite(page.data(), 1, page.size(), file) == page.size();
  if (opened) written = std::fclose(file) == 0 && written;
  if (!written) error_ = "can't write " + path_ + ": " + std::strerror(errno);
}

}  // namespace uroce::explain
