// SPDX-License-Identifier: Apache-2.0
// A sans-I/O NIC behind a bad wire: the same contract, with faults in between. Runs wherever a NIC runs, over real
// ports and in the simulator.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "engine/faults/held_packets.h"
#include "engine/faults/injector.h"
#include "engine/sans_io.h"
#include "proto/base/copy_packet.h"
#include "proto/path.h"

namespace uroce::engine::faults {

/// A fault of the NIC itself whose time has come. Its owner carries it out.
struct TimedFault {
  enum class Kind : std::uint8_t { kPortDown, kPortUp, kQpFatal, kCqOverflow, kDeviceFatal };
  Kind kind;
  QpName qp{};
  std::string_view text{};  ///< The item as written, of a QP's.
};

/// Hears what is done to packets, in words, for captures. Empty functions: nobody listens.
struct Witness {
  /// About the packet that poll_transmit() is about to return.
  std::function<void(std::string comment)> sent;
  /// About one that the NIC has sent and that never gets on the wire.
  std::function<void(const proto::Path& path, Bytes packet, std::string comment)> lost;
  /// Asked once for each packet with a fault: what the NIC itself says about it, or "".
  std::function<std::string(Bytes packet)> reason{};
};

/// ", 1200 us late", or nothing for what is not late.
std::string late_by(Duration time);

/// The times of `spec`, in order.
class Schedule {
 public:
  Schedule(const FaultSpec& spec, Instant start);
  std::optional<Instant> next() const { return next_; }
  /// The times of `more` as well, counted from `now`.
  void add(const FaultSpec& more, Instant now);
  /// Whether the last that was told of the port is that it is down.
  bool has_told_port_down() const { return port_down_; }
  /// Calls `act` for everything that is due.
  void run(Instant now, const std::function<void(const TimedFault&)>& act);
  /// What keeps every packet from getting through at `now`, as written; empty when nothing does.
  std::string_view darkness(Instant now) const;
  bool is_port_down(Instant now) const;

 private:
  void find_next(Duration now);
  bool is_port_down_at(Duration age) const;
  FaultSpec spec_;
  Instant start_;
  Duration done_{-1};       ///< Everything up to this time has been carried out.
  bool port_down_ = false;  ///< As it was told last.
  std::optional<Instant> next_;
};

template <SansIoNic N>
class Faulty {
 public:
  /// Returns whether there was what the fault is to happen to.
  using Act = std::function<bool(const TimedFault&)>;

  /// Times count from `start`. `nic` must outlive this. `act` is called from within on_timeout().
  Faulty(N& nic, const FaultSpec& spec, Instant start, Act act = {}, Witness witness = {})
      : nic_(nic),
        active_(spec.touches_wire() || spec.device_fatal || !spec.qp_fatal.empty() || !spec.cq_overflow.empty()),
        injector_(spec, identifier(nic)),
        schedule_(spec, start),
        act_(std::move(act)),
        witness_(std::move(witness)) {}

  /// From now on `spec`, in the place of what was asked for before: numbers of packets and times count from `now`. A
  /// port that is down comes up; a device that had a fatal error stays dead.
  void replace_faults(const FaultSpec& spec, Instant now) {
    begin_change();
    missed_.clear();
    injector_.replace(spec);
    const bool was_down = std::exchange(schedule_, Schedule(spec, now)).has_told_port_down();
    if (was_down && act_) act_({TimedFault::Kind::kPortUp});
  }
  /// The faults of `more` besides; its seed does not count.
  void add_faults(const FaultSpec& more, Instant now) {
    begin_change();
    injector_.add(more);
    schedule_.add(more, now);
  }

  /// What will be done to `datagram`, which on_datagram() gets next: for a capture, which has it first.
  std::string foresee(const proto::Datagram& datagram, Instant now) {
    if (!active_) return {};
    foreseen_ = judge(Direction::kReceived, datagram.payload, {.address = datagram.path.source}, now);
    return to_comment(*foreseen_);
  }

