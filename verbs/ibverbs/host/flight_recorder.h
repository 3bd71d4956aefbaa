// SPDX-License-Identifier: Apache-2.0
// The flight recorder of a NIC: keeps its last events, and, when UROCE_RECORD asks for it, its last packets, and writes
// them to files when something breaks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/faults/injector.h"
#include "engine/os/fd.h"
#include "engine/port/port.h"
#include "engine/sans_io.h"
#include "proto/base/result.h"
#include "verbs/ibverbs/host/published_qps.h"
#include "verbs/record/cause.h"
#include "verbs/record/reasons.h"
#include "verbs/record/ring.h"

namespace uroce::ibv {

/// Not thread-safe: the caller holds the NIC's lock. Other processes may read what it keeps (record/store.h).
class FlightRecorder final : public nic::TraceSink {
 public:
  /// For NIC `index` with this first address. `directory`: where recordings go; "": nowhere, and packets are not kept.
  /// With a directory the memory is a file there, which outlives a process that is killed. The error is a sentence.
  static Result<std::unique_ptr<FlightRecorder>, std::string> make(std::uint32_t index, const proto::Gid& address,
                                                                   const std::string& directory);
  ~FlightRecorder() override;
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  void on_event(const nic::TraceEvent& event) override;
  bool wants_routine() const override { return false; }

  // What the NIC is about to do, by Recorded.
  void receiving(const proto::Datagram& datagram, Instant now) {
    phase_ = record::Phase::kReceiving;
    if (qps_ != nullptr && datagram.payload.size() >= proto::Bth::kSize) {
      const proto::ConstView<proto::Bth> bth{datagram.payload.data()};
      qps_->received(bth.get<proto::Bth::DestQp>(), datagram.path.source, datagram.payload.size(), now);
    }
    if (writer_.keeps_packets()) writer_.add_received(datagram.path, datagram.payload, now);
  }
  void sending() { phase_ = record::Phase::kSending; }
  void sent(const proto::Transmit& transmit, Bytes frame, Instant now) {
    if (qps_ != nullptr) qps_->sent(transmit.sender, transmit.size);
    if (writer_.keeps_packets()) writer_.add_sent(transmit.path, frame.first(transmit.size), transmit.sender, now);
    if (tell_reason_) tell_reason_(frame.first(transmit.size), reasons_.take());
  }
  void done() { phase_ = record::Phase::kOther; }

  /// `qps` hears what happens too; null: nobody else does.
  void tell(PublishedQps* qps) { qps_ = qps; }
  /// Asks `port`, as long as that lives, which packets were refused, and `faults` which they have hit; null: from now
  /// on nobody.
  void ask(const engine::Port* port, const engine::faults::FaultCounters* faults) {
    port_ = port;
    faults_ = faults;
  }
  /// Calls `tell` with each packet that is sent, and what there is to say about it.
  void tell_reasons(std::function<void(Bytes packet, std::string reason)> tell) { tell_reason_ = std::move(tell); }
  /// The program learns of an error: save_if_wanted() will write what is kept. Takes no memory: the NIC is in the midst
  /// of telling the program. `what` lasts.
  void on_error(const char* what) {
    if (wanted_ == nullptr) wanted_ = what;
  }
  /// After each turn: writes what is kept, if there was an error. Not more often than once a second.
  void save_if_wanted() {
    if (wanted_ != nullptr) [[unlikely]]
      save_soon();
  }
  /// The program exits: nothing is left behind. Also without the NIC's lock.
  void leave();
  /// In the child of fork(): all is the parent's.
  void abandon();

  /// What broke the connection that broke last, if one did.
  std::optional<std::string> last_cause() const;

 private:
  FlightRecorder(engine::Fd memory, record::Ring* ring, std::string directory, std::string file);
  record::Recording read() const;
  void save_soon();
  void save();

  engine::Fd memory_;
  record::Ring* ring_;  ///< Mapped.
  record::RingWriter writer_;
  record::Phase phase_ = record::Phase::kOther;
  const engine::Port* port_ = nullptr;
  const engine::faults::FaultCounters* faults_ = nullptr;
  PublishedQps* qps_ = nullptr;
  std::function<void(Bytes, std::string)> tell_reason_;
  record::SendReasons reasons_;  ///< Used when tell_reason_ is set.
  std::string directory_;
  std::string file_;              ///< The memory's name, or "".
  const char* wanted_ = nullptr;  ///< Why a recording is to be written; null: it is not.
  Instant next_save_{};           ///< Not before.
};

/// A NIC whose packets go by a recorder.
template <engine::SansIoNic N>
class Recorded {
 public:
  /// Both must outlive this.
  Recorded(N& nic, FlightRecorder& recorder) : nic_(nic), recorder_(recorder) {}

  void on_datagram(const proto::Datagram& datagram, Instant now) {
    recorder_.receiving(datagram, now);
    nic_.on_datagram(datagram, now);
    recorder_.done();
  }
  void on_timeout(Instant now) { nic_.on_timeout(now); }
  void answer_first() { nic_.answer_first(); }  ///< As the NIC has it.
  std::uint64_t silent_writes() const { return nic_.silent_writes(); }
  std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame) {
    recorder_.sending();
    const std::optional<proto::Transmit> out = nic_.poll_transmit(now, frame);
    if (out) recorder_.sent(*out, frame, now);
    recorder_.done();
    return out;
  }
  std::optional<Instant> next_deadline() const { return nic_.next_deadline(); }
  /// For engine/faults.
  auto identify(std::uint32_t qpn) const { return nic_.identify(qpn); }

 private:
  N& nic_;
  FlightRecorder& recorder_;
};

/// What the recorders of process `pid` hold; 0: those of all processes that we may look into. Takes milliseconds.
std::vector<record::Recording> rings_of(std::uint32_t pid);

}  // namespace uroce::ibv
