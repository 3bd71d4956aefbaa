// SPDX-License-Identifier: Apache-2.0
// Whether a packet is one of this connection, by what was sent and answered before.
#include <algorithm>

#include "tools/explain/story/stream.h"

namespace uroce::explain {
namespace {

/// Sooner, it is rather sent again, with wrong contents.
constexpr std::int64_t kAnewAfter = 500'000'000;
/// What was sent again is answered sooner.
constexpr std::int64_t kAskedWithin = 1'000'000'000;

}  // namespace

bool Stream::is_foreign(const Packet& request) const {
  if (!started_ || !request.op->starts()) return false;
  const PsnIndex index = index_of(request.psn);
  return index > next_ + kForeign || index < una_ - kForeign;
}

bool Stream::is_behind_all(const Packet& request) const {
  return started_ && una_ == next_ && request.op->starts() && index_of(request.psn) < una_;
}

bool Stream::differs(const Packet& request) const {
  const SentPacket* const before = started_ && request.op->starts() ? history_.packet(index_of(request.psn)) : nullptr;
  if (before == nullptr) return false;
  return before->op != request.op ||
         (before->content != 0 && request.content != 0 && before->content != request.content);
}

bool Stream::begins_anew(const Packet& request) const {
  if (!is_behind_all(request) || request.psn != numbers_.first_psn) return false;
  if (request.time_ns - last_request_ns_ < kAnewAfter) return false;
  const bool forgotten = history_.packet(index_of(request.psn)) == nullptr;  // So long ago that nobody sends it again.
  return forgotten || differs(request);
}

bool Stream::awaits(const Packet& response) const {
  if (!started_) return false;
  const PsnIndex index = index_of(response.psn);
  return index >= una_ - 1 && index <= next_;
}

bool Stream::suits(const Packet& response) const {
  if (!awaits(response)) return false;
  const PsnIndex index = index_of(response.psn);
  const Message* const message = history_.message(index);
  if (message == nullptr || response.op->kind == proto::Kind::kAcknowledge) return true;
  if (response.op->kind == proto::Kind::kAtomicAcknowledge) return message->is_atomic();
  return message->is_answered_empty() || (message->is_read() && wrong_answer(*message, index, response).empty());
}

Stream::Fit Stream::fit(const Packet& response) const {
  if (!numbers_.first_psn) return Fit::kNone;
  const PsnIndex index = index_of(response.psn);
  if (index < begin_ || index >= next_) return Fit::kNone;
  return index < una_ || fatal_ ? Fit::kAgain : Fit::kAwaited;
}

bool Stream::explains_again(const Packet& response) const {
  const bool asked = owed_answers_ != 0 && response.time_ns - last_repeat_ns_ <= kAskedWithin;
  if (asked || tells_credits(index_of(response.psn), response)) return true;
  return std::any_of(latest_answers_.begin(), latest_answers_.end(), [&](const Answer& answer) {
    return answer.icrc == response.icrc_value && response.time_ns - answer.time_ns <= kAnswerCopiedWithin;
  });
}

/// An answer under a PSN before all that were sent. A NAK names the PSN that the responder waits for, which may be any.
bool Stream::is_ghost(PsnIndex index, const Packet& packet, Told& told) {
  if (!numbers_.first_psn || index >= begin_ || packet.refuses()) return false;
  if (begins_here_) {
    incident(packet, told, Severity::kProblem, "ghost",
             "answers PSN " + hex(packet.psn) + ", which was never sent: a ghost");
    return true;
  }
  if (una_ - index <= kForeign) return false;  // It was sent before the capture began.
  tell_unseen_request(packet, told);
  return true;
}

void Stream::tell_unseen_request(const Packet& packet, Told& told) {
  const bool refuses = packet.op->kind == proto::Kind::kAcknowledge && packet.refuses();
  incident(packet, told, Severity::kProblem, "unseen_request",
           (refuses ? "refuses PSN " : "answers PSN ") + hex(packet.psn) +
               ", which is not in this capture: not captured, or a ghost");
}

}  // namespace uroce::explain
