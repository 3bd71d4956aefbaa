// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/causes.h"

#include <algorithm>
#include <utility>

namespace uroce::explain {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
/// Requesters answer a NAK at once; a busy machine needs some milliseconds. What comes later has another reason.
constexpr std::int64_t kPrompt = 50 * kMillisecond;
/// No network keeps a copy of a packet longer, without its sender sending again.
constexpr std::int64_t kCopyWithin = kMillisecond;
/// Local ACK timeouts of real adapters are longer.
constexpr std::int64_t kShortestTimeout = kMillisecond / 4;

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

std::int64_t long_after(const Evidence& evidence) { return std::max(kMillisecond, 8 * evidence.round_trip_ns); }

}  // namespace

void Evidence::add_nak(const Hint& nak) {
  naks.push_back(nak);
  if (naks.size() > kMost) naks.pop_front();
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
  if (evidence.rnr && !evidence.rnr->used && again.index <= evidence.rnr->index) {
    return {Reason::kRnr, true, evidence.rnr->place, again.time_ns - evidence.rnr->time_ns};
  }
  if (const Hint* nak = asked_by(again, evidence)) {
    return {Reason::kNak, true, nak->place, again.time_ns - nak->time_ns};
  }
  if (evidence.implied && !evidence.implied->used) {
    const std::int64_t wait = again.time_ns - evidence.implied->time_ns;
    if (wait <= kPrompt) return {Reason::kImpliedNak, wait <= long_after(evidence), evidence.implied->place, wait};
  }
  if (!again.seen) {
    const std::int64_t late = again.time_ns - again.hole_ns;
    if (late <= 10 * kMillisecond) return {Reason::kReordered, late <= kMillisecond, {}, late};
  }
  const std::int64_t since = again.seen ? std::max(again.last_time_ns, evidence.progress_ns) : evidence.progress_ns;
  const std::int64_t wait = again.time_ns - (since == 0 ? again.hole_ns : since);
  const bool numbered = again.ip_id != 0 || again.last_ip_id != 0;
  if (again.seen && !numbered && again.newest && again.same_bytes &&
      again.time_ns - again.last_time_ns <= kCopyWithin) {
    if (const Hint* nak = asked_before(again, evidence)) {
      return {Reason::kNak, false, nak->place, again.time_ns - nak->time_ns};
    }
    return {Reason::kNetworkCopy, false, {}, again.time_ns - again.last_time_ns};
  }
  // The answer was lost behind this capture, and the requester has noticed at the next one.
  if (again.answered && wait <= kPrompt) return {Reason::kImpliedNak, false, {}, wait};
  if (wait < kShortestTimeout) return {Reason::kUnknown, false, {}, wait};
  return {Reason::kTimeout, wait >= kMillisecond, {}, wait};
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

Cause stated_cause(Reason reason, const Repetition& again, const Evidence& evidence) {
  Cause cause = find_cause(again, evidence);
  if (cause.reason != reason) {
    const Hint* hint = nullptr;
    if (reason == Reason::kNak && !evidence.naks.empty()) hint = &evidence.naks.back();
    if (reason == Reason::kRnr && evidence.rnr) hint = &*evidence.rnr;
    if (reason == Reason::kImpliedNak && evidence.implied) hint = &*evidence.implied;
    const std::int64_t since = std::max(again.seen ? again.last_time_ns : again.hole_ns, evidence.progress_ns);
    cause = hint != nullptr ? Cause{reason, true, hint->place, again.time_ns - hint->time_ns}
                            : Cause{reason, true, {}, again.time_ns - since};
  }
  cause.sure = true;
  return cause;
}

}  // namespace uroce::explain
