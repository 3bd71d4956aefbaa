// SPDX-License-Identifier: Apache-2.0
// One RoCE transport packet: BTH .. ICRC, that is, the UDP payload of RoCEv2. Parsing is total: any bytes give a
// PacketView or a named error. Nothing here allocates.
#pragma once

#include <optional>

#include "proto/base/check.h"
#include "proto/base/result.h"
#include "proto/opcodes.h"
#include "proto/path.h"
#include "proto/psn.h"

namespace uroce::proto {

/// Why bytes are not a RoCE packet. ICRC is a separate question, see icrc.h.
enum class ParseError : std::uint8_t {
  kTooShort,             ///< Shorter than BTH + ICRC.
  kBadTransportVersion,  ///< TVer is not 0.
  kUnknownOpcode,        ///< No row in the catalogue.
  kHeaderTruncated,      ///< The opcode's headers and the ICRC do not fit.
  kPadTooLong,           ///< The pad count exceeds what follows the headers.
  kUnexpectedPayload,    ///< Bytes (or a pad count) after the headers of an opcode that has no payload.
  kNotAligned,           ///< Payload plus pad is not a multiple of four bytes.
};
/// "too short", ...: lower-case words for counters and logs.
std::string_view to_string(ParseError error);

/// A parsed packet: a view over bytes it does not own.
class PacketView {
 public:
  const OpcodeInfo& op() const { return *op_; }
  ConstView<Bth> bth() const { return ConstView<Bth>{bytes_.data()}; }
  Psn psn() const { return Psn{bth().get<Bth::PsnField>()}; }
  std::uint32_t dest_qp() const { return bth().get<Bth::DestQp>(); }

  template <class H>
  bool has() const {
    return op_->has(kHeaderId<H>);
  }
  /// A header of the packet; the opcode must have it.
  template <class H>
  ConstView<H> header() const {
    const int offset = op_->stack.offset_of(kHeaderId<H>);
    UROCE_ASSERT(offset >= 0);
    return ConstView<H>{bytes_.data() + offset};
  }
  /// Payload without its pad bytes.
  Bytes payload() const { return bytes_.subspan(op_->stack.bytes, payload_size_); }
  /// 0..3 bytes between payload and ICRC.
  Bytes pad() const { return bytes_.subspan(op_->stack.bytes + payload_size_, pad_size_); }
  /// The ICRC as it stands in the packet (little-endian on the wire).
  std::uint32_t icrc() const;
  /// All bytes, BTH .. ICRC.
  Bytes bytes() const { return bytes_; }

 private:
  friend Result<PacketView, ParseError> parse_packet(Bytes udp_payload);
  PacketView(const OpcodeInfo& op, Bytes bytes, std::size_t payload_size, std::size_t pad_size)
      : op_(&op), bytes_(bytes), payload_size_(payload_size), pad_size_(pad_size) {}

  const OpcodeInfo* op_;
  Bytes bytes_;
  std::size_t payload_size_;
  std::size_t pad_size_;
};

/// Parses BTH .. ICRC. Does not verify the ICRC.
Result<PacketView, ParseError> parse_packet(Bytes udp_payload);

/// Writes one packet into a lent buffer: headers first, then payload, then finish().
///
///     PacketBuilder b(frame, Opcode::kRcWriteOnly);
///     b.bth().set<Bth::DestQp>(qpn).set<Bth::PsnField>(psn.value());
///     b.header<Reth>().set<Reth::Va>(va) ...
///     copy(data, b.payload(data.size()));
///     Transmit t{path, b.finish(path)};
///
/// Who copies a payload with copy_with_crc32() continues start_icrc() with it, which saves a pass over it.
class PacketBuilder {
 public:
  /// Zeroes the headers of `opcode` and sets BTH's opcode and the default P_Key 0xFFFF.
  PacketBuilder(MutBytes out, Opcode opcode);

  MutView<Bth> bth() { return MutView<Bth>{out_.data()}; }
  template <class H>
  MutView<H> header() {
    const int offset = op_->stack.offset_of(kHeaderId<H>);
    UROCE_ASSERT(offset >= 0);
    return MutView<H>{out_.data() + offset};
  }
  /// Room for `size` payload bytes; sets the pad count and zeroes the pad. At most once.
  MutBytes payload(std::size_t size);
  /// Behind payload(), when the headers are final: the ICRC for a packet that travels along `path` so far. The caller
  /// continues it over the payload; finish() takes it from there.
  std::uint32_t& start_icrc(const Path& path);
  /// Computes and appends the ICRC for a packet that travels along `path` (IPv4 ID 0). Returns the size of BTH .. ICRC.
  std::uint32_t finish(const Path& path);

 private:
  const OpcodeInfo* op_;
  MutBytes out_;
  std::size_t size_;     ///< Without ICRC.
  std::size_t pad_ = 0;  ///< Of that.
  std::optional<std::uint32_t> icrc_;
};

/// No packet is larger. BTH, at most 28 bytes of extended headers (AtomicETH), immediate data, MTU 4096, ICRC; no
/// opcode has all of them.
inline constexpr std::size_t kMaxPacketSize = 12 + 28 + 4 + 4096 + kIcrcSize;

}  // namespace uroce::proto
