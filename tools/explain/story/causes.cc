// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/causes.h"

#include <algorithm>
#include <string>
#include <utility>

namespace uroce::explain {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
/// Requesters answer a NAK at once; a busy machine needs some milliseconds. What comes later has another reason.
constexpr std::int64_t kPrompt = 50 * kMillisecond;
/// No network keeps a copy of a packet longer, without its sender sending again.
constexpr std::int64_t kCopyWithin = kMillisecond;

bool is_for(const Hint& hint, PsnIndex index) { return !hint.used && hint.index == index; }

/// The NAK that asks for this very packet, else the newest one that asks for it among others.
const Hint* asked_by(const Repetition& again, const Evidence& evidence) {
  const Hint* best = nullptr;
  for (const Hint& nak : evidence.naks) {
    if (nak.used || nak.index < again.index || again.time_ns - nak.time_ns > kPrompt) continue;
    if (best == nullptr || nak.index == again.index || best->index != again.index) best = &nak;
  }
  return best;
}

/// A NAK that has come since the packet was sent, for one before it of which the capture lacks the second transmission.
const Hint* asked_before(const Repetition& again, const Evidence& evidence) {
  for (const Hint& nak : evidence.naks) {
    const bool fits = nak.index < again.index && nak.time_ns >= again.last_time_ns;
    if (!nak.used && fits && again.time_ns - nak.time_ns <= kPrompt) return &nak;
  }
  return nullptr;
}

/// Soft-RoCE numbers its packets, so only a copy has the same number.
bool is_copy(const Repetition& again) {
  return again.same_bytes && again.ip_id != 0 && again.ip_id == again.last_ip_id;
}

/// Whether the packet has been sent since the answer came: that was the consequence.
bool is_settled(const Hint& hint, const Repetition& again) { return again.seen && hint.time_ns < again.last_time_ns; }

std::int64_t long_after(const Evidence& evidence) {
  // What takes longer is a clock that was set forward, perhaps by years.
  constexpr std::int64_t kLongestRoundTrip = 60 * 1000 * kMillisecond;
  return std::max(kMillisecond, 8 * std::min(evidence.round_trip_ns, kLongestRoundTrip));
}

/// How long the requester has heard nothing new of this packet.
std::int64_t silence(const Repetition& again, const Evidence& evidence) {
  const std::int64_t since = again.seen ? std::max(again.last_time_ns, evidence.progress_ns) : evidence.progress_ns;
  return again.time_ns - (since == 0 ? again.hole_ns : since);
}

/// Whether any answer since the packet was sent last may have been the cause, though it asked for another one, or the
/// requester has gone back for it already.
bool may_be_answer(const Repetition& again, const Evidence& evidence) {
  const auto is_later = [&](const Hint& hint) { return hint.time_ns > again.last_time_ns; };
  return std::any_of(evidence.naks.begin(), evidence.naks.end(), is_later) ||
         (evidence.rnr && is_later(*evidence.rnr)) || (evidence.implied && is_later(*evidence.implied));
}

}  // namespace

void Evidence::add_nak(const Hint& nak) {
  naks.push_back(nak);
  if (naks.size() > kMost) naks.pop_front();
}

bool Evidence::asks_for(PsnIndex index, std::int64_t since_ns) const {
  const auto asks = [&](const Hint& hint) { return is_for(hint, index) && hint.time_ns > since_ns; };
  return std::any_of(naks.begin(), naks.end(), asks) || (rnr && asks(*rnr)) || (implied && asks(*implied));
}

void Evidence::used(PsnIndex index) {
  for (Hint& nak : naks) {
    if (nak.index == index) nak.used = true;
  }
  if (rnr && rnr->index >= index) {
    // Other NAKs of the same time say the same.
    for (Hint& nak : naks) nak.used = nak.used || nak.index <= rnr->index;
    rnr->used = true;
  }
  if (implied) implied->used = true;
}

