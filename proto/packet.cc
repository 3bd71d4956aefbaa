// SPDX-License-Identifier: Apache-2.0
#include "proto/packet.h"

#include "proto/crc32.h"
#include "proto/icrc.h"
#include "proto/pkey.h"

namespace uroce::proto {

std::string_view to_string(ParseError error) {
  switch (error) {
    case ParseError::kTooShort:
      return "too short";
    case ParseError::kBadTransportVersion:
      return "bad transport version";
    case ParseError::kUnknownOpcode:
      return "unknown opcode";
    case ParseError::kHeaderTruncated:
      return "header truncated";
    case ParseError::kPadTooLong:
      return "pad too long";
    case ParseError::kUnexpectedPayload:
      return "unexpected payload";
    case ParseError::kNotAligned:
      return "not a multiple of four bytes";
  }
  return "?";
}

std::uint32_t PacketView::icrc() const { return load_icrc(bytes_.last(kIcrcSize)); }

Result<PacketView, ParseError> parse_packet(Bytes udp_payload) {
  if (udp_payload.size() < Bth::kSize + kIcrcSize) return Err{ParseError::kTooShort};
  const ConstView<Bth> bth{udp_payload.data()};
  if (bth.get<Bth::TVer>() != 0) return Err{ParseError::kBadTransportVersion};
  const OpcodeInfo* op = find_opcode(bth.get<Bth::Opcode>());
  if (op == nullptr) return Err{ParseError::kUnknownOpcode};
  if (udp_payload.size() < op->stack.bytes + kIcrcSize) return Err{ParseError::kHeaderTruncated};

  const std::size_t pad = bth.get<Bth::PadCount>();
  const std::size_t body = udp_payload.size() - op->stack.bytes - kIcrcSize;  // payload and pad
  if (!op->has_payload && (body != 0 || pad != 0)) return Err{ParseError::kUnexpectedPayload};
  if (pad > body) return Err{ParseError::kPadTooLong};
  if (body % 4 != 0) return Err{ParseError::kNotAligned};
  return PacketView{*op, udp_payload, body - pad, pad};
}

PacketBuilder::PacketBuilder(MutBytes out, Opcode opcode)
    : op_(find_opcode(static_cast<std::uint8_t>(opcode))), out_(out), size_(0) {
  UROCE_ASSERT(op_ != nullptr);
  UROCE_ASSERT(out.size() >= op_->stack.bytes + kIcrcSize);
  size_ = op_->stack.bytes;
  std::memset(out_.data(), 0, size_);
  bth().set<Bth::Opcode>(static_cast<std::uint8_t>(opcode)).set<Bth::PKey>(kDefaultPkey);
}

MutBytes PacketBuilder::payload(std::size_t size) {
  UROCE_ASSERT(size_ == op_->stack.bytes);
  UROCE_ASSERT(op_->has_payload || size == 0);
  const std::size_t pad = (4 - size % 4) % 4;
  UROCE_ASSERT(size <= out_.size() && size_ + size + pad + kIcrcSize <= out_.size());
  bth().set<Bth::PadCount>(static_cast<std::uint8_t>(pad));
  const MutBytes room = out_.subspan(size_, size);
  std::fill_n(out_.data() + size_ + size, pad, std::uint8_t{0});
  size_ += size + pad;
  pad_ = pad;
  return room;
}

std::uint32_t& PacketBuilder::start_icrc(const Path& path) {
  return icrc_.emplace(icrc_so_far(path, out_.first(op_->stack.bytes), size_));
}

std::uint32_t PacketBuilder::finish(const Path& path) {
  const Bytes packet = out_.first(size_);
  store_icrc(out_.subspan(size_, kIcrcSize), icrc_ ? crc32(*icrc_, packet.last(pad_)) : icrc(path, packet));
  return static_cast<std::uint32_t>(size_ + kIcrcSize);
}

}  // namespace uroce::proto
