// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/lint_requests.h"

#include <algorithm>

#include "proto/syndrome.h"
#include "proto/timing.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using proto::Kind;
using proto::PacketView;

namespace {

void forbid(const proto::rules::Breach& breach) { incorrect("{}", breach.text); }

}  // namespace

void RequestLint::start(const QpFacts& facts) {
  *this = RequestLint{};
  facts_ = facts;
}

void RequestLint::sent(const PacketView& view, const proto::Path& path, Instant now) {
  const std::uint32_t at = index(view.psn());
  if (stopped_) incorrect("a request from a QP in error");
  check_order(at, now);
  if (at >= rnr_index_) rnr_until_ = {};
  const proto::OpcodeInfo& op = view.op();
  proto::rules::check_flags(proto::rules::request_of(view), forbid);
  if (at == history_.size()) check_begin(at);
  if (op.kind == Kind::kReadRequest) {
    add_read(view, at);
  } else if (at == history_.size()) {
    add(view, path, at);
  } else {
    const SentPsn& before = history_[at];
    if (before.opcode != op.code || before.content != proto::rules::content(view, path)) {
      incorrect("sent again with other contents: {} was {}", op.name, proto::info(before.opcode).name);
    }
    cursor_ = at + 1;
  }
  const bool has_own_answer = op.kind != Kind::kSend && op.kind != Kind::kWrite && op.kind != Kind::kReadRequest;
  if (has_own_answer) count_outstanding(at, at + 1);
}

/// A PSN follows the one before it, or goes back (never to what is acknowledged); what was acknowledged in the meantime
/// may be skipped.
void RequestLint::check_order(std::uint32_t at, Instant now) const {
  const auto size = static_cast<std::uint32_t>(history_.size());
  if (at > size) incorrect("PSN skips: {} were sent, this one is number {}", size, at);
  if (at > std::max(cursor_, una_)) incorrect("PSN skips while sending again: number {} after {}", at, cursor_);
  if (at < una_) incorrect("sent again although acknowledged (number {}, {} are acknowledged)", at, una_);
  if (at - una_ >= 1u << 23) incorrect("PSN 2^23 or more ahead of the oldest unacknowledged one");
  if (now < rnr_until_ && at >= rnr_index_ && una_ <= rnr_index_) {
    incorrect("sent {} ns before the time that the RNR NAK asked for", (rnr_until_ - now).count());
  }
}

void RequestLint::posted(std::uint32_t psns, bool fenced) {
  const std::uint32_t begin = posted_.empty() ? 0 : posted_.back().end;
  posted_.push_back({begin, begin + psns, fenced});
}

/// False inside a WR: a long READ is asked for in several requests.
bool RequestLint::begins_work(std::uint32_t at) const {
  const auto after = std::upper_bound(posted_.begin(), posted_.end(), at,
                                      [](std::uint32_t i, const Posted& wr) { return i < wr.begin; });
  return after == posted_.begin() || std::prev(after)->begin == at || std::prev(after)->end <= at;
}

/// The first packet of a WR.
void RequestLint::check_begin(std::uint32_t at) const {
  if (order_.in_message() || !begins_work(at)) return;
  if (draining_) incorrect("a new message while the send queue drains");
  const auto wr = std::find_if(posted_.rbegin(), posted_.rend(), [&](const Posted& p) { return p.begin == at; });
  if (wr != posted_.rend() && wr->fenced && !outstanding_.empty()) {
    incorrect("a fenced WR begins while {} READs and atomics are outstanding", outstanding_.size());
  }
}

void RequestLint::add(const PacketView& view, const proto::Path& path, std::uint32_t at) {
  check_message(view);
  const proto::OpcodeInfo& op = view.op();
  if (op.kind == Kind::kAtomicWrite) {
    const bool aligned = view.header<proto::Reth>().get<proto::Reth::Va>() % 8 == 0;
    if (view.payload().size() != 8 || !aligned) incorrect("an ATOMIC WRITE is 8 bytes, at a multiple of 8");
  }
  SentPsn entry;
  entry.opcode = op.code;
  entry.content = proto::rules::content(view, path);
  const bool takes = op.kind == Kind::kSend ? op.starts() : op.consumes_receive;
  if (takes) {
    // One message may go without a credit, to ask for one (9.7.7.2).
    if (credit_limit_ && receives_ > *credit_limit_)
      incorrect("{} receives needed, credits for {}", receives_ + 1, *credit_limit_);
    entry.takes_receive = receives_++;
  }
  if (op.ends()) end_message();
  entry.msn_after = messages_;
  history_.push_back(entry);
  cursor_ = at + 1;
}

