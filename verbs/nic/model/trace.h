// SPDX-License-Identifier: Apache-2.0
// What happens inside a NIC: counted, and told to a sink if there is one. events.def has the list.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/clock.h"
#include "verbs/nic/model/counters.h"

namespace uroce::nic {

enum class TraceKind : std::uint8_t {
#define UROCE_EVENT(id, name, counter, a, b, meaning) id,
#include "verbs/nic/model/events.def"
  kCount
};

struct TraceEvent {
  Instant when{};
  TraceKind kind{};
  std::uint32_t qpn = 0;       ///< 0: of no QP.
  std::uint64_t a = 0, b = 0;  ///< As events.def says.
};

/// Something that wants to know. It is called in the middle of the NIC's work and must not call the NIC.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void on_event(const TraceEvent& event) = 0;
  /// Whether it wants the events that happen to most packets of a healthy connection too (is_routine()). Asked once.
  virtual bool wants_routine() const { return true; }
};

/// What happens all the time while all is well.
constexpr bool is_routine(TraceKind kind) {
  switch (kind) {
    case TraceKind::kPacketIn:
    case TraceKind::kPacketOut:
    case TraceKind::kReceived:
    case TraceKind::kSent:
    case TraceKind::kIdRecovered:
    case TraceKind::kWindowFull:
      return true;
    default:
      return false;
  }
}

namespace detail {

/// The counters by name, and `none`.
struct CounterNamed {
  using Pointer = std::uint64_t Counters::*;
  static constexpr Pointer none = nullptr;
#define UROCE_COUNTER(name, also, meaning) static constexpr Pointer name = &Counters::name;
#include "verbs/nic/model/events.def"
};

inline constexpr CounterNamed::Pointer kCounterOf[] = {
#define UROCE_EVENT(id, name, counter, a, b, meaning) CounterNamed::counter,
#include "verbs/nic/model/events.def"
};

}  // namespace detail

/// Where the NIC says what happens. Costs one comparison when nobody listens.
class Trace {
 public:
  Trace(Counters& trace_counters, TraceSink* sink)
      : counters(trace_counters),
        sink_(sink),
        routine_sink_(sink != nullptr && sink->wants_routine() ? sink : nullptr) {}

  template <TraceKind kKind>
  void note(std::uint32_t qpn, std::uint64_t a = 0, std::uint64_t b = 0) {
    constexpr auto kCounter = detail::kCounterOf[static_cast<std::size_t>(kKind)];
    if constexpr (kCounter != nullptr) ++(counters.*kCounter);
    if ((is_routine(kKind) ? routine_sink_ : sink_) != nullptr) [[unlikely]]
      tell(kKind, qpn, a, b);
  }

  Counters& counters;
  Instant now{};  ///< The latest that the NIC has heard of.

 private:
  /// Out of line, so that the many places that note something stay small.
  [[gnu::cold, gnu::noinline]] void tell(TraceKind kind, std::uint32_t qpn, std::uint64_t a, std::uint64_t b) const;

  TraceSink* sink_;
  TraceSink* routine_sink_;  ///< The same, or null.
};

/// Such as "drop_icrc".
const char* name_of(TraceKind kind);
/// One line without the time: name, QPN, and numbers with their names, or as words: "state qpn=17 from=RTR to=RTS".
std::string to_string(const TraceEvent& event);

}  // namespace uroce::nic
