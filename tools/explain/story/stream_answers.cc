// SPDX-License-Identifier: Apache-2.0
// What the peer answers to a requester.
#include <fmt/core.h>

#include <algorithm>
#include <variant>

#include "tools/explain/story/stream.h"

namespace uroce::explain {

using proto::Kind;

namespace {

/// An answer that is missing is noticed at answers not further behind it (in PSNs).
constexpr PsnIndex kFarBehind = 4096;
/// Copies come soon, and not many other answers lie between.
constexpr std::size_t kLatestAnswers = 16;
/// A duplicate is answered sooner, and no network holds an answer back for longer.
constexpr std::int64_t kAnsweredWithin = 10'000'000, kAnswerLateWithin = 1'000'000'000;

}  // namespace

void Stream::response(const Packet& packet, Told& told) {
  take_held_answers(packet.time_ns);
  ++numbers_.responses;
  ++answers_;
  told.reason = Reason::kAnswer;
  judge_way(packet, told);
  if (!started_) {
    start(packet.psn + 1);
    order_.forget();
    told.sure = false;  // Or what the capture does not have.
    told.note(Severity::kRemark, "before_capture", "answers what was sent before the capture began");
    return;
  }
  if (!hold_answer(packet, told)) answer(packet, told);
}

/// The requester gets it.
void Stream::answer(const Packet& packet, Told& told) {
  learn_mtu(packet);
  const PsnIndex index = index_of(packet.psn);
  note_awaited(index, packet);
  if (covers_nothing(index, packet, told) || is_ghost(index, packet, told)) return;
  const bool overtaken = is_overtaken(packet);
  const std::uint32_t newest_msn = msn_;
  if (packet.op->has(proto::HeaderId::kAeth) && !overtaken) {
    msn_ = packet.msn;
    has_msn_ = true;
  }
  const bool lost = packet.is_gone();
  const proto::Syndrome syndrome = packet.decoded();
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
  const auto* const nak = std::get_if<proto::syndrome::Nak>(&syndrome);
  if (nak == nullptr || nak->code != proto::NakCode::kPsnSequenceError) gap_nak_.reset();
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
  const bool refuses = packet.op->kind == Kind::kAcknowledge && packet.refuses();
  if (refuses && may_be_refused(index)) return false;
  const Message* const open = history_.newest();
  if (open != nullptr && open->is_read() && open->psns == 0 && packet.op->kind == Kind::kReadResponse) return false;
  tell_unseen_request(packet, told);
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
  if (!msn_ahead_) begins_here_ = begins_here_ || (ahead == 0 && in_order_from_ == 0 && !begins_inside_);
  // One that is wrong does not make the next one wrong, unless that one agrees with it.
  const bool wrong = msn_ahead_ && ahead != *msn_ahead_ && ahead != msn_doubted_;
  msn_doubted_.reset();
  if (wrong) {
    msn_doubted_ = ahead;
    msn_ = (*msn_ahead_ + messages) & kMask;
    incident(packet, told, Severity::kBreach, "msn",
             fmt::format("breaks a rule: MSN {}, where it is {}: {} message {}", packet.msn, msn_,
                         ends ? "behind" : "before the end of", newest->number));
    return;
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

/// The peer's answer shows that an earlier one is missing.
void Stream::imply(PsnIndex index, const Packet& packet, Told& told, const std::string& text) {
  if (evidence_.implied && !evidence_.implied->used && evidence_.implied->index == index) return;
  evidence_.implied = Hint{index, packet.place, packet.time_ns, 0, false};
  ++numbers_.read_gaps;
  incident(packet, told, Severity::kProblem, "implied_nak", text);
}

}  // namespace uroce::explain
