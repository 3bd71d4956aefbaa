// SPDX-License-Identifier: Apache-2.0
// One turn of the crank: moves packets between a NIC and a port and runs the timers that are due. Never blocks. The
// caller (Runner, tests) makes sure that nobody else uses the two at the same time.
#pragma once

#include <new>
#include <optional>

#include "engine/os/os_clock.h"
#include "engine/port/port.h"
#include "engine/run/tunables.h"
#include "engine/sans_io.h"

namespace uroce::engine {

struct Progress {
  std::size_t received = 0;
  std::size_t transmitted = 0;
  bool timed = false;  ///< Timers ran.

  bool is_idle() const { return received == 0 && transmitted == 0 && !timed; }
};

/// Takes up to kCrankBurst packets from `nic` into the frames of `port`, which it does not flush. Returns how many.
template <SansIoNic N>
std::size_t take_transmits(N& nic, Port& port, Instant now) {
  for (std::size_t count = 0; count < kCrankBurst; ++count) {
    MutBytes frame = port.tx_frame();
    if (frame.empty()) {
      port.flush();
      frame = port.tx_frame();
      if (frame.empty()) return count;  // The network is full; later.
    }
    try {
      const std::optional<proto::Transmit> transmit = nic.poll_transmit(now, frame);
      if (!transmit) return count;
      port.tx_commit(*transmit);
    } catch (const std::bad_alloc&) {  // It is as good as lost. The next one may need no memory.
    }
  }
  return kCrankBurst;
}

/// When to send what received packets and timers gave rise to: acknowledgements above all.
enum class Answers : std::uint8_t {
  kAtOnce,
  kNextTurn,  ///< Together with what the program posts until then; for callers that will be back in a moment.
};

/// Sends, receives, runs timers, and sends what came of that unless it may wait. One system call when nothing arrives,
/// or when answers wait for the next turn. `on_progress()` is called whenever the NIC may have got events, and before
/// answers are sent: a thread that sleeps for an event wakes up meanwhile, before the peer can know. `now` is the
/// time at which the turn begins.
template <SansIoNic N, class OnProgress>
Progress turn_crank(N& nic, Port& port, Instant now, Answers answers, const OnProgress& on_progress) {
  // Sending can take longer than an RNR wait of 10 us: what arrived after it would get a time before its arrival,
  // and waits that the peer asks for would end too early.
  struct Sink final : DatagramSink {
    explicit Sink(N& n) : nic(n) {}
    void on_datagram(const proto::Datagram& datagram) override {
      if (!arrival) arrival = os_now();
      try {
        nic.on_datagram(datagram, *arrival);
      } catch (const std::bad_alloc&) {  // It is as good as lost. The port goes on with the next one.
      }
    }
    N& nic;
    std::optional<Instant> arrival;
  } sink{nic};

  Progress progress;
  progress.transmitted = take_transmits(nic, port, now);
  const auto receive = [&] {
    sink.arrival.reset();
    const std::size_t count = port.exchange(sink, kCrankBurst);
    progress.received += count;
    now = sink.arrival.value_or(now);
    return count >= kCrankBurst;
  };
  const auto is_due = [&](Duration since) {
    const std::optional<Instant> deadline = nic.next_deadline();
    return deadline && *deadline <= now - since;  // Instant::min() is a deadline, too.
  };
  bool more = receive();
  for (int i = 0; more && i < kBurstsWhenLate && is_due(kHeldUp); ++i) more = receive();
  progress.timed = is_due(Duration{});
  if (progress.timed) {
    try {
      nic.on_timeout(now);
    } catch (const std::bad_alloc&) {  // What was due still is.
    }
  }
  on_progress();
  if (answers == Answers::kAtOnce && (progress.received > 0 || progress.timed)) {
    // The caller may find its completion now and not come back for long, and the peer waits for the acknowledgement.
    const std::size_t count = take_transmits(nic, port, now);
    if (count > 0) port.flush();
    progress.transmitted += count;
    on_progress();
  }
  return progress;
}

}  // namespace uroce::engine
