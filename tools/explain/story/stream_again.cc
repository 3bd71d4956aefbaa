// SPDX-License-Identifier: Apache-2.0
// Packets that a requester sends again, or seems to.
#include <algorithm>
#include <utility>

#include "tools/explain/story/stream.h"

namespace uroce::explain {
namespace {

/// What a requester sends again in one go comes without longer pauses.
constexpr std::int64_t kPause = 50'000'000;
/// Networks hold back few packets for longer.
constexpr std::int64_t kHeldBackWithin = 10'000'000;

}  // namespace

SentPacket Stream::sent_packet(PsnIndex index, const Packet& packet) {
  SentPacket sent;
  sent.index = index;
  sent.first = sent.last = packet.place;
  sent.time_ns = packet.time_ns;
  sent.op = packet.op;
  sent.content = packet.content;
  sent.icrc = packet.icrc_value;
  sent.ip_id = packet.ip_id;
  sent.fate = packet.fate;
  sent.copied = played_faults(packet.comment).copied;
  return sent;
}

/// Why a packet that goes back was sent, by itself.
Cause Stream::cause_of(PsnIndex index, const Packet& packet) {
  const SentPacket* const before = history_.packet(index);
  const Hole* const hole = history_.hole(index);
  const Message* const message = history_.message(index);
  Repetition again{.index = index, .time_ns = packet.time_ns, .ip_id = packet.ip_id};
  if (before != nullptr) {
    again.seen = true;
    again.last_time_ns = before->time_ns;
    again.last_ip_id = before->ip_id;
    again.same_bytes = before->icrc == packet.icrc_value && before->op == packet.op;
    again.newest = index >= cursor_ - 4 && index < cursor_;
    again.resent = before->resent;
  } else if (hole != nullptr) {
    again.hole_ns = hole->time_ns;
  } else if (message != nullptr) {
    again.seen = true;  // A part of a READ, or long ago.
    again.last_time_ns = message->time_ns;
  } else {
    again.hole_ns = numbers_.first_ns;
  }
  again.acked = index < una_;
  again.answered = message != nullptr && message->is_answered() && message->next_answer > index;
  const Played played = played_faults(packet.comment);
  const std::int64_t since = packet.time_ns - (again.seen ? again.last_time_ns : again.hole_ns);
  if (played.copied && before != nullptr && before->copied) return {Reason::kNetworkCopy, true, {}, since};
  if (const auto stated = stated_reason(packet.comment)) return stated_cause(*stated, again, evidence_);
  // Our NIC would say that it sends it again.
  if (played.held_back) return {Reason::kReordered, true, before ? before->last : Place{}, since};
  return find_cause(again, evidence_);
}

/// Whether a packet that was missing for a short time may have been held back by the network, and not sent again.
bool Stream::may_be_late(const Hole* hole, const Packet& packet) const {
  return hole != nullptr && packet.ip_id == 0 && packet.time_ns - hole->time_ns <= kHeldBackWithin &&
         round_->psn != packet.psn;
}

void Stream::repeat(PsnIndex index, const Packet& packet, Told& told) {
  SentPacket* const before = history_.packet(index);
  const Hole* const hole = history_.hole(index);
  const bool soon = packet.time_ns - last_request_ns_ <= kPause;
  // A packet that was missing before the round began may come early in it; or it is a late one.
  const bool jumps = round_ && index > cursor_ && hole != nullptr && hole->time_ns < round_->time_ns;
  const bool goes_on = round_ && soon && !evidence_.asks_for(index, round_->time_ns) &&
                       (index == cursor_ || index == passed_ || (index > cursor_ && una_ >= index) || jumps);
  const auto stated = stated_reason(packet.comment);
  const Cause cause = cause_of(index, packet);
  const bool copy = cause.reason == Reason::kNetworkCopy || cause.reason == Reason::kReordered;
  passed_ = jumps ? cursor_ : -1;
  const Played played = played_faults(packet.comment);
  const bool known_copy = copy && cause.sure && (before != nullptr || played.copied || played.held_back);
  if (goes_on && (!stated || *stated == round_->reason) && !known_copy) {
    told.reason = round_->reason;
    told.sure = stated || (round_->sure && !jumps && !may_be_late(hole, packet));
    told.cause = round_->cause;
    told.wait_ns = round_->wait_ns;
  } else {
    told.reason = cause.reason;
    told.sure = cause.sure;
    told.cause = cause.place;
    told.wait_ns = cause.wait_ns;
    if (!copy) round_.reset();
  }
  if (told.reason == Reason::kReordered) evidence_.reordered = true;
  if (before != nullptr) check_repetition(index, packet, *before, told);
  const Message* const behind = history_.message(index + 1);
  const bool begins = hole == nullptr && history_.message(index) == nullptr && packet.op->starts() &&
                      behind != nullptr && !behind->begun;  // It was lost before the capture's first packet.
  if (before == nullptr && (hole != nullptr || begins)) {
    const bool was_damaged = hole != nullptr && hole->damaged;
    join_message(index, packet);
    SentPacket& fresh = history_.add_packet(sent_packet(index, packet));
    fresh.late = told.reason == Reason::kReordered;
    fresh.resent = is_resent(told.reason);
    fill_hole(index, 1);
    if (told.reason != Reason::kReordered && !was_damaged) {
      told.note(Severity::kRemark, "unseen_before", "its first transmission is not in this capture");
    }
  }
  if (before == nullptr && hole == nullptr && packet.op->kind == proto::Kind::kReadRequest) {
    history_.add_packet(sent_packet(index, packet));  // A part of a READ.
  }
  if (is_resent(told.reason)) note_round(index, packet, told);
  if (packet.time_ns - last_repeat_ns_ > kPause) owed_answers_ = 0;
  last_repeat_ns_ = packet.time_ns;
  ++owed_answers_;
  if (before != nullptr) {
    told.transmission = is_resent(told.reason) ? ++before->times : before->times;
    numbers_.most_transmissions = std::max(numbers_.most_transmissions, before->times);
    before->resent = before->resent || is_resent(told.reason);
    before->last = packet.place;
    before->time_ns = packet.time_ns;
    before->ip_id = packet.ip_id;
    before->icrc = packet.icrc_value;
    before->copied = !before->copied && played.copied;
  }
  fill_part(index, packet, told);
}

void Stream::note_round(PsnIndex index, const Packet& packet, Told& told) {
  if (!round_) {
    round_ = Round{.reason = told.reason,
                   .sure = told.sure,
                   .first = packet.place,
                   .time_ns = packet.time_ns,
                   .psn = packet.psn,
                   .packets = 0,
                   .cause = told.cause,
                   .wait_ns = told.wait_ns,
                   .finding = {}};
    before_last_round_ns_ = std::exchange(last_round_ns_, packet.time_ns);
    find_struck(*round_);
    told.goes_back = true;
    numbers_.add_round(*round_);
    round_end_ = next_;
    round_answer_.reset();
    if (told.reason == Reason::kRnr && evidence_.rnr && told.wait_ns < evidence_.rnr->delay_ns) {
      incident(packet, told, Severity::kBreach, "rnr_too_early",
               "breaks a rule: the RNR NAK " + (*names_)(evidence_.rnr->place) + " asked for a wait of " +
                   duration_text(evidence_.rnr->delay_ns));
    }
    if (told.reason == Reason::kRnr && evidence_.rnr && index < evidence_.rnr->index) {
      told.note(Severity::kUnusual, "goes_back_further",
                "only PSN " + hex(psn_of(evidence_.rnr->index)) + " was refused");
    }
    evidence_.used(index);
  }
  if (Round* const round = numbers_.newest_round()) ++round->packets;
  Message* const message = history_.message(index);
  if (packet.op->kind == proto::Kind::kReadRequest && message != nullptr) {
    message->asked_again = packet.place;
    message->asked_again_from = index;
    message->asked_again_end = mtu_ != 0 && !packet.length_cut ? index + psns_of_bytes(packet.length) : 0;
    cursor_ = message->end();
  } else {
    if (message != nullptr && message->is_answered()) {
      message->asked_again = packet.place;
      message->asked_again_from = index;
    }
    cursor_ = index + 1;
  }
  const bool maybe_held = packet.time_ns < maybe_held_until_ns_;
  if (index < una_ && message != nullptr && message->done && !maybe_held) {
    told.note(Severity::kUnusual, "already_acknowledged", "PSN " + hex(packet.psn) + " had been acknowledged");
  }
}

void Stream::check_repetition(PsnIndex index, const Packet& packet, const SentPacket& before, Told& told) {
  if (before.op != packet.op) {
    incident(packet, told, Severity::kBreach, "other_contents",
             "breaks a rule: PSN " + hex(packet.psn) + " was " + std::string(before.op->name) + " in " +
                 (*names_)(before.first));
    return;
  }
  const Message* const message = history_.message(index);
  if (message != nullptr && message->is_read()) {
    if (packet.length_cut) return;
    const std::uint64_t offset = static_cast<std::uint64_t>(index - message->first) * mtu_;
    if (packet.va != message->va + offset || packet.rkey != message->rkey ||
        offset + packet.length != message->length) {
      incident(packet, told, Severity::kBreach, "other_contents",
               "breaks a rule: it asks for other bytes than " + (*names_)(before.first));
    }
    return;
  }
  if (before.content != 0 && packet.content != 0 && before.content != packet.content) {
    incident(packet, told, Severity::kBreach, "other_contents",
             "breaks a rule: other contents than in " + (*names_)(before.first));
  }
}

}  // namespace uroce::explain
