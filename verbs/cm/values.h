// SPDX-License-Identifier: Apache-2.0
// Values that cross the border of the connection manager: what its user asks for, what it tells, what it is made with.
// Numbers are those of the wire and of <rdma/rdma_cma.h>, so that the front end copies them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "proto/base/clock.h"
#include "proto/path.h"

namespace uroce::cm {

using proto::Gid;

/// 0, or a positive errno value.
using Errno = int;

/// A connection, a request that is not answered yet, or a SIDR exchange: our communication ID (SIDR: request ID) of it.
/// The top byte is CmConfig::slot, the rest is random. Never 0, and not used again for a long time.
using Id = std::uint32_t;
using ListenerId = std::uint32_t;

/// Field sizes of private data that are left to the program, behind the CMA header where there is one.
inline constexpr std::size_t kReqPrivateData = 56;
inline constexpr std::size_t kRepPrivateData = 196;
inline constexpr std::size_t kRejPrivateData = 148;
inline constexpr std::size_t kSidrReqPrivateData = 180;
inline constexpr std::size_t kSidrRepPrivateData = 136;

/// In parameters: `size` bytes of the program. In events: the whole field, padded with zeros, however little was sent.
struct PrivateData {
  std::array<std::uint8_t, kRepPrivateData> bytes{};
  std::uint8_t size = 0;
};

enum class Transport : std::uint8_t { kRc, kUc, kUd };

struct Endpoint {
  Gid address;             ///< IPv4 as ::ffff:a.b.c.d.
  std::uint16_t port = 0;  ///< In the port space, in host order.
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// The flow label that kernels give a path between two ports (Linux: cma_get_roce_udp_flow_label()).
constexpr std::uint32_t flow_label_between(std::uint16_t source_port, std::uint16_t destination_port) {
  return (std::uint32_t{source_port} * 31 + destination_port) & 0xF'FFFF;
}

/// What the two QPs' packets travel along. The GIDs are those of Endpoint.
struct PathInfo {
  std::uint32_t flow_label = 0;  ///< 20 bits. 0 in connect(): flow_label_between() the ports.
  std::uint8_t tclass = 0;       ///< In the connection's packets and its management packets.
  std::uint8_t hop_limit = 64;
  std::uint8_t mtu = 3;  ///< Path MTU code, 1..5.
  /// Packet life time, code: 4.096 us * 2^n. An ACK timeout option of t makes it t - 1.
  std::uint8_t life_time = 16;
};

/// Enhanced connection establishment: passed through, never looked at.
struct Ece {
  std::uint32_t vendor_id = 0;  ///< 24 bits.
  std::uint32_t attr_mod = 0;
};

/// What a program gives to rdma_connect() and rdma_accept(), and what the peer's REQ or REP says. In events the two
/// resource counts are swapped already: they say what *this* side may use.
struct ConnectionParams {
  std::uint32_t qpn = 0;  ///< This side's QP; in events the peer's. The manager never touches a QP.
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t flow_control = 0;  ///< 0 or 1.
  std::uint8_t retry_count = 0;   ///< 0..7, more means 7. Only a REQ carries it.
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t srq = 0;  ///< 0 or 1.
  Ece ece{};
};

struct ConnectRequest {
  Transport transport = Transport::kRc;  ///< Not kUd.
  std::uint64_t service_id = 0;          ///< Port space << 16 | destination port.
  Endpoint local, remote;                ///< local.address: a GID of ours.
  PathInfo path{};
  ConnectionParams params{};
  PrivateData private_data{};  ///< At most kReqPrivateData.
};

/// UD: who serves this service, under which QPN and Q_Key?
struct SidrRequest {
  std::uint64_t service_id = 0;
  Endpoint local, remote;
  PathInfo path{};
  PrivateData private_data{};  ///< At most kSidrReqPrivateData.
};

/// Status of SIDR_REP.
enum class SidrStatus : std::uint8_t { kValid = 0, kUnsupported = 1, kReject = 2, kNoQp = 3 };

struct SidrReply {
  SidrStatus status = SidrStatus::kValid;
  std::uint32_t qpn = 0;  ///< Status kValid only, as qkey.
  std::uint32_t qkey = 0;
  PrivateData private_data{};  ///< At most kSidrRepPrivateData.
};

/// What a listener takes. More special ones win: an exact address before a wildcard.
struct Listen {
  std::uint64_t service_id = 0;
  Transport transport = Transport::kRc;
  std::optional<Gid> address{};           ///< Nothing: any address of ours, of the families below.
  bool takes_v4 = true, takes_v6 = true;  ///< For wildcards: IP version of the request.
  std::uint32_t backlog = 1024;           ///< Requests that nobody has fetched; 0 or more than 1024 mean 1024.
};

/// IBTA's reasons (table "REJ reason codes") that we send. Any other may come from a peer.
enum class RejectReason : std::uint16_t {
  kTimeout = 4,
  kInvalidServiceId = 8,  ///< Nobody listens.
  kStaleConnection = 10,
  kInvalidGid = 12,
  kInvalidAlternateGid = 18,
  kInvalidMtu = 26,
  kConsumer = 28,  ///< The program's reject, with its private data.
};

/// Something to tell the program. Values are those of rdma_cm_event_type.
struct Event {
  enum class Kind : std::uint8_t {
    kRequest = 4,      ///< `id` is new, `listener` got it. UD: neither QPN nor Q_Key, only private data.
    kResponse = 5,     ///< REP. Now establish() or reject().
    kUnreachable = 7,  ///< REQ, REP or SIDR_REQ unanswered (-ETIMEDOUT); a SIDR_REP that refuses (status: SidrStatus).
    kRejected = 8,     ///< status: the peer's reason.
    kEstablished = 9,  ///< Passive: RTU, notify_established() or first data. UD, active: `datagram`.
    kDisconnected = 10,  ///< At most one per id. -ETIMEDOUT: our DREQ was never answered.
    kTimewaitExit = 15,  ///< Only after kDisconnected.
  };
  struct Datagram {
    std::uint32_t qpn = 0, qkey = 0;
  };
  Kind kind{};
  Id id = 0;
  ListenerId listener = 0;     ///< kRequest only.
  int status = 0;              ///< 0, a negative errno, or the peer's code.
  ConnectionParams params{};   ///< kRequest and kResponse of connections, swapped.
  Datagram datagram{};         ///< kEstablished of UD.
  PrivateData private_data{};  ///< kRequest, kResponse, kRejected and the two ends of SIDR: the whole field.
};

/// How far an id has come.
enum class State : std::uint8_t {
  kIdle,  ///< Over (rejected, unreachable, timewait passed). Only destroy() is left.
  kReqSent,
  kRepReceived,
  kReqReceived,
  kRepSent,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
  kSidrReqSent,
  kSidrReqReceived,
};
const char* to_string(State state);

/// Everything about an id that its owner may ask for: what INIT_QP_ATTR and the queries answer from.
struct ConnectionInfo {
  State state{};
  Transport transport{};
  bool passive = false;
  bool peer_known = false;  ///< REQ or REP has come: remote_* mean something, so RTR and RTS can be answered.
  Endpoint local, remote;
  std::uint64_t service_id = 0;
  PathInfo path{};                   ///< From the REQ, on both sides.
  std::uint32_t local_qpn = 0;       ///< As given to connect() or accept().
  std::uint32_t remote_qpn = 0;      ///< dest_qp_num.
  std::uint32_t local_psn = 0;       ///< rq_psn: what the peer begins with.
  std::uint32_t remote_psn = 0;      ///< sq_psn: what we begin with.
  std::uint8_t ack_timeout = 0;      ///< REQ's primary local ACK timeout, code; an ACK_TIMEOUT option overrides it.
  std::uint8_t retry_count = 0;      ///< From the REQ, on both sides.
  std::uint8_t rnr_retry_count = 0;  ///< The peer's.
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t max_rd_atomic = 0;
};

/// UDP source port of messages: what Linux has.
inline constexpr std::uint16_t kUsualSourcePort = 0xD872;

struct CmConfig {
  std::vector<Gid> gids;     ///< GID table. A request for another address is refused.
  std::uint64_t guid = 0;    ///< Node GUID, of which no other node on the network may have the same.
  std::uint8_t slot = 0;     ///< Top byte of our communication IDs: which of several NICs that share an address.
  std::uint64_t seed = 1;    ///< IDs and starting PSNs follow from it.
  std::uint8_t mtu_max = 5;  ///< Requests with a longer path MTU are refused.
  std::uint16_t source_port = kUsualSourcePort;  ///< UDP source port of our packets; receivers take any.
  /// The port to send from at one of our addresses instead, where `source_port` can't be had. May be empty.
  std::function<std::uint16_t(const Gid& local)> find_source_port = nullptr;
  std::uint32_t time_divisor = 1;  ///< Tests: all protocol times are divided by it (UROCE_CM_TIME).
  /// Exactly what Linux does, weak as it may be, instead of what is written in docs/golden.md: for the replay of
  /// captures.
  bool as_kernel = false;
  /// A REQ must come from the address that it names. Off: behind NAT. Never checked when as_kernel.
  bool check_source = true;
  /// Until then requests wait for a listener, whatever they ask for: the program may be about to listen. Not when
  /// as_kernel.
  Instant may_listen_until = Instant::min();
  /// Whether an address is one of this host, and nobody has a NIC there now: none but ours to refuse what we ask, so
  /// that a request that is not answered in time is not sent again but refused, as by a NIC where nobody listens. May
  /// be empty.
  std::function<bool(const Gid&)> is_deserted = nullptr;
  /// Keeps poll_last_words() supplied.
  bool last_words = false;
};

/// What happened to packets for QP 1.
struct CmCounters {
  std::uint64_t received = 0;  ///< Packets for QP 1 that were CM messages, in order in every way.
  std::uint64_t sent = 0;
  std::uint64_t malformed = 0;     ///< Not a packet, wrong ICRC, not 256 bytes, another class or attribute ...
  std::uint64_t wrong_key = 0;     ///< P_Key or Q_Key.
  std::uint64_t wrong_source = 0;  ///< IDs are right, the sender's address is not.
  std::uint64_t unmatched = 0;     ///< No such connection, or not in a state to hear this.
  std::uint64_t duplicates = 0;
  std::uint64_t retries = 0;     ///< Messages sent again by timer.
  std::uint64_t overflows = 0;   ///< Requests dropped: backlog, or one of the limits in cm.h.
  std::uint64_t suppressed = 0;  ///< Answers to strangers that were more than kStrangerAnswersPerSecond.
};

}  // namespace uroce::cm
