// SPDX-License-Identifier: Apache-2.0
// What a QP sends as responder, in one connection: judged against the requests that have reached it.
#pragma once

#include <deque>
#include <functional>
#include <map>

#include "tests/judged/sim/lint_requests.h"

namespace uroce::simulator {

class ResponseLint {
 public:
  using Memory = std::function<Bytes(std::uint64_t va, std::size_t size)>;

  void start() { *this = ResponseLint{}; }
  /// An undamaged request of the peer, whose history is `peer`, reaches the QP.
  void request(const proto::PacketView& view, const RequestLint& peer);
  /// A response is sent. `receives`: how many receives have been posted to the QP (nothing when an error has flushed
  /// them); `memory`: what lies at an address.
  void sent(const proto::PacketView& view, const RequestLint& peer, std::optional<std::uint32_t> receives,
            const Memory& memory);
  /// Somebody else sends a request in the peer's name. True when the QP cannot but take it for the next one.
  bool forged(const proto::PacketView& view, const RequestLint& peer);
  /// Requests before this one have arrived in sequence.
  std::uint32_t arrived() const { return arrived_; }
  /// What its RNR NAKs must ask for.
  void set_rnr_timer(std::uint8_t code) { rnr_timer_ = code; }
  std::uint32_t rnr_naks() const { return rnr_naks_; }

 private:
  void judge(std::uint32_t at, const proto::PacketView& view, const RequestLint& peer, const Memory& memory);
  void check_msn(std::uint32_t msn, std::uint32_t least, std::uint32_t most);
  /// An ACK tells of all receives that are posted, or that it does not count them (IBTA Vol 1, 9.7.7.2).
  static void check_credits(const proto::PacketView& view, const RequestLint& peer, std::uint32_t receives);
  void check_ack(std::uint32_t at, std::uint32_t msn, const RequestLint& peer);
  void check_refusal(std::uint32_t at, const proto::PacketView& view, const RequestLint& peer,
                     std::optional<std::uint32_t> receives);
  void check_read_response(std::uint32_t at, const proto::PacketView& view, const RequestLint& peer,
                           const Memory& memory);
  void check_placement_response(std::uint32_t at, const proto::PacketView& view, const RequestLint& peer);
  void check_single_response(std::uint32_t at, const proto::PacketView& view, const RequestLint& peer);
  void check_atomic_response(std::uint32_t at, const proto::PacketView& view, const RequestLint& peer);
  std::uint32_t msn_before(std::uint32_t at, const RequestLint& peer) const;

  struct Unanswered {
    std::uint32_t begin, end;
  };
  std::uint32_t arrived_ = 0;  ///< Requests before this one have arrived in sequence. Upper bound of what is expected.
  std::deque<Unanswered> unanswered_;                 ///< READs and atomics among them that no answer was sent to.
  std::vector<bool> asked_;                           ///< READ: responses may begin here.
  std::map<std::uint32_t, std::uint64_t> originals_;  ///< Answers to atomics.
  std::optional<std::uint32_t> refused_;              ///< NAKed or RNR NAKed, and not arrived since.
  std::optional<std::uint32_t> read_at_;              ///< Inside a READ's responses: the next one.
  std::uint32_t msn_ = 0;
  std::optional<std::uint8_t> rnr_timer_;
  std::uint32_t rnr_naks_ = 0;
  bool dead_ = false;              ///< A fatal NAK is out.
  bool may_refuse_next_ = false;   ///< A forged request stood in for the next one.
  bool repeated_nothing_ = false;  ///< A forged duplicate of what was before the first request.
};

}  // namespace uroce::simulator
