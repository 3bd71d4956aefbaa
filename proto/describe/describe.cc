// SPDX-License-Identifier: Apache-2.0
#include "proto/describe/describe.h"

#include <charconv>

#include "proto/address.h"
#include "proto/cm/message.h"
#include "proto/timing.h"

namespace uroce::proto {
namespace {

/// kGid: the first half of one, whose second half follows.
enum class Format : std::uint8_t { kHex, kDecimal, kSyndrome, kOpcode, kGid, kGidSecondHalf };

/// How a field looks; fields without a row are hexadecimal and always shown.
struct Style {
  std::string_view field;
  Format format = Format::kHex;
  bool in_line = true;                      ///< Shown by one_line() ...
  std::optional<std::uint64_t> usual = {};  ///< ... unless it has this value.
};
constexpr std::array kStyles{
    Style{"opcode", Format::kOpcode, false},
    Style{"se", Format::kDecimal, true, 0},
    Style{"m", Format::kDecimal, true, 0},
    Style{"pad", Format::kDecimal, false},
    Style{"tver", Format::kDecimal, false},
    Style{"pkey", Format::kHex, true, 0xFFFF},
    Style{"fecn", Format::kDecimal, true, 0},
    Style{"becn", Format::kDecimal, true, 0},
    Style{"resv6", Format::kHex, true, 0},
    Style{"resv7", Format::kHex, true, 0},
    Style{"resv8", Format::kHex, true, 0},
    Style{"resv26", Format::kHex, true, 0},
    Style{"selectivity", Format::kDecimal},
    Style{"placement", Format::kDecimal},
    Style{"resv_hi", Format::kHex, true, 0},
    Style{"resv_lo", Format::kHex, true, 0},
    Style{"a", Format::kDecimal},
    Style{"len", Format::kDecimal},
    Style{"msn", Format::kDecimal},
    Style{"syndrome", Format::kSyndrome},
    // Communication management: what tells messages apart is in the line, the rest only in the tree.
    Style{"message", Format::kDecimal},
    Style{"reason", Format::kDecimal},
    Style{"status", Format::kDecimal},
    Style{"mtu", Format::kDecimal},
    Style{"service_timeout", Format::kDecimal},
    Style{"local_gid_hi", Format::kGid},
    Style{"local_gid_lo", Format::kGidSecondHalf},
    Style{"remote_gid_hi", Format::kGid},
    Style{"remote_gid_lo", Format::kGidSecondHalf},
    Style{"alt_local_gid_hi", Format::kGid},
    Style{"alt_local_gid_lo", Format::kGidSecondHalf},
    Style{"alt_remote_gid_hi", Format::kGid},
    Style{"alt_remote_gid_lo", Format::kGidSecondHalf},
    Style{"source_hi", Format::kGid},
    Style{"source_lo", Format::kGidSecondHalf},
    Style{"destination_hi", Format::kGid},
    Style{"destination_lo", Format::kGidSecondHalf},
    Style{"source_port", Format::kDecimal},
};
/// The fields that the line of a management message shows.
constexpr std::array<std::string_view, 11> kMessageLine{
    "local_id", "remote_id", "request_id", "service_id",     "qpn", "remote_qpn", "psn",
    "message",  "reason",    "status",     "service_timeout"};

constexpr Style style_of(std::string_view field) {
  for (const Style& style : kStyles) {
    if (style.field == field) return style;
  }
  return Style{field};
}

std::string number(std::uint64_t value, int base) {
  char text[20];
  const auto end = std::to_chars(text, text + sizeof text, value, base).ptr;
  return std::string(base == 16 ? "0x" : "") + std::string(text, end);
}
std::string hex(std::uint64_t value) { return number(value, 16); }
std::string decimal(std::uint64_t value) { return number(value, 10); }

/// 81920 us as "81.92 ms".
std::string milliseconds(Duration delay) {
  const auto hundredths = static_cast<std::uint64_t>(delay / std::chrono::microseconds{10});
  std::string fraction = decimal(hundredths % 100);
  if (fraction.size() == 1) fraction.insert(0, "0");
  return decimal(hundredths / 100) + "." + fraction + " ms";
}

std::string value_text(const Style& style, std::uint64_t value) {
  switch (style.format) {
    case Format::kHex:
      return hex(value);
    case Format::kDecimal:
      return decimal(value);
    case Format::kSyndrome:
      return hex(value) + " (" + describe(decode_syndrome(static_cast<std::uint8_t>(value))) + ")";
    case Format::kOpcode: {
      const OpcodeInfo* op = find_opcode(static_cast<std::uint8_t>(value));
      return hex(value) + " (" + std::string(op != nullptr ? op->name : "unknown") + ")";
    }
    case Format::kGid:
    case Format::kGidSecondHalf:
      return hex(value);
  }
  return {};
}

std::string bytes_text(std::size_t count) { return decimal(count) + (count == 1 ? " byte" : " bytes"); }

/// The message in a packet to QP 1.
std::optional<cm::MessageView> management(const PacketView& packet) {
  if (packet.dest_qp() != cm::kManagementQpn) return std::nullopt;
  const auto message = cm::parse_message(packet);
  return message ? std::optional(*message) : std::nullopt;
}

/// "CM REP local_id=0x1 remote_id=0x2 qpn=0x11 psn=0x123"
std::string message_line(const cm::MessageView& message) {
  std::string line = "CM " + std::string(message.info().name);
  const std::uint8_t* const fields = message.bytes().data() + cm::Mad::kSize;
  for (const FieldInfo& field : message.info().fields) {
    if (std::find(kMessageLine.begin(), kMessageLine.end(), field.name) == kMessageLine.end()) continue;
    line += ' ' + std::string(field.name) + '=' + value_text(style_of(field.name), field.load(fields));
  }
  return line;
}

void append_header_line(std::string& line, const HeaderInfo& header, const std::uint8_t* bytes) {
  for (const FieldInfo& field : header.fields) {
    const Style style = style_of(field.name);
    const std::uint64_t value = field.load(bytes);
    if (!style.in_line || style.usual == value) continue;
    line += ' ';
    if (style.format == Format::kSyndrome) {
      line += describe(decode_syndrome(static_cast<std::uint8_t>(value)));
    } else {
      line += std::string(field.name) + '=' + value_text(style, value);
    }
  }
}

/// Lines of a tree, each indented.
class Tree {
 public:
  explicit Tree(std::size_t indent) : indent_(indent) {}

