// SPDX-License-Identifier: Apache-2.0
#include "proto/rules/rules.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "proto/icrc.h"
#include "proto/pkey.h"
#include "proto/timing.h"

namespace uroce::proto::rules {
namespace {

std::string decimal(std::uint64_t value) { return std::to_string(value); }

std::string hex(std::uint64_t value) {
  std::array<char, 16> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr;
  return "0x" + std::string(text.data(), end);
}

}  // namespace

namespace detail {

std::optional<Breach> pkey(const PacketView& view) {
  const std::uint16_t key = view.bth().get<Bth::PKey>();
  if (key == kDefaultPkey) return std::nullopt;
  return Breach{Rule::kOtherPkey, "P_Key " + hex(key)};
}

std::optional<Breach> header_bits(const PacketView& view, Rule rule) {
  const auto bth = view.bth();
  switch (rule) {
    case Rule::kMigReq:
      if (!bth.get<Bth::MigReq>()) return std::nullopt;
      return Breach{rule, "MigReq is set"};
    case Rule::kMarked:
      if (!bth.get<Bth::Fecn>() && !bth.get<Bth::Becn>()) return std::nullopt;
      return Breach{rule, bth.get<Bth::Fecn>() ? "FECN is set" : "BECN is set"};
    default:
      if (!bth.get<Bth::Resv6>() && !bth.get<Bth::Resv7>()) return std::nullopt;
      return Breach{rule, "reserved bits of BTH are set"};
  }
}

std::optional<Breach> pad(const PacketView& view) {
  const Bytes pad = view.pad();
  if (std::all_of(pad.begin(), pad.end(), [](std::uint8_t byte) { return byte == 0; })) return std::nullopt;
  return Breach{Rule::kPad, "pad is not 0 to 3 bytes of zero"};
}

std::optional<Breach> payload(const PacketView& view) {
  constexpr std::uint32_t kMost = mtu_bytes(kMtuCodeMax);
  if (view.payload().size() <= kMost) return std::nullopt;
  return Breach{Rule::kAboveMtu, "more payload than any path MTU: " + decimal(kMost) + " bytes at most"};
}

std::optional<Breach> ack_request(const Request& request) {
  if (!request.op->ends() || request.ack_request) return std::nullopt;
  return Breach{Rule::kNoAckRequest, "the last packet of a message asks for no ACK"};
}

std::optional<Breach> solicited(const Request& request) {
  if (!request.solicited) return std::nullopt;
  const OpcodeInfo& op = *request.op;
  if (op.ends() && (op.kind == Kind::kSend || op.consumes_receive)) return std::nullopt;
  return Breach{Rule::kSolicited, "SE on a packet that raises no completion at the responder"};
}

}  // namespace detail

Request request_of(const PacketView& view) {
  Request request;
  request.op = &view.op();
  request.payload = static_cast<std::uint32_t>(view.payload().size());
  if (view.has<Reth>()) request.length = view.header<Reth>().get<Reth::DmaLength>();
  request.ack_request = view.bth().get<Bth::AckReq>() != 0;
  request.solicited = view.bth().get<Bth::SolicitedEvent>() != 0;
  return request;
}

std::optional<Breach> MessageOrder::add(const Request& request, std::uint32_t mtu) {
  auto breach = check_order(*request.op);
  if (!breach && request.op->has_payload) breach = check_length(request, mtu);
  return breach;
}

std::optional<Breach> MessageOrder::check_order(const OpcodeInfo& op) {
  const bool inside = state_ == State::kInside;
  const bool fits = state_ == State::kUnknown || (inside ? !op.starts() && op.kind == kind_ : op.starts());
  if (!fits) {
    return Breach{Rule::kOpcodeSequence,
                  "opcode " + std::string(op.name) + (inside ? " inside another message" : " outside a message")};
  }
  if (op.starts() || state_ == State::kUnknown) left_.reset();
  state_ = op.ends() ? State::kOutside : State::kInside;
  kind_ = op.kind;
  return std::nullopt;
}

std::optional<Breach> MessageOrder::check_length(const Request& request, std::uint32_t mtu) {
  const OpcodeInfo& op = *request.op;
  const std::uint32_t size = request.payload;
  const std::string name(op.name);
  const auto beside = [&] { return name + " with " + decimal(size) + " bytes, path MTU " + decimal(mtu); };
  if (op.has(HeaderId::kReth)) left_ = request.length;
  const bool wrong_sum = left_ && (size > *left_ || (op.ends() && size != *left_));
  if (left_) *left_ -= std::min(*left_, size);
  if (mtu != 0 && size > mtu) return Breach{Rule::kAboveMtu, beside()};
  if (mtu != 0 && !op.ends() && size != mtu) return Breach{Rule::kBelowMtu, beside()};
  if (mtu == 0 && !op.ends() && !mtu_code(size)) {
    return Breach{Rule::kBelowMtu, name + " with " + decimal(size) + " bytes, which is no path MTU"};
  }
  if (op.position == Position::kLast && size == 0) return Breach{Rule::kEmptyLast, name + " without payload"};
  if (wrong_sum) return Breach{Rule::kLengthSum, "RETH's length is not the sum of the payloads"};
  return std::nullopt;
}

std::uint32_t content(const PacketView& view, const Path& path) {
  const Bytes bytes = view.bytes().first(view.bytes().size() - kIcrcSize);
  if (!view.bth().get<Bth::AckReq>()) return icrc(path, bytes);
  std::array<std::uint8_t, kMaxPacketSize> copy;
  const std::size_t size = std::min(bytes.size(), copy.size());
  std::copy_n(bytes.begin(), size, copy.begin());
  MutView<Bth>{copy.data()}.set<Bth::AckReq>(0);
  return icrc(path, Bytes(copy).first(size));
}

}  // namespace uroce::proto::rules