  void on_datagram(const proto::Datagram& datagram, Instant now) {
    if (!active_) return nic_.on_datagram(datagram, now);
    std::optional<Fate> foreseen = std::exchange(foreseen_, std::nullopt);
    const Fate fate = foreseen ? *std::move(foreseen)
                               : judge(Direction::kReceived, datagram.payload, {.address = datagram.path.source}, now);
    if (fate.drop) return;
    if (fate.causes.empty()) {
      nic_.on_datagram(datagram, now);
    } else {
      deliver_changed(datagram, fate, now);
    }
    if (!fate.is_held()) received_.overtake(fate.stream);
    deliver_due(now);
  }

  void on_timeout(Instant now) {
    if (active_) {
      schedule_.run(now, [this](const TimedFault& fault) {
        if (fault.kind == TimedFault::Kind::kDeviceFatal) dead_ = true;
        if (!act_ || act_(fault)) {
          ++injector_.counters().events;
        } else if (missed_.size() < kMostMissed) {
          missed_.push_back(std::string(fault.text) + " found no such QP");
        }
      });
      deliver_due(now);
    }
    if (!dead_) nic_.on_timeout(now);
  }

  void answer_first() { nic_.answer_first(); }  ///< As the NIC has it.
  std::uint64_t silent_writes() const { return nic_.silent_writes(); }
  std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame) {
    if (!active_) return nic_.poll_transmit(now, frame);
    while (!dead_) {
      if (const auto late = poll_held(now, frame)) return late;
      std::optional<proto::Transmit> packet = nic_.poll_transmit(now, frame);
      if (!packet) return std::nullopt;
      const MutBytes bytes = frame.first(packet->size);
      const Fate fate = judge(Direction::kSent, bytes, {.qpn = packet->sender}, now);
      const std::string reason = reason_behind(fate, bytes);
      if (fate.drop) {
        if (witness_.lost) witness_.lost(packet->path, bytes, to_comment(fate) + reason);
        continue;
      }
      if (fate.ecn) packet->path.tclass |= proto::kEcnMask;
      if (fate.corrupt) corrupt(bytes, fate.bits);
      if (fate.duplicate) hold(sent_, now, held(packet->path, bytes, fate, now, reason));
      if (fate.is_held()) {
        if (!hold(sent_, until(fate, now), held(packet->path, bytes, fate, now, reason)) && witness_.lost)
          witness_.lost(packet->path, bytes, "uroce: dropped because too many packets are held back" + reason);
        continue;
      }
      sent_.overtake(fate.stream);
      if (witness_.sent && !fate.causes.empty()) witness_.sent(to_comment(fate) + reason);
      return packet;
    }
    return std::nullopt;
  }
  /// What is held back to be sent becomes due at once: the NIC is about to end.
  void release_held() { sent_.hurry(); }

  std::optional<Instant> next_deadline() const {
    if (dead_) return std::nullopt;
    std::optional<Instant> deadline = nic_.next_deadline();
    if (!active_) return deadline;
    for (const auto& other : {sent_.next(), received_.next(), schedule_.next()}) {
      if (other && (!deadline || *other < *deadline)) deadline = other;
    }
    return deadline;
  }

  bool is_port_down(Instant now) const { return schedule_.is_port_down(now); }
  Injector& injector() { return injector_; }
  /// A sentence for each fault that has met too few packets, or no QP, to happen at all.
  std::vector<std::string> without_effect() const {
    std::vector<std::string> sentences = injector_.without_effect();
    sentences.insert(sentences.end(), missed_.begin(), missed_.end());
    return sentences;
  }
  const FaultCounters& counters() const { return injector_.counters(); }

 private:
  /// A held packet that is not overtaken is released after this long.
  static constexpr Duration kOvertakenWithin = std::chrono::milliseconds(20);
  static constexpr std::size_t kMostMissed = 16;  ///< Nobody reads more, and tests may add one a second.