  void title(std::string_view text) { add(0, text); }
  void field(std::string_view name, std::string_view value) {
    constexpr std::size_t kColumn = 10;
    std::string text(name);
    text.resize(std::max(kColumn, name.size() + 1), ' ');
    add(2, text.append(value));
  }
  void header(const HeaderInfo& info, const std::uint8_t* bytes) { header(info.name, info.fields, bytes); }
  void header(std::string_view name, std::span<const FieldInfo> fields, const std::uint8_t* bytes) {
    title(name);
    for (const FieldInfo& f : fields) {
      const Style style = style_of(f.name);
      if (style.format == Format::kGidSecondHalf) continue;
      if (style.format == Format::kGid) {
        Gid gid;
        std::copy_n(bytes + f.bit / 8, gid.raw.size(), gid.raw.begin());
        field(f.name.substr(0, f.name.rfind('_')), to_string(gid));
      } else {
        field(f.name, value_text(style, f.load(bytes)));
      }
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void add(std::size_t more, std::string_view text) { text_.append(indent_ + more, ' ').append(text).append("\n"); }
  std::size_t indent_;
  std::string text_;
};

/// The first bytes, in hexadecimal.
std::string dump(Bytes bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr std::size_t kShown = 16;
  std::string text;
  for (const std::uint8_t byte : bytes.first(std::min(kShown, bytes.size()))) {
    text += ' ';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return bytes.size() > kShown ? text + " ..." : text;
}

void message_tree(Tree& out, const cm::MessageView& message) {
  out.header("MAD", cm::Mad::All::table, message.bytes().data());
  out.header("CM " + std::string(message.info().name), message.info().fields, message.bytes().data() + cm::Mad::kSize);
  if (const Bytes info = message.additional_info(); !info.empty()) out.title("additional information" + dump(info));
  Bytes data = message.private_data();
  const bool is_request = message.attribute() == cm::Attribute::kReq || message.attribute() == cm::Attribute::kSidrReq;
  if (is_request && cm::parse_addresses(data)) {
    out.header("RDMA CM", cm::CmaHeader::All::table, data.data());
    data = data.subspan(cm::CmaHeader::kSize);
  }
  out.title("private data " + bytes_text(data.size()) + dump(data));
}

std::string malformed(ParseError error, Bytes packet) {
  std::string text = "malformed packet: " + std::string(to_string(error));
  if (error == ParseError::kUnknownOpcode) text += ' ' + hex(packet[0]);
  return text + ", " + bytes_text(packet.size());
}

std::string not_roce(FrameError error, Bytes frame) {
  return "not a RoCE frame: " + std::string(to_string(error)) + ", " + bytes_text(frame.size());
}

void network_tree(Tree& out, const FrameFields& f) {
  out.title("Ethernet");
  out.field("dst", to_string(f.destination));
  out.field("src", to_string(f.source));
  if (f.vlan_tci) out.field("vlan", decimal(*f.vlan_tci & 0xFFF) + " (tci " + hex(*f.vlan_tci) + ")");
  const bool v1 = f.version == RoceVersion::kV1;
  const bool ipv4 = !v1 && f.path.destination.is_v4();
  out.title(v1 ? "GRH (RoCEv1)" : ipv4 ? "IPv4" : "IPv6");
  out.field("src", to_string(f.path.source));
  out.field("dst", to_string(f.path.destination));
  out.field("tclass", hex(f.path.tclass) + ((f.path.tclass & kEcnMask) == kEcnMask ? " (CE)" : ""));
  out.field(ipv4 ? "ttl" : "hop", decimal(f.path.hop_limit));
  if (ipv4) {
    out.field("id", decimal(f.ip_id));
    out.field("flags", hex(f.ip_flags) + (f.ip_flags == kDontFragment ? " (DF)" : ""));
    if (f.ip_checksum) out.field("checksum", hex(*f.ip_checksum) + " (wrong)");
  } else {
    out.field("flow", hex(f.path.flow_label));
  }
  if (v1) return;
  out.title("UDP");
  out.field("sport", decimal(f.path.source_port));
  out.field("dport", decimal(kRocePort));
  out.field("checksum", hex(f.udp_checksum));
}

}  // namespace

std::string describe(const Syndrome& value) {
  if (const auto* ack = std::get_if<syndrome::Ack>(&value)) {
    if (ack->credit_code == kCreditsUnlimited) return "ACK";
    return "ACK credits=" + decimal(kCredits[ack->credit_code]);
  }
  if (const auto* rnr = std::get_if<syndrome::Rnr>(&value)) return "RNR NAK " + milliseconds(rnr_delay(rnr->timer));
  if (const auto* nak = std::get_if<syndrome::Nak>(&value)) return "NAK " + std::string(to_string(nak->code));
  return "reserved syndrome " + hex(encode_syndrome(value));
}

std::string one_line(const PacketView& packet) {
  std::string line(packet.op().name);
  const Stack& stack = packet.op().stack;
  const std::uint8_t* at = packet.bytes().data();
  for (std::size_t i = 0; i < stack.count; ++i) {
    const HeaderInfo& header = header_info(stack.ids[i]);
    append_header_line(line, header, at);
    at += header.size;
  }
  if (const auto message = management(packet)) return line + " | " + message_line(*message);
  if (packet.op().has_payload) line += " | " + bytes_text(packet.payload().size());
  return line;
}

std::string one_line(Bytes packet) {
  const auto parsed = parse_packet(packet);
  return parsed ? one_line(*parsed) : malformed(parsed.error(), packet);
}

std::string one_line(const FrameView& frame) {
  const Path& path = frame.fields.path;
  std::string line = to_string(path.source) + " > " + to_string(path.destination) + ' ';
  if (frame.fields.version == RoceVersion::kV1) line += "RoCEv1 ";
  if ((path.tclass & kEcnMask) == kEcnMask) line += "CE ";
  line += one_line(frame.packet);
  return icrc_ok(frame) ? line : line + " ICRC wrong";
}

std::string frame_line(Bytes frame) {
  const auto parsed = parse_frame(frame);
  return parsed ? one_line(*parsed) : not_roce(parsed.error(), frame);
}

std::string tree(Bytes packet, std::size_t indent) {
  Tree out(indent);
  const auto parsed = parse_packet(packet);
  if (!parsed) {
    out.title(malformed(parsed.error(), packet));
    if (packet.size() >= Bth::kSize) out.header(header_info(HeaderId::kBth), packet.data());
    return out.take();
  }
  const Stack& stack = parsed->op().stack;
  const std::uint8_t* at = packet.data();
  for (std::size_t i = 0; i < stack.count; ++i) {
    const HeaderInfo& header = header_info(stack.ids[i]);
    out.header(header, at);
    at += header.size;
  }
  if (const auto message = management(*parsed)) {
    message_tree(out, *message);
  } else if (parsed->op().has_payload) {
    out.title("payload " + bytes_text(parsed->payload().size()) + dump(parsed->payload()));
    if (!parsed->pad().empty()) out.title("pad " + bytes_text(parsed->pad().size()) + dump(parsed->pad()));
  }
  out.title("ICRC " + hex(parsed->icrc()));
  return out.take();
}

std::string frame_tree(Bytes frame) {
  Tree out(0);
  const auto parsed = parse_frame(frame);
  if (!parsed) {
    out.title(not_roce(parsed.error(), frame));
    return out.take();
  }
  network_tree(out, parsed->fields);
  std::string text = out.take() + tree(parsed->packet);
  text += icrc_ok(*parsed) ? "ICRC right\n" : "ICRC wrong\n";
  if (!parsed->fields.trailer.empty()) text += "trailer " + bytes_text(parsed->fields.trailer.size()) + '\n';
  return text;
}

}  // namespace uroce::proto
