// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/lint_responses.h"

#include <algorithm>

#include "proto/syndrome.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using proto::Kind;
using proto::NakCode;
using proto::PacketView;
using proto::Position;

void ResponseLint::request(const PacketView& view, const RequestLint& peer) {
  const std::uint32_t at = peer.index(view.psn());
  const auto& history = peer.history();
  if (!history.has(at)) return;
  if (refused_ == at) refused_.reset();
  const Kind kind = view.op().kind;
  std::uint32_t count = 1;
  if (kind == Kind::kReadRequest) {
    for (std::uint32_t i = at; !history[i].ends; ++i) ++count;
    if (asked_.size() < history.size()) asked_.resize(history.size());
    asked_[at] = true;
  }
  if (at != arrived_) return;
  arrived_ += count;
  if (kind != Kind::kSend && kind != Kind::kWrite) {
    unanswered_.push_back({at, at + count});
  }
}

bool ResponseLint::forged(const PacketView& view, const RequestLint& peer) {
  const std::uint32_t at = peer.index(view.psn());
  if (at == arrived_) return may_refuse_next_ = true;
  if (static_cast<std::int32_t>(at) < 0) repeated_nothing_ = true;
  return false;
}

void ResponseLint::sent(const PacketView& view, const RequestLint& peer, std::optional<std::uint32_t> receives,
                        const Memory& memory) {
  if (dead_) incorrect("{} after a fatal NAK", view.op().name);
  const std::uint32_t at = peer.index(view.psn());
  if (at == RequestLint::kBeforeFirst && repeated_nothing_ && view.op().kind == Kind::kAcknowledge) return;
  // A NAK of what has not arrived names the PSN behind the last one that has.
  if (at > arrived_ || at > peer.history().size()) incorrect("{} to a request that has not arrived", view.op().name);
  if (view.bth().get<proto::Bth::AckReq>() || view.bth().get<proto::Bth::SolicitedEvent>()) {
    incorrect("AckReq or SE on {}", view.op().name);
  }
  std::optional<proto::Syndrome> syndrome;
  if (view.has<proto::Aeth>()) {
    syndrome = proto::decode_syndrome(view.header<proto::Aeth>().get<proto::Aeth::SyndromeField>());
  }
  const bool positive = !syndrome || std::holds_alternative<proto::syndrome::Ack>(*syndrome);
  if (view.op().kind == Kind::kAcknowledge && !positive) return check_refusal(at, view, peer, receives);
  if (!positive) incorrect("{} with the syndrome of a NAK", view.op().name);
  if (at >= arrived_) incorrect("{} to a request that has not arrived", view.op().name);
  judge(at, view, peer, memory);
  if (syndrome && receives) check_credits(view, peer, *receives);
}

void ResponseLint::check_credits(const PacketView& view, const RequestLint& peer, std::uint32_t receives) {
  const auto aeth = view.header<proto::Aeth>();
  const std::uint8_t code = aeth.get<proto::Aeth::SyndromeField>() & 0x1F;
  if (code == proto::kCreditsUnlimited) return;
  const std::uint32_t left = receives - peer.receives_of(aeth.get<proto::Aeth::Msn>());
  if (code != proto::credit_code(left)) incorrect("{} credits, {} receives are posted", proto::kCredits[code], left);
}

void ResponseLint::judge(std::uint32_t at, const PacketView& view, const RequestLint& peer, const Memory& memory) {
  switch (view.op().kind) {
    case Kind::kAcknowledge:
      return check_ack(at, view.header<proto::Aeth>().get<proto::Aeth::Msn>(), peer);
    case Kind::kReadResponse:
      return check_read_response(at, view, peer, memory);
    default:
      return check_atomic_response(at, view, peer);
  }
}

std::uint32_t ResponseLint::msn_before(std::uint32_t at, const RequestLint& peer) const {
  return at == 0 ? 0 : peer.history()[at - 1].msn_after;
}

/// `msn` never goes back, and lies between what this answer proves complete and what has arrived.
void ResponseLint::check_msn(std::uint32_t msn, std::uint32_t least, std::uint32_t most) {
  if (msn < least || msn > most) incorrect("MSN {}, but {} to {} messages are complete", msn, least, most);
  if (msn < msn_) incorrect("MSN goes back from {} to {}", msn_, msn);
  msn_ = msn;
}

void ResponseLint::check_ack(std::uint32_t at, std::uint32_t msn, const RequestLint& peer) {
  if (read_at_) incorrect("an ACK between the responses to a READ");
  if (!unanswered_.empty() && unanswered_.front().begin <= at)
    incorrect("an ACK overtakes the answer to a READ or atomic");
  check_msn(msn, peer.history()[at].msn_after, msn_before(arrived_, peer));
}

