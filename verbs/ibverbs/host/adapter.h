// SPDX-License-Identifier: Apache-2.0
// A running NIC: the sans-I/O NIC, its port and its runner. All contexts that this process opens on one device share
// it.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/broker/lease.h"
#include "engine/broker/wills.h"
#include "engine/faults/faulty.h"
#include "engine/port/capture_tap.h"
#include "engine/run/runner.h"
#include "proto/base/no_cancellation.h"
#include "proto/base/result.h"
#include "verbs/cm/cm.h"
#include "verbs/cm/nic_with_cm.h"
#include "verbs/ibverbs/host/address_watch.h"
#include "verbs/ibverbs/host/facts.h"
#include "verbs/ibverbs/host/flight_recorder.h"
#include "verbs/ibverbs/host/guarded_memory.h"
#include "verbs/ibverbs/host/port_state.h"
#include "verbs/ibverbs/host/publisher.h"
#include "verbs/nic/device/nic.h"

namespace uroce::ibv {

struct Context;
class Adapter;

/// Takes the events of connection managers.
class CmSink {
 public:
  virtual ~CmSink() = default;
  /// `cm` of `adapter` may have events: the place to take them out. Called with the NIC's lock held, by any thread.
  virtual void on_cm_events(Adapter& adapter, cm::Cm& cm) = 0;
  /// `adapter` had a fatal error. Called as on_cm_events().
  virtual void on_removal(Adapter& adapter) = 0;
};

class Adapter : public std::enable_shared_from_this<Adapter> {
 public:
  /// Makes NIC `index` on `addresses` (at least one) as the environment wants it. The error is an errno value
  /// (EADDRINUSE, EADDRNOTAVAIL, EINVAL ...); last_error() tells more.
  /// `sharing` kReusePort: other processes of this user may use the addresses too, if UROCE_BROKER allows it and there
  /// is a broker.
  /// `guid`: as the device is known already; none: what follows from the first address.
  static Result<std::shared_ptr<Adapter>, int> make(std::uint32_t index, const std::vector<proto::Gid>& addresses,
                                                    engine::Sharing sharing,
                                                    const std::optional<std::array<std::uint8_t, 8>>& guid);

  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  /// Which of the process' NICs it is.
  std::uint32_t index() const { return index_; }
  /// What verbs say and what connection managers of peers are told.
  const std::array<std::uint8_t, 8>& guid() const { return guid_; }
  /// gid_table() of its addresses.
  const std::vector<proto::Gid>& gids() const { return nic_.config().gids; }
  /// The largest path MTU (enum 1..5), which follows the interface.
  std::uint8_t mtu_max() const { return mtu_max_.load(std::memory_order_relaxed); }
  /// Sleeps until `fd`, the descriptor of a queue of events, is readable, and moves packets meanwhile. `has_event()`:
  /// whether the queue holds one. 0, or EINTR.
  int sleep_until_readable(int fd, const std::function<bool()>& has_event);
  /// To be called, without the NIC's lock, by a thread that has armed a CQ and polled it in vain: it is going to sleep.
  /// Where an event of a CQ usually comes soon, it waits for that here, a little. Returns whether one has come.
  bool before_sleep() {
    return works() && runner_.before_sleep([this] { return has_cq_event(); });
  }
  /// Whether a CQ has raised an event that the program has not fetched.
  bool has_cq_event() const { return cq_events_.load(std::memory_order_relaxed) > 0; }
  /// A CQ has raised an event, ...
  void on_cq_event() { ++cq_events_; }
  /// ... the program has fetched one, ...
  void on_cq_event_taken() {
    --cq_events_;
    runner_.on_event_taken();
  }
  /// ... or that many will not be fetched.
  void on_cq_events_dropped(std::size_t count) { cq_events_ -= static_cast<std::ptrdiff_t>(count); }
  /// Sends answers that wait for the next poll, which will not come. Does not wait for long (engine::kExitWait).
  void send_before_exit() {
    if (works()) runner_.send_before_exit();
    if (!abandoned_) recorder_->leave();
  }
  NicFacts facts();
  CounterSet counters();
  /// Contexts learn of what happens to port and device.
  void add(Context& context);
  void remove(Context& context);
  /// Sets the receiver of the connection manager's events. Without it there is nobody to cause any.
  void set_cm_sink(CmSink* sink);
  /// From now on the peers of connections learn of it when this process is killed, if that can be arranged. To be
  /// called now and then: who arranges it may have been killed itself.
  void arrange_last_words();
  /// Where processes share the NIC's addresses: has management packets reach the process that they are for. 0, or an
  /// errno value.
  int steer_management();
  /// And the requests for what this listens to, this process, until the result is gone. EADDRINUSE: another process
  /// listens. Nothing to do, and an empty result, when the NIC has its addresses alone.
  Result<std::vector<engine::Fd>, int> claim_requests(const cm::Listen& listen);
  /// The port's state; it is down when a fault says so, and while the interface is that has the address. Without the
  /// NIC's lock: a signal handler may ask that has interrupted who has it.
  bool is_port_up() const { return works() && state_.is_up(); }
  // Changes from outside (verbs/ibverbs/control). They have taken effect on return.