Cause find_cause(const Repetition& again, const Evidence& evidence) {
  if (again.seen && is_copy(again)) return {Reason::kNetworkCopy, true, {}, again.time_ns - again.last_time_ns};
  const bool numbered = again.ip_id != 0 || again.last_ip_id != 0;
  // An answer is the sure cause only where a timer can't have been.
  const bool may_be_timeout = again.seen && silence(again, evidence) >= long_after(evidence);
  // Before the wait is over, only what was refused can be meant: the network may have held back another packet.
  const bool too_early = evidence.rnr && again.time_ns - evidence.rnr->time_ns < evidence.rnr->delay_ns &&
                         again.index < evidence.rnr->index && again.seen && !numbered;
  if (evidence.rnr && !evidence.rnr->used && again.index <= evidence.rnr->index && !too_early) {
    const std::int64_t wait = again.time_ns - evidence.rnr->time_ns;
    const bool plain = again.index == evidence.rnr->index && !is_settled(*evidence.rnr, again) &&
                       wait <= evidence.rnr->delay_ns + long_after(evidence);
    return {Reason::kRnr, numbered || plain, evidence.rnr->place, wait};
  }
  const Hint* const nak = asked_by(again, evidence);
  const bool exact_implied = evidence.implied && is_for(*evidence.implied, again.index);
  if (nak != nullptr && (nak->index == again.index || !exact_implied)) {
    const std::int64_t wait = again.time_ns - nak->time_ns;
    // What was missing for longer than an answer takes may be the first transmission, which the network held back.
    const bool may_be_late = !again.seen && (evidence.reordered || wait > kMillisecond / 2 ||
                                             again.time_ns - again.hole_ns > long_after(evidence));
    // A NAK acknowledges what lies before it: why go back further?
    const bool odd = nak->index != again.index || again.acked || may_be_late;
    return {Reason::kNak, numbered || !(odd || may_be_timeout || is_settled(*nak, again)), nak->place, wait};
  }
  if (evidence.implied && !evidence.implied->used) {
    const std::int64_t wait = again.time_ns - evidence.implied->time_ns;
    const bool plain = wait <= long_after(evidence) && (numbered || evidence.implied->index == again.index);
    if (wait <= kPrompt) {
      const bool sure = plain && (numbered || !(may_be_timeout || is_settled(*evidence.implied, again)));
      return {Reason::kImpliedNak, sure, evidence.implied->place, wait};
    }
  }
  if (!again.seen) {
    const std::int64_t late = again.time_ns - again.hole_ns;
    if (late <= 10 * kMillisecond) return {Reason::kReordered, late <= kMillisecond, {}, late};
  }
  const std::int64_t wait = silence(again, evidence);
  if (again.seen && !numbered && again.newest && again.same_bytes &&
      again.time_ns - again.last_time_ns <= kCopyWithin) {
    if (const Hint* const before = asked_before(again, evidence)) {
      return {Reason::kNak, false, before->place, again.time_ns - before->time_ns};
    }
    return {Reason::kNetworkCopy, false, {}, again.time_ns - again.last_time_ns};
  }
  // The answer was lost behind this capture, and the requester has noticed at the next one.
  if (again.answered && wait <= kPrompt) return {Reason::kImpliedNak, false, {}, wait};
  // Nobody asks for it a third time: the network has held back the first one.
  const bool needless = again.resent && (wait < kShortestTimeout || (again.acked && wait < kLongDelay));
  if (needless && !numbered) return {Reason::kReordered, false, {}, again.time_ns - again.last_time_ns};
  if (wait < kShortestTimeout) return {Reason::kUnknown, false, {}, wait};
  // Sooner, it may as well be the first one, held back by the network.
  const bool is_soon = wait < (again.seen ? kLongDelay / 2 : kLongDelay);
  const bool odd = is_soon || again.acked || may_be_answer(again, evidence);
  return {Reason::kTimeout, wait >= kMillisecond && (numbered || !odd), {}, wait};
}

std::optional<Reason> stated_reason(std::string_view comment) {
  constexpr std::string_view kBecause = "sent again because of ";
  constexpr std::pair<std::string_view, Reason> kWords[] = {{"ack_timeout ", Reason::kTimeout},
                                                            {"sequence_nak_in ", Reason::kNak},
                                                            {"implied_nak ", Reason::kImpliedNak},
                                                            {"rnr_nak_in ", Reason::kRnr}};
  const auto nic = comment.find("NIC: ");
  const auto at = nic == std::string_view::npos ? nic : comment.find(kBecause, nic);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view why = comment.substr(at + kBecause.size());
  for (const auto& [word, reason] : kWords) {
    if (why.starts_with(word)) return reason;
  }
  return std::nullopt;
}

Played played_faults(std::string_view comment) {
  // Faults "rx." are played behind the capture.
  const auto says = [&](std::string_view what, std::string_view fault) {
    return comment.find(std::string(what) + " by " + std::string(fault)) != std::string_view::npos;
  };
  if (!comment.starts_with("uroce: ")) return {};
  return {.copied = says("duplicated", "dup"), .held_back = says("held back", "reorder") || says("delayed", "delay")};
}

Cause stated_cause(Reason reason, const Repetition& again, const Evidence& evidence) {
  Cause cause = find_cause(again, evidence);
  if (cause.reason != reason) {
    const Hint* hint = nullptr;
    if (reason == Reason::kNak && !evidence.naks.empty()) hint = &evidence.naks.back();
    if (reason == Reason::kRnr && evidence.rnr) hint = &*evidence.rnr;
    // The answer that was missing when it came may be here by now; it is no implied NAK any more, but was one.
    if (reason == Reason::kImpliedNak) hint = evidence.implied ? &*evidence.implied : asked_by(again, evidence);
    const std::int64_t since = std::max(again.seen ? again.last_time_ns : again.hole_ns, evidence.progress_ns);
    cause = hint != nullptr ? Cause{reason, true, hint->place, again.time_ns - hint->time_ns}
                            : Cause{reason, true, {}, since == 0 ? 0 : again.time_ns - since};
  }
  cause.sure = true;
  return cause;
}

}  // namespace uroce::explain