void ResponseLint::check_refusal(std::uint32_t at, const PacketView& view, const RequestLint& peer,
                                 std::optional<std::uint32_t> receives) {
  const auto aeth = view.header<proto::Aeth>();
  const proto::Syndrome syndrome = proto::decode_syndrome(aeth.get<proto::Aeth::SyndromeField>());
  if (std::holds_alternative<proto::syndrome::Reserved>(syndrome)) incorrect("a reserved syndrome");
  const auto* nak = std::get_if<proto::syndrome::Nak>(&syndrome);
  const bool fatal = nak != nullptr && nak->code != NakCode::kPsnSequenceError;
  if (nak != nullptr && nak->code == NakCode::kInvalidRdRequest) incorrect("a NAK for reliable datagrams");
  if (fatal) {
    dead_ = true;
    if (at >= arrived_ && !may_refuse_next_) incorrect("a fatal NAK of a request that has not arrived");
    return check_msn(aeth.get<proto::Aeth::Msn>(), msn_before(std::min(at, arrived_), peer),
                     msn_before(arrived_, peer));
  }
  if (refused_ == at) incorrect("a second NAK of the same packet");
  if (!unanswered_.empty() && unanswered_.front().begin < at)
    incorrect("a NAK overtakes the answer to a READ or atomic");
  if (nak == nullptr) {
    ++rnr_naks_;
    const std::uint8_t timer = std::get<proto::syndrome::Rnr>(syndrome).timer;
    if (rnr_timer_ && timer != *rnr_timer_) incorrect("RNR timer {}, the QP has {}", timer, *rnr_timer_);
    if (at >= arrived_) incorrect("an RNR NAK of a request that has not arrived");
    const std::optional<std::uint32_t> takes = peer.history()[at].takes_receive;
    if (!takes) incorrect("an RNR NAK of {}, which takes no receive", proto::info(peer.history()[at].opcode).name);
    if (receives && *receives > *takes) incorrect("an RNR NAK although a receive is posted");
  }
  // What follows the refused packet has not been executed, and neither has it.
  arrived_ = at;
  while (!unanswered_.empty() && unanswered_.back().begin >= at) unanswered_.pop_back();
  refused_ = at;
  check_msn(aeth.get<proto::Aeth::Msn>(), msn_before(at, peer), msn_before(at, peer));
}

void ResponseLint::check_read_response(std::uint32_t at, const PacketView& view, const RequestLint& peer,
                                       const Memory& memory) {
  const SentPsn& request = peer.history()[at];
  const Kind kind = proto::info(request.opcode).kind;
  if (kind == Kind::kAtomicWrite || kind == Kind::kFlush) return check_placement_response(at, view, peer);
  if (kind != Kind::kReadRequest) incorrect("a READ response under the PSN of no READ");
  const bool begins = at < asked_.size() && asked_[at];
  const Position position = view.op().position;
  if (!begins && read_at_ != at) incorrect("a READ response that neither begins nor continues an answer");
  if (!begins && view.op().starts()) incorrect("{} in the middle of an answer", view.op().name);
  if (view.op().ends() != request.ends) incorrect("{} is the wrong end of an answer", view.op().name);
  if (!unanswered_.empty() && unanswered_.front().begin < at && unanswered_.front().end <= at) {
    incorrect("a READ response overtakes an older answer");
  }
  if (view.payload().size() != request.bytes) {
    incorrect("a READ response of {} bytes, {} are due", view.payload().size(), request.bytes);
  }
  const Bytes source = memory(request.va, request.bytes);
  if (!source.empty() && !std::equal(source.begin(), source.end(), view.payload().begin())) {
    incorrect("a READ response that does not carry what is in memory");
  }
  if (position != Position::kMiddle) {
    check_msn(view.header<proto::Aeth>().get<proto::Aeth::Msn>(), request.msn_after, msn_before(arrived_, peer));
  }
  read_at_ = request.ends ? std::nullopt : std::optional(at + 1);
  if (request.ends && !unanswered_.empty() && unanswered_.front().end == at + 1) unanswered_.pop_front();
}

/// ATOMIC WRITE and FLUSH: a READ response without data.
void ResponseLint::check_placement_response(std::uint32_t at, const PacketView& view, const RequestLint& peer) {
  if (view.op().position != Position::kOnly || !view.payload().empty()) incorrect("an answer to it is empty");
  check_single_response(at, view, peer);
}

/// What holds for each answer of one packet.
void ResponseLint::check_single_response(std::uint32_t at, const PacketView& view, const RequestLint& peer) {
  if (read_at_) incorrect("{} between the responses to a READ", view.op().name);
  if (!unanswered_.empty() && unanswered_.front().begin < at) incorrect("{} overtakes an older answer", view.op().name);
  check_msn(view.header<proto::Aeth>().get<proto::Aeth::Msn>(), peer.history()[at].msn_after,
            msn_before(arrived_, peer));
  if (!unanswered_.empty() && unanswered_.front().begin == at) unanswered_.pop_front();
}

void ResponseLint::check_atomic_response(std::uint32_t at, const PacketView& view, const RequestLint& peer) {
  const Kind kind = proto::info(peer.history()[at].opcode).kind;
  if (kind != Kind::kCompareSwap && kind != Kind::kFetchAdd) incorrect("an atomic ACK under the PSN of no atomic");
  const std::uint64_t original = view.header<proto::AtomicAckEth>().get<proto::AtomicAckEth::Original>();
  const auto [before, fresh] = originals_.emplace(at, original);
  if (before->second != original) {
    incorrect("an atomic answered with 0x{:x} and again with 0x{:x}", before->second, original);
  }
  check_single_response(at, view, peer);
}

}  // namespace uroce::simulator
