// SPDX-License-Identifier: Apache-2.0
// What one captured packet says: a value that owns no bytes of the capture, small enough to keep many of them.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/cm/message.h"
#include "proto/frame.h"
#include "proto/rules/rules.h"
#include "proto/syndrome.h"
#include "tools/explain/capture/reader.h"

namespace uroce::explain {

enum class Icrc : std::uint8_t { kRight, kWrong, kNotCaptured };

/// Where a packet was seen: number `frame` (from 1, as Wireshark counts) of file `file`.
struct Place {
  std::uint32_t file = 0;
  std::uint64_t frame = 0;  ///< 0: nowhere.

  explicit operator bool() const { return frame != 0; }
  friend bool operator==(const Place&, const Place&) = default;
};

/// What happened to a packet between two captures of both ends.
enum class Fate : std::uint8_t {
  kUnknown,  ///< Only one end is captured.
  kArrived,
  kLost,
  kDamaged,  ///< It arrived with a wrong ICRC.
};

/// Why a packet is only probably lost.
enum class Doubt : std::uint8_t {
  kNone,
  kUnheard,  ///< Nothing tells that the other end's capture has this direction, but it behaves so.
  kSilence,  ///< The other end's capture has nothing later: it may have ended before.
};

/// A message of the connection manager: what the story needs of it.
struct CmMessage {
  proto::cm::Attribute attribute{};
  std::uint32_t local_id = 0, remote_id = 0;
  std::uint32_t qpn = 0;
  proto::Psn psn;
  std::uint64_t service_id = 0;
  std::uint8_t transport = 0;  ///< 0: RC, 1: UC.
  std::uint8_t mtu_code = 0, retry_count = 0, rnr_retry_count = 0;
  std::uint8_t ack_timeout = 0;  ///< Code of the local ACK timeout.
  std::uint16_t reason = 0;      ///< In a REJ; the status of a SIDR_REP.
};

struct Packet {
  Place place;
  std::uint32_t tap = 0;  ///< Interface of a file: packets of one tap are in the order in which they passed it.
  Direction direction = Direction::kUnknown;
  std::int64_t time_ns = 0;
  proto::Gid source, destination;
  std::uint16_t source_port = 0;
  std::uint16_t ip_id = 0;
  std::uint8_t tclass = 0;
  bool roce_v1 = false;
  bool cut = false;         ///< Not all of it was captured ...
  bool length_cut = false;  ///< ... and RETH is not whole: addresses and length are 0, which says nothing.
  std::string_view tunnel;  ///< In which it travelled: "ERSPAN", ...; empty: none.
  Icrc icrc = Icrc::kNotCaptured;

  const proto::OpcodeInfo* op = nullptr;
  std::uint32_t dest_qp = 0;
  proto::Psn psn;
  bool ack_request = false, solicited = false;
  std::uint32_t payload = 0;  ///< Bytes, without pad.
  std::uint32_t content = 0;  ///< The same each time that the packet is sent; 0 when cut.
  std::uint32_t icrc_value = 0;
  // From the headers that the opcode has; else 0.
  std::uint64_t va = 0;
  std::uint32_t rkey = 0, length = 0;
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;
  std::uint64_t original = 0;
  std::uint32_t source_qp = 0, qkey = 0;

  std::array<std::uint8_t, 48> head{};  ///< The headers as they are, BTH first.

  std::shared_ptr<const CmMessage> cm;
  std::vector<proto::rules::Breach> breaches;  ///< Rules that it breaks by itself.
  // From a pcapng.
  std::string comment;           ///< What its sender's NIC says, or whoever has captured it.
  std::string receiver_comment;  ///< What its receiver's NIC says.

  // From the other end's capture.
  Fate fate = Fate::kUnknown;
  Doubt doubt = Doubt::kNone;
  Place other;                     ///< Where the other end saw it.
  std::int64_t other_time_ns = 0;  ///< By the clock of `time_ns`.

  /// Whether its receiver had nothing of it, as far as both captures and comments show.
  bool is_gone() const { return is_lost() || fate == Fate::kDamaged; }
  /// Whether it was lost on the way, or to an injected fault.
  bool is_lost() const { return fate == Fate::kLost || !lost_to().empty(); }
  /// The injected fault that kept it from its receiver: "dropped by drop=op:ack"; empty: none that a comment names.
  std::string_view lost_to() const { return lost_on_receipt().empty() ? lost_when_sent() : lost_on_receipt(); }
  std::string_view lost_when_sent() const;   ///< By its sender's NIC ...
  std::string_view lost_on_receipt() const;  ///< ... or by its receiver's, which drops what it has corrupted.
  /// As its receiver sees it.
  Icrc icrc_on_arrival() const { return fate == Fate::kDamaged ? Icrc::kWrong : icrc; }
  bool is_response() const { return op->is_response(); }
  /// For responses with AETH.
  proto::Syndrome decoded() const { return proto::decode_syndrome(syndrome); }
  /// Whether it has an AETH that says no: a NAK or RNR NAK, or data with such a thing, which breaks a rule.
  bool refuses() const { return !std::holds_alternative<proto::syndrome::Ack>(decoded()); }
};

/// Why a frame is not told about.
struct Untold {
  enum class Why : std::uint8_t {
    kNotRoce,   ///< ARP, TCP, another UDP port, ...
    kBroken,    ///< On its way to port 4791, but its headers are not those of RoCE.
    kLinkType,  ///< From a network that we do not know.
  };
  Why why = Why::kNotRoce;
  std::string text;
};

/// Whether captures of this link type are those of all interfaces of a Linux host (`-i any`).
bool is_cooked(std::uint32_t link_type);

class Dissector {
 public:
  /// `file`: number of the capture.
  explicit Dissector(std::uint32_t file) : file_(file) {}
  Result<Packet, Untold> packet(const Frame& frame, std::uint64_t number);

 private:
  struct Link {
    Bytes ethernet;
    Direction direction;
    std::uint32_t interface;  ///< On the host, where the link layer tells it.
  };
  /// The frame inside of all tags and tunnels.
  struct Core {
    Bytes ethernet;            ///< Zeros in place of what was not captured ...
    std::size_t captured_end;  ///< ... behind this.
    bool cut;
    std::string_view tunnel;
  };
  Core core(Bytes ethernet, std::size_t outside);
  std::optional<Link> link(const Frame& frame);
  Bytes as_ethernet(std::uint16_t type, Bytes network, std::size_t cut);

  std::uint32_t file_;
  std::vector<std::uint8_t> scratch_;
};

}  // namespace uroce::explain
