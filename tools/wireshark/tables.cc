// SPDX-License-Identifier: Apache-2.0
// Prints the tables of the Wireshark plugin from those of proto/. With a file: whether it has them (status 1: not).
// With --write and a file: puts them into it, between the two marks.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "proto/headers.h"
#include "proto/opcodes.h"
#include "proto/syndrome.h"
#include "proto/timing.h"

namespace {

using namespace uroce::proto;

constexpr const char* kBegin = "-- Tables, printed by tools/wireshark/tables.cc from proto/: do not edit.\n";
constexpr const char* kEnd = "-- End of the tables.\n";

std::string hex(unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%02X", value);
  return text;
}

std::string in_quotes(std::string_view text) { return '"' + std::string(text) + '"'; }

/// What the plugin makes of it: it tells SENDs from WRITEs by the name.
constexpr std::string_view kind_of(Kind kind) {
  constexpr std::string_view kNames[] = {"message", "message", "read",  "response",     "ack", "response",
                                         "atomic",  "atomic",  "flush", "atomic_write", "cnp"};
  return kNames[static_cast<std::size_t>(kind)];
}
static_assert(kind_of(Kind::kCnp) == "cnp" && kind_of(Kind::kAcknowledge) == "ack" && kind_of(Kind::kFlush) == "flush");

constexpr std::string_view service_of(Service service) {
  constexpr std::string_view kNames[] = {"RC", "UC", "UD", "CNP"};
  return kNames[static_cast<std::size_t>(service)];
}

constexpr std::string_view position_of(Position position) {
  constexpr std::string_view kNames[] = {"first", "middle", "last", "only"};
  return kNames[static_cast<std::size_t>(position)];
}

/// For each opcode: name, service, kind, position, whether it may carry payload, bytes of its headers, and where each
/// header is (from BTH on).
std::string opcodes() {
  std::string text = "local OPCODES = {\n";
  for (const OpcodeInfo& op : kOpcodes) {
    text += "  [" + hex(static_cast<unsigned>(op.code)) + "] = {name = " + in_quotes(op.name) +
            ", service = " + in_quotes(service_of(op.service)) + ", kind = " + in_quotes(kind_of(op.kind)) +
            ", position = " + in_quotes(position_of(op.position)) +
            ", payload = " + (op.has_payload ? "true" : "false") + ", bytes = " + std::to_string(op.stack.bytes);
    for (const HeaderInfo& header : kHeaders) {
      if (op.has(header.id))
        text += ", " + std::string(header.name) + " = " + std::to_string(op.stack.offset_of(header.id));
    }
    text += "},\n";
  }
  return text + "}\n";
}

/// For each header, its fields: first bit and bits.
std::string headers() {
  std::string text = "local HEADERS = {\n";
  for (const HeaderInfo& header : kHeaders) {
    text += "  " + std::string(header.name) + " = {";
    const char* comma = "";
    for (const FieldInfo& field : header.fields) {
      text += comma + std::string(field.name) + " = {" + std::to_string(field.bit) + ", " +
              std::to_string(field.width) + "}";
      comma = ", ";
    }
    text += "},\n";
  }
  return text + "}\n";
}

/// For each byte that a syndrome can be: words, and whether it refuses the request, or for good.
std::string syndromes() {
  std::string text = "local SYNDROMES = {\n";
  for (unsigned raw = 0; raw < 256; ++raw) {
    const Syndrome value = decode_syndrome(static_cast<std::uint8_t>(raw));
    std::string words;
    bool fatal = false;
    if (const auto* ack = std::get_if<syndrome::Ack>(&value)) {
      words = "ACK";
      if (ack->credit_code != kCreditsUnlimited) {
        words += ", " + std::to_string(kCredits[ack->credit_code]) + " receives posted (credit code " +
                 std::to_string(ack->credit_code) + ")";
      }
    } else if (const auto* rnr = std::get_if<syndrome::Rnr>(&value)) {
      char wait[32];
      const std::chrono::duration<double, std::milli> delay = rnr_delay(rnr->timer);
      std::snprintf(wait, sizeof wait, "%.2f", delay.count());
      words = "RNR NAK: wait " + std::string(wait) + " ms at least";
    } else if (const auto* nak = std::get_if<syndrome::Nak>(&value)) {
      words = "NAK: " + std::string(to_string(nak->code));
      fatal = nak->code != NakCode::kPsnSequenceError;
    } else {
      continue;
    }
    text += "  [" + hex(raw) + "] = {words = " + in_quotes(words) +
            ", refused = " + (std::holds_alternative<syndrome::Ack>(value) ? "false" : "true") +
            ", fatal = " + (fatal ? "true" : "false") + "},\n";
  }
  return text + "}\n";
}

/// What the values of FETH's two fields mean; all others are reserved.
std::string flush_values() {
  const auto value = [](unsigned raw, std::string_view words) {
    return "[" + std::to_string(raw) + "] = " + in_quotes(words);
  };
  return "local FLUSH = {\n  selectivity = {" + value(kFlushRange, "memory range") + ", " +
         value(kFlushRegion, "memory region") + "},\n  placement = {" + value(kGlobalVisibility, "global visibility") +
         ", " + value(kPersistence, "persistence") + ", " +
         value(kGlobalVisibility | kPersistence, "global visibility and persistence") + "},\n}\n";
}

std::string tables() { return kBegin + opcodes() + headers() + syndromes() + flush_values() + kEnd; }

int complain(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string wanted = tables();
  if (argc == 1) return std::fputs(wanted.c_str(), stdout) < 0;
  const bool write = std::string(argv[1]) == "--write";
  const std::string path = argv[argc - 1];
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::size_t begin = text.find(kBegin), end = text.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos) return complain(path + " has no marks of the tables");
  const std::size_t size = end + std::string(kEnd).size() - begin;
  if (text.compare(begin, size, wanted) == 0) return 0;
  if (!write) return complain(path + " differs from the tables of proto/: wireshark_tables --write " + path);
  std::ofstream(path, std::ios::binary) << text.replace(begin, size, wanted);
  return 0;
}
