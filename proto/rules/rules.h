// SPDX-License-Identifier: Apache-2.0
// Rules that one packet, or a packet and the one before it, can break. Shared by the judges of what our NIC sends,
// which permit nothing of this, and by the programs that explain what any NIC has sent, which tell rules of the
// standard from habits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proto/packet.h"

namespace uroce::proto::rules {

enum class Rule : std::uint8_t {
  kOtherPkey,       ///< Not the default partition.
  kMigReq,          ///< Path migration; hardware sets it in every packet.
  kMarked,          ///< FECN or BECN.
  kReservedBits,    ///< Not zero in BTH (IBTA Vol 1, 9.2).
  kPad,             ///< Not zero.
  kNoAckRequest,    ///< The last packet of a message does not ask for an ACK.
  kSolicited,       ///< SE where no completion is raised (9.2.3 ?).
  kOpcodeSequence,  ///< FIRST, MIDDLE, LAST, ONLY in a wrong order (9.7.4.1.2 ?).
  kAboveMtu,        ///< More payload than the path MTU, or than any.
  kBelowMtu,        ///< FIRST or MIDDLE that is not full (9.7.4.1.6 ?).
  kEmptyLast,       ///< LAST without payload.
  kLengthSum,       ///< The payloads are not as long together as RETH says.
};

/// False for what is legal: unusual, or what hardware does.
constexpr bool breaks_standard(Rule rule) {
  switch (rule) {
    case Rule::kOtherPkey:
    case Rule::kMigReq:
    case Rule::kMarked:
    case Rule::kPad:
    case Rule::kNoAckRequest:
      return false;
    default:
      return true;
  }
}

/// A rule that is broken, and how, in words.
struct Breach {
  Rule rule;
  std::string text;
};

/// What holds for each packet of each service, apart from the ICRC. Calls `found(Breach)` for each breach.
template <class Found>
void check_packet(const PacketView& view, Found found);

/// What the rules about requests look at.
struct Request {
  const OpcodeInfo* op = nullptr;
  std::uint32_t payload = 0;  ///< Bytes.
  std::uint32_t length = 0;   ///< From the RETH, if the opcode has one.
  bool ack_request = false, solicited = false;
};
Request request_of(const PacketView& view);

/// AckReq and SE of a request of RC. Calls `found(Breach)`.
template <class Found>
void check_flags(const Request& request, Found found);

/// The order of a requester's new packets, each given once (RC and UC), and their lengths.
class MessageOrder {
 public:
  /// `mtu`: the path MTU in bytes; 0: not known. A packet that breaks the order changes nothing.
  std::optional<Breach> add(const Request& request, std::uint32_t mtu);
  /// Packets are missing: whatever comes next is fine.
  void forget() { state_ = State::kUnknown; }
  /// Not at the start of a connection, and not behind a whole message.
  bool in_message() const { return state_ == State::kInside; }

 private:
  enum class State : std::uint8_t { kOutside, kInside, kUnknown };
  std::optional<Breach> check_order(const OpcodeInfo& op);
  std::optional<Breach> check_length(const Request& request, std::uint32_t mtu);

  State state_ = State::kOutside;
  Kind kind_{};                        ///< The message's.
  std::optional<std::uint32_t> left_;  ///< Bytes of it that a RETH announced and that have not come.
};

/// CRC of what must be the same each time that a packet is sent: all but AckReq and the IPv4 Identification.
/// `path`: the packet's own.
std::uint32_t content(const PacketView& view, const Path& path);

// Implementation.

namespace detail {
std::optional<Breach> pkey(const PacketView& view);
std::optional<Breach> header_bits(const PacketView& view, Rule rule);
std::optional<Breach> pad(const PacketView& view);
std::optional<Breach> payload(const PacketView& view);
std::optional<Breach> ack_request(const Request& request);
std::optional<Breach> solicited(const Request& request);
}  // namespace detail

template <class Found>
void check_packet(const PacketView& view, Found found) {
  const auto tell = [&](std::optional<Breach> breach) {
    if (breach) found(*breach);
  };
  tell(detail::pkey(view));
  for (const Rule rule : {Rule::kMigReq, Rule::kMarked, Rule::kReservedBits}) tell(detail::header_bits(view, rule));
  tell(detail::pad(view));
  tell(detail::payload(view));
}

template <class Found>
void check_flags(const Request& request, Found found) {
  if (auto breach = detail::ack_request(request)) found(*breach);
  if (auto breach = detail::solicited(request)) found(*breach);
}

}  // namespace uroce::proto::rules
