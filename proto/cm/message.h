// SPDX-License-Identifier: Apache-2.0
// One MAD of communication management: parsed, and built. Parsing is total: any bytes give a MessageView or a named
// error. Nothing here allocates.
#pragma once

#include "proto/base/check.h"
#include "proto/base/result.h"
#include "proto/cm/messages.h"
#include "proto/packet.h"

namespace uroce::proto::cm {

/// Why bytes are not a message of communication management. Checked in this order.
enum class MessageError : std::uint8_t {
  kWrongSize,  ///< Not exactly 256 bytes.
  kUnknownBaseVersion,
  kOtherClass,
  kUnknownClassVersion,
  kNotSend,  ///< Everything in this class is a Send.
  kUnknownAttribute,
};
/// "not 256 bytes", ...: lower-case words for counters and logs.
std::string_view to_string(MessageError error);

/// A parsed message: a view over 256 bytes that it does not own.
class MessageView {
 public:
  const MessageInfo& info() const { return *info_; }
  Attribute attribute() const { return info_->attribute; }
  ConstView<Mad> mad() const { return ConstView<Mad>{bytes_.data()}; }
  /// The fields; it must be this message.
  template <class M>
  ConstView<M> as() const {
    UROCE_ASSERT(M::kAttribute == attribute());
    return ConstView<M>{bytes_.data() + Mad::kSize};
  }
  /// The whole field; empty where the message has none.
  Bytes additional_info() const { return bytes_.subspan(Mad::kSize + info_->size, info_->info_size); }
  Bytes private_data() const { return bytes_.subspan(info_->private_data_offset()); }
  Bytes bytes() const { return bytes_; }

 private:
  friend Result<MessageView, MessageError> parse_message(Bytes mad);
  MessageView(const MessageInfo& info, Bytes bytes) : info_(&info), bytes_(bytes) {}
  const MessageInfo* info_;
  Bytes bytes_;
};

/// Status, transaction ID and reserved fields may be anything.
Result<MessageView, MessageError> parse_message(Bytes mad);

/// The message in a packet for QP 1, if it is one: UD SEND ONLY. Neither keys nor ICRC are looked at.
Result<MessageView, MessageError> parse_message(const PacketView& packet);

/// Writes one message into a lent buffer of kMadSize bytes.
class MessageBuilder {
 public:
  /// Zeroes everything, then writes the MAD header.
  MessageBuilder(MutBytes out, Attribute attribute, std::uint64_t transaction_id);

  MutView<Mad> mad() { return MutView<Mad>{out_.data()}; }
  template <class M>
  MutView<M> as() {
    UROCE_ASSERT(M::kAttribute == info_->attribute);
    return MutView<M>{out_.data() + Mad::kSize};
  }
  MutBytes additional_info() { return out_.subspan(Mad::kSize + info_->size, info_->info_size); }
  MutBytes private_data() { return out_.subspan(info_->private_data_offset()); }

 private:
  const MessageInfo* info_;
  MutBytes out_;
};

/// Size of the packet, BTH .. ICRC, around one MAD.
inline constexpr std::size_t kManagementPacketSize = Bth::kSize + Deth::kSize + kMadSize + kIcrcSize;

/// Wraps a MAD into a packet from QP 1 to QP 1. `frame` has room for kManagementPacketSize bytes. Returns the size.
std::uint32_t build_packet(Bytes mad, Psn psn, const Path& path, MutBytes frame);

/// The addresses in front of a program's private data.
struct Addresses {
  Gid source, destination;  ///< Both IPv4, or both not.
  std::uint16_t source_port = 0;
};
enum class AddressError : std::uint8_t { kVersion, kIpVersion };
/// `private_data`: of a REQ or SIDR_REQ.
Result<Addresses, AddressError> parse_addresses(Bytes private_data);
void build_addresses(const Addresses& addresses, MutBytes private_data);

}  // namespace uroce::proto::cm
