// SPDX-License-Identifier: Apache-2.0
// Faults that NICs of ours have injected, as comments of the capture say: what they kept from the other end, and for
// how long.
#include <algorithm>

#include "tools/explain/packets/injected.h"
#include "tools/explain/story/stream.h"

namespace uroce::explain {
namespace {

constexpr std::size_t kMostStruck = 64, kMostHeldAnswers = 4096;
constexpr std::int64_t kClockSlack = 1'000'000;

}  // namespace

void Stream::note_lost_to_fault(const Packet& packet, const std::string& name, Told& told) {
  ++numbers_.lost;
  ++numbers_.lost_to_faults;
  if (started_) last_lost_ = std::max(last_lost_, index_of(packet.psn));
  incident(packet, told, Severity::kProblem, "injected",
           name + ", PSN " + hex(packet.psn) + ", was " + lost_text(packet));
  strike(packet, packet.lost_to(), kNever);
}

void Stream::strike(const Packet& packet, std::string_view fault, std::int64_t until_ns) {
  if (!started_) return;
  struck_.push_back(
      {index_of(packet.psn), packet.is_response(), packet.place, packet.time_ns, until_ns, std::string(fault)});
  if (struck_.size() > kMostStruck) struck_.pop_front();
}

/// "#4 was dropped by drop=#1"
std::string Stream::struck_text(const Struck& struck) const { return (*names_)(struck.place) + " was " + struck.fault; }

const Stream::Struck* Stream::struck_at(Place place) const {
  const auto found = std::find_if(struck_.begin(), struck_.end(), [&](const Struck& s) { return s.place == place; });
  return !place || found == struck_.end() ? nullptr : &*found;
}

/// The first packet from `begin` on that the other end does not have at `now`, and has not got again since.
const Stream::Struck* Stream::struck_unseen(PsnIndex begin, std::int64_t now, std::int64_t answers_since_ns) const {
  const auto is_unseen = [&](const Struck& struck) {
    if (struck.index < begin || struck.until_ns <= now) return false;
    if (struck.is_answer) return struck.time_ns >= answers_since_ns;
    const SentPacket* const sent = history_.packet(struck.index);
    return sent == nullptr || sent->last == struck.place;
  };
  const auto found = std::find_if(struck_.begin(), struck_.end(), is_unseen);
  return found == struck_.end() ? nullptr : &*found;
}

/// What the requester has timed out for, where a comment says it.
void Stream::find_struck(Round& round) {
  if (round.reason != Reason::kTimeout) return;
  const Struck* const struck = struck_unseen(index_of(round.psn), round.time_ns, before_last_round_ns_);
  if (struck == nullptr) return;
  round.finding = struck_text(*struck);
  round.finding_known = true;
}

/// A packet that comes late or, on receipt, is taken late.
void Stream::note_held(const Packet& packet) {
  if (!started_) return;
  if (const std::string_view fault = holding_fault(packet.receiver_comment); !fault.empty()) {
    const Holding time = holding(packet.receiver_comment);
    // Of one that others let go nobody knows when; the time of a fault that has a range is not known, too.
    strike(packet, fault, packet.time_ns + (time.least_ns != 0 ? time.least_ns : time.most_ns));
    if (packet.is_response() && time.most_ns > time.least_ns)
      maybe_held_until_ns_ = std::max(maybe_held_until_ns_, packet.time_ns + time.most_ns);
  }
  const std::string_view fault = holding_fault(packet.comment);
  if (fault.empty()) return;
  const std::string held = (*names_)(packet.place) + " was " + std::string(fault);
  // The NIC reads its clock before it captures what it sends.
  const std::int64_t due_ns = packet.time_ns - late_ns(packet.comment) - kClockSlack;
  find_held(packet, held, due_ns);
  if (!packet.is_response()) find_gap(packet, held, due_ns);
}

/// What the requester has timed out for was held back, and comes now.
void Stream::find_held(const Packet& packet, const std::string& held, std::int64_t due_ns) {
  Round* const round = numbers_.newest_round();
  if (round == nullptr || round->reason != Reason::kTimeout || round->finding_known) return;
  const PsnIndex index = index_of(packet.psn);
  if (index < index_of(round->psn) || index >= round_end_ || due_ns >= round->time_ns) return;
  round->finding = held;
  round->finding_known = true;
}

/// What was missing in front of another packet was held back, and comes now: nothing is left to guess.
void Stream::find_gap(const Packet& packet, const std::string& held, std::int64_t due_ns) {
  const PsnIndex index = index_of(packet.psn);
  for (const Hole& gap : gaps_) {
    if (index < gap.begin || index >= gap.end || gap.time_ns < due_ns) continue;
    Incident* const told = numbers_.incident(gap.behind, "gap");
    if (told == nullptr) continue;
    const std::size_t guess = told->note.text.find(kMissing);
    if (gap.end - gap.begin == 1 && guess != std::string::npos) {
      told->note.text.replace(guess, kMissing.size(), held);
    } else {
      told->note.text += "; " + held;
    }
  }
  for (Incident& refusal : numbers_.incidents) {
    const std::string awaits = awaits_text(packet.psn);
    if (refusal.note.text == awaits + std::string(kUnseen) && refusal.time_ns >= due_ns)
      refusal.note.text = awaits + held;
  }
}

/// Whether the responder misses an earlier packet, as a comment says, so that it does not take this one.
bool Stream::is_behind_struck(PsnIndex index, std::int64_t now) const {
  const Struck* const struck = struck_unseen(una_, now, kNever);
  return struck != nullptr && struck->index < index;
}

/// Of a requester that has given up.
std::string Stream::silence_text() const {
  const Struck* const struck = struck_unseen(una_, last_request_ns_, last_round_ns_);
  if (struck == nullptr) return "no answer";
  return (struck->is_answer ? "no answer that the requester got (" : "no answer (") + struck_text(*struck) + ")";
}

/// True: the requester gets this answer later.
bool Stream::hold_answer(const Packet& packet, Told& told) {
  if (packet.receiver_comment.empty() || packet.is_gone()) return false;
  const std::int64_t least_ns = holding(packet.receiver_comment).least_ns;
  if (least_ns == 0) return false;
  if (held_answers_.size() >= kMostHeldAnswers) take_held_answers(held_answers_.begin()->first);
  held_answers_.emplace(packet.time_ns + least_ns, packet);
  told.note(Severity::kRemark, "taken_late", "its receiver takes it " + duration_text(least_ns) + " later");
  name_answered(index_of(packet.psn), packet, told);
  return true;
}

/// Answers that were held back on receipt until `now`.
void Stream::take_held_answers(std::int64_t now) {
  while (!held_answers_.empty() && held_answers_.begin()->first <= now) {
    const auto oldest = held_answers_.begin();
    Packet packet = std::move(oldest->second);
    packet.time_ns = oldest->first;
    held_answers_.erase(oldest);
    if (has_given_up(packet.time_ns)) continue;
    Told unheard;  // It was told when it came.
    unheard.reason = Reason::kAnswer;
    answer(packet, unheard);
  }
}

/// Whether the requester, which was sending again after timeouts, would have done so once more by `now`.
bool Stream::has_given_up(std::int64_t now) const {
  constexpr std::int64_t kTimeouts = 4;  // Adapters may take so many times what was set.
  return round_ && round_->reason == Reason::kTimeout && una_ < round_end_ &&
         now - last_request_ns_ > kTimeouts * round_->wait_ns;
}

}  // namespace uroce::explain
