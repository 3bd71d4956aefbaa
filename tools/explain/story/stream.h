// SPDX-License-Identifier: Apache-2.0
// One direction of a connection: what its requester sends, and how the peer answers. RC and UC.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "proto/rules/rules.h"
#include "tools/explain/story/history.h"
#include "tools/explain/story/numbers.h"

namespace uroce::explain {

class Stream {
 public:
  Stream(const Names& names, bool reliable) : names_(&names), reliable_(reliable) {}

  /// The connection manager has told the first PSN.
  void begin_at(proto::Psn psn);
  void set_mtu(std::uint32_t bytes);
  std::uint32_t mtu() const { return mtu_; }
  /// 0 where it is only a guess.
  std::uint32_t sure_mtu() const { return mtu_guessed_ ? 0 : mtu_; }

  /// A request that the requester sends.
  void request(const Packet& packet, Told& told);
  /// An answer to it.
  void response(const Packet& packet, Told& told);
  /// A packet that nobody could read: its ICRC is wrong.
  void damaged(const Packet& packet, Told& told);
  /// The capture ends.
  void finish(std::int64_t now);

  /// Whether a response with this PSN would answer something.
  bool awaits(const Packet& response) const;
  /// And whether it is an answer to what was sent under its PSN, as far as that is known: those to a READ have its
  /// length. (An ACK may come for anything.)
  bool suits(const Packet& response) const;
  /// Networks copy answers sooner.
  static constexpr std::int64_t kAnswerCopiedWithin = 1'000'000;
  /// What an answer is to these requests.
  enum class Fit : std::uint8_t {
    kNone,     ///< It answers none of them.
    kAgain,    ///< It answers what is acknowledged, or what has failed.
    kAwaited,  ///< It answers what waits for an answer.
  };
  Fit fit(const Packet& response) const;
  /// Whether this answer to what is acknowledged needs no other explanation: a duplicate, a copy, credits.
  bool explains_again(const Packet& response) const;
  /// Whether requests of the last moments wait for their first answer.
  bool is_unheard(std::int64_t now) const;
  /// Whether a request with this PSN belongs to another connection than the one so far: a QP that begins anew.
  bool is_foreign(const Packet& request) const;
  /// Requesters have at most 2^23 PSNs in flight, and hardly ever more than these.
  static constexpr PsnIndex kForeign = 1 << 20;
  /// Whether this request begins a message where another one began.
  bool differs(const Packet& request) const;
  /// Whether it begins one at an acknowledged PSN, while nothing waits for an answer ...
  bool is_behind_all(const Packet& request) const;
  /// ... and at the first PSN of all, after a pause, with other contents than then.
  bool begins_anew(const Packet& request) const;
  /// Whether it is at the first PSN of all, and the connection has failed.
  bool is_behind_failure(const Packet& request) const { return fatal_ && request.psn == numbers_.first_psn; }
  bool started() const { return started_; }
  bool was_answered() const { return answers_ != 0; }

  const Numbers& numbers() const { return numbers_; }
  /// The messages that the last packet has completed.
  std::vector<Finished> take_finished() { return std::exchange(finished_, {}); }
  /// At the end: those that were never completed. They end where the connection broke, else at `now`.
  std::vector<Finished> unfinished(std::int64_t now) const;
  /// What broke the connection; empty when nothing did.
  const std::string& failure() const { return failure_; }

 private:
  /// An answer, as far as a copy of it is the same.
  struct Answer {
    PsnIndex index = 0;
    const proto::OpcodeInfo* op = nullptr;
    std::uint32_t icrc = 0;
    std::uint16_t ip_id = 0;
    std::int64_t time_ns = 0;
    Place place;
    std::uint8_t syndrome = 0;
    std::uint32_t msn = 0;
  };
  /// What a gap is said to come from, while nothing tells more.
  static constexpr std::string_view kMissing = "lost or held back before this capture, or not captured";
  static constexpr std::string_view kUnseen = "lost or held back before this capture";
  static std::string awaits_text(proto::Psn psn) { return "the responder waits for PSN " + hex(psn) + ": "; }
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  /// A packet into which a NIC of ours has injected a fault, as a comment says.
  struct Struck {
    PsnIndex index = 0;
    bool is_answer = false;
    Place place;
    std::int64_t time_ns = 0;
    std::int64_t until_ns = 0;  ///< Its receiver has it from then on.
    std::string fault;          ///< "dropped by drop=op:ack"
  };
  PsnIndex index_of(proto::Psn psn) const;
  static proto::Psn psn_of(PsnIndex index) { return proto::Psn{static_cast<std::uint32_t>(index & 0xFFFFFF)}; }
  void start(proto::Psn psn);
  void learn_mtu(const Packet& packet);
  void guess_read_psns(PsnIndex index, const Packet& packet);

