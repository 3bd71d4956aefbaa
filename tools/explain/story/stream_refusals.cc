// SPDX-License-Identifier: Apache-2.0
// What the peer refuses: RNR NAKs, sequence errors, and what ends the connection.
#include <fmt/core.h>

#include <utility>

#include "proto/describe/describe.h"
#include "proto/timing.h"
#include "tools/explain/story/stream.h"

namespace uroce::explain {

/// Whether the responder can have refused the PSN behind all others: only a packet from there on makes it do so.
bool Stream::may_be_refused(PsnIndex index) const {
  if (index != next_) return false;
  const Message* const open = history_.messages().empty() ? nullptr : &history_.messages().back();
  return damaged_.contains(index) || (open != nullptr && open->is_read() && open->psns == 0);
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
  if (round->finding_known) return;
  const bool first = !round_answer_;
  if (first) round_answer_ = index;
  const std::string maybe = round->sure ? "" : "probably ";  // Else the packet may have been held back only.
  const PsnIndex begin = index_of(round->psn);
  if (first && last_late_ >= begin && last_lost_ < begin) {
    round->finding = "nothing was lost between the captures, but packets were late";
  } else if (first && index + 1 < round_end_) {
    round->finding = maybe + "PSN " + hex(psn_of(index + 1)) + " was lost, or a NAK for it";
  } else if (first && index + 1 == round_end_) {
    round->finding = maybe + "a request or its answer was lost";
  } else if (!first && *round_answer_ + 1 == round_end_ && index + 1 == round_end_ &&
             told.reason == Reason::kAnswerAgain) {
    round->finding = "probably an answer was lost: the responder had everything";
  }
}

void Stream::refuse(PsnIndex index, const Packet& packet, Told& told) {
  const proto::Syndrome syndrome = packet.decoded();
  const bool lost = packet.is_gone();
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
    if (message->rkey != 0 || message->va != 0)
      text += fmt::format("; it used R_Key {} at {}", hex(message->rkey), hex(message->va));
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

/// A responder sends one NAK for a gap, and is silent until the expected packet arrives (9.7.5.1.4 ?). True: the
/// network has copied the NAK.
bool Stream::is_second_nak(PsnIndex index, const Packet& packet, Told& told) {
  const auto before = std::exchange(gap_nak_, Answer{.index = index,
                                                     .op = packet.op,
                                                     .icrc = packet.icrc_value,
                                                     .ip_id = packet.ip_id,
                                                     .time_ns = packet.time_ns,
                                                     .place = packet.place,
                                                     .syndrome = packet.syndrome,
                                                     .msn = packet.msn});
  if (!before || before->index != index) return false;
  const SentPacket* const sent = history_.packet(index);
  if (sent != nullptr && sent->time_ns >= before->time_ns) return false;  // It may have arrived, and was not taken.
  const std::int64_t since = packet.time_ns - before->time_ns;
  const bool same = before->icrc == packet.icrc_value && before->ip_id == packet.ip_id;
  if (same && (packet.ip_id != 0 || since <= kAnswerCopiedWithin)) {
    told.reason = Reason::kNetworkCopy;
    told.sure = packet.ip_id != 0;
    told.cause = before->place;
    told.wait_ns = since;
    ++numbers_.reasons[static_cast<std::size_t>(told.reason)];
    return true;
  }
  incident(packet, told, Severity::kBreach, "nak_again",
           "breaks a rule: another NAK for the same gap, after " + (*names_)(before->place) +
               ": a responder sends one, until the packet comes");
  return false;
}

void Stream::refuse_sequence(PsnIndex index, const Packet& packet, Told& told) {
  if (is_second_nak(index, packet, told)) return;
  ++numbers_.sequence_naks;
  std::string text = awaits_text(packet.psn);
  const SentPacket* const sent = history_.packet(index);
  const Struck* const struck = sent == nullptr ? nullptr : struck_at(sent->last);
  if (struck != nullptr) {
    text += struck_text(*struck);
  } else if (evidence_.rnr && !evidence_.rnr->used && evidence_.rnr->index == index) {
    text += "what follows a packet that was refused with RNR is out of sequence";
  } else if (sent != nullptr && sent->late) {
    text += (*names_)(sent->last) + " came too late, behind a later PSN";
  } else if (sent != nullptr && sent->times == 1 && sent->behind_gap) {
    text += "it has dropped " + (*names_)(sent->last) + ", which came out of order";
  } else if (sent != nullptr && sent->times == 1 && sent->fate == Fate::kArrived) {
    text += (*names_)(sent->last) + " reached its host and was dropped there, by the kernel or as out of order";
  } else if (sent != nullptr) {
    text += (*names_)(sent->last) + " did not reach it";
  } else {
    const Hole* const hole = history_.hole(index);
    text += hole == nullptr                       ? "it was not captured"
            : struck_at(hole->damaged) != nullptr ? struck_text(*struck_at(hole->damaged))
            : hole->damaged                       ? (*names_)(hole->damaged) + " was damaged"
                                                  : std::string(kUnseen);
  }
  if (index < una_ && evidence_.progress_ns != 0) text += " (late: PSN " + hex(packet.psn) + " has been acknowledged)";
  incident(packet, told, Severity::kProblem, "nak_sequence", text);
  if (packet.is_gone()) return;
  advance_to_refused(index, packet, told);
  evidence_.add_nak({index, packet.place, packet.time_ns, 0, false});
}

}  // namespace uroce::explain
