// SPDX-License-Identifier: Apache-2.0
// What server and client tell each other over TCP (with --cm: an rsocket), and how it looks in bytes. Pure: no sockets
// here.
//
//   client                                   server
//     Hello  ------------------------------->         the client's number of QPs and the most that the server
//                                                      takes; each side's NIC's limits
//            <-------------------------------  Hello
//     Workload ----------------------------->         what the client wants to run
//     Metadata <---------------------------->         QPNs, PSNs, rkeys, addresses
//            <-------------------------------  Listening      with --cm instead of Metadata: where. Then the client
//                                                      connects each QP, with a QpOffer in the private data of
//                                                      REQ and REP
//     Ready    <---------------------------->         both are in RTS, receives are posted
//     Completed, Verified  <---------------->         with WRITE and --verify only: see workload/target.h
//     Finished <---------------------------->         all operations of this side are complete; not from a side that
//                                                      begins none
//     Verdict  <---------------------------->         what this side verified
//     Abort    <---------------------------->         at any time instead: why this side gives up
//
// Each message has a header of 12 bytes: magic, version, type, length of the rest. All numbers are big-endian.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/bytes.h"
#include "tools/rdma/connections.h"
#include "tools/rdma/rdma.h"
#include "tools/workload/initiator.h"
#include "tools/workload/workload.h"

namespace uroce::tools {

inline constexpr std::uint32_t kMagic = 0x55524345;  // "URCE"
inline constexpr std::uint16_t kProtocolVersion = 3;
inline constexpr std::size_t kHeaderBytes = 12;
inline constexpr std::uint32_t kMaxPayload = 64 * 1024;

enum class MessageType : std::uint16_t {
  kHello = 1,
  kWorkload,
  kMetadata,
  kReady,
  kCompleted,
  kVerified,
  kFinished,
  kVerdict,
  kAbort,
  kListening,
};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  std::uint16_t type = 0;
  std::uint32_t length = 0;
};
void encode_header(const Header& header, std::uint8_t* out);
Header decode_header(const std::uint8_t* bytes);

/// A side introduces itself.
struct Hello {
  std::uint32_t qps = 0;
  std::uint32_t max_queue_wrs = 0;
  std::uint32_t max_completions = 0;
  std::uint32_t max_sges = 0;
  std::uint32_t active_mtu = 0;       ///< Bytes.
  std::uint8_t rd_atomic_target = 0;  ///< READs and atomics that this side answers at a time, per QP.
  std::uint8_t rd_atomic_initiator = 0;
  std::uint8_t atomics = 0;  ///< 1: this side's device executes atomics.
  friend bool operator==(const Hello&, const Hello&) = default;
};

/// Where a server listens for the QPs of its client, and the number by which it knows that they are its.
struct Listening {
  CmAddress address;
  std::uint32_t session = 0;
};

/// What both sides tell each other about a QP in private data, of which a REQ has room for 56 bytes.
struct QpOffer {
  std::uint32_t session = 0;  ///< From Listening.
  std::uint32_t index = 0;    ///< Which of ...
  std::uint32_t qps = 0;      ///< ... how many it is.
  std::uint64_t size = 0;     ///< Bytes of a message.
  std::uint32_t rkey = 0;     ///< As in QpMetadata.
  std::uint64_t address = 0;
};

/// How a side judges the run.
struct Verdict {
  std::uint64_t checked_messages = 0;
  std::uint64_t checked_bytes = 0;
  std::uint64_t wrong_messages = 0;
  std::string first_error;
};

// encode: never fails. decode: nothing unless the bytes are exactly such a message with values in range.
std::vector<std::uint8_t> encode(const Hello& hello);
std::vector<std::uint8_t> encode(const Workload& workload);
std::vector<std::uint8_t> encode(const PeerMetadata& metadata);
std::vector<std::uint8_t> encode(const Progress& progress);
std::vector<std::uint8_t> encode(const Verdict& verdict);
std::vector<std::uint8_t> encode(const Listening& listening);
std::vector<std::uint8_t> encode(const QpOffer& offer);
std::vector<std::uint8_t> encode_text(const std::string& text);

std::optional<Hello> decode_hello(Bytes bytes);
std::optional<Workload> decode_workload(Bytes bytes);
std::optional<PeerMetadata> decode_metadata(Bytes bytes);
std::optional<Progress> decode_progress(Bytes bytes);
std::optional<Verdict> decode_verdict(Bytes bytes);
std::optional<Listening> decode_listening(Bytes bytes);
/// Private data arrives with zeros behind it.
std::optional<QpOffer> decode_qp_offer(Bytes bytes);
/// Text of the peer, made safe to print: control and non-ASCII bytes become '?', long text is cut.
std::string decode_text(Bytes bytes);

}  // namespace uroce::tools