  // Requests.
  static SentPacket sent_packet(PsnIndex index, const Packet& packet);
  void add_new(PsnIndex index, const Packet& packet, Told& told);
  void note_hole(PsnIndex index, const Packet& packet, Told& told);
  void await_hole(const Packet& damaged);
  void note_missing(PsnIndex begin, PsnIndex end, const Packet& packet, Told& told);
  void fill_hole(PsnIndex index, std::int64_t psns);
  Cause cause_of(PsnIndex index, const Packet& packet);
  bool may_be_late(const Hole* hole, const Packet& packet) const;
  void repeat(PsnIndex index, const Packet& packet, Told& told);
  void check_repetition(PsnIndex index, const Packet& packet, const SentPacket& before, Told& told);
  void note_round(PsnIndex index, const Packet& packet, Told& told);
  void check_new(PsnIndex index, const Packet& packet, Told& told);

  // Messages.
  PsnIndex psns_of_bytes(std::uint64_t bytes) const;
  PsnIndex psns_of_length(const Message& message) const;
  void set_read_length(Message& message);
  Message* continued(PsnIndex index, const Packet& packet);
  bool reaches(const Message& message, PsnIndex index) const;
  PsnIndex usual_last(const Message& message) const;
  void reopen(Message& message);
  Message& begin_message(PsnIndex index, const Packet& packet);
  void join_message(PsnIndex index, const Packet& packet);
  void end_message(Message& message);
  void merge_behind(Message& message);
  void count_anew();
  void fill_part(PsnIndex index, const Packet& packet, Told& told);

  // Answers.
  void note_awaited(PsnIndex index, const Packet& packet);
  bool covers_nothing(PsnIndex index, const Packet& packet, Told& told);
  bool may_be_refused(PsnIndex index) const;
  bool is_ghost(PsnIndex index, const Packet& packet, Told& told);
  void tell_unseen_request(const Packet& packet, Told& told);
  void acknowledge(PsnIndex index, const Packet& packet, Told& told);
  void advance(PsnIndex una, const Packet& packet, Told& told);
  static Finished finished(const Message& message, std::int64_t end_ns);
  void complete(Message& message, std::int64_t now);
  Message* oldest_unanswered();
  void imply(PsnIndex index, const Packet& packet, Told& told, const std::string& text);
  void name_answered(PsnIndex index, const Packet& packet, Told& told);
  void answer_again(PsnIndex index, const Packet& packet, Told& told);
  bool is_overtaken(const Packet& packet) const;
  void check_msn(PsnIndex index, const Packet& packet, Told& told);
  bool tells_credits(PsnIndex index, const Packet& packet) const;

  // Answers to READs and atomics.
  std::string wrong_answer(const Message& message, PsnIndex index, const Packet& packet) const;
  bool is_behind_unanswered(const Message& message, const Packet& packet, Told& told);
  void read_response(PsnIndex index, const Packet& packet, Told& told);
  void empty_response(Message& message, const Packet& packet, Told& told);
  void atomic_response(PsnIndex index, const Packet& packet, Told& told);

  // Refusals.
  void refuse(PsnIndex index, const Packet& packet, Told& told);
  bool is_second_nak(PsnIndex index, const Packet& packet, Told& told);
  void refuse_sequence(PsnIndex index, const Packet& packet, Told& told);
  void advance_to_refused(PsnIndex index, const Packet& packet, Told& told);
  bool is_bad_answer(const Message& message, PsnIndex index, const Packet& packet, Told& told);
  void judge_round(PsnIndex index, Told& told);
  void fail(const Packet& packet, const std::string& text);

