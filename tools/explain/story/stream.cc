// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/story/stream.h"

#include <algorithm>
#include <vector>

#include "proto/describe/describe.h"
#include "proto/timing.h"
#include "tools/explain/packets/injected.h"

namespace uroce::explain {
namespace {

constexpr std::size_t kMostDamaged = 1024;
/// With the largest rnr_retry that counts, 6.
constexpr std::uint32_t kMostRnrTransmissions = 7;
/// So that indices never get negative.
constexpr PsnIndex kStart = PsnIndex{1} << 40;

}  // namespace

PsnIndex Stream::index_of(proto::Psn psn) const { return next_ + (psn - psn_of(next_)); }

void Stream::start(proto::Psn psn) {
  started_ = true;
  next_ = una_ = cursor_ = kStart + psn.value();
}

void Stream::begin_at(proto::Psn psn) {
  if (started_) return;
  start(psn);
  begin_ = next_;
  msn_ahead_ = 0;
  begins_here_ = true;
}

void Stream::learn_mtu(const Packet& packet) {
  const auto position = packet.op->position;
  const bool full = position == proto::Position::kFirst || position == proto::Position::kMiddle;
  if (sure_mtu() == 0 && full && proto::mtu_code(packet.payload)) set_mtu(packet.payload);
}

void Stream::set_mtu(std::uint32_t bytes) {
  mtu_ = bytes;
  mtu_guessed_ = false;
  for (Message& message : history_.messages()) {
    const bool wrong = message.length_known && message.psns != psns_of_length(message);
    if (message.is_read() && (message.psns == 0 || wrong)) set_read_length(message);
  }
}

/// How many PSNs a READ takes is not known before the MTU is; the next request tells it.
void Stream::guess_read_psns(PsnIndex index, const Packet& packet) {
  Message* const open = history_.newest();
  if (open != nullptr && open->is_read() && !open->length_known && open->psns == 0 && index > open->first) {
    open->psns = index - open->first;
    return;
  }
  if (mtu_ != 0 || open == nullptr || !open->is_read() || open->psns != 0 || index <= open->first) return;
  const auto psns = static_cast<std::uint64_t>(index - open->first);
  const bool part = packet.op->kind == proto::Kind::kReadRequest && packet.va > open->va &&
                    packet.va - open->va < open->length && packet.rkey == open->rkey;
  std::vector<std::uint32_t> fitting;
  for (std::uint32_t code = proto::kMtuCodeMin; code <= proto::kMtuCodeMax; ++code) {
    const std::uint32_t mtu = proto::mtu_bytes(static_cast<std::uint8_t>(code));
    const bool fits = part ? psns * mtu == packet.va - open->va : (open->length + mtu - 1) / mtu == psns;
    if (fits) fitting.push_back(mtu);
  }
  if (fitting.empty()) return;
  mtu_guessed_ = fitting.size() == 1;
  if (mtu_guessed_) mtu_ = fitting.front();
  if (mtu_ != 0) return set_read_length(*open);
  open->psns = index - open->first;
}

void Stream::incident(const Packet& packet, Told& told, Severity severity, std::string_view code, std::string text) {
  told.note(severity, code, std::move(text));
  numbers_.add_incident({packet.place, packet.time_ns, told.notes.back()});
}

/// What became of a packet between the captures of both ends.
void Stream::judge_way(const Packet& packet, Told& told) {
  constexpr std::int64_t kSlow = 10'000'000, kSmooth = 16, kSmoothLate = 1024;
  const bool ack = packet.op->kind == proto::Kind::kAcknowledge;
  const auto name_of = [&] { return ack ? proto::describe(packet.decoded()) : std::string(packet.op->name); };
  note_held(packet);
  if (!packet.lost_to().empty()) return note_lost_to_fault(packet, name_of(), told);
  if (packet.fate == Fate::kUnknown) return;
  const std::string name = name_of();
  if (packet.fate != Fate::kArrived) last_lost_ = std::max(last_lost_, index_of(packet.psn));
  if (packet.fate == Fate::kLost) {
    ++numbers_.lost;
    return incident(packet, told, Severity::kProblem, "lost",
                    name + ", PSN " + hex(packet.psn) + ", was " + lost_text(packet));
  }
  if (packet.fate == Fate::kDamaged) {
    ++numbers_.damaged;
    return incident(packet, told, Severity::kProblem, "damaged",
                    name + ", PSN " + hex(packet.psn) + ", was damaged on the way: its ICRC is wrong in " +
                        (*names_)(packet.is_response() ? packet.place : packet.other));
  }
  const std::int64_t way =
      packet.is_response() ? packet.time_ns - packet.other_time_ns : packet.other_time_ns - packet.time_ns;
  // Two clocks run apart with time, which looks as if the way got longer or shorter.
  std::int64_t& usual = packet.is_response() ? usual_way_back_ns_ : usual_way_ns_;
  const std::int64_t late = way - usual;
  // Those that a busy end takes late, many at once, do not make that usual; after a step of a clock it becomes so.
  usual = late < 0 ? way : usual + late / (late > kSlow ? kSmoothLate : kSmooth);
  if (late > kSlow) {
    last_late_ = std::max(last_late_, index_of(packet.psn));
    incident(packet, told, Severity::kProblem, "slow",
             name + ", PSN " + hex(packet.psn) + ", was on the way for " + duration_text(late) + " longer than usual");
  }
  if (packet.is_response()) return;
  if (packet.other_time_ns < latest_arrival_ns_) {
    if (overtaken_ == latest_arrival_) return;
    overtaken_ = latest_arrival_;
    ++numbers_.reasons[static_cast<std::size_t>(Reason::kReordered)];
    incident(packet, told, Severity::kProblem, "overtook",
             name + ", PSN " + hex(packet.psn) + ", has overtaken " + (*names_)(latest_arrival_) + " on the way");
    return;
  }
  latest_arrival_ns_ = packet.other_time_ns;
  latest_arrival_ = packet.place;
}

void Stream::request(const Packet& packet, Told& told) {
  take_held_answers(packet.time_ns);
  if (!started_) {
    start(packet.psn);
    if (!packet.op->starts()) {
      told.note(Severity::kRemark, "begins_inside", "the capture begins inside a message");
      order_.forget();
      begins_inside_ = true;
    }
  }
  learn_mtu(packet);
  ++numbers_.packets;
  if (!numbers_.first_psn) {
    begin_ = begins_here_ ? std::min(begin_, index_of(packet.psn)) : index_of(packet.psn);
    numbers_.first_psn = packet.psn;
    numbers_.first_ns = packet.time_ns;
  }
  numbers_.last_ns = packet.time_ns;
  judge_way(packet, told);
  PsnIndex index = index_of(packet.psn);
  guess_read_psns(index, packet);
  index = index_of(packet.psn);
  begin_ = std::min(begin_, index);
  if (fatal_ && index >= una_) {
    told.note(Severity::kUnusual, "after_fatal_nak",
              "sent although " + (*names_)(fatal_place_) + " has ended the connection");
  }
  if (index >= next_) {
    add_new(index, packet, told);
  } else {
    repeat(index, packet, told);
  }
  ++numbers_.reasons[static_cast<std::size_t>(told.reason)];
  last_request_ns_ = packet.time_ns;
  history_.trim(una_);
}

void Stream::add_new(PsnIndex index, const Packet& packet, Told& told) {
  if (index > next_) note_hole(index, packet, told);
  told.reason = Reason::kFirst;
  const auto stated = stated_reason(packet.comment);
  if (!stated || !round_ || *stated != round_->reason) round_.reset();
  if (stated) {
    const Cause cause = stated_cause(*stated, {.index = index, .time_ns = packet.time_ns}, evidence_);
    told.reason = cause.reason;
    told.cause = cause.place;
    told.wait_ns = cause.wait_ns;
    if (!damaged_.contains(index))
      told.note(Severity::kRemark, "unseen_before", "its first transmission is not in this capture so far");
  }
  join_message(index, packet);
  check_new(index, packet, told);
  SentPacket sent = sent_packet(index, packet);
  sent.resent = stated.has_value();
  sent.behind_gap = !history_.holes().empty() || is_behind_struck(index, packet.time_ns);
  history_.add_packet(sent);
  const Message* const message = history_.message(index);
  const bool whole_read = message != nullptr && message->is_read() && message->first == index;
  next_ = whole_read ? message->end() : index + 1;
  cursor_ = next_;
  damaged_.erase(damaged_.begin(), damaged_.lower_bound(next_));
  numbers_.last_psn = psn_of(next_ - 1);
  numbers_.most_transmissions = std::max(numbers_.most_transmissions, 1u);
  if (!reliable_) una_ = next_;
  fill_part(index, packet, told);
  if (stated) note_round(index, packet, told);
}

/// Some PSNs are skipped: packets that the capture does not have, but for those which it has damaged.
void Stream::note_hole(PsnIndex index, const Packet& packet, Told& told) {
  PsnIndex begin = next_;
  for (const auto& [first, damaged] : damaged_) {
    if (first >= index) break;
    note_missing(begin, first, packet, told);
    begin = std::max(begin, std::min(damaged.end, index));
    history_.add_hole({first, std::min(damaged.end, index), packet.time_ns, packet.place, damaged.damaged});
  }
  note_missing(begin, index, packet, told);
  count_anew();
  if (order_.in_message() && history_.newest() != nullptr) history_.newest()->gap = true;
  order_.forget();
}

void Stream::note_missing(PsnIndex begin, PsnIndex end, const Packet& packet, Told& told) {
  if (begin >= end) return;
  const auto missing = static_cast<std::uint64_t>(end - begin);
  numbers_.missing += missing;
  const std::string range =
      missing == 1 ? "PSN " + hex(psn_of(begin)) : counted(missing, "PSN") + " from " + hex(psn_of(begin)) + " on";
  std::string text =
      range + (missing == 1 ? " is" : " are") + " missing in front of this packet: " + std::string(kMissing);
  if (!reliable_) {
    text = range + (missing == 1 ? " is" : " are") + " missing: lost";
    if (order_.in_message() || !packet.op->starts()) text += "; the receiver drops the whole message";
  }
  incident(packet, told, Severity::kProblem, "gap", text);
  const Hole hole{begin, end, packet.time_ns, packet.place};
  history_.add_hole(hole);
  if (gaps_.size() < Numbers::kListed) gaps_.push_back(hole);
}

void Stream::fill_hole(PsnIndex index, std::int64_t psns) {
  numbers_.missing -= std::min(numbers_.missing, history_.fill_hole(index, psns));
}

void Stream::check_new(PsnIndex, const Packet& packet, Told& told) {
  const proto::rules::Request facts{packet.op, packet.payload, packet.length, packet.ack_request, packet.solicited};
  const auto found = [&](const proto::rules::Breach& breach) {
    const bool breaks = proto::rules::breaks_standard(breach.rule);
    if (breaks) {
      incident(packet, told, Severity::kBreach, "rule", "breaks a rule: " + breach.text);
    } else {
      told.note(Severity::kUnusual, "rule", breach.text);
    }
  };
  if (reliable_) proto::rules::check_flags(facts, found);
  const auto kind = packet.op->kind;
  const bool is_atomic =
      kind == proto::Kind::kCompareSwap || kind == proto::Kind::kFetchAdd || kind == proto::Kind::kAtomicWrite;
  if (is_atomic && packet.va % 8 != 0) {
    incident(packet, told, Severity::kBreach, "atomic_address",
             "breaks a rule: an atomic at " + hex(packet.va) + ", which is no multiple of 8");
  }
  if (packet.length_cut) return order_.forget();
  if (const auto breach = order_.add(facts, mtu_)) {
    found(*breach);
    if (breach->rule == proto::rules::Rule::kOpcodeSequence) {
      order_.forget();
      static_cast<void>(order_.add(facts, mtu_));
    }
  }
}

void Stream::damaged(const Packet& packet, Told& told) {
  ++numbers_.damaged;
  ++numbers_.packets;
  const std::string_view fault = injected(packet.comment, "corrupted");
  const std::string damage = fault.empty() ? "damaged on the way" : std::string(fault) + ", injected by its NIC";
  if (started_ && !fault.empty()) strike(packet, fault, kNever);
  incident(packet, told, Severity::kProblem, "icrc_wrong",
           "ICRC wrong: " + damage + ", its receiver drops " + std::string(reliable_ ? "it" : "the whole message") +
               " (it says " + std::string(packet.op->name) + ", PSN " + hex(packet.psn) + ")");
  if (started_ && !packet.is_response()) await_hole(packet);
}

/// The next packet will skip this one's PSN; a READ takes those of its answer too.
void Stream::await_hole(const Packet& damaged) {
  const PsnIndex index = index_of(damaged.psn);
  if (index < next_) return;
  const bool is_read = damaged.op->kind == proto::Kind::kReadRequest;
  const PsnIndex psns = !is_read ? 1 : mtu_ != 0 ? psns_of_bytes(damaged.length) : kForeign;
  damaged_[index] = {index, index + psns, damaged.time_ns, {}, damaged.place};
  if (damaged_.size() > kMostDamaged) damaged_.erase(std::prev(damaged_.end()));
}

void Stream::finish(std::int64_t now) {
  take_held_answers(kNever);
  for (const Message& message : history_.messages()) {
    if (!message.done) ++numbers_.unanswered;
    if (!message.whole)
      numbers_.operations[static_cast<std::size_t>(operation_of(message.kind))].bytes += message.bytes;
  }
  if (!failure_.empty() || !reliable_ || numbers_.unanswered == 0) return;
  const SentPacket* const oldest = history_.packet(una_);
  if (oldest == nullptr || oldest->times < 2) return;
  const bool rnr = evidence_.rnr && evidence_.rnr->used && evidence_.progress_ns < evidence_.rnr->time_ns;
  const bool waiting = evidence_.rnr && evidence_.rnr->index >= una_;
  failure_ = counted(oldest->times, "transmission") + " of PSN " + hex(psn_of(una_)) + ", ";
  if (waiting || rnr) {
    failure_ += "each refused with an RNR NAK: ";
    failure_ += oldest->times > kMostRnrTransmissions
                    ? "the requester probably tries for ever (rnr_retry 7), until a receive is posted"
                    : "the requester has probably given up (RNR_RETRY_EXC_ERR)";
  } else if (awaited_ && evidence_.progress_ns == 0) {
    failure_ += "but the responder waits for PSN " + hex(*awaited_) +
                ": its rq_psn and the requester's sq_psn must be the same. The requester has probably given up "
                "(RETRY_EXC_ERR)";
  } else {
    const bool refused = std::any_of(evidence_.naks.begin(), evidence_.naks.end(), [&](const Hint& nak) {
      return nak.index == una_ && nak.time_ns >= oldest->time_ns;
    });
    failure_ += refused ? "the last one answered by a NAK that asks for it again" : silence_text();
    failure_ += ": the requester has probably given up (RETRY_EXC_ERR)";
    if (now > oldest->time_ns) failure_ += "; the capture ends " + duration_text(now - oldest->time_ns) + " later";
  }
}

}  // namespace uroce::explain
