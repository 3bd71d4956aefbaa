// SPDX-License-Identifier: Apache-2.0
// The NIC: many QPs behind one port. Sans-I/O: calls, packets and `now` go in; packets, completions, events and the
// next deadline come out. Deterministic: the same calls in the same order give the same packets. Not thread-safe;
// its driver (engine/run/runner.h, the simulator) serialises the calls.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/result.h"
#include "proto/icrc.h"
#include "proto/packet.h"
#include "proto/qp_identity.h"
#include "verbs/nic/model/config.h"
#include "verbs/nic/model/counters.h"
#include "verbs/nic/model/event.h"
#include "verbs/nic/model/limits.h"
#include "verbs/nic/model/qp_state.h"
#include "verbs/nic/resources/cq.h"
#include "verbs/nic/resources/mr_table.h"
#include "verbs/nic/resources/srq.h"

namespace uroce::nic {

class Nic {
 public:
  explicit Nic(NicConfig config);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  // --- engine::SansIoNic -------------------------------------------------------------------------------------------
  /// Takes in one packet. Anything may be in it; what is not a valid packet for one of our QPs is counted and dropped.
  /// Afterwards: poll_transmit(), poll_event(), next_deadline().
  void on_datagram(const proto::Datagram& datagram, Instant now);
  /// Runs the timers that are due. Harmless when early or repeated. Afterwards: as on_datagram().
  void on_timeout(Instant now);
  /// Writes the next packet into `frame` (>= proto::kMaxPacketSize), round-robin over the QPs that have something to
  /// send; nothing when idle or window-limited. Poll again until it returns nothing, and after every other call.
  std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame);
  /// The earliest timer, if any runs.
  std::optional<Instant> next_deadline() const;

  // --- control ------------------------------------------------------------------------------------------------------
  Pd* alloc_pd();            ///< Null when there are kMaxPd.
  Errno dealloc_pd(Pd* pd);  ///< EBUSY while anything is in it.
  /// Counts an address handle, of which the NIC knows no more than that it is in `pd`. ENOMEM: there are kMaxAh.
  Errno add_ah(Pd* pd);
  void remove_ah(Pd* pd);
  MrTable& mrs() { return mrs_; }
  /// EINVAL: capacity 0 or above kMaxCqe. ENOMEM: there are kMaxCq, or no memory.
  Result<Cq*, Errno> create_cq(std::uint32_t capacity, void* user);
  Errno destroy_cq(Cq* cq);  ///< EBUSY while a QP uses it.
  /// See Cq::moderate().
  void moderate_cq(Cq* cq, std::uint32_t count, Duration period);
  /// EINVAL: no WR, or a capability above its limit. ENOMEM: too many, or no memory.
  Result<Srq*, Errno> create_srq(const SrqInit& init);
  Errno destroy_srq(Srq* srq);  ///< EBUSY while a QP is attached.
  /// EINVAL: a capability above its limit. ENOMEM: no QPN is free, or no memory.
  Result<Qp*, Errno> create_qp(const QpInit& init);
  /// EINVAL: illegal transition, missing, unexpected or out-of-range attribute; ENOMEM: no memory. Nothing changes
  /// then.
  Errno modify_qp(Qp* qp, const QpAttr& attr, std::uint32_t mask);
  void destroy_qp(Qp* qp);
  /// Multicast groups: the QP, a UD QP, gets what arrives for the group, to kMulticastQpn. That packets for the group
  /// do arrive is the caller's business. ENOMEM: too many groups, or QPs in one.
  Errno attach_multicast(Qp* qp, const Gid& group);
  Errno detach_multicast(Qp* qp, const Gid& group);  ///< EINVAL: it is not attached.
  bool is_attached(const Qp* qp, const Gid& group) const;
  std::vector<Gid> groups_of(const Qp* qp) const;
  /// EINVAL: wrong state, opcode or SGE count, inline too long; ENOMEM: queue full.
  Errno post_send(Qp* qp, const SendWr& wr);
  Errno post_recv(Qp* qp, const RecvWr& wr);
  /// What post_send() would say of `wr` behind `ahead` other WRs. For lists of which all or none is to be posted.
  Errno check_send(const Qp* qp, const SendWr& wr, std::uint32_t ahead) const;

  /// Before calls that may complete WRs and have no time of their own: what they complete bears this one.
  void set_time(Instant now);

  /// QPs that have something to send now begin with an answer, if they have one: before what is posted later.
  void answer_first();
  /// Has `qp`, if it has packets to send, send them before all others.
  void prefer(Qp* qp);
  /// True when there may be packets or events to poll. For calls after which there seldom are.
  bool has_work() const;

  /// What of a QP is the same in every run; nothing when there is no such QP.
  std::optional<proto::QpIdentity> identify(std::uint32_t qpn) const;
  /// The QP with this number; null when there is none.
  const Qp* find_qp(std::uint32_t qpn) const;
  /// The QPN of the `nth` QP that was created, from 1, if it is still there.
  std::optional<std::uint32_t> nth_qp(std::uint32_t nth) const;
  /// Injected faults: the QP breaks (QP_FATAL), its send CQ overflows (CQ_ERR). False when there is no such QP.
  bool break_qp(std::uint32_t qpn);
  bool overflow_send_cq(std::uint32_t qpn);

  /// What the owner has to be told next, in order of occurrence; poll until there is nothing. An event of an object
  /// that is destroyed is forgotten with it.
  std::optional<Event> poll_event();
  const NicConfig& config() const { return config_; }
  /// From now on `mtu` (enum 1..5) is NicConfig::mtu_max. QPs keep the path MTU that they have.
  void set_mtu_max(std::uint8_t mtu) { config_.mtu_max = mtu; }
  const Counters& counters() const { return counters_; }
  /// WRITEs of peers so far that no completion tells of: a program that watches its memory sees them.
  std::uint64_t silent_writes() const { return counters_.rcvd_writes; }

 private:
  void deliver(Qp& qp, const proto::PacketView& packet, const Path& path, const proto::IcrcCheck& icrc, Instant now);
  struct Core;  // The QP table, the lists and the heap over QPs.
  NicConfig config_;
  MrTable mrs_;
  Counters counters_;
  std::unique_ptr<Core> core_;
};

}  // namespace uroce::nic
