// SPDX-License-Identifier: Apache-2.0
// Answers that bear data: of READs and atomics.
#include <fmt/core.h>

#include <algorithm>

#include "proto/timing.h"
#include "tools/explain/story/stream.h"

namespace uroce::explain {

/// Whether an older READ or atomic has not been answered: then the requester takes this answer for a NAK.
bool Stream::is_behind_unanswered(const Message& message, const Packet& packet, Told& told) {
  const Message* const due = oldest_unanswered();
  if (due == nullptr || due->first >= message.first) return false;
  told.reason = Reason::kBehindGap;
  imply(due->next_answer, packet, told,
        "PSN " + hex(psn_of(due->next_answer)) + ", the answer to message " + std::to_string(due->number) +
            ", is missing in front of it: an implied NAK");
  return true;
}

/// What is wrong with an answer to a READ, in words.
std::string Stream::wrong_answer(const Message& message, PsnIndex index, const Packet& packet) const {
  if (!message.length_known) return {};
  const bool at_end = message.psns != 0 ? index + 1 == message.end() : packet.op->ends();
  const bool ends_part = packet.op->ends() && index + 1 == message.asked_again_end;
  const std::string name(packet.op->name);
  if (packet.op->ends() != at_end && !ends_part) {
    return at_end ? name + " is the answer to the last PSN of a READ, and says that more comes"
                  : "the last response of a READ that is not at its end";
  }
  // The first message of a capture may be the rest of a READ, with which Soft-RoCE goes on.
  if (index == message.first && (message.number > 1 || begins_here_) && !packet.op->starts()) {
    return name + " is the answer to the first PSN of a READ";
  }
  const bool full = mtu_ != 0 ? packet.payload == mtu_ : proto::mtu_code(packet.payload).has_value();
  if (!at_end && !ends_part && !full) {
    return fmt::format("{} with {} bytes, {}", name, packet.payload,
                       mtu_ != 0 ? fmt::format("path MTU {}", mtu_) : "which is no path MTU");
  }
  const std::uint64_t bytes = message.answered_bytes + packet.payload;
  if (!at_end || index != message.next_answer || bytes == message.length) return {};
  return fmt::format("a READ of {} bytes is answered with {}", message.length, bytes);
}

void Stream::read_response(PsnIndex index, const Packet& packet, Told& told) {
  Message* message = history_.message(index);
  Message* const newest = history_.newest();
  const bool endless = newest != nullptr && newest->is_read() && newest->psns == 0 && newest->first <= index;
  if (message == nullptr && endless) message = newest;  // Its length was cut off.
  if (message != nullptr && message->is_answered_empty()) return empty_response(*message, packet, told);
  if (message == nullptr || !message->is_read()) {
    const bool old = index < una_;
    if (old) return answer_again(index, packet, told);
    incident(packet, told, Severity::kProblem, "ghost", "a READ response under the PSN of no READ of this capture");
    return;
  }
  told.part = {message->number, static_cast<std::uint64_t>(index - message->first) * mtu_, packet.payload,
               message->length};
  if (packet.is_gone()) return;
  const std::string wrong = wrong_answer(*message, index, packet);
  if (!wrong.empty()) incident(packet, told, Severity::kBreach, "read_answer", "breaks a rule: " + wrong);
  if (wrong.empty() && index == message->first && !packet.op->starts()) {
    told.note(Severity::kUnusual, "read_answer",
              fmt::format("{} is the answer to the first PSN of a READ, unless the READ began before this capture",
                          packet.op->name));
  }
  if (packet.op->starts() && index != message->first && !message->asked_again) {
    incident(packet, told, Severity::kProblem, "read_begins",
             fmt::format("{} for PSN {}, where no READ of this capture begins", packet.op->name, hex(packet.psn)));
  }
  if (index < message->next_answer || message->done) {
    answer_again(index, packet, told);
    const bool answers = told.reason == Reason::kAnswerAgain && message->asked_again;
    if (answers && index >= message->asked_again_from) told.cause = message->asked_again;
    return;
  }
  if (is_behind_unanswered(*message, packet, told)) return;
  if (index > message->next_answer) {
    const auto missing = static_cast<std::uint64_t>(index - message->next_answer);
    told.reason = Reason::kBehindGap;
    return imply(message->next_answer, packet, told,
                 counted(missing, "READ response") + " missing in front of it, from PSN " +
                     hex(psn_of(message->next_answer)) + " on: an implied NAK");
  }
  if (message->asked_again && index >= message->asked_again_from) told.cause = message->asked_again;
  if (!wrong.empty()) return;  // No requester takes it for its answer.
  if (is_bad_answer(*message, index, packet, told)) return;
  message->next_answer = index + 1;
  ++message->answered_psns;
  message->answered_bytes += packet.payload;
  advance(index + 1, packet, told);
  const bool at_end = message->psns != 0 ? index + 1 == message->end() : packet.op->ends();
  if (!at_end) return;
  if (message->psns == 0) {
    message->psns = index + 1 - message->first;
    next_ = std::max(next_, message->end());
    cursor_ = std::max(cursor_, next_);
  }
  complete(*message, packet.time_ns);
}

/// ATOMIC WRITE and FLUSH are answered like a READ of no bytes (A19 ?).
void Stream::empty_response(Message& message, const Packet& packet, Told& told) {
  told.part.message = message.number;
  if (packet.is_gone()) return;
  if (message.done) {
    answer_again(message.first, packet, told);
    return;
  }
  if (is_bad_answer(message, message.first, packet, told)) return;
  message.next_answer = message.end();
  advance(message.end(), packet, told);
  complete(message, packet.time_ns);
}

void Stream::atomic_response(PsnIndex index, const Packet& packet, Told& told) {
  Message* const message = history_.message(index);
  if (message == nullptr || !message->is_answered() || message->is_read()) {
    if (index < una_) return answer_again(index, packet, told);
    incident(packet, told, Severity::kProblem, "ghost", "an atomic ACK under the PSN of no atomic of this capture");
    return;
  }
  told.part.message = message->number;
  if (packet.is_gone()) return;
  if (message->original && *message->original != packet.original) {
    incident(packet, told, Severity::kBreach, "atomic_changed",
             "breaks a rule: the atomic was answered with " + hex(*message->original) + " before, now with " +
                 hex(packet.original) + " (run twice?)");
  }
  if (message->done) {
    answer_again(index, packet, told);
    if (told.reason == Reason::kAnswerAgain && message->asked_again) told.cause = message->asked_again;
    return;
  }
  if (is_behind_unanswered(*message, packet, told)) return;
  if (message->asked_again) told.cause = message->asked_again;
  if (is_bad_answer(*message, index, packet, told)) return;
  message->original = packet.original;
  message->next_answer = index + 1;
  advance(index + 1, packet, told);
  complete(*message, packet.time_ns);
}

}  // namespace uroce::explain
