// SPDX-License-Identifier: Apache-2.0
// The opcode catalogue: ONE row per BTH opcode. Parsing, building, length rules, the responder's sequence check,
// describe, the documentation and the test vectors all come from it; adding an opcode is adding a row.
#pragma once

#include <initializer_list>

#include "proto/headers.h"

namespace uroce::proto {

/// Upper three bits of the opcode (IBTA Vol 1, 9.2.1), and the RoCEv2 CNP.
enum class Service : std::uint8_t { kRc, kUc, kUd, kCongestion };

enum class Kind : std::uint8_t {
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd,
  kFlush,
  kAtomicWrite,
  kCnp,
};

enum class Position : std::uint8_t { kFirst, kMiddle, kLast, kOnly };

enum class Opcode : std::uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0A,
  kRcWriteOnlyImm = 0x0B,
  kRcReadRequest = 0x0C,
  kRcReadResponseFirst = 0x0D,
  kRcReadResponseMiddle = 0x0E,
  kRcReadResponseLast = 0x0F,
  kRcReadResponseOnly = 0x10,
  kRcAcknowledge = 0x11,
  kRcAtomicAcknowledge = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInvalidate = 0x16,
  kRcSendOnlyInvalidate = 0x17,
  kRcFlush = 0x1C,
  kRcAtomicWrite = 0x1D,
  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastImm = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyImm = 0x25,
  kUcWriteFirst = 0x26,
  kUcWriteMiddle = 0x27,
  kUcWriteLast = 0x28,
  kUcWriteLastImm = 0x29,
  kUcWriteOnly = 0x2A,
  kUcWriteOnlyImm = 0x2B,
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
};

/// The headers of a packet, BTH first.
struct Stack {
  std::array<HeaderId, 4> ids{};
  std::uint8_t count = 0;
  std::uint8_t bytes = 0;

  constexpr Stack(std::initializer_list<HeaderId> list) {
    offsets_.fill(kNone);
    for (HeaderId id : list) {
      ids[count++] = id;
      offsets_[static_cast<std::size_t>(id)] = bytes;
      bytes = static_cast<std::uint8_t>(bytes + header_info(id).size);
    }
  }
  constexpr bool has(HeaderId id) const { return offsets_[static_cast<std::size_t>(id)] != kNone; }
  /// Byte offset of a header, or -1 when the stack does not have it.
  constexpr int offset_of(HeaderId id) const { return has(id) ? offsets_[static_cast<std::size_t>(id)] : -1; }

 private:
  static constexpr std::uint8_t kNone = 0xFF;
  std::array<std::uint8_t, static_cast<std::size_t>(HeaderId::kCount)> offsets_{};
};

struct OpcodeInfo {
  Opcode code;
  std::string_view name;  ///< As the field writes it: "RC SEND FIRST".
  Service service;
  Kind kind;
  Position position;
  Stack stack;
  bool has_payload;       ///< May carry payload (and so a pad count).
  bool consumes_receive;  ///< Takes a receive WQE: SEND (at its first packet), WRITE with immediate (at its last).

  constexpr bool starts() const { return position == Position::kFirst || position == Position::kOnly; }
  constexpr bool ends() const { return position == Position::kLast || position == Position::kOnly; }
  constexpr bool has(HeaderId id) const { return stack.has(id); }
  /// Answers a request, and carries a PSN of the other direction.
  constexpr bool is_response() const {
    return kind == Kind::kReadResponse || kind == Kind::kAcknowledge || kind == Kind::kAtomicAcknowledge;
  }
};

