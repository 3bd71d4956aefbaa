// SPDX-License-Identifier: Apache-2.0
// What the peer answers to a requester.
#include <fmt/core.h>

#include <algorithm>

#include "proto/describe/describe.h"
#include "proto/timing.h"
#include "tools/explain/story/stream.h"

namespace uroce::explain {

using proto::Kind;

namespace {

/// An answer that is missing is noticed at answers not further behind it (in PSNs).
constexpr PsnIndex kFarBehind = 4096;
/// Copies come soon, and not many other answers lie between.
constexpr std::size_t kLatestAnswers = 16;
constexpr std::int64_t kAnswerCopiedWithin = 1'000'000;
/// A duplicate is answered sooner, and no network holds an answer back for longer.
constexpr std::int64_t kAnsweredWithin = 10'000'000, kAnswerLateWithin = 1'000'000'000;

}  // namespace

void Stream::response(const Packet& packet, Told& told) {
  ++numbers_.responses;
  ++answers_;
  told.reason = Reason::kAnswer;
  judge_way(packet, told);
  if (!started_) {
    start(packet.psn + 1);
    order_.forget();
    told.note(Severity::kRemark, "before_capture", "answers what was sent before the capture began");
    return;
  }
  learn_mtu(packet);
  const PsnIndex index = index_of(packet.psn);
  note_awaited(index, packet);
  if (covers_nothing(index, packet, told)) return;
  const bool overtaken = is_overtaken(packet);
  const std::uint32_t newest_msn = msn_;
  if (packet.op->has(proto::HeaderId::kAeth) && !overtaken) {
    msn_ = packet.msn;
    has_msn_ = true;
  }
  const bool lost = packet.fate == Fate::kLost || packet.fate == Fate::kDamaged;
  const std::int64_t seen_ns = std::max(evidence_.progress_ns, numbers_.last_ns);
  switch (packet.op->kind) {
    case Kind::kReadResponse:
      read_response(index, packet, told);
      break;
    case Kind::kAtomicAcknowledge:
      atomic_response(index, packet, told);
      break;
    default:
      if (packet.refuses()) {
        refuse(index, packet, told);
      } else if (!lost) {
        acknowledge(index, packet, told);
      }
  }
  if (told.reason == Reason::kAnswer) name_answered(index, packet, told);
  if (overtaken && !lost && told.reason != Reason::kReordered && told.reason != Reason::kNetworkCopy) {
    told.note(Severity::kUnusual, "msn_back", fmt::format("MSN goes back from {} to {}", newest_msn, packet.msn));
  }
  if (!lost && !overtaken && told.reason == Reason::kAnswer) check_msn(index, packet, told);
  if (!lost) {
    if (owed_answers_ > 0 && told.reason != Reason::kReordered && told.reason != Reason::kNetworkCopy) --owed_answers_;
    latest_answers_.push_back(
        {index, packet.op, packet.icrc_value, packet.ip_id, packet.time_ns, packet.place, packet.syndrome, packet.msn});
    if (latest_answers_.size() > kLatestAnswers) latest_answers_.pop_front();
  }
  if (packet.op->kind == Kind::kAcknowledge && !lost) judge_round(index, told);
  if (lost) return;
  const std::int64_t wait = packet.time_ns - seen_ns;
  if (wait > 0 && numbers_.last_ns != 0 && (evidence_.round_trip_ns == 0 || wait < evidence_.round_trip_ns)) {
    evidence_.round_trip_ns = wait;
  }
}

/// Which request this is the answer to, and how long it took.
void Stream::name_answered(PsnIndex index, const Packet& packet, Told& told) {
  const SentPacket* sent = history_.packet(index);
  const Message* const message = history_.message(index);
  if (sent == nullptr && message != nullptr) sent = history_.packet(message->first);
  if (sent == nullptr) return;
  if (!told.cause) told.cause = sent->last;
  if (told.cause == sent->last) told.wait_ns = packet.time_ns - sent->time_ns;
}

bool Stream::is_unheard(std::int64_t now) const {
  return numbers_.first_psn && answers_ == 0 && now - last_request_ns_ <= kAnsweredWithin;
}

/// Before anything is acknowledged, an answer to no request that was sent tells that both ends began with other PSNs.
void Stream::note_awaited(PsnIndex index, const Packet& packet) {
  const bool is_new = numbers_.first_psn && evidence_.progress_ns == 0 && packet.op->kind == Kind::kAcknowledge;
  if (!is_new || (index >= una_ - 1 && index < next_ && !(index < una_ && packet.refuses()))) return;
  awaited_ = packet.refuses() ? packet.psn : packet.psn + 1;
}

/// An answer to what the capture does not have.
bool Stream::covers_nothing(PsnIndex index, const Packet& packet, Told& told) {
  if (index < next_) return false;
  // A NAK names the PSN that the responder waits for.
  if (index == next_ && packet.op->kind == Kind::kAcknowledge && packet.refuses()) return false;
  const Message* const open = history_.newest();
  if (open != nullptr && open->is_read() && open->psns == 0 && packet.op->kind == Kind::kReadResponse) return false;
  incident(packet, told, Severity::kProblem, "unseen_request",
           "answers PSN " + hex(packet.psn) + ", which is not in this capture: not captured, or a ghost");
  return true;
}

Finished Stream::finished(const Message& message, std::int64_t end_ns) {
  // The clock of a capture can go back.
  return {.message = message.number,
          .kind = message.kind,
          .bytes = message.bytes,
          .place = message.place,
          .begin_ns = message.time_ns,
          .end_ns = std::max(message.time_ns, end_ns),
          .completed = message.done};
}

std::vector<Finished> Stream::unfinished(std::int64_t now) const {
  std::vector<Finished> all;
  for (const Message& message : history_.messages()) {
    if (!message.done) all.push_back(finished(message, fatal_ ? fatal_ns_ : now));
  }
  return all;
}

void Stream::complete(Message& message, std::int64_t now) {
  if (message.done) return;
  message.done = true;
  finished_.push_back(finished(message, reliable_ ? now : numbers_.last_ns));
  ++numbers_.operations[static_cast<std::size_t>(operation_of(message.kind))].completed;
  numbers_.acked_bytes += message.bytes;
  if (!reliable_) return;
  numbers_.answered_ns = now;
  if (message.begun) numbers_.latency.add(now - message.time_ns);
}

Message* Stream::oldest_unanswered() {
  for (auto message = history_.from(una_); message != history_.messages().end(); ++message) {
    if (!message->done && message->is_answered()) return &*message;
    if (message->first > una_ + kFarBehind) break;
  }
  return nullptr;
}

/// Everything before `una` is acknowledged.
void Stream::advance(PsnIndex una, const Packet& packet, Told& told) {
  if (una <= una_) return;
  auto message = history_.from(una_ - 1);  // One that seemed to end there may have had more.
  una_ = una;
  evidence_.progress_ns = packet.time_ns;
  evidence_.implied.reset();
  std::uint64_t messages = 0;
  for (; message != history_.messages().end() && message->end() <= una_; ++message) {
    if (message->done || message->is_answered()) continue;
    if (!message->whole && message->end() < una_) {  // Nothing of it is sent again.
      const auto place = message - history_.messages().begin();
      merge_behind(*message);
      message = history_.messages().begin() + place;  // What is behind it has moved.
      if (message->end() > una_) break;
      if (message->end() < una_) end_message(*message);
    }
    if (!message->whole) continue;
    if (told.part.message == 0) told.part.message = message->number;
    complete(*message, packet.time_ns);
    ++messages;
  }
  if (messages > 1) told.note(Severity::kRemark, "coalesced", fmt::format("completes {} messages", messages));
}

/// A responder counts messages: what says fewer than an answer before it was sent earlier.
bool Stream::is_overtaken(const Packet& packet) const {
  return packet.op->has(proto::HeaderId::kAeth) && has_msn_ && proto::Psn{packet.msn} - proto::Psn{msn_} < 0 &&
         packet.fate != Fate::kLost;
}

/// An ACK or a NAK tells how many messages the responder has completed (9.7.1). What a READ's answers tell may be
/// before or behind the READ.
void Stream::check_msn(PsnIndex index, const Packet& packet, Told& told) {
  constexpr std::uint32_t kMask = 0xFFFFFF;
  if (packet.op->kind != Kind::kAcknowledge) return;
  const PsnIndex executed = packet.refuses() ? index - 1 : index;
  const Message* const newest = history_.message(executed);
  if (newest == nullptr || newest->first < in_order_from_ || (newest->is_read() && newest->psns == 0)) return;
  const bool ends = newest->whole && newest->end() == executed + 1;
  const auto messages = static_cast<std::uint32_t>(newest->number - (ends ? 0 : 1));
  const std::uint32_t ahead = (packet.msn - messages) & kMask;
  if (msn_ahead_ && ahead != *msn_ahead_) {
    incident(packet, told, Severity::kBreach, "msn",
             fmt::format("breaks a rule: MSN {}, where it is {}: {} message {}", packet.msn,
                         (*msn_ahead_ + messages) & kMask, ends ? "behind" : "before the end of", newest->number));
  }
  msn_ahead_ = ahead;
}

/// Whether this is the newest ACK again, but for its credits. A responder sends one when it has posted receives.
bool Stream::tells_credits(PsnIndex index, const Packet& packet) const {
  const auto is_ack = [](std::uint8_t syndrome) {
    const auto decoded = proto::decode_syndrome(syndrome);
    const auto* const ack = std::get_if<proto::syndrome::Ack>(&decoded);
    return ack != nullptr && ack->credit_code != proto::kCreditsUnlimited;
  };
  if (packet.op->kind != Kind::kAcknowledge || !is_ack(packet.syndrome)) return false;
  return std::any_of(latest_answers_.begin(), latest_answers_.end(), [&](const Answer& answer) {
    return answer.index == index && answer.msn == packet.msn && is_ack(answer.syndrome) &&
           answer.syndrome != packet.syndrome;
  });
}

/// An answer to what is answered already: the responder got the request twice, or the network has copied the answer or
/// held it back.
void Stream::answer_again(PsnIndex index, const Packet& packet, Told& told) {
  const auto same = std::find_if(latest_answers_.rbegin(), latest_answers_.rend(), [&](const Answer& answer) {
    return answer.index == index && answer.op == packet.op && answer.icrc == packet.icrc_value &&
           answer.ip_id == packet.ip_id;
  });
  const Played played = played_faults(packet.comment);
  const bool numbered = packet.ip_id != 0;
  const Message* const message = history_.message(index);
  const bool asked = message != nullptr && message->is_answered() ? bool(message->asked_again) : owed_answers_ != 0;
  const bool not_asked = !asked || packet.time_ns - last_repeat_ns_ > kAnsweredWithin;
  const bool soon =
      not_asked && same != latest_answers_.rend() && packet.time_ns - same->time_ns <= kAnswerCopiedWithin;
  const std::int64_t late = packet.time_ns - evidence_.progress_ns;
  told.reason = Reason::kAnswerAgain;
  if (same != latest_answers_.rend() && (numbered || played.copied || soon)) {
    told.reason = Reason::kNetworkCopy;
    told.sure = numbered || played.copied;
    told.cause = same->place;
    told.wait_ns = packet.time_ns - same->time_ns;
  } else if (not_asked && same == latest_answers_.rend() && tells_credits(index, packet)) {
    told.reason = Reason::kCredits;
  } else if (played.held_back ||
             (late <= kAnswerLateWithin && is_overtaken(packet) && same == latest_answers_.rend())) {
    told.reason = Reason::kReordered;
    told.wait_ns = late;
  } else {
    // Without numbers, a copy or a late one looks the same.
    const auto seen = [this](Reason reason) { return numbers_.reasons[static_cast<std::size_t>(reason)] != 0; };
    const bool odd = is_overtaken(packet) || tells_credits(index, packet);
    told.sure = numbered || !(odd || seen(Reason::kReordered) || seen(Reason::kNetworkCopy));
    if (const SentPacket* const sent = history_.packet(index)) told.cause = sent->last;
  }
  ++numbers_.reasons[static_cast<std::size_t>(told.reason)];
}

/// A refusal acknowledges what lies before it. Where an answer is missing there, the requester goes back further: to
/// it.
void Stream::advance_to_refused(PsnIndex index, const Packet& packet, Told& told) {
  const Message* const due = oldest_unanswered();
  if (due == nullptr || due->first >= index || due->is_answered_empty()) return advance(index, packet, told);
  advance(due->next_answer, packet, told);
  imply(due->next_answer, packet, told,
        "refuses PSN " + hex(packet.psn) + " although the answer to message " + std::to_string(due->number) +
            " has not come: an implied NAK");
}

/// The first answer to packets that were sent again after a timeout shows how far the responder had come before.
void Stream::judge_round(PsnIndex index, Told& told) {
  Round* const round = numbers_.newest_round();
  if (round == nullptr || round->reason != Reason::kTimeout) return;
  const bool first = !round_answer_;
  if (first) round_answer_ = index;
  const std::string maybe = round->sure ? "" : "probably ";  // Else the packet may have been held back only.
  if (first && index + 1 < round_end_) {
    round->finding = maybe + "PSN " + hex(psn_of(index + 1)) + " was lost, or a NAK for it";
  } else if (first && index + 1 == round_end_) {
    round->finding = maybe + "a request or its answer was lost";
  } else if (!first && *round_answer_ + 1 == round_end_ && index + 1 == round_end_ &&
             told.reason == Reason::kAnswerAgain) {
    round->finding = "probably an answer was lost: the responder had everything";
  }
}

void Stream::acknowledge(PsnIndex index, const Packet& packet, Told& told) {
  if (index < una_) return answer_again(index, packet, told);
  Message* const due = oldest_unanswered();
  if (due != nullptr && due->first <= index) {
    advance(due->next_answer, packet, told);
    if (!due->is_answered_empty()) {
      imply(due->next_answer, packet, told,
            "acknowledges PSN " + hex(packet.psn) + " although the answer to message " + std::to_string(due->number) +
                " has not come: an implied NAK");
      return;
    }
    complete(*due, packet.time_ns);
  }
  advance(index + 1, packet, told);
}

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

/// The peer's answer shows that an earlier one is missing.
void Stream::imply(PsnIndex index, const Packet& packet, Told& told, const std::string& text) {
  if (evidence_.implied && !evidence_.implied->used && evidence_.implied->index == index) return;
  evidence_.implied = Hint{index, packet.place, packet.time_ns, 0, false};
  ++numbers_.read_gaps;
  incident(packet, told, Severity::kProblem, "implied_nak", text);
}

void Stream::refuse(PsnIndex index, const Packet& packet, Told& told) {
  const proto::Syndrome syndrome = packet.decoded();
  const bool lost = packet.fate == Fate::kLost || packet.fate == Fate::kDamaged;
  const auto* const nak = std::get_if<proto::syndrome::Nak>(&syndrome);
  if (const auto* const rnr = std::get_if<proto::syndrome::Rnr>(&syndrome)) {
    ++numbers_.rnr_naks;
    const std::int64_t delay = proto::rnr_delay(rnr->timer).count();
    incident(packet, told, Severity::kProblem, "rnr_nak",
             "PSN " + hex(packet.psn) + " found no receive: wait " + duration_text(delay) + " at least");
    if (lost) return;
    advance_to_refused(index, packet, told);
    evidence_.rnr = Hint{index, packet.place, packet.time_ns, delay, false};
    round_.reset();
    return;
  }
  if (nak == nullptr) {
    incident(packet, told, Severity::kBreach, "reserved_syndrome", "breaks a rule: a reserved syndrome");
    return;
  }
  if (nak->code == proto::NakCode::kPsnSequenceError) return refuse_sequence(index, packet, told);
  ++numbers_.fatal_naks;
  const Message* const message = history_.message(index);
  std::string text = proto::describe(syndrome) + " for PSN " + hex(packet.psn);
  if (message != nullptr) {
    told.part.message = message->number;
    text += fmt::format(": {} (message {}) fails", to_string(operation_of(message->kind)), message->number);
    if (message->rkey != 0) text += fmt::format("; it used R_Key {} at {}", hex(message->rkey), hex(message->va));
  }
  incident(packet, told, Severity::kProblem, "fatal_nak", text + ". The connection ends here");
  if (lost) return;
  advance(index, packet, told);
  fail(packet, text);
}

/// The connection ends with this answer.
void Stream::fail(const Packet& packet, const std::string& text) {
  fatal_ = true;
  fatal_place_ = packet.place;
  fatal_ns_ = packet.time_ns;
  failure_ = text + " (" + (*names_)(packet.place) + ")";
}

/// What a READ or an atomic waits for, with a NAK in its AETH: Soft-RoCE and uroce take it for no answer, and end.
bool Stream::is_bad_answer(const Message& message, PsnIndex index, const Packet& packet, Told& told) {
  if (!packet.refuses()) return false;
  const std::string text = fmt::format("{} for PSN {} has {} in its AETH", packet.op->name, hex(packet.psn),
                                       proto::describe(packet.decoded()));
  incident(packet, told, Severity::kBreach, "data_with_nak",
           "breaks a rule: " + text + "; a NAK has a packet of its own, without data");
  advance(index, packet, told);
  fail(packet, fmt::format("{}: {} (message {}) has probably failed (BAD_RESP_ERR)", text,
                           to_string(operation_of(message.kind)), message.number));
  return true;
}

void Stream::refuse_sequence(PsnIndex index, const Packet& packet, Told& told) {
  ++numbers_.sequence_naks;
  std::string text = "the responder waits for PSN " + hex(packet.psn) + ": ";
  const SentPacket* const sent = history_.packet(index);
  if (evidence_.rnr && !evidence_.rnr->used && evidence_.rnr->index == index) {
    text += "what follows a packet that was refused with RNR is out of sequence";
  } else if (sent != nullptr && sent->late) {
    text += (*names_)(sent->last) + " came too late, behind a later PSN";
  } else if (sent != nullptr && sent->times == 1 && (sent->behind_gap || sent->fate == Fate::kArrived)) {
    text += "it has dropped " + (*names_)(sent->last) + ", which came out of order";
  } else if (sent != nullptr) {
    text += (*names_)(sent->last) + " did not reach it";
  } else {
    const Hole* const hole = history_.hole(index);
    text += hole == nullptr ? "it was not captured"
            : hole->damaged ? (*names_)(hole->damaged) + " was damaged"
                            : "lost or held back before this capture";
  }
  if (index < una_ && evidence_.progress_ns != 0) text += " (late: PSN " + hex(packet.psn) + " has been acknowledged)";
  incident(packet, told, Severity::kProblem, "nak_sequence", text);
  if (packet.fate == Fate::kLost || packet.fate == Fate::kDamaged) return;
  advance_to_refused(index, packet, told);
  evidence_.add_nak({index, packet.place, packet.time_ns, 0, false});
}

/// What is wrong with an answer to a READ, in words.
std::string Stream::wrong_answer(const Message& message, PsnIndex index, const Packet& packet) const {
  if (!message.length_known) return {};
  const bool at_end = message.psns != 0 ? index + 1 == message.end() : packet.op->ends();
  const std::string name(packet.op->name);
  if (packet.op->ends() != at_end) {
    return at_end ? name + " is the answer to the last PSN of a READ, and says that more comes"
                  : "the last response of a READ that is not at its end";
  }
  // The first message of a capture may be the rest of a READ, with which Soft-RoCE goes on.
  if (index == message.first && message.number > 1 && !packet.op->starts()) {
    return name + " is the answer to the first PSN of a READ";
  }
  const bool full = mtu_ != 0 ? packet.payload == mtu_ : proto::mtu_code(packet.payload).has_value();
  if (!at_end && !full) {
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
  if (packet.fate == Fate::kLost || packet.fate == Fate::kDamaged) return;
  const std::string wrong = wrong_answer(*message, index, packet);
  if (!wrong.empty()) incident(packet, told, Severity::kBreach, "read_answer", "breaks a rule: " + wrong);
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
  if (packet.fate == Fate::kLost || packet.fate == Fate::kDamaged) return;
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
  if (packet.fate == Fate::kLost || packet.fate == Fate::kDamaged) return;
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