  // Injected faults.
  void note_lost_to_fault(const Packet& packet, const std::string& name, Told& told);
  void strike(const Packet& packet, std::string_view fault, std::int64_t until_ns);
  std::string struck_text(const Struck& struck) const;
  const Struck* struck_at(Place place) const;
  const Struck* struck_unseen(PsnIndex begin, std::int64_t now, std::int64_t answers_since_ns) const;
  void find_struck(Round& round);
  void note_held(const Packet& packet);
  void find_held(const Packet& packet, const std::string& held, std::int64_t due_ns);
  void find_gap(const Packet& packet, const std::string& held, std::int64_t due_ns);
  bool is_behind_struck(PsnIndex index, std::int64_t now) const;
  std::string silence_text() const;
  bool hold_answer(const Packet& packet, Told& told);
  void take_held_answers(std::int64_t now);
  bool has_given_up(std::int64_t now) const;
  void answer(const Packet& packet, Told& told);

  // Both directions.
  void judge_way(const Packet& packet, Told& told);
  void incident(const Packet& packet, Told& told, Severity severity, std::string_view code, std::string text);

  const Names* names_;
  bool reliable_;
  bool started_ = false;
  std::uint32_t mtu_ = 0;
  bool mtu_guessed_ = false;    ///< From the PSNs that a READ seems to take: others may be missing behind it.
  bool begins_here_ = false;    ///< Nothing was sent before the capture began: the manager says it, or the first MSN.
  bool begins_inside_ = false;  ///< It began inside a message.
  PsnIndex begin_ = 0;          ///< The lowest PSN that was sent, as far as the capture shows.
  PsnIndex next_ = 0;           ///< One past the highest PSN that was sent.
  PsnIndex una_ = 0;            ///< The oldest that is not acknowledged.
  PsnIndex cursor_ = 0;         ///< One past the packet that was sent last.
  PsnIndex passed_ = -1;        ///< `cursor_`, before a packet that has jumped ahead.
  std::uint64_t message_count_ = 0;
  History history_;
  std::map<PsnIndex, Hole> damaged_;  ///< What damaged requests ahead of `next_` will leave.
  Evidence evidence_;
  proto::rules::MessageOrder order_;
  std::optional<Round> round_;            ///< The requester goes over packets again.
  PsnIndex round_end_ = 0;                ///< One past what had been sent before the newest round.
  std::optional<PsnIndex> round_answer_;  ///< The first answer to the newest round.
  std::uint64_t answers_ = 0;
  std::optional<proto::Psn> awaited_;  ///< By the responder, as it says, while it has acknowledged nothing.
  std::uint32_t msn_ = 0;
  bool has_msn_ = false;
  /// How far MSNs are ahead of our numbers of messages, which count from the beginning of the capture. Nothing while
  /// that is not known: our numbers up to `in_order_from_` may not be in the order of the PSNs.
  std::optional<std::uint32_t> msn_ahead_;
  std::optional<std::uint32_t> msn_doubted_;  ///< As the newest answer has it, which may be wrong.
  PsnIndex in_order_from_ = 0;
  std::vector<Finished> finished_;
  bool fatal_ = false;
  Place fatal_place_;
  std::int64_t fatal_ns_ = 0;
  std::int64_t last_request_ns_ = 0;
  std::int64_t last_repeat_ns_ = 0;  ///< When a request came that had been there before.
  std::uint32_t owed_answers_ = 0;   ///< As many of these have not been answered yet, so far as one can see.
  std::deque<Answer> latest_answers_;
  std::optional<Answer> gap_nak_;  ///< The newest answer, if it is a NAK for a gap.
  Place latest_arrival_;           ///< The request that reached the other end last so far.
  std::int64_t latest_arrival_ns_ = 0;
  std::int64_t usual_way_ns_ = 0, usual_way_back_ns_ = 0;  ///< By both ends' clocks.
  PsnIndex last_lost_ = 0;  ///< The highest request of which it, or its answer, got lost between both ends' captures.
  PsnIndex last_late_ = 0;  ///< The same for late ones.
  Place overtaken_;         ///< The last one that was told to be overtaken.
  std::deque<Hole> gaps_;   ///< As many as are listed.
  std::deque<Struck> struck_;                         ///< The newest ones.
  std::multimap<std::int64_t, Packet> held_answers_;  ///< Not with the requester before then, as their comments say.
  std::int64_t maybe_held_until_ns_ = 0;   ///< An answer that counts already may have been held back until then.
  std::int64_t last_round_ns_ = 0;         ///< When the newest round began ...
  std::int64_t before_last_round_ns_ = 0;  ///< ... and the one before it.
  std::string failure_;
  Numbers numbers_;
};

}  // namespace uroce::explain