/// A READ takes a PSN for each response. Parts of it may be asked for again with a request of their own.
void RequestLint::add_read(const PacketView& view, std::uint32_t at) {
  const auto reth = view.header<proto::Reth>();
  const std::uint32_t length = reth.get<proto::Reth::DmaLength>();
  const std::uint32_t count = length == 0 ? 1 : (length + facts_.mtu - 1) / facts_.mtu;
  const bool fresh = at == history_.size();
  if (fresh) {
    check_message(view);
    end_message();
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    SentPsn entry;
    entry.opcode = view.op().code;
    entry.msn_after = messages_;
    entry.va = reth.get<proto::Reth::Va>() + std::uint64_t{i} * facts_.mtu;
    entry.rkey = reth.get<proto::Reth::RKey>();
    entry.bytes = std::min(facts_.mtu, length - i * facts_.mtu);
    entry.ends = i + 1 == count;
    if (fresh) {
      history_.push_back(entry);
      continue;
    }
    if (at + i >= history_.size()) incorrect("a READ sent again goes beyond what was asked for");
    const SentPsn& before = history_[at + i];
    if (before.opcode != entry.opcode || before.va != entry.va || before.rkey != entry.rkey ||
        before.bytes != entry.bytes || before.ends != entry.ends) {
      incorrect("a READ sent again asks for other bytes: va 0x{:x} was 0x{:x}, {} bytes were {}", entry.va, before.va,
                entry.bytes, before.bytes);
    }
  }
  cursor_ = at + count;
  count_outstanding(at, at + count);
}

void RequestLint::check_message(const PacketView& view) {
  if (const auto breach = order_.add(proto::rules::request_of(view), facts_.mtu)) forbid(*breach);
}

void RequestLint::end_message() {
  ++messages_;
  receives_after_.push_back(receives_);
}

void RequestLint::count_outstanding(std::uint32_t begin, std::uint32_t end) {
  const auto same = [&](const Outstanding& o) { return o.end == end; };
  if (std::none_of(outstanding_.begin(), outstanding_.end(), same)) outstanding_.push_back({begin, end});
  if (outstanding_.size() > facts_.max_rd_atomic) {
    incorrect("{} READs and atomics outstanding, max_rd_atomic {}", outstanding_.size(), facts_.max_rd_atomic);
  }
}

/// What the answer proves to a requester that goes by the book: everything before it, up to the first READ or atomic
/// that has not been answered.
void RequestLint::response(const PacketView& view, Instant now) {
  const std::uint32_t at = index(view.psn());
  if (stopped_) return;
  // A duplicate of what was before the first request, which is forged, makes the peer tell how many receives it has.
  const bool before_first = at == kBeforeFirst && una_ == 0 && view.op().kind == Kind::kAcknowledge;
  if (before_first) return take_credits(view);
  if (at >= history_.size()) return;
  if (at < una_) return take_credits(view);  // More than the QP need make of it.
  take_credits(view);
  const std::uint32_t limit = outstanding_.empty() ? ~0u : outstanding_.front().next;
  const auto acknowledge = [&](std::uint32_t end) { una_ = std::max(una_, std::min(end, limit)); };
  if (view.op().kind == Kind::kAcknowledge) {
    const proto::Syndrome syndrome =
        proto::decode_syndrome(view.header<proto::Aeth>().get<proto::Aeth::SyndromeField>());
    acknowledge(std::holds_alternative<proto::syndrome::Ack>(syndrome) ? at + 1 : at);
    const auto* rnr = std::get_if<proto::syndrome::Rnr>(&syndrome);
    // The network may have doubled the RNR NAK. One that arrives as the wait ends is the same one,
    // unless what was refused has been sent again.
    const bool waiting = now <= rnr_until_ && rnr_index_ == at;
    if (rnr != nullptr && una_ == at && !waiting) {
      rnr_index_ = at;
      rnr_until_ = now + proto::rnr_delay(rnr->timer);
      cursor_ = std::min(cursor_, at);
    }
    return;
  }
  acknowledge(at);
  if (una_ != at || at != limit) return;
  if (++outstanding_.front().next == outstanding_.front().end) outstanding_.erase(outstanding_.begin());
  una_ = at + 1;
}

void RequestLint::take_credits(const PacketView& view) {
  if (!credit_limit_) return;
  credit_limit_ = std::max(*credit_limit_, receives_of(una_ == 0 ? 0 : history_[una_ - 1].msn_after));
  if (!view.has<proto::Aeth>()) return;
  const auto aeth = view.header<proto::Aeth>();
  const proto::Syndrome syndrome = proto::decode_syndrome(aeth.get<proto::Aeth::SyndromeField>());
  const auto* ack = std::get_if<proto::syndrome::Ack>(&syndrome);
  const std::uint32_t msn = aeth.get<proto::Aeth::Msn>();
  if (ack == nullptr || msn > messages_) return;
  if (ack->credit_code == proto::kCreditsUnlimited) {
    credit_limit_.reset();
  } else {
    credit_limit_ = std::max(*credit_limit_, receives_of(msn) + proto::kCredits[ack->credit_code]);
  }
}

void RequestLint::check_drained() const {
  if (!drained()) {
    incorrect("SQ_DRAINED with {} packets unacknowledged", history_.size() - una_);
  }
}

}  // namespace uroce::simulator
