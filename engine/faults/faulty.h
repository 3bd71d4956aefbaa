// A sans-I/O NIC behind a bad wire: the same contract, with faults in between. Runs wherever a NIC runs, over real
// ports and in the simulator.
#pragma once

#include <functional>
#include <vector>

#include "engine/faults/injector.h"
#include "engine/sans_io.h"
#include "proto/path.h"

namespace uroce::engine::faults {

/// A fault of the NIC itself whose time has come. Its owner carries it out.
struct TimedFault {
  enum class Kind : std::uint8_t { kPortDown, kPortUp, kQpFatal, kCqOverflow, kDeviceFatal };
  Kind kind;
  std::uint32_t qpn = 0;
};

/// Packets on their way longer than they should be.
class HeldPackets {
 public:
  void hold(const proto::Path& path, Bytes packet, Instant until, std::uint32_t distance);
  /// A packet passes those that are held back for a number of packets.
  void overtake();
  struct Held {
    proto::Path path;
    std::vector<std::uint8_t> bytes;
    Instant until;
    std::uint32_t distance;  ///< Packets still to pass; 0: only time counts.
  };
  /// The next one whose time has come, removed; oldest first.
  std::optional<Held> take_due(Instant now);
  std::optional<Instant> next() const;

 private:
  std::vector<Held> held_;
};

/// The times of `spec`, in order.
class Schedule {
 public:
  Schedule(const FaultSpec& spec, Instant start);
  std::optional<Instant> next() const { return next_; }
  /// Calls `act` for everything that is due.
  void run(Instant now, const std::function<void(const TimedFault&)>& act);
  /// Whether no packet gets through at `now`.
  bool is_dark(Instant now) const;
  bool is_port_down(Instant now) const;

 private:
  void find_next(Duration after);
  FaultSpec spec_;
  Instant start_;
  Duration done_{-1};  ///< Everything up to this time has been carried out.
  std::optional<Instant> next_;
};

template <SansIoNic N>
class Faulty {
 public:
  using Act = std::function<void(const TimedFault&)>;

  /// Times count from `start`. `nic` must outlive this. `act` is called from within on_timeout().
  Faulty(N& nic, const FaultSpec& spec, Instant start, Act act = {})
      : nic_(nic),
        active_(spec.touches_wire() || spec.device_fatal || !spec.qp_fatal.empty() || !spec.cq_overflow.empty()),
        injector_(spec),
        schedule_(spec, start),
        act_(std::move(act)) {}

  void on_datagram(const proto::Datagram& datagram, Instant now) {
    if (!active_) return nic_.on_datagram(datagram, now);
    if (is_dark(now)) return;
    const Fate fate = injector_.decide(Direction::kReceived, datagram.payload);
    if (fate.drop) return;
    std::vector<std::uint8_t> bytes(datagram.payload.begin(), datagram.payload.end());
    proto::Path path = datagram.path;
    if (fate.ecn) path.tclass |= proto::kEcnMask;
    if (fate.corrupt) corrupt(bytes, fate.bits);
    if (is_held(fate)) {
      received_.hold(path, bytes, until(fate, now), fate.distance);
    } else {
      nic_.on_datagram({path, bytes}, now);
      received_.overtake();
    }
    if (fate.duplicate) nic_.on_datagram({path, bytes}, now);
    deliver_due(now);
  }

  void on_timeout(Instant now) {
    if (active_) {
      schedule_.run(now, [this](const TimedFault& fault) {
        ++injector_.counters().events;
        if (act_) act_(fault);
      });
      deliver_due(now);
    }
    nic_.on_timeout(now);
  }

  std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame) {
    if (!active_) return nic_.poll_transmit(now, frame);
    while (true) {
      if (auto held = sent_.take_due(now)) {
        std::copy(held->bytes.begin(), held->bytes.end(), frame.begin());
        return proto::Transmit{held->path, static_cast<std::uint32_t>(held->bytes.size())};
      }
      std::optional<proto::Transmit> packet = nic_.poll_transmit(now, frame);
      if (!packet) return std::nullopt;
      if (is_dark(now)) continue;
      const MutBytes bytes = frame.first(packet->size);
      const Fate fate = injector_.decide(Direction::kSent, bytes);
      if (fate.drop) continue;
      if (fate.ecn) packet->path.tclass |= proto::kEcnMask;
      if (fate.corrupt) corrupt(bytes, fate.bits);
      if (fate.duplicate) sent_.hold(packet->path, bytes, now, 0);
      if (is_held(fate)) {
        sent_.hold(packet->path, bytes, until(fate, now), fate.distance);
        continue;
      }
      sent_.overtake();
      return packet;
    }
  }

  std::optional<Instant> next_deadline() const {
    std::optional<Instant> deadline = nic_.next_deadline();
    if (!active_) return deadline;
    for (const auto& other : {sent_.next(), received_.next(), schedule_.next()}) {
      if (other && (!deadline || *other < *deadline)) deadline = other;
    }
    return deadline;
  }

  bool is_port_down(Instant now) const { return schedule_.is_port_down(now); }
  Injector& injector() { return injector_; }
  const FaultCounters& counters() const { return injector_.counters(); }

 private:
  /// Who is to be overtaken, and is not, goes on after this long.
  static constexpr Duration kOvertakenWithin = std::chrono::milliseconds(20);

  static bool is_held(const Fate& fate) { return fate.distance != 0 || fate.delay.count() != 0; }
  static Instant until(const Fate& fate, Instant now) {
    return now + (fate.distance != 0 ? kOvertakenWithin + fate.delay : fate.delay);
  }
  bool is_dark(Instant now) {
    const bool dark = schedule_.is_dark(now);
    if (dark) ++injector_.counters().blackout;
    return dark;
  }
  void deliver_due(Instant now) {
    while (const auto held = received_.take_due(now)) nic_.on_datagram({held->path, held->bytes}, now);
  }

  N& nic_;
  const bool active_;
  Injector injector_;
  Schedule schedule_;
  Act act_;
  HeldPackets sent_, received_;
};

}  // namespace uroce::engine::faults