  /// From now on `spec`, in the place of all faults before. Numbers of packets and times count from now.
  void replace_faults(const engine::faults::FaultSpec& spec);
  /// The faults of `more` besides; its seed does not count.
  void add_faults(const engine::faults::FaultSpec& more);
  /// The QP breaks as by a fault of the NIC (QP_FATAL). False: there is none.
  bool break_qp(const engine::faults::QpName& qp);

  /// Remembers the NIC's last events. With the NIC's lock held.
  FlightRecorder& recorder() { return *recorder_; }
  /// False when the device had a fatal error, or stayed with the parent of fork(): verbs return EIO then.
  bool works() const { return !abandoned_ && !broken_; }

  // Around fork(), with the lock held in between. In the child nothing works any more: the threads stayed with the
  // parent.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();
  /// In the child of a fork() inside a call on the NIC, which may go on with it.
  void abandon_inside_call();

 private:
  friend class NicLock;
  /// `tap`: the capture that `port` has, if it has one. `slot`: the slot that it receives for, if it has one.
  /// `published_name`: under which others see counters and QPs.
  Adapter(std::uint32_t index, const std::array<std::uint8_t, 8>& guid, nic::NicConfig config,
          const engine::faults::FaultSpec& faults, std::unique_ptr<engine::Port> port, engine::CaptureTap* tap,
          std::string pcap, engine::SlotLeases slot, const std::string& published_name,
          std::unique_ptr<FlightRecorder> recorder);
  nic::NicConfig complete(nic::NicConfig config);
  engine::faults::Witness witness_for(engine::CaptureTap* tap);
  bool carry_out(const engine::faults::TimedFault& fault);
  template <class Change>
  void change_faults(const Change& change);
  /// From now on it is heard when `addresses`, or their interfaces, come and go.
  void watch(const std::vector<proto::Gid>& addresses);
  void on_addresses(const AddressState& state);
  /// Raises what follows when a cause of the port's state came or went; the caller holds the NIC's lock.
  void on_port_change(bool is_another);
  /// The caller holds the NIC's lock.
  void set_mtu_max(std::uint8_t mtu);
  CounterSet count() const;
  /// The caller holds the NIC's lock.
  void deliver();
  /// How often something has happened that counters tell of.
  std::uint64_t changes() const;
  void deposit_last_words();
  std::uint16_t cm_source_port(const proto::Gid& local);

