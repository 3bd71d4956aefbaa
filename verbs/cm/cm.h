// SPDX-License-Identifier: Apache-2.0
// The connection manager of a NIC: IBTA Vol 1, chapter 12, as RDMA CM uses it over RoCEv2. RC and UC by REQ/REP/RTU,
// UD by SIDR. Sans-I/O and deterministic, as the NIC: calls, packets and `now` go in; packets, events and the next
// deadline come out. Not thread-safe; called under the lock that guards the NIC. It never touches a QP.
//
// After every call: poll_transmit(), poll_event() and next_deadline() may have changed. A call that finds no memory
// throws std::bad_alloc and has changed nothing, or done as much as is right in itself: it can be made again.
#pragma once

#include <memory>
#include <optional>

#include "proto/base/result.h"
#include "proto/psn.h"
#include "verbs/cm/values.h"

namespace uroce::cm {

struct Connection;  // verbs/cm/connection.h

class Cm {
 public:
  // Limits that hold whatever the network sends.
  static constexpr std::uint32_t kMaxBacklog = 1024;
  static constexpr std::uint32_t kMaxHalfOpen = 4096;               ///< Requests that are not accepted yet, in all ...
  static constexpr std::uint32_t kMaxHalfOpenPerSource = 1000;      ///< ... and from one address.
  static constexpr std::uint32_t kStrangerAnswersPerSecond = 1000;  ///< But for those of loopback addresses.

  explicit Cm(CmConfig config);
  ~Cm();
  Cm(const Cm&) = delete;
  Cm& operator=(const Cm&) = delete;

  // --- sans-I/O (engine::SansIoNic) ---------------------------------------------------------------------------------
  /// Takes in one packet for QP 1, whatever is in it.
  void on_datagram(const proto::Datagram& datagram, Instant now);
  /// Runs the timers that are due. Harmless when early or repeated.
  void on_timeout(Instant now);
  /// Writes the next packet into `frame` (>= proto::kMaxPacketSize).
  std::optional<proto::Transmit> poll_transmit(Instant now, MutBytes frame);
  std::optional<Instant> next_deadline() const;

  // --- passive side -------------------------------------------------------------------------------------------------
  /// EADDRINUSE: the same service, address and family are taken. The rules of port spaces are the caller's.
  Result<ListenerId, Errno> listen(const Listen& listen);
  /// Requests that have not been fetched are rejected (28, UD: status 2); those that have live on. A REQ that comes in
  /// the next second waits for another listener; then it is rejected (8).
  void unlisten(ListenerId listener, Instant now);
  /// The program has seen the kRequest of `id`: its place in the backlog is free again.
  void fetched(Id id);
  /// Sends REP. EINVAL: not kReqReceived (the peer's REJ came first, say), or private data too long.
  Errno accept(Id id, const ConnectionParams& params, const PrivateData& private_data, Instant now);
  /// UD: answers with SIDR_REP. EINVAL: as accept().
  Errno sidr_reply(Id id, const SidrReply& reply, Instant now);
  /// IBV_EVENT_COMM_EST: as good as the RTU. EISCONN: established already. EINVAL: any other state but kRepSent.
  Errno notify_established(Id id, Instant now);
  /// A request of RC or UC with a right ICRC has arrived: the first one, with the starting PSN, stands for a lost RTU.
  /// Cheap to ask first: awaits_data().
  void on_data(std::uint32_t dest_qpn, const Gid& source, std::uint32_t psn, Instant now);
  bool awaits_data(std::uint32_t dest_qpn) const;

  // --- active side --------------------------------------------------------------------------------------------------
  /// Sends REQ. EINVAL: private data too long, a local address that is not ours, MTU code; ENOMEM: too many ids.
  Result<Id, Errno> connect(const ConnectRequest& request, Instant now);
  /// After kResponse: sends RTU. EINVAL: not kRepReceived.
  Errno establish(Id id, Instant now);
  /// UD: sends SIDR_REQ; ends with kEstablished or kUnreachable. Errors as connect().
  Result<Id, Errno> sidr_request(const SidrRequest& request, Instant now);

  // --- both ---------------------------------------------------------------------------------------------------------
  /// Before the connection is established. EINVAL: any other state, or private data too long.
  Errno reject(Id id, RejectReason reason, const PrivateData& private_data, Instant now);
  /// kEstablished: sends DREQ. kDreqReceived: sends DREP, which nobody does but the program (here or by destroy()).
  /// Any other state: nothing. EINVAL: no such id.
  Errno disconnect(Id id, Instant now);
  /// Once established, the connection ends at `when` unless it has ended before: DREQ for the peer, kDisconnected at
  /// once here. For faults on request. Does nothing when it is not established.
  void disconnect_at(Id id, Instant when);
  /// Ends whatever there is as a kernel does for an id that is destroyed or whose process died, and forgets the id:
  /// REJ 4 or 28, DREQ, DREP. What needs an answer lives on in here until it has come. No event follows.
  void destroy(Id id, Instant now);
  /// destroy() of everything: for a process that ends. One packet per connection is ready to be sent afterwards.
  void shutdown(Instant now);

  /// Nothing when there is no such id.
  std::optional<ConnectionInfo> query(Id id) const;
  /// In order of occurrence.
  std::optional<Event> poll_event();
  /// What poll_event() would return; null: nothing. It stays until pop_event().
  const Event* next_event();
  /// Takes out what next_event() has returned, whatever has happened to its connection since.
  void pop_event();

  /// What destroy() would tell the peer of `id` first: for somebody to send when this process is killed.
  struct LastWords {
    Id id = 0;
    std::optional<proto::Transmit> packet;  ///< In the frame; none: there is nothing to say (any more).
  };
  /// With CmConfig::last_words: the next connection whose last words have changed.
  std::optional<LastWords> poll_last_words(MutBytes frame);

  const CmConfig& config() const { return config_; }
  /// From now on `mtu` is CmConfig::mtu_max.
  void set_mtu_max(std::uint8_t mtu) { config_.mtu_max = mtu; }
  const CmCounters& counters() const { return counters_; }
  /// Of the datagrams that it sends: drawn when it was made.
  proto::Psn first_psn() const;
  /// How many connections are held, destroyed ones that linger included.
  std::size_t size() const;

 private:
  struct Core;
  Connection* find(Id id) const;  ///< Null: no such id, or destroyed.
  CmConfig config_;
  CmCounters counters_;
  std::unique_ptr<Core> core_;
};

}  // namespace uroce::cm
