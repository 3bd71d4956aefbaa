// SPDX-License-Identifier: Apache-2.0
// Packets as the rules speak of them. In recv() they are what the peer sends; in expect() they are what the NIC must
// have sent, and only what is said of them is compared. PSNs are relative to the first one of their direction,
// addresses to the beginning of the memory that they name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "proto/packet.h"
#include "proto/syndrome.h"

namespace uroce::test::rules {

using proto::NakCode;
using proto::Opcode;

struct Pkt {
  Opcode opcode;
  std::int64_t psn;
  std::optional<std::uint8_t> syndrome_;
  std::optional<std::uint32_t> msn_, imm_, invalidate_, rkey_, length_, qkey_;
  std::optional<std::uint64_t> at_, va_, compare_, swap_add_, original_;
  std::optional<std::uint8_t> placement_, selectivity_;
  std::optional<std::size_t> bytes_;
  std::optional<bool> ack_req_, solicited_;
  std::uint16_t ip_id_ = 0;
  std::uint8_t fill_ = 0xEE;
  std::function<void(proto::PacketBuilder&)> header_;
  std::function<void(MutBytes)> corrupt_;

  Pkt&& msn(std::uint32_t v) && { return msn_ = v, std::move(*this); }
  Pkt&& credits(std::uint8_t code) && { return syndrome_ = code, std::move(*this); }
  Pkt&& syndrome(std::uint8_t v) && { return syndrome_ = v, std::move(*this); }
  /// Payload of `n` bytes, each `fill` (which expect() does not compare).
  Pkt&& bytes(std::size_t n, std::uint8_t fill = 0xEE) && { return bytes_ = n, fill_ = fill, std::move(*this); }
  Pkt&& ack_req(bool v = true) && { return ack_req_ = v, std::move(*this); }
  Pkt&& solicited(bool v = true) && { return solicited_ = v, std::move(*this); }
  Pkt&& imm(std::uint32_t v) && { return imm_ = v, std::move(*this); }
  Pkt&& qkey(std::uint32_t v) && { return qkey_ = v, std::move(*this); }
  Pkt&& at(std::uint64_t offset) && { return at_ = offset, std::move(*this); }
  Pkt&& va(std::uint64_t absolute) && { return va_ = absolute, std::move(*this); }
  Pkt&& rkey(std::uint32_t v) && { return rkey_ = v, std::move(*this); }
  Pkt&& length(std::uint32_t v) && { return length_ = v, std::move(*this); }
  Pkt&& placement(std::uint8_t v) && { return placement_ = v, std::move(*this); }
  Pkt&& selectivity(std::uint8_t v) && { return selectivity_ = v, std::move(*this); }
  Pkt&& original(std::uint64_t v) && { return original_ = v, std::move(*this); }
  /// Sent under this IPv4 Identification.
  Pkt&& ip_id(std::uint16_t v) && { return ip_id_ = v, std::move(*this); }
  /// Last changes before the ICRC is computed, and after.
  Pkt&& header(std::function<void(proto::PacketBuilder&)> f) && { return header_ = std::move(f), std::move(*this); }
  Pkt&& corrupt(std::function<void(MutBytes)> f) && { return corrupt_ = std::move(f), std::move(*this); }

  bool is_response() const { return proto::info(opcode).is_response(); }
};

inline Pkt packet(Opcode opcode, std::int64_t psn) {
  Pkt p{};
  p.opcode = opcode;
  p.psn = psn;
  return p;
}

// Requests.
inline Pkt send_first(std::int64_t psn) { return packet(Opcode::kRcSendFirst, psn); }
inline Pkt send_middle(std::int64_t psn) { return packet(Opcode::kRcSendMiddle, psn); }
inline Pkt send_last(std::int64_t psn) { return packet(Opcode::kRcSendLast, psn); }
inline Pkt send_only(std::int64_t psn) { return packet(Opcode::kRcSendOnly, psn); }
inline Pkt write_first(std::int64_t psn, std::uint32_t length) {
  return packet(Opcode::kRcWriteFirst, psn).length(length);
}
inline Pkt write_middle(std::int64_t psn) { return packet(Opcode::kRcWriteMiddle, psn); }
inline Pkt write_last(std::int64_t psn) { return packet(Opcode::kRcWriteLast, psn); }
inline Pkt write_last_imm(std::int64_t psn) { return packet(Opcode::kRcWriteLastImm, psn); }
inline Pkt write_only(std::int64_t psn, std::uint32_t length) {
  return packet(Opcode::kRcWriteOnly, psn).length(length).bytes(length);
}
inline Pkt write_only_imm(std::int64_t psn, std::uint32_t length) {
  return packet(Opcode::kRcWriteOnlyImm, psn).length(length).bytes(length);
}
inline Pkt read_request(std::int64_t psn, std::uint32_t length) {
  return packet(Opcode::kRcReadRequest, psn).length(length);
}
inline Pkt fetch_add(std::int64_t psn, std::uint64_t add) {
  Pkt p = packet(Opcode::kRcFetchAdd, psn);
  p.swap_add_ = add;
  return p;
}
inline Pkt compare_swap(std::int64_t psn, std::uint64_t compare, std::uint64_t swap) {
  Pkt p = packet(Opcode::kRcCompareSwap, psn);
  p.compare_ = compare, p.swap_add_ = swap;
  return p;
}
/// Eight times `fill`.
inline Pkt atomic_write(std::int64_t psn, std::uint8_t fill) {
  return packet(Opcode::kRcAtomicWrite, psn).length(8).bytes(8, fill);
}
/// A range, for global visibility.
inline Pkt flush(std::int64_t psn, std::uint32_t length) {
  return packet(Opcode::kRcFlush, psn)
      .length(length)
      .placement(proto::kGlobalVisibility)
      .selectivity(proto::kFlushRange);
}

// Responses.
inline Pkt ack(std::int64_t psn) {
  Pkt p = packet(Opcode::kRcAcknowledge, psn);
  return p;
}
inline Pkt nak(std::int64_t psn, NakCode code) {
  return ack(psn).syndrome(static_cast<std::uint8_t>(0x60 | static_cast<std::uint8_t>(code)));
}
inline Pkt sequence_nak(std::int64_t psn) { return nak(psn, NakCode::kPsnSequenceError); }
inline Pkt rnr_nak(std::int64_t psn, std::uint8_t timer) { return ack(psn).syndrome(0x20 | timer); }
inline Pkt read_first(std::int64_t psn) { return packet(Opcode::kRcReadResponseFirst, psn); }
inline Pkt read_middle(std::int64_t psn) { return packet(Opcode::kRcReadResponseMiddle, psn); }
inline Pkt read_last(std::int64_t psn) { return packet(Opcode::kRcReadResponseLast, psn); }
inline Pkt read_only(std::int64_t psn) { return packet(Opcode::kRcReadResponseOnly, psn); }
inline Pkt atomic_ack(std::int64_t psn, std::uint64_t original) {
  return packet(Opcode::kRcAtomicAcknowledge, psn).original(original);
}

}  // namespace uroce::test::rules
