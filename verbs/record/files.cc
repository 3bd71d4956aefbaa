// SPDX-License-Identifier: Apache-2.0
#include "verbs/record/files.h"

#include <algorithm>
#include <string_view>

#include "proto/address.h"
#include "proto/base/utf8.h"
#include "proto/frame.h"
#include "proto/pcap_format.h"
#include "verbs/record/cause.h"
#include "verbs/record/reasons.h"

namespace uroce::record {
namespace {

namespace format = proto::pcap_format;

std::string quoted(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (std::string_view rest = text; !rest.empty();) {
    const auto code = static_cast<unsigned char>(rest[0]);
    const std::size_t size = proto::utf8_size(rest);
    if (code == '"' || code == '\\') {
      out += '\\';
      out += rest[0];
    } else if (code < 0x20 || code == 0x7F || size == 0) {  // Names of programs may be no UTF-8.
      out += "\\u00";
      out += kDigits[code / 16];
      out += kDigits[code % 16];
    } else {
      out += rest.substr(0, size);
    }
    rest.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out + '"';
}

std::int64_t wall_ns(const Recording& recording, Instant when) {
  return when.time_since_epoch().count() + recording.wall_offset_ns;
}

/// A UDP socket does not show the IPv4 Identification and flags of what it receives; the ICRC of a whole packet tells
/// them.
proto::FrameFields fields_of(const Recording::Packet& packet) {
  const bool is_whole = packet.head.size() >= packet.size;
  return proto::frame_fields_for(packet.path,
                                 is_whole ? proto::check_icrc(packet.path, packet.head) : proto::IcrcCheck{});
}

std::string member(const char* name, std::uint64_t value) {
  return std::string(", \"") + name + "\": " + std::to_string(value);
}

}  // namespace

std::vector<std::uint8_t> pcapng_of(const Recording& recording) {
  constexpr auto kFormat = format::Format::kPcapng;
  std::vector<std::uint8_t> out;
  format::put_header(kFormat, out);
  format::put_interface(
      "uroce" + std::to_string(recording.nic) + ' ' + recording.program + '[' + std::to_string(recording.pid) + ']',
      out);
  const std::vector<std::string> said = comments(recording);
  std::vector<std::uint8_t> packet, frame;
  for (std::size_t i = 0; i < recording.packets.size(); ++i) {
    const Recording::Packet& one = recording.packets[i];
    packet.assign(std::max<std::size_t>(one.size, one.head.size()), 0);
    std::copy(one.head.begin(), one.head.end(), packet.begin());
    const proto::FrameFields fields = fields_of(one);
    frame.resize(proto::frame_size(fields, packet.size()));
    const std::size_t size = proto::build_frame(fields, packet, frame);
    const std::size_t kept = size - (packet.size() - one.head.size());
    format::put_packet(kFormat,
                       {.time_ns = wall_ns(recording, one.when),
                        .frame = Bytes(frame).first(kept),
                        .comment = said[i],
                        .direction = one.sent ? format::Direction::kSent : format::Direction::kReceived,
                        .wire_size = static_cast<std::uint32_t>(size)},
                       out);
  }
  return out;
}

std::string json_of(const Recording& recording, const std::string& why) {
  std::string out = std::string(kDocumentBegin) + ", \"program\": " + quoted(recording.program);
  out += member("pid", recording.pid) + member("nic", recording.nic) + ", \"address\": " + quoted(recording.address);
  out += ", \"why\": " + quoted(why) + ",\n\"causes\": [";
  bool first = true;
  for (const Cause& cause : causes(recording)) {
    out += (first ? "\n{\"time_ns\": " : ",\n{\"time_ns\": ") + std::to_string(wall_ns(recording, cause.when)) +
           member("qpn", cause.qpn) + ", \"status\": " + quoted(cause.status) +
           ", \"cause\": " + quoted(cause.sentence) + '}';
    first = false;
  }
  out += "],\n\"packets\": " + std::to_string(recording.packets.size()) +
         member("older_packets", recording.lost_packets) + member("older_events", recording.lost_events) +
         ",\n\"events\": [";
  first = true;
  for (const Recording::Event& each : recording.events) {
    const nic::TraceEvent& event = each.event;
    out += (first ? "\n{\"time_ns\": " : ",\n{\"time_ns\": ") + std::to_string(wall_ns(recording, event.when)) +
           ", \"event\": " + quoted(nic::name_of(event.kind)) + member("qpn", event.qpn) + member("a", event.a) +
           member("b", event.b) + ", \"words\": " + quoted(words(event)) + '}';
    first = false;
  }
  return out + "]}\n";
}

}  // namespace uroce::record
