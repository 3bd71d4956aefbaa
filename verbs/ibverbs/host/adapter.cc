// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/adapter.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "engine/broker/start_broker.h"
#include "engine/os/interruption.h"
#include "proto/address.h"
#include "proto/base/made_once.h"
#include "proto/base/mix.h"
#include "verbs/cm/times.h"
#include "verbs/ibverbs/catalogue/errors.h"
#include "verbs/ibverbs/hooks/call_faults.h"
#include "verbs/ibverbs/hooks/cm_faults.h"
#include "verbs/ibverbs/host/address.h"
#include "verbs/ibverbs/host/bound_ports.h"
#include "verbs/ibverbs/host/device.h"

namespace uroce::ibv {
namespace {

cm::CmConfig cm_config_for(const nic::NicConfig& config, const std::array<std::uint8_t, 8>& guid,
                           std::function<std::uint16_t(const proto::Gid&)> find_source_port) {
  cm::CmConfig out;
  out.find_source_port = std::move(find_source_port);
  out.gids = config.gids;
  out.guid = load_be<8>(guid.data());
  out.slot = config.qpn_slot;
  constexpr std::uint64_t kNotThatOfKeys = 0x636D;
  out.seed = mix(config.key_seed ^ kNotThatOfKeys);
  out.mtu_max = config.mtu_max;
  out.may_listen_until = engine::os_now() + cm::kListenerGrace;
  out.is_deserted = [looked = Instant(), ports = std::vector<BoundPort>()](const proto::Gid& address) mutable {
    if (!is_bound_here(address, {})) return false;  // An address of another host.
    // To look takes long where there are many ports.
    constexpr Duration kMemory = std::chrono::milliseconds(100);
    if (const Instant now = engine::os_now(); now - looked > kMemory) {
      ports = bound_udp_ports(proto::kRocePort);
      looked = now;
    }
    // Ours is among them, if the kernel tells at all.
    return !ports.empty() && is_bound_here(address, ports) == false;
  };
  out.last_words = true;
  return out;
}

}  // namespace

Adapter::Adapter(std::uint32_t index, const std::array<std::uint8_t, 8>& guid, nic::NicConfig config,
                 const engine::faults::FaultSpec& faults, std::unique_ptr<engine::Port> port, engine::CaptureTap* tap,
                 std::string pcap, engine::SlotLeases slot, const std::string& published_name,
                 std::unique_ptr<FlightRecorder> recorder)
    : index_(index),
      guid_(guid),
      pcap_(std::move(pcap)),
      tap_(tap),
      slot_(std::move(slot)),
      publisher_(published_name, index, main_address(config.gids)),
      recorder_(std::move(recorder)),
      nic_(complete(std::move(config))),
      cm_(cm_config_for(nic_.config(), guid_, [this](const proto::Gid& local) { return cm_source_port(local); })),
      port_(*port),
      wire_(
          recorded_, faults, engine::os_now(),
          [this](const engine::faults::TimedFault& fault) { return carry_out(fault); }, witness_for(tap)),
      runner_(
          wire_, std::move(port),
          [this] {
            deliver();
            publisher_.publish(nic_, changes(), runner_.is_left_to_poller(), [this] { return count(); });
            recorder_->save_if_wanted();
          },
          [this](Instant now) {
            memory_.begin_turn(now);
            publisher_.on_turn(changes(), now);
            // Before the packet that makes the peer wait: the process may be killed as soon as it is sent.
            deposit_last_words();
          }) {
  recorder_->ask(&port_, &wire_.counters());
}

Adapter::~Adapter() {
  if (abandoned_) return;
  const auto lock = runner_.lock();
  recorder_->ask(nullptr, nullptr);
  memory_.begin_turn(engine::os_now());
  wire_.release_held();
}

/// Has a capture that takes comments say what the faults do. Packets that are received reach it before they reach us.
engine::faults::Witness Adapter::witness_for(engine::CaptureTap* tap) {
  if (tap == nullptr || !tap->takes_comments()) return {};
  recorder_->tell_reasons([tap](Bytes packet, std::string reason) { tap->explain_next(packet, std::move(reason)); });
  tap->comment_received([this](const proto::Datagram& datagram) { return wire_.foresee(datagram, engine::os_now()); });
  return {.sent = [tap](std::string comment) { tap->comment_next(std::move(comment)); },
          .lost = [tap](const proto::Path& path, Bytes packet,
                        const std::string& comment) { tap->record_lost(path, packet, comment); },
          .reason = [tap](Bytes packet) { return tap->take_reason(packet); }};
}

/// Adds what refers to this object.
nic::NicConfig Adapter::complete(nic::NicConfig config) {
  config.memory = &memory_;
  config.trace = recorder_.get();
  recorder_->tell(publisher_.qps());
  config.room = [this](const proto::Path& path, std::uint32_t qpn) { return port_.room(path, qpn); };
  config.faults.refuse_receive = [this](std::uint32_t qpn, nic::Psn psn) {
    return wire_.injector().refuses_receive(qpn, psn);
  };
  config.faults.fail_send = [this](std::uint32_t qpn, std::uint64_t nth) -> std::optional<nic::WcStatus> {
    const auto status = wire_.injector().fails_send(qpn, nth);
    return status ? std::optional(static_cast<nic::WcStatus>(*status)) : std::nullopt;
  };
  return config;
}

/// The usual port is one that the kernel gives to anybody who asks for any.
std::uint16_t Adapter::cm_source_port(const proto::Gid& local) {
  const auto known =
      std::find_if(cm_ports_.begin(), cm_ports_.end(), [&](const auto& row) { return row.first == local; });
  if (known != cm_ports_.end()) return known->second;
  const std::uint16_t port = port_.acquire_source_port(local, cm::kUsualSourcePort);
  if (port == 0) return cm::kUsualSourcePort;  // The address has gone, perhaps for a moment.
  cm_ports_.emplace_back(local, port);
  return port;
}

/// A timed fault; the caller holds the NIC's lock. False: there is no such QP.
bool Adapter::carry_out(const engine::faults::TimedFault& fault) {
  using Kind = engine::faults::TimedFault::Kind;
  switch (fault.kind) {
    case Kind::kQpFatal:
    case Kind::kCqOverflow: {
      const auto qpn = fault.qp.by_order ? nic_.nth_qp(fault.qp.value) : fault.qp.value;
      if (!qpn) return false;
      return fault.kind == Kind::kQpFatal ? nic_.break_qp(*qpn) : nic_.overflow_send_cq(*qpn);
    }
    case Kind::kPortDown:
    case Kind::kPortUp:
      on_port_change(state_.set_fault(fault.kind == Kind::kPortDown));
      break;
    case Kind::kDeviceFatal:
      broken_ = true;
      recorder_->on_event({.when = engine::os_now(), .kind = nic::TraceKind::kDeviceFatal});
      for (Context* context : contexts_) raise(*context, IBV_EVENT_DEVICE_FATAL);
      if (cm_sink_ != nullptr) cm_sink_->on_removal(*this);
      break;
  }
  return true;
}

template <class Change>
void Adapter::change_faults(const Change& change) {
  NicLock lock(*this);
  if (!lock) return;
  const Instant now = engine::os_now();
  memory_.begin_turn(now);
  change(now);
  wire_.on_timeout(now);  // What is asked for now happens now.
  lock.posted();
}

void Adapter::replace_faults(const engine::faults::FaultSpec& spec) {
  change_faults([&](Instant now) { wire_.replace_faults(spec, now); });
}

void Adapter::add_faults(const engine::faults::FaultSpec& more) {
  change_faults([&](Instant now) { wire_.add_faults(more, now); });
}

bool Adapter::break_qp(const engine::faults::QpName& qp) {
  NicLock lock(*this);
  if (!lock) return false;
  const auto qpn = qp.by_order ? nic_.nth_qp(qp.value) : std::optional(qp.value);
  if (!qpn || !nic_.break_qp(*qpn)) return false;
  ++wire_.injector().counters().events;
  lock.posted();
  return true;
}

void Adapter::watch(const std::vector<proto::Gid>& addresses) {
  auto watch = AddressWatch::start(addresses, [this](const AddressState& state) { on_addresses(state); });
  if (watch == nullptr) return;
  const auto lock = runner_.lock();
  if (assigned_.empty()) {  // Else something has changed already.
    assigned_ = watch->first().assigned;
    interfaces_ = watch->first().interfaces;
    state_.find_interface(!watch->first().any_up);
    set_mtu_max(watch->first().mtu_max.value_or(mtu_max()));
  }
  watch_ = std::move(watch);
}

/// In the thread of the watch.
void Adapter::on_addresses(const AddressState& state) {
  const auto lock = runner_.lock();
  set_mtu_max(state.mtu_max.value_or(mtu_max()));
  if (state.interfaces != interfaces_) {
    interfaces_ = state.interfaces;
    port_.follow_addresses();
  }
  if (state.any_up) on_port_change(state_.set_interface(false));
  if (state.assigned != assigned_) {
    assigned_ = state.assigned;
    for (Context* context : contexts_) raise(*context, IBV_EVENT_GID_CHANGE);
  }
  if (!state.any_up) on_port_change(state_.set_interface(true));
}

void Adapter::set_mtu_max(std::uint8_t mtu) {
  nic_.set_mtu_max(mtu);
  cm_.set_mtu_max(mtu);
  mtu_max_.store(mtu, std::memory_order_relaxed);
}

void Adapter::on_port_change(bool is_another) {
  publisher_.publish_counters(changes(), [this] { return count(); });
  if (!is_another) return;
  for (Context* context : contexts_) raise(*context, state_.is_up() ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void Adapter::add(Context& context) {
  const auto lock = runner_.lock();
  contexts_.push_back(&context);
}

void Adapter::remove(Context& context) {
  if (abandoned_) return;
  const auto lock = runner_.lock();
  std::erase(contexts_, &context);
}

/// The caller holds the NIC's lock.
CounterSet Adapter::count() const {
  const engine::PortCounters port = port_.counters();
  return {.nic = nic_.counters(),
          .wire = {.sent_packets = port.sent_packets,
                   .sent_bytes = port.sent_bytes,
                   .received_packets = port.received_packets,
                   .received_bytes = port.received_bytes,
                   .send_errors = port.send_errors,
                   .receive_overruns = port.receive_overruns},
          .link_downed = state_.downs(),
          .ports_down = state_.is_down_by_fault() ? 1u : 0u};
}

void Adapter::deliver() {
  deliver_events(nic_);
  if (cm_sink_ != nullptr) cm_sink_->on_cm_events(*this, cm_);
  deposit_last_words();
}

void Adapter::deposit_last_words() {
  std::array<std::uint8_t, proto::kMaxPacketSize> frame;
  while (const auto words = cm_.poll_last_words(frame)) {
    if (!wills_) continue;
    if (words->packet) {
      wills_->deposit(words->id, words->packet->path, Bytes(frame).first(words->packet->size));
    } else {
      wills_->withdraw(words->id);
    }
  }
}

void Adapter::arrange_last_words() {
  static constinit std::atomic<std::optional<std::string>*> found = nullptr;
  const auto& executable =
      made_once(found, [] { return std::make_unique<std::optional<std::string>>(engine::find_broker()); });
  if (!executable) return;
  const auto lock = runner_.lock();
  if (!wills_) wills_ = engine::Wills::make();
  if (wills_) wills_->find_executor(*executable);
}

void Adapter::set_cm_sink(CmSink* sink) {
  const auto lock = runner_.lock();
  cm_sink_ = sink;
}

namespace {

int refuse_steering(const engine::Lease& lease, int error) {
  static std::atomic<bool> was_told = false;  // Programs try again, with the next of their addresses.
  if (was_told.exchange(true)) return error;
  return refuse_setting(error, engine::steering_failed(lease.local(), error).sentence);
}

}  // namespace

int Adapter::steer_management() {
  for (const auto& lease : slot_.leases) {
    const int error = lease->steer_management();
    if (error != 0) return refuse_steering(*lease, error);
  }
  return 0;
}

Result<std::vector<engine::Fd>, int> Adapter::claim_requests(const cm::Listen& listen) {
  std::vector<engine::Fd> claims;
  for (const auto& lease : slot_.leases) {
    const proto::Gid& local = lease->local();
    const bool is_meant = listen.address ? *listen.address == local : local.is_v4() ? listen.takes_v4 : listen.takes_v6;
    if (!is_meant) continue;
    auto claim = lease->claim_service(static_cast<std::uint32_t>(listen.service_id));
    if (!claim.ok()) return Err{claim.error() == EADDRINUSE ? EADDRINUSE : refuse_steering(*lease, claim.error())};
    claims.push_back(std::move(*claim));
  }
  return claims;
}

int Adapter::sleep_until_readable(int fd, const std::function<bool()>& has_event) {
  if (works()) return runner_.sleep_until_readable(fd, has_event);
  return engine::sleep_until_readable(fd, has_event);
}

std::uint64_t Adapter::changes() const {
  return nic_.counters().sent_pkts + nic_.counters().rcvd_pkts + state_.changes();
}

CounterSet Adapter::counters() {
  const NicLock lock(*this, NicLock::Purpose::kCleanUp);
  return lock ? count() : CounterSet{};
}

NicFacts Adapter::facts() {
  NicFacts facts;
  for (const proto::Gid& gid : gids()) {
    if (!gid.is_link_local()) facts.addresses.push_back(proto::to_string(gid));
  }
  facts.pcap = pcap_;
  if (const NicLock lock(*this, NicLock::Purpose::kCleanUp); lock) {
    facts.port = lock.port().info();
    facts.port_counters = lock.port().counters();
    facts.counters = lock->counters();
    facts.last_cause = recorder_->last_cause();
    if (tap_ != nullptr) {
      facts.pcap_error = tap_->error().value_or("");
      facts.pcap_missed = tap_->missed();
    }
    facts.faults = wire_.counters();
    facts.faults.calls = call_faults_injected();
    facts.faults.connections = cm_faults().injected();
    facts.faults_without_effect = wire_.without_effect();
    for (std::string& sentence : cm_faults().without_effect()) {
      facts.faults_without_effect.push_back(std::move(sentence));
    }
  }
  return facts;
}

void Adapter::before_fork() {
  for (const auto& lease : slot_.leases) lease->before_fork();
  fork_lock_ = runner_.lock();
  for (Context* context : contexts_) lock_for_fork(*context);
  runner_.port().before_fork();
}

void Adapter::after_fork_in_parent() {
  runner_.port().after_fork_in_parent();
  for (Context* context : contexts_) unlock_after_fork(*context);
  fork_lock_.unlock();
  for (const auto& lease : slot_.leases) lease->after_fork_in_parent();
}

void Adapter::after_fork_in_child() {
  abandoned_ = true;
  if (watch_) watch_->abandon_after_fork();
  runner_.abandon_after_fork();
  for (Context* context : contexts_) unlock_after_fork(*context);
  fork_lock_.unlock();
  for (const auto& lease : slot_.leases) lease->after_fork_in_child();
  if (wills_) wills_->after_fork_in_child();
  recorder_->abandon();
  publisher_.abandon();
}

void Adapter::abandon_inside_call() {
  abandoned_ = true;
  recorder_->ask(nullptr, nullptr);
  runner_.abandon_thread();
}

NicLock::NicLock(Adapter& adapter, Purpose purpose) : adapter_(adapter) {
  if (engine::TurnMutex::is_inside()) return;
  const auto may = [&] { return purpose == Purpose::kCleanUp ? !adapter.abandoned_ : adapter.works(); };
  if (!may()) return;
  lock_ = adapter.runner_.lock();
  // It may have broken meanwhile, or a signal handler has forked just before, and this is the child.
  if (!may()) lock_.unlock();
}

NicLock::~NicLock() {
  if (lock_.owns_lock()) adapter_.deliver();
}

}  // namespace uroce::ibv