// clang-format off
inline constexpr std::array kOpcodes = [] {
  using enum Service; using enum Kind; using enum Position; using enum HeaderId;
  using O = Opcode;
  constexpr bool kPayload = true, kNone = false, kRecv = true, kNo = false;
  return std::array{
      OpcodeInfo{O::kRcSendFirst,           "RC SEND FIRST",           kRc, kSend,  kFirst,  {kBth},                       kPayload, kRecv},
      OpcodeInfo{O::kRcSendMiddle,          "RC SEND MIDDLE",          kRc, kSend,  kMiddle, {kBth},                       kPayload, kNo},
      OpcodeInfo{O::kRcSendLast,            "RC SEND LAST",            kRc, kSend,  kLast,   {kBth},                       kPayload, kNo},
      OpcodeInfo{O::kRcSendLastImm,         "RC SEND LAST IMM",        kRc, kSend,  kLast,   {kBth, kImmDt},               kPayload, kNo},
      OpcodeInfo{O::kRcSendOnly,            "RC SEND ONLY",            kRc, kSend,  kOnly,   {kBth},                       kPayload, kRecv},
      OpcodeInfo{O::kRcSendOnlyImm,         "RC SEND ONLY IMM",        kRc, kSend,  kOnly,   {kBth, kImmDt},               kPayload, kRecv},
      OpcodeInfo{O::kRcWriteFirst,          "RC WRITE FIRST",          kRc, kWrite, kFirst,  {kBth, kReth},                kPayload, kNo},
      OpcodeInfo{O::kRcWriteMiddle,         "RC WRITE MIDDLE",         kRc, kWrite, kMiddle, {kBth},                       kPayload, kNo},
      OpcodeInfo{O::kRcWriteLast,           "RC WRITE LAST",           kRc, kWrite, kLast,   {kBth},                       kPayload, kNo},
      OpcodeInfo{O::kRcWriteLastImm,        "RC WRITE LAST IMM",       kRc, kWrite, kLast,   {kBth, kImmDt},               kPayload, kRecv},
      OpcodeInfo{O::kRcWriteOnly,           "RC WRITE ONLY",           kRc, kWrite, kOnly,   {kBth, kReth},                kPayload, kNo},
      OpcodeInfo{O::kRcWriteOnlyImm,        "RC WRITE ONLY IMM",       kRc, kWrite, kOnly,   {kBth, kReth, kImmDt},        kPayload, kRecv},
      OpcodeInfo{O::kRcReadRequest,         "RC READ REQUEST",         kRc, kReadRequest,       kOnly,   {kBth, kReth},     kNone,    kNo},
      OpcodeInfo{O::kRcReadResponseFirst,   "RC READ RESPONSE FIRST",  kRc, kReadResponse,      kFirst,  {kBth, kAeth},     kPayload, kNo},
      OpcodeInfo{O::kRcReadResponseMiddle,  "RC READ RESPONSE MIDDLE", kRc, kReadResponse,      kMiddle, {kBth},            kPayload, kNo},
      OpcodeInfo{O::kRcReadResponseLast,    "RC READ RESPONSE LAST",   kRc, kReadResponse,      kLast,   {kBth, kAeth},     kPayload, kNo},
      OpcodeInfo{O::kRcReadResponseOnly,    "RC READ RESPONSE ONLY",   kRc, kReadResponse,      kOnly,   {kBth, kAeth},     kPayload, kNo},
      OpcodeInfo{O::kRcAcknowledge,         "RC ACK",                  kRc, kAcknowledge,       kOnly,   {kBth, kAeth},     kNone,    kNo},
      OpcodeInfo{O::kRcAtomicAcknowledge,   "RC ATOMIC ACK",           kRc, kAtomicAcknowledge, kOnly,   {kBth, kAeth, kAtomicAckEth}, kNone, kNo},
      OpcodeInfo{O::kRcCompareSwap,         "RC COMPARE SWAP",         kRc, kCompareSwap,       kOnly,   {kBth, kAtomicEth}, kNone,   kNo},
      OpcodeInfo{O::kRcFetchAdd,            "RC FETCH ADD",            kRc, kFetchAdd,          kOnly,   {kBth, kAtomicEth}, kNone,   kNo},
      OpcodeInfo{O::kRcSendLastInvalidate,  "RC SEND LAST INV",        kRc, kSend,  kLast,   {kBth, kIeth},                kPayload, kNo},
      OpcodeInfo{O::kRcSendOnlyInvalidate,  "RC SEND ONLY INV",        kRc, kSend,  kOnly,   {kBth, kIeth},                kPayload, kRecv},
      OpcodeInfo{O::kRcFlush,               "RC FLUSH",                kRc, Kind::kFlush,       kOnly,   {kBth, kFeth, kReth}, kNone, kNo},
      OpcodeInfo{O::kRcAtomicWrite,         "RC ATOMIC WRITE",         kRc, kAtomicWrite,       kOnly,   {kBth, kReth},     kPayload, kNo},
      OpcodeInfo{O::kUcSendFirst,           "UC SEND FIRST",           kUc, kSend,  kFirst,  {kBth},                       kPayload, kRecv},
      OpcodeInfo{O::kUcSendMiddle,          "UC SEND MIDDLE",          kUc, kSend,  kMiddle, {kBth},                       kPayload, kNo},
      OpcodeInfo{O::kUcSendLast,            "UC SEND LAST",            kUc, kSend,  kLast,   {kBth},                       kPayload, kNo},
      OpcodeInfo{O::kUcSendLastImm,         "UC SEND LAST IMM",        kUc, kSend,  kLast,   {kBth, kImmDt},               kPayload, kNo},
      OpcodeInfo{O::kUcSendOnly,            "UC SEND ONLY",            kUc, kSend,  kOnly,   {kBth},                       kPayload, kRecv},
      OpcodeInfo{O::kUcSendOnlyImm,         "UC SEND ONLY IMM",        kUc, kSend,  kOnly,   {kBth, kImmDt},               kPayload, kRecv},
      OpcodeInfo{O::kUcWriteFirst,          "UC WRITE FIRST",          kUc, kWrite, kFirst,  {kBth, kReth},                kPayload, kNo},
      OpcodeInfo{O::kUcWriteMiddle,         "UC WRITE MIDDLE",         kUc, kWrite, kMiddle, {kBth},                       kPayload, kNo},
      OpcodeInfo{O::kUcWriteLast,           "UC WRITE LAST",           kUc, kWrite, kLast,   {kBth},                       kPayload, kNo},
      OpcodeInfo{O::kUcWriteLastImm,        "UC WRITE LAST IMM",       kUc, kWrite, kLast,   {kBth, kImmDt},               kPayload, kRecv},
      OpcodeInfo{O::kUcWriteOnly,           "UC WRITE ONLY",           kUc, kWrite, kOnly,   {kBth, kReth},                kPayload, kNo},
      OpcodeInfo{O::kUcWriteOnlyImm,        "UC WRITE ONLY IMM",       kUc, kWrite, kOnly,   {kBth, kReth, kImmDt},        kPayload, kRecv},
      OpcodeInfo{O::kUdSendOnly,            "UD SEND ONLY",            kUd, kSend,  kOnly,   {kBth, kDeth},                kPayload, kRecv},
      OpcodeInfo{O::kUdSendOnlyImm,         "UD SEND ONLY IMM",        kUd, kSend,  kOnly,   {kBth, kDeth, kImmDt},        kPayload, kRecv},
      OpcodeInfo{O::kCnp,                   "CNP",                     kCongestion, Kind::kCnp, kOnly, {kBth, kCnpPad},      kNone,    kNo},
  };
}();
// clang-format on

namespace detail {
inline constexpr auto kOpcodeIndex = [] {
  std::array<std::int8_t, 256> index{};
  index.fill(-1);
  for (std::size_t i = 0; i < kOpcodes.size(); ++i) {
    index[static_cast<std::size_t>(kOpcodes[i].code)] = static_cast<std::int8_t>(i);
  }
  return index;
}();
}  // namespace detail

/// Catalogue row of an opcode byte, or nullptr when it is reserved or not RoCEv2's.
constexpr const OpcodeInfo* find_opcode(std::uint8_t code) {
  const int i = detail::kOpcodeIndex[code];
  return i < 0 ? nullptr : &kOpcodes[static_cast<std::size_t>(i)];
}
/// Catalogue row of an opcode that has one by construction.
constexpr const OpcodeInfo& info(Opcode code) { return *find_opcode(static_cast<std::uint8_t>(code)); }

static_assert(info(Opcode::kRcAcknowledge).stack.offset_of(HeaderId::kAeth) == 12);
static_assert(info(Opcode::kRcWriteOnlyImm).stack.bytes == 32);
static_assert(find_opcode(0x15) == nullptr && find_opcode(0xFF) == nullptr);

}  // namespace uroce::proto
