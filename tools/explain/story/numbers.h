// SPDX-License-Identifier: Apache-2.0
// What a direction of a connection comes to: the numbers of the summary.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/explain/story/told.h"

namespace uroce::explain {

/// Times in little memory: 16 buckets per power of two, so a percentile is off by at most 6 %.
class Latencies {
 public:
  void add(std::int64_t ns);
  std::uint64_t count() const { return count_; }
  std::int64_t min() const { return min_; }
  std::int64_t max() const { return max_; }
  /// What `fraction` (0..1) of all do not exceed; 0 when there are none.
  std::int64_t percentile(double fraction) const;

 private:
  static constexpr int kSubBits = 4;
  static constexpr std::size_t kSub = 1 << kSubBits, kBuckets = (64 - kSubBits + 1) * kSub;
  static std::size_t bucket(std::uint64_t value);

  std::unique_ptr<std::array<std::uint32_t, kBuckets>> buckets_;
  std::uint64_t count_ = 0;
  std::int64_t min_ = 0, max_ = 0;
};

/// The operations of the verbs.
enum class Operation : std::uint8_t { kSend, kWrite, kRead, kCompareSwap, kFetchAdd, kAtomicWrite, kFlush, kOther };
inline constexpr std::size_t kOperations = static_cast<std::size_t>(Operation::kOther) + 1;
/// "SEND", "RDMA WRITE", ...
std::string_view to_string(Operation operation);
Operation operation_of(proto::Kind kind);

/// Packets that were sent again for one reason, one after another.
struct Round {
  Reason reason = Reason::kUnknown;
  bool sure = true;
  Place first;  ///< The first of them.
  std::int64_t time_ns = 0;
  proto::Psn psn;
  std::uint64_t packets = 0;
  Place cause;
  std::int64_t wait_ns = 0;
  std::string finding;         ///< What was lost, as far as the answers tell.
  bool finding_known = false;  ///< A comment tells it: there is nothing to guess from answers.
};

/// A NAK, RNR NAK, gap or breach that the summary lists.
struct Incident {
  Place place;
  std::int64_t time_ns = 0;
  Note note;
};

struct Numbers {
  static constexpr std::size_t kListed = 20;

  struct PerOperation {
    std::uint64_t count = 0, whole = 0, bytes = 0, completed = 0;
    std::uint64_t least = 0, most = 0;  ///< Bytes of a message.
  };
  std::array<PerOperation, kOperations> operations{};
  std::uint64_t packets = 0;    ///< Requests, each time that one was sent.
  std::uint64_t responses = 0;  ///< To them.
  std::array<std::uint64_t, kReasons> reasons{};
  std::uint64_t sequence_naks = 0, rnr_naks = 0, fatal_naks = 0;
  std::uint64_t missing = 0;         ///< Packets that PSNs tell of and that the capture does not have.
  std::uint64_t lost = 0;            ///< On the way from one capture to the other, or to injected faults ...
  std::uint64_t lost_to_faults = 0;  ///< ... that a comment names.
  std::uint64_t damaged = 0;         ///< Wrong ICRC.
  std::uint64_t read_gaps = 0;
  std::uint64_t acked_bytes = 0;  ///< Payload that was acknowledged, or that a READ brought.
  std::int64_t first_ns = 0, last_ns = 0,
               answered_ns = 0;  ///< Times of the first request, of the last, of the last answer.
  std::optional<proto::Psn> first_psn, last_psn;
  std::uint64_t unanswered = 0;          ///< Messages without an end at the end of the capture.
  std::uint32_t most_transmissions = 0;  ///< For one packet.
  Latencies latency;                     ///< From the first packet of a message to the answer that completes it.
  std::vector<Round> rounds;             ///< The first kListed.
  std::uint64_t more_rounds = 0;
  std::vector<Incident> incidents;  ///< The first kListed.
  std::uint64_t more_incidents = 0;

  void add_round(const Round& round);
  void add_incident(const Incident& incident);
  /// The listed incident with this code that `place` was said to show, if any.
  Incident* incident(Place place, std::string_view code);
  /// The newest round, if it is listed.
  Round* newest_round() { return more_rounds == 0 && !rounds.empty() ? &rounds.back() : nullptr; }
  std::uint64_t resent() const;
};

}  // namespace uroce::explain