  /// A NIC without identify() has QPs that go by their numbers.
  static Identify identifier(N& nic) {
    if constexpr (requires { nic.identify(0u); }) {
      return [&nic](std::uint32_t qpn) { return nic.identify(qpn); };
    } else {
      return {};
    }
  }
  void begin_change() {
    active_ = true;  // And stays so: something may be held back for later.
    foreseen_.reset();
  }
  static Instant until(const Fate& fate, Instant now) {
    return now + (fate.distance != 0 ? kOvertakenWithin + fate.delay : fate.delay);
  }
  HeldPackets::Held held(const proto::Path& path, Bytes bytes, const Fate& fate, Instant now, std::string reason = {}) {
    return {path,
            spares_.copy(bytes),
            now,
            fate.stream,
            fate.distance,
            witness_.sent ? to_comment(fate) : std::string(),
            std::move(reason)};
  }
  /// Asked while the NIC's words are those about this packet.
  std::string reason_behind(const Fate& fate, Bytes packet) const {
    if (!witness_.reason || fate.causes.empty()) return {};
    const std::string reason = witness_.reason(packet);
    return reason.empty() ? reason : "; " + reason;
  }

  bool hold(HeldPackets& packets, Instant until, HeldPackets::Held packet) {
    const bool has_room = packets.hold(until, std::move(packet));
    if (!has_room) ++injector_.counters().overfull;
    return has_room;
  }

  Fate judge(Direction direction, Bytes packet, const Sender& sender, Instant now) {
    const std::string_view darkness = schedule_.darkness(now);
    if (darkness.empty()) return injector_.decide(direction, packet, sender);
    ++injector_.counters().blackout;
    return {.drop = true, .causes = {{"dropped", darkness}}};
  }

  void deliver_changed(const proto::Datagram& datagram, const Fate& fate, Instant now) {
    HeldPackets::Held packet = held(datagram.path, datagram.payload, fate, now);
    if (fate.ecn) packet.path.tclass |= proto::kEcnMask;
    if (fate.corrupt) corrupt(packet.bytes, fate.bits);
    const int times = (fate.is_held() ? 0 : 1) + (fate.duplicate ? 1 : 0);
    for (int i = 0; i < times; ++i) nic_.on_datagram({packet.path, packet.bytes}, now);
    if (fate.is_held()) {
      hold(received_, until(fate, now), std::move(packet));
    } else {
      spares_.give_back(std::move(packet.bytes));
    }
  }
  /// Like those that are sent, one that meets darkness now is lost after all.
  void deliver_due(Instant now) {
    while (auto packet = dead_ ? std::nullopt : received_.take_due(now)) {
      if (schedule_.darkness(now).empty()) {
        nic_.on_datagram({packet->path, packet->bytes}, now);
      } else {
        ++injector_.counters().blackout;
      }
      spares_.give_back(std::move(packet->bytes));
    }
  }

  /// A packet that has been held back for long enough. One that meets darkness now is lost after all.
  std::optional<proto::Transmit> poll_held(Instant now, MutBytes frame) {
    while (auto packet = sent_.take_due(now)) {
      if (const std::string_view darkness = schedule_.darkness(now); !darkness.empty()) {
        ++injector_.counters().blackout;
        if (witness_.lost)
          witness_.lost(packet->path, packet->bytes, to_comment({.causes = {{"dropped", darkness}}}) + packet->reason);
        continue;
      }
      if (witness_.sent) witness_.sent(packet->comment + late_by(now - packet->since) + packet->reason);
      copy_packet(frame.data(), packet->bytes.data(), packet->bytes.size());
      const proto::Transmit transmit{packet->path, static_cast<std::uint32_t>(packet->bytes.size())};
      spares_.give_back(std::move(packet->bytes));
      return transmit;
    }
    return std::nullopt;
  }

  N& nic_;
  bool active_;
  Injector injector_;
  Schedule schedule_;
  Act act_;
  Witness witness_;
  bool dead_ = false;  ///< After a fatal error it neither sends nor hears, and its timers stand still.
  std::optional<Fate> foreseen_;
  std::vector<std::string> missed_;
  HeldPackets sent_, received_;
  Spares spares_;
};

}  // namespace uroce::engine::faults
