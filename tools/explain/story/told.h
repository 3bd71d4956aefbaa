// SPDX-License-Identifier: Apache-2.0
// What the story says about one packet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/explain/packets/packet.h"

namespace uroce::explain {

/// Why a packet was sent. The first part are requests, the second responses.
enum class Reason : std::uint8_t {
  kFirst,        ///< Sent for the first time.
  kNak,          ///< Sent again: a NAK "PSN sequence error" asked for it.
  kTimeout,      ///< Sent again: no answer came in time.
  kRnr,          ///< Sent again: the wait that an RNR NAK asked for is over.
  kImpliedNak,   ///< Sent again: an answer was missing in front of another one (9.7.5.1.2 ?).
  kUnknown,      ///< Sent again: the capture does not show why.
  kNetworkCopy,  ///< Nobody sent it again: the network (or the capture) has it twice. Of answers too.
  kReordered,    ///< Overtaken in the network.
  kAnswer,       ///< Answers requests.
  kAnswerAgain,  ///< Answers a request that had been answered: a duplicate.
  kBehindGap,    ///< READ response behind a missing one: the requester drops it.
  kCredits,      ///< An ACK that acknowledges nothing new: the responder has posted receives.
  kManagement,   ///< A message of the connection manager, sent for the first time.
  kManagementAgain,
  kNone,  ///< Nothing to tell: UD, CNP.
};
inline constexpr std::size_t kReasons = static_cast<std::size_t>(Reason::kNone) + 1;

/// "first", "nak", "timeout", ...: the words of the JSON.
std::string_view to_string(Reason reason);
/// Whether the requester has sent the packet before.
constexpr bool is_resent(Reason reason) {
  return reason == Reason::kNak || reason == Reason::kTimeout || reason == Reason::kRnr ||
         reason == Reason::kImpliedNak || reason == Reason::kUnknown;
}

enum class Severity : std::uint8_t {
  kRemark,   ///< Worth knowing.
  kUnusual,  ///< Legal, but few do it.
  kProblem,  ///< Something went wrong: a loss, a NAK, a wrong ICRC.
  kBreach,   ///< A rule of the standard is broken.
};
std::string_view to_string(Severity severity);

struct Note {
  Severity severity = Severity::kRemark;
  std::string code;  ///< For programs: "nak_sequence", "icrc_wrong", ...
  std::string text;
  bool repeated = false;  ///< Said of an earlier packet of this sender: not worth repeating.
};

/// Which part of which message a packet carries.
struct Part {
  std::uint64_t message = 0;  ///< Number in its direction of the connection, from 1; 0: none.
  std::uint64_t offset = 0;
  std::uint64_t size = 0;   ///< Bytes of this packet.
  std::uint64_t total = 0;  ///< The whole message; 0 when not known yet.
};

/// A message at its end.
struct Finished {
  bool by_left = true;  ///< Whose request it was.
  std::uint64_t message = 0;
  proto::Kind kind{};
  std::uint64_t bytes = 0;
  Place place;                            ///< Its first packet.
  std::int64_t begin_ns = 0, end_ns = 0;  ///< From that to the answer which completes it; UC: to its last packet.
  bool completed = true;
};

struct Told {
  std::uint32_t connection = 0;  ///< From 1; 0: none.
  bool from_left = true;         ///< The left one of the connection's two endpoints.
  Part part;
  Reason reason = Reason::kNone;
  bool sure = true;          ///< False: "probably".
  Place cause;               ///< The packet that led to this one.
  std::int64_t wait_ns = 0;  ///< Since the cause, or since the last sign of the peer.
  std::uint32_t transmission = 1;
  bool goes_back = false;  ///< The first of those that are sent again in one go.
  std::vector<Note> notes;
  std::vector<Finished> finished;  ///< Messages that this packet completes.

  void note(Severity severity, std::string_view code, std::string text) {
    notes.push_back({severity, std::string(code), std::move(text), false});
  }
  bool is_problem() const;
};

/// How places are written: "#4", or "a#4" when there are several files.
class Names {
 public:
  explicit Names(bool many_files) : many_(many_files) {}
  std::string operator()(Place place) const;

 private:
  bool many_;
};

/// "0x103"
std::string hex(std::uint64_t value);
std::string hex(proto::Psn psn);
/// "lost on the way: ...", of a packet that only one end has seen; "dropped by loss=1%, injected by its NIC".
std::string lost_text(const Packet& packet);
/// 81920000 as "81.9 ms".
std::string duration_text(std::int64_t ns);
/// "1 packet", "2 packets"
std::string counted(std::uint64_t count, std::string_view singular, std::string_view plural = {});

}  // namespace uroce::explain