  const std::uint32_t index_;
  const std::array<std::uint8_t, 8> guid_;
  std::string pcap_;
  const engine::CaptureTap* tap_;  ///< In the runner's port, or null.
  bool abandoned_ = false;         // Set in a child of fork() only, before it runs any thread but one.
  std::atomic<bool> broken_ = false;
  std::atomic<std::ptrdiff_t> cq_events_ = 0;  ///< Those that the program has not fetched.
  // Guarded by the NIC's lock, up to contexts_. Anyone may ask the first whether the port is up.
  PortState state_;
  std::vector<bool> assigned_;             ///< Its addresses that are watched: whether an interface has them.
  std::vector<std::uint32_t> interfaces_;  ///< And which.
  std::vector<Context*> contexts_;
  engine::SlotLeases slot_;  ///< Outlives the port: the slot's next owner must be its only reader.
  Publisher publisher_;
  GuardedMemory memory_;
  std::unique_ptr<FlightRecorder> recorder_;
  nic::Nic nic_;
  cm::Cm cm_;
  std::atomic<std::uint8_t> mtu_max_{nic_.config().mtu_max};
  CmSink* cm_sink_ = nullptr;                                   ///< Guarded by the NIC's lock.
  std::unique_ptr<engine::Wills> wills_;                        ///< The same.
  std::vector<std::pair<proto::Gid, std::uint16_t>> cm_ports_;  ///< From which the connection manager sends. The same.
  cm::NicWithCm<nic::Nic> both_{nic_, cm_};
  using Whole = Recorded<cm::NicWithCm<nic::Nic>>;
  Whole recorded_{both_, *recorder_};
  engine::Port& port_;                  ///< The runner's.
  engine::faults::Faulty<Whole> wire_;  ///< The two, behind the faults that UROCE_FAULTS asks for.
  engine::Runner<engine::faults::Faulty<Whole>> runner_;
  engine::TurnLock::Held fork_lock_;
  std::unique_ptr<AddressWatch> watch_;  ///< Its thread ends before what it calls.
};

/// The NIC, locked against its runner and other threads. Before it unlocks, the events that were raised meanwhile go to
/// the users' queues: there is never one left in the NIC that points to something destroyed.
///
/// False, and not to be used, when the NIC was left behind by fork() or had a fatal error; verbs return EIO then.
class NicLock {
 public:
  /// kCleanUp: also after a fatal error, to take things away from the NIC that are about to be destroyed.
  /// A signal handler that interrupted somebody who has the lock does not get it.
  enum class Purpose : std::uint8_t { kUse, kCleanUp };
  explicit NicLock(Adapter& adapter, Purpose purpose = Purpose::kUse);
  ~NicLock();
  NicLock(const NicLock&) = delete;
  NicLock& operator=(const NicLock&) = delete;

  explicit operator bool() const { return lock_.owns_lock(); }
  nic::Nic* operator->() const { return &adapter_.nic_; }
  cm::Cm& cm() const { return adapter_.cm_; }
  engine::Port& port() const { return adapter_.runner_.port(); }
  /// To be called after the NIC got something to send: sends it, or has it sent.
  void posted() { adapter_.runner_.posted(lock_); }
  /// The same after WRs were posted: more of them may follow, and be sent together with these.
  void posted_wrs() { adapter_.runner_.posted(lock_, decltype(adapter_.runner_)::Wait::kForNextCall); }
  /// To be called by a thread that polls and has found nothing: moves packets. May sleep a little, without the lock.
  void poll() { adapter_.runner_.poll(lock_); }
  /// To be called when it has found nothing behind that either: may sleep for packets, without the lock.
  void found_nothing() { adapter_.runner_.found_nothing(lock_); }
  /// To be called by a thread that polls and has found something. May sleep a little, without the lock.
  void found() { adapter_.runner_.found(lock_); }
  /// The caller will sleep for a completion.
  void stop_polling() const { adapter_.runner_.stop_polling(lock_); }
  /// The same, and never leaves it to a thread that polls: it may be this one, which polls no more.
  void posted_now() {
    adapter_.runner_.send_now(lock_);
    posted();
  }
  /// Has other processes see `qp` as it is now, or no more.
  void show(const nic::Qp& qp) const {
    if (PublishedQps* const qps = adapter_.publisher_.qps()) qps->show(qp);
  }
  /// Something has been posted to `qp`.
  void touch(const nic::Qp& qp) const {
    if (PublishedQps* const qps = adapter_.publisher_.qps()) qps->touch(qp.qpn());
  }
  void hide(const nic::Qp& qp) const {
    if (PublishedQps* const qps = adapter_.publisher_.qps()) qps->hide(qp);
  }
  /// To be called before the NIC forgets what `qp` has to send: sends it, a burst at most.
  void send_last_answers(nic::Qp* qp) {
    if (!adapter_.works()) return;
    adapter_.nic_.prefer(qp);
    adapter_.runner_.send_now(lock_);
  }
  /// Takes the packets that are here. To be called where the QP that they are for is in RESET, and drops them.
  void take_arrived() {
    if (adapter_.works()) adapter_.runner_.take_arrived(lock_);
  }

 private:
  Adapter& adapter_;
  NoCancellation whole_;  ///< No verb is a cancellation point but those that wait for events.
  engine::TurnLock::Held lock_;
};

// What programs are told, by the objects that they hold (objects/async.cc). The caller holds the NIC's lock.

/// Hands the NIC's events to completion channels and async queues.
void deliver_events(nic::Nic& nic);
/// Raises an event of the port or the device.
void raise(Context& context, enum ibv_event_type type);
/// Around fork(): nobody is in the middle of changing the lists of `context`, unless somebody takes long for that.
void lock_for_fork(Context& context);
void unlock_after_fork(Context& context);

}  // namespace uroce::ibv
